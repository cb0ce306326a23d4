//! Methods and operators: parameters, defaults, options, results.

use millstream::options::{
    Conv2d, LayerNorm, NllLoss, ScaledDotProductAttention, Softplus, Std, Sum,
};
use millstream::*;
use millstream_testing::machine::*;

use super::floats;

#[track_caller]
fn is(x: Result<Tensor>, expected: &[f32]) {
    let got = x.unwrap().to_vec::<f32>().unwrap();
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(near),
        "expected {expected:?}, got {got:?}"
    );
}

#[test]
fn operators_take_tensors_results_and_numbers() {
    let m = inline();
    let (a, b) = (floats(&m, &[2], &[1.0, 2.0]), floats(&m, &[2], &[4.0, 8.0]));
    is(&a + &b, &[5.0, 10.0]);
    is(&a - &b, &[-3.0, -6.0]);
    is(&a * &b, &[4.0, 16.0]);
    is(&b / &a, &[4.0, 4.0]);
    is(-&a, &[-1.0, -2.0]);
    is(&a + 1, &[2.0, 3.0]);
    is(&a * 0.5, &[0.5, 1.0]);
    is(1.0 - &a, &[0.0, -1.0]);
    is(2.0 / &a, &[2.0, 1.0]);
    is(2 * &a, &[2.0, 4.0]);
    is(&a + (&b * 2.0), &[9.0, 18.0]);
    is((&a + &b).and_then(|sum| sum * (&a - 1.0)), &[0.0, 10.0]);
    is(a.clone() + b.clone(), &[5.0, 10.0]);
    is(1.0 + a.clone(), &[2.0, 3.0]);
    is(-a.clone(), &[-1.0, -2.0]);
    // Results of one call stop the next.
    let c = floats(&m, &[3], &[0.0; 3]);
    let error = (&a + (&b * &c)).unwrap_err().to_string();
    assert!(error.contains("computing.rs") && error.contains("mul"), "{error}");
}

#[test]
fn numbers_and_tensors_broadcast_and_promote_as_in_pytorch() {
    let m = inline();
    let whole = Tensor::arange(0..3, &m).unwrap();
    assert_eq!((&whole + 1).unwrap().dtype(), DType::I64);
    assert_eq!((&whole * 1.5).unwrap().dtype(), DType::F32);
    assert_eq!((&whole / 2).unwrap().dtype(), DType::F32);
    let row = floats(&m, &[3], &[0.0, 10.0, 20.0]);
    let column = floats(&m, &[2, 1], &[1.0, 2.0]);
    assert_eq!((&row + &column).unwrap().shape(), [2, 3]);
    is(&row + &whole, &[0.0, 11.0, 22.0]);
}

#[test]
fn parameters_defaults_and_options() {
    let m = inline();
    let x = floats(&m, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    is(x.sum(..), &[10.0]);
    is(x.sum(1), &[3.0, 7.0]);
    is(x.mean([0, 1]), &[2.5]);
    let kept = x.sum_with(-1, Sum::default().keepdim(true)).unwrap();
    assert_eq!(kept.shape(), [2, 1]);
    is(x.std_with(.., Std::default().correction(0)), &[1.118_034]);
    is(x.softmax(0).unwrap().i(0), &[0.119_203, 0.119_203]);
    is(x.softplus_with(Softplus::default().threshold(0)), &[1.0, 2.0, 3.0, 4.0]);
    is(x.pow(2), &[1.0, 4.0, 9.0, 16.0]);
    is(x.where_like(&m), &[0.0, 0.0, 3.0, 4.0]);
    is(x.clamp_min(2), &[2.0, 2.0, 3.0, 4.0]);
    let best = x.argmax(..).unwrap().item::<i64>().unwrap();
    assert_eq!((best, x.argmax(0).unwrap().to_vec::<i64>().unwrap()), (3, vec![1, 1]));
    is(x.roll(1, 0), &[3.0, 4.0, 1.0, 2.0]);
    is(x.triu(1), &[0.0, 2.0, 0.0, 0.0]);
    assert_eq!(x.unsqueeze(0).unwrap().squeeze(..).unwrap().shape(), [2, 2]);
    assert_eq!(x.permute([1, 0]).unwrap().shape(), [2, 2]);
    assert_eq!(x.flatten(0, -1).unwrap().shape(), [4]);
}

trait WhereLike {
    fn where_like(&self, m: &Machine) -> Result<Tensor>;
}

impl WhereLike for Tensor {
    /// Replaces the elements below 3 by 0.
    fn where_like(&self, _: &Machine) -> Result<Tensor> {
        self.lt(3)?.where_cond(0.0, self)
    }
}

#[test]
fn several_results_are_tuples_and_lists() {
    let m = inline();
    let x = floats(&m, &[4], &[3.0, 1.0, 4.0, 2.0]);
    let (values, indices) = x.sort(-1).unwrap();
    is(Ok(values), &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 3, 0, 2]);
    let (greatest, at) = x.max(0).unwrap();
    assert_eq!((greatest.item::<f32>().unwrap(), at.item::<i64>().unwrap()), (4.0, 2));
    let parts = x.chunk(2, 0).unwrap();
    assert_eq!(parts.len(), 2);
    is(Tensor::cat(&[&parts[1], &parts[0]], 0), &[4.0, 2.0, 3.0, 1.0]);
    assert_eq!(x.split(3, 0).unwrap()[1].shape(), [1]);
}

