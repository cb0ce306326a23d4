//! What the schemas of neural networks' ops answer where tensors are optional or changed, and that
//! numbers without measure are refused.

use millstream_ops::{CallSpec, OutputSpec, Signature, standard};
use millstream_types::{Access, Attrs, DType, Result, TensorSpec};

fn floats(shape: &[usize]) -> TensorSpec {
    TensorSpec::contiguous(DType::F32, shape).unwrap()
}

fn ask(op: &str, inputs: &[TensorSpec], attrs: &Attrs) -> Result<Signature> {
    let ops = standard();
    ops.get(ops.id(op)?).unwrap().check(CallSpec { inputs, attrs })
}

#[track_caller]
fn refuses(op: &str, inputs: &[TensorSpec], attrs: Attrs, part: &str) {
    let message = ask(op, inputs, &attrs).unwrap_err().to_string();
    assert!(message.contains(part), "no '{part}' in: {message}");
}

fn no() -> Attrs {
    Attrs::new()
}

fn shapes(signature: &Signature) -> Vec<Vec<usize>> {
    let shape = |output: &OutputSpec| match output {
        OutputSpec::Fresh(spec) => spec.shape().to_vec(),
        other => panic!("{other:?}"),
    };
    signature.outputs.iter().map(shape).collect()
}

#[test]
fn running_statistics_are_changed_in_training_only() {
    use Access::{Read, ReadWrite};
    let (x, of_channels) = (floats(&[2, 3, 4]), floats(&[3]));
    // The bias is left out.
    let given = [x, of_channels.clone(), of_channels.clone(), of_channels];
    let attrs = no().with("absent", vec![2]);
    let training = ask("native_batch_norm", &given, &attrs.clone().with("training", true)).unwrap();
    assert_eq!(training.accesses.to_vec(), [Read, Read, ReadWrite, ReadWrite]);
    assert_eq!(shapes(&training), [vec![2, 3, 4], vec![3], vec![3]]);
    let eval = ask("native_batch_norm", &given, &attrs.with("training", false)).unwrap();
    assert_eq!(eval.accesses.to_vec(), [Read; 4]);
    assert_eq!(shapes(&eval), [vec![2, 3, 4], vec![0], vec![0]]);
}

#[test]
fn only_gradients_asked_for_are_results() {
    let given = [floats(&[2, 5, 4, 4]), floats(&[2, 3, 6, 6]), floats(&[5, 3, 3, 3])];
    let asked = |mask: [i64; 3]| {
        let attrs = no().with("output_mask", mask.to_vec());
        shapes(&ask("convolution_backward", &given, &attrs).unwrap())
    };
    assert_eq!(asked([0, 1, 1]), [vec![5, 3, 3, 3], vec![5]]);
    assert_eq!(asked([1, 0, 0]), [vec![2, 3, 6, 6]]);
    assert!(asked([0, 0, 0]).is_empty());
    let attrs = no().with("output_mask", vec![1, 2, 0]);
    refuses("convolution_backward", &given, attrs, "output_mask: expected 3 of 0 and 1");
}

#[test]
fn random_ops_are_refused() {
    let part = "random ops are not supported";
    refuses("native_dropout", &[floats(&[3])], no().with("p", 0.5).with("train", true), part);
    let given = [floats(&[1, 2, 3, 4]), floats(&[1, 2, 3, 4]), floats(&[1, 2, 3, 4])];
    let op = "_scaled_dot_product_flash_attention_for_cpu";
    refuses(op, &given, no().with("dropout_p", 0.1), part);
}

#[test]
fn numbers_without_measure_are_refused() {
    let image = [floats(&[1, 1, 5, 5]), floats(&[1, 1, 3, 3])];
    for name in ["stride", "padding", "dilation", "output_padding"] {
        for v in [i64::MIN, -1, i64::MAX] {
            refuses("convolution", &image, no().with(name, v), name);
        }
    }
    for groups in [i64::MIN, 0, 2, i64::MAX] {
        refuses("convolution", &image, no().with("groups", groups), "group");
    }
    let most = i64::from(i32::MAX);
    let transposed = no().with("transposed", true);
    for attrs in [no().with("dilation", most), transposed.clone().with("padding", most)] {
        refuses("convolution", &image, attrs, "nothing is left");
    }
    // As large as it can be, and no larger than numbers are: no result, or one too large to be.
    let large = transposed.with("stride", most).with("dilation", most);
    assert!(ask("convolution", &image, &large).is_err());
    for v in [i64::MIN, 0, i64::MAX] {
        refuses("avg_pool2d", &image[..1], no().with("kernel_size", v), "kernel_size");
        let attrs = no().with("kernel_size", 2).with("stride", vec![1, v]);
        refuses("max_pool2d_with_indices", &image[..1], attrs, "stride");
    }
    let attrs = no().with("kernel_size", most).with("dilation", most);
    refuses("max_pool2d_with_indices", &image[..1], attrs, "no room");
    let indices = TensorSpec::contiguous(DType::I64, &[2]).unwrap();
    let attrs = no().with("num_weights", i64::MAX);
    assert!(ask("embedding_dense_backward", &[floats(&[2, 4]), indices], &attrs).is_err());
}
