//! Ops of neural networks: independence from the number of threads, and errors of indices.

use millstream_types::{Attrs, DType, Layout};

use millstream_testing::kernels::*;

fn values(seed: i64) -> Vec<Num> {
    (0..101).map(|i| Float(((i * 37 + seed * 11) % 101 - 50) as f64 / 32.0)).collect()
}

fn floats(shape: &[usize], seed: i64) -> Tensor {
    Tensor::dense(DType::F32, shape, &values(seed))
}

fn whole(shape: &[usize], numbers: &[i128]) -> Tensor {
    let numbers: Vec<Num> = numbers.iter().map(|&v| Int(v)).collect();
    Tensor::dense(DType::I64, shape, &numbers)
}

fn no_attrs() -> Attrs {
    Attrs::new()
}

#[track_caller]
fn same_over_threads(op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Vec<Tensor> {
    let alone = call_on(op, inputs, attrs, 0).unwrap();
    for threads in [1, 2, 3, 8] {
        let shared = call_on(op, inputs, attrs, threads).unwrap();
        for (k, (a, b)) in alone.iter().zip(&shared).enumerate() {
            assert!(a.bytes() == b.bytes(), "{op}: result {k} on {threads} thread(s)");
        }
    }
    alone
}

#[test]
fn products_do_not_depend_on_threads() {
    let (x, y) = (floats(&[150, 70], 1), floats(&[70, 140], 2));
    same_over_threads("addmm", &[&floats(&[140], 3), &x, &y], &no_attrs().with("beta", 0.5));
    let (x, weight) = (floats(&[2, 6, 33, 40], 1), floats(&[9, 6, 5, 5], 2));
    let attrs = no_attrs().with("padding", 2);
    let out = same_over_threads("convolution", &[&x, &weight], &attrs);
    same_over_threads("convolution_backward", &[&out[0], &x, &weight], &attrs);
    let [q, k, v] = [1, 2, 3].map(|seed| floats(&[2, 3, 150, 16], seed));
    let op = "_scaled_dot_product_flash_attention_for_cpu";
    let attrs = no_attrs().with("is_causal", true);
    let out = same_over_threads(op, &[&q, &k, &v], &attrs);
    let given = [&q, &q, &k, &v, &out[0], &out[1]];
    same_over_threads(&format!("{op}_backward"), &given, &attrs);
}

#[test]
fn normalisations_and_losses_do_not_depend_on_threads() {
    let (x, weight) = (floats(&[200, 500], 1), floats(&[500], 2));
    let attrs = no_attrs().with("normalized_shape", 500);
    let out = same_over_threads("native_layer_norm", &[&x, &weight, &weight], &attrs);
    let given = [&x, &x, &out[1], &out[2], &weight, &weight];
    same_over_threads("native_layer_norm_backward", &given, &attrs);
    let attrs = no_attrs().with("training", true);
    same_over_threads("native_batch_norm", &[&x, &weight, &weight], &attrs);
    same_over_threads("_softmax", &[&x], &no_attrs().with("dim", 0));
    same_over_threads("mse_loss", &[&x, &floats(&[200, 500], 3)], &no_attrs());
    let indices = whole(&[300], &[5, 0, 7, 7, 3, 1]);
    let attrs = no_attrs().with("num_weights", 200);
    same_over_threads("embedding_dense_backward", &[&floats(&[300, 500], 4), &indices], &attrs);
}

/// Small whole numbers, of which floats compute exact convolutions in any order.
fn numbers(dtype: DType, shape: &[usize], seed: i64) -> Tensor {
    let number = |i: i64| (i * 37 + seed * 11) % 7 - 3;
    let value = |i: i64| match dtype {
        DType::I64 => Int(i128::from(number(i))),
        _ => Float(number(i) as f64),
    };
    Tensor::dense(dtype, shape, &(0..101).map(value).collect::<Vec<Num>>())
}

/// Convolutions: images, channels in and out, groups, the size of the weight, padding, the size of
/// the image.
type Form = ([usize; 4], [usize; 2], [usize; 2], [usize; 2]);

const FORMS: [Form; 9] = [
    // Elements of one place: of several images, in parts of the channels, in parts of the image.
    ([2, 6, 10, 2], [1, 1], [0, 0], [5, 7]),
    ([1, 3, 300, 1], [1, 1], [0, 0], [9, 4]),
    ([1, 200, 3, 1], [1, 1], [0, 0], [40, 40]),
    // Tiles: even and odd sizes, few and many rows, with and without padding.
    ([6, 32, 40, 1], [3, 3], [1, 1], [7, 10]),
    ([1, 33, 70, 1], [3, 3], [0, 2], [3, 193]),
    ([3, 32, 32, 1], [3, 3], [2, 0], [40, 37]),
    ([100, 32, 32, 1], [3, 3], [1, 1], [1, 2]),
    // Other ways.
    ([2, 36, 40, 2], [3, 3], [1, 1], [6, 6]),
    ([2, 33, 34, 1], [3, 2], [1, 1], [6, 5]),
];

#[test]
fn convolutions_of_whole_numbers_are_exact() {
    for ([batch, from, to, groups], [k0, k1], [p0, p1], [height, width]) in FORMS {
        let attrs =
            no_attrs().with("padding", vec![p0 as i64, p1 as i64]).with("groups", groups as i64);
        let of = |dtype| {
            let weight = numbers(dtype, &[to, from / groups, k0, k1], 2);
            (numbers(dtype, &[batch, from, height, width], 1), weight, numbers(dtype, &[to], 3))
        };
        let ((x, weight, bias), (xi, weight_i, bias_i)) = (of(DType::F32), of(DType::I64));
        let same = |got: &Tensor, expected: &Tensor| {
            let expected: Vec<Num> =
                expected.values().iter().map(|&v| rounded(v, DType::F32)).collect();
            assert_eq!(got.values(), expected, "{:?} {:?} {attrs:?}", x.spec, weight.spec);
        };
        let out = same_over_threads("convolution", &[&x, &weight, &bias], &attrs);
        same(&out[0], &one("convolution", &[&xi, &weight_i, &bias_i], &attrs));
        // The same elements in another order of memory.
        let last = |t: &Tensor| {
            let shape = t.spec.layout.shape();
            let (c, h, w) = (shape[1], shape[2], shape[3]);
            t.relaid(Layout::strided(shape, &[c * h * w, 1, w * c, c], 0).unwrap())
        };
        assert_eq!(
            one("convolution", &[&last(&x), &weight, &bias], &attrs).values(),
            out[0].values()
        );

        let shape = out[0].spec.layout.shape().to_vec();
        let (grad, grad_i) = (numbers(DType::F32, &shape, 4), numbers(DType::I64, &shape, 4));
        let grads = same_over_threads("convolution_backward", &[&grad, &x, &weight], &attrs);
        let backward = attrs.clone().with("transposed", true);
        same(&grads[0], &one("convolution", &[&grad_i, &weight_i], &backward));
        let again =
            call("convolution_backward", &[&last(&grad), &last(&x), &weight], &attrs).unwrap();
        for (again, grad) in again.iter().zip(&grads) {
            assert_eq!(again.values(), grad.values());
        }
        if groups == 1 {
            // The images become channels, and the gradient is the weight.
            let turned = |t: &Tensor| {
                let [a, b, c, d] = *t.spec.layout.shape() else { panic!("four dimensions") };
                t.view(&[b, a, c, d], &[c * d, b * c * d, d, 1], 0)
            };
            let expected = one("convolution", &[&turned(&xi), &turned(&grad_i)], &attrs);
            let [a, b, c, d] = [from, to, k0, k1];
            let expected = expected.view(&[b, a, c, d], &[c * d, b * c * d, d, 1], 0);
            same(&grads[1], &expected);
        }
    }
}

/// An infinite element reaches the windows that it lies in, and no others.
#[test]
fn convolutions_of_infinite_elements_are_local() {
    let attrs = no_attrs().with("padding", 1);
    let (shape, at) = ([1, 32, 24, 24], 3 * 24 * 24 + 5 * 24 + 7);
    let finite = numbers(DType::F32, &shape, 1);
    let image = |v: f64| {
        let mut values = finite.values();
        values[at] = Float(v);
        Tensor::dense(DType::F32, &shape, &values)
    };
    let weight = numbers(DType::F32, &[32, 32, 3, 3], 2);
    let results = |v| one("convolution", &[&image(v), &weight], &attrs).values();
    for (k, (got, zero)) in results(f64::INFINITY).iter().zip(results(0.0)).enumerate() {
        let (row, column) = (k / 24 % 24, k % 24);
        if (4..=6).contains(&row) && (6..=8).contains(&column) {
            assert!(matches!(got, Float(v) if !v.is_finite()), "{row}, {column}: {got:?}");
        } else {
            assert_eq!(*got, zero, "{row}, {column}");
        }
    }
}

/// Convolutions of groups of few channels: images, channels in and out, groups; the sizes of the
/// weight, strides, padding, dilation, and the size of the image.
type GroupForm = ([usize; 4], [usize; 2], [usize; 2], [usize; 2], [usize; 2], [usize; 2]);

const GROUP_FORMS: [GroupForm; 9] = [
    ([2, 5, 5, 5], [3, 3], [1, 1], [1, 1], [1, 1], [9, 17]),
    ([1, 3, 6, 3], [3, 3], [2, 2], [1, 1], [1, 1], [13, 40]),
    ([2, 4, 2, 2], [2, 5], [2, 3], [0, 2], [1, 1], [12, 35]),
    ([1, 4, 4, 2], [3, 2], [3, 2], [4, 3], [2, 3], [11, 14]),
    ([1, 2, 2, 2], [1, 1], [2, 2], [0, 0], [1, 1], [7, 8]),
    ([1, 2, 2, 2], [5, 5], [1, 1], [4, 4], [1, 1], [1, 1]),
    ([1, 2, 2, 2], [3, 3], [5, 4], [2, 2], [1, 1], [16, 19]),
    // More than one part.
    ([1, 2, 2, 2], [3, 3], [1, 1], [1, 1], [1, 1], [150, 140]),
    ([1, 2, 2, 2], [3, 3], [2, 2], [0, 1], [1, 1], [203, 201]),
];

/// Returns the gradient for the weight, as sums over images and positions.
fn plain_weight_gradient(
    [x, grad]: [&Tensor; 2],
    shape: [usize; 4],
    groups: usize,
    [stride, padding, dilation]: [[usize; 2]; 3],
) -> Vec<Num> {
    let (image, map) = (x.shape(), grad.shape());
    let float = |v: Num| if let Float(v) = v { v } else { panic!("{v:?}") };
    let one = |index: Index| {
        let group = index[0] / (map[1] / groups);
        let mut sum = 0.0;
        for at in indices(&[map[0], map[2], map[3]]) {
            let place = |k: usize| {
                let at = at[1 + k] * stride[k] + index[2 + k] * dilation[k];
                at.checked_sub(padding[k]).filter(|&at| at < image[2 + k])
            };
            if let (Some(row), Some(column)) = (place(0), place(1)) {
                let of_image = [at[0], group * shape[1] + index[1], row, column];
                let of_map = [at[0], index[0], at[1], at[2]];
                sum += float(x.get(&of_image)) * float(grad.get(&of_map));
            }
        }
        Float(sum)
    };
    indices(&shape).map(one).collect()
}

#[test]
fn convolutions_of_few_channels_are_exact() {
    for ([batch, from, to, groups], kernel, stride, padding, dilation, image) in GROUP_FORMS {
        let list = |v: [usize; 2]| v.map(|v| v as i64).to_vec();
        let attrs = (no_attrs().with("stride", list(stride)).with("padding", list(padding)))
            .with("dilation", list(dilation))
            .with("groups", groups as i64);
        let shape = [to, from / groups, kernel[0], kernel[1]];
        let of = |dtype| {
            let x = numbers(dtype, &[batch, from, image[0], image[1]], 1);
            (x, numbers(dtype, &shape, 2), numbers(dtype, &[to], 3))
        };
        let floats = |t: &Tensor| -> Vec<Num> {
            t.values().iter().map(|&v| rounded(v, DType::F32)).collect()
        };
        let (xi, weight_i, bias_i) = of(DType::I64);
        let expected = one("convolution", &[&xi, &weight_i, &bias_i], &attrs);
        let map = expected.shape().to_vec();
        // What the strides leave over of the image.
        let extra = |k: usize| {
            let reach = (kernel[k] - 1) * dilation[k] + 1;
            ((image[k] + 2 * padding[k] - reach) % stride[k]) as i64
        };
        let turned = (attrs.clone().with("transposed", true))
            .with("output_padding", vec![extra(0), extra(1)]);
        let grad_i = numbers(DType::I64, &map, 4);
        let expected_grad = one("convolution", &[&grad_i, &weight_i], &turned);
        for dtype in [DType::F32, DType::F64, DType::F16] {
            let (x, weight, bias) = of(dtype);
            let grad = numbers(dtype, &map, 4);
            let out = same_over_threads("convolution", &[&x, &weight, &bias], &attrs);
            assert_eq!(floats(&out[0]), floats(&expected), "{dtype} {map:?} {attrs:?}");
            let grads = same_over_threads("convolution_backward", &[&grad, &x, &weight], &attrs);
            assert_eq!(floats(&grads[0]), floats(&expected_grad), "{dtype} {map:?} {attrs:?}");
            let back = one("convolution", &[&grad, &weight], &turned);
            assert_eq!(floats(&back), floats(&expected_grad), "{dtype} {map:?} {attrs:?}");
            if dtype != DType::F16 {
                let steps = [stride, padding, dilation];
                let sums = plain_weight_gradient([&x, &grad], shape, groups, steps);
                assert_eq!(grads[1].values(), sums, "{dtype} {map:?} {attrs:?}");
            }
        }
    }
}

/// Elements that are not finite reach only what they are part of, also beside the zeros around an
/// operand.
#[test]
fn convolutions_of_few_channels_keep_infinite_elements_apart() {
    let attrs = no_attrs().with("groups", 2);
    let of = |shape: &[usize], seed| numbers(DType::F64, shape, seed);
    let (x, grad) = (of(&[1, 2, 6, 20], 1), of(&[1, 2, 4, 18], 2));
    // The last column is beside the first elements of no window.
    x.set(&[0, 1, 3, 19], Float(f64::INFINITY));
    let weight = of(&[2, 1, 3, 3], 3);
    let got = call("convolution_backward", &[&grad, &x, &weight], &attrs).unwrap();
    let steps = [[1, 1], [0, 0], [1, 1]];
    let expected = plain_weight_gradient([&x, &grad], [2, 1, 3, 3], 2, steps);
    let bits = |all: Vec<Num>| all.into_iter().map(|v| format!("{v:?}")).collect::<Vec<_>>();
    assert_eq!(bits(got[1].values()), bits(expected));
    let out = one("convolution", &[&x, &weight], &attrs);
    for at in indices(&[1, 2, 4, 18]) {
        let apart = at[1] == 0 || at[2] == 0 || at[3] < 17;
        let Float(v) = out.get(&at) else { panic!("a float") };
        assert!(v.is_finite() || !apart, "{v} at {at:?}");
    }
    // An infinite weight shares in no image element whose window it is outside of.
    weight.set(&[0, 0, 0, 0], Float(f64::INFINITY));
    let back = call("convolution_backward", &[&grad, &x, &weight], &attrs).unwrap();
    for column in 18..20 {
        let v = back[0].get(&[0, 0, 0, column]);
        assert!(matches!(v, Float(v) if v.is_finite()), "{v:?} at {column}");
    }
}

#[track_caller]
fn fails(op: &str, inputs: &[&Tensor], attrs: &Attrs, message: &str) {
    match call(op, inputs, attrs) {
        Ok(_) => panic!("{op} takes what is wrong"),
        Err(error) => assert!(error.contains(message), "no '{message}' in: {error}"),
    }
}

#[test]
fn errors_state_the_wrong_index() {
    let table = floats(&[4, 3], 1);
    let message = "indices: 4 at 2: expected 0 to 3";
    fails("embedding", &[&table, &whole(&[2, 2], &[0, 1, 4, 9])], &no_attrs(), message);
    let message = "indices: -1 at 1: expected 0 to 4";
    let attrs = no_attrs().with("num_weights", 5);
    fails("embedding_dense_backward", &[&table, &whole(&[4], &[0, -1, 1, 2])], &attrs, message);
    let message = "target: class 3 at 1: expected 0 to 2";
    fails("nll_loss_forward", &[&table, &whole(&[4], &[0, 3, 1, 2])], &no_attrs(), message);
    let (x, grad) = (floats(&[1, 4, 4], 1), floats(&[1, 2, 2], 2));
    let indices = whole(&[1, 2, 2], &[0, 2, 16, -5]);
    let attrs = no_attrs().with("kernel_size", 2);
    let message = "indices: 16 at 2: expected 0 to 15";
    fails("max_pool2d_with_indices_backward", &[&grad, &x, &indices], &attrs, message);
    let message = "every element between 0 and 1";
    fails("binary_cross_entropy", &[&table, &table], &no_attrs(), message);
}