#[test]
fn in_place_methods_return_the_tensor() {
    let m = inline();
    let x = floats(&m, &[2], &[1.0, 2.0]);
    x.mul_(2.0).unwrap().add_(&x).unwrap().relu_().unwrap();
    is(Ok(x.clone()), &[4.0, 8.0]);
    x.copy_(&floats(&m, &[1], &[7.0])).unwrap();
    is(Ok(x), &[7.0, 7.0]);
}

#[test]
fn layers_take_their_options() {
    let m = inline();
    let x = Tensor::ones((1, 1, 3, 3), DType::F32, &m).unwrap();
    let w = Tensor::ones((1, 1, 3, 3), DType::F32, &m).unwrap();
    let bias = floats(&m, &[1], &[0.5]);
    is(x.conv2d(&w, Conv2d::default()), &[9.0]);
    let padded = x.conv2d(&w, Conv2d::default().padding(1).bias(&bias)).unwrap();
    is(padded.i((0, 0, 0)), &[4.5, 6.5, 4.5]);
    let error = x.conv1d(&w, Conv2d::default()).unwrap_err().to_string();
    assert!(error.contains("conv1d") && error.contains("computing.rs"), "{error}");
    is(x.max_pool2d(3, options::MaxPool2d::default()), &[1.0]);

    let row = floats(&m, &[1, 2], &[1.0, 3.0]);
    is(row.layer_norm(2, LayerNorm::default()), &[-0.999_995, 0.999_995]);
    let scale = floats(&m, &[2], &[2.0, 2.0]);
    let shift = floats(&m, &[2], &[1.0, 1.0]);
    is(row.layer_norm(2, LayerNorm::default().bias(&shift)), &[0.000_005, 1.999_995]);
    is(row.layer_norm(2, LayerNorm::default().weight(&scale)), &[-1.999_99, 1.999_99]);
    is(row.linear(&floats(&m, &[1, 2], &[1.0, 1.0]), Some(&bias)), &[4.5]);
    let target = Tensor::from_slice(&[1i64], 1, &m).unwrap();
    is(row.cross_entropy(&target, NllLoss::default()), &[0.126_928]);
    let q = Tensor::ones((1, 1, 2, 4), DType::F32, &m).unwrap();
    let causal = ScaledDotProductAttention::default().causal(true);
    is(q.scaled_dot_product_attention(&q, &q, causal), &[1.0; 8]);
    let groups = Tensor::arange(0..4, &m).unwrap().cast(DType::F32).unwrap();
    let groups = groups.reshape((1, 4, 1)).unwrap();
    let normal = groups.group_norm(2, options::GroupNorm::default());
    is(normal, &[-0.999_98, 0.999_98, -0.999_98, 0.999_98]);
}

#[test]
fn an_optional_tensor_may_follow_an_absent_one() {
    let m = inline();
    let x = floats(&m, &[2, 1], &[0.0, 2.0]);
    let (mean, var) = (floats(&m, &[1], &[1.0]), floats(&m, &[1], &[4.0]));
    let running = options::BatchNorm::default().running_mean(&mean).running_var(&var).eps(0);
    is(x.batch_norm(false, running), &[-0.5, 0.5]);
}
