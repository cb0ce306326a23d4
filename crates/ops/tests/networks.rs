//! The signatures of ops of neural networks with optional or updated tensors, and their refusal of
//! excessive arguments.

use millstream_ops::{CallSpec, Op, OutputSpec, Signature, composite, standard};
use millstream_types::{Access, Attrs, DType, Result, TensorSpec};

fn floats(shape: &[usize]) -> TensorSpec {
    TensorSpec::contiguous(DType::F32, shape).unwrap()
}

fn check(op: &str, inputs: &[TensorSpec], attrs: &Attrs) -> Result<Signature> {
    let ops = standard();
    ops.get(ops.id(op)?).unwrap().check(CallSpec { inputs, attrs })
}

#[track_caller]
fn refuses(op: &str, inputs: &[TensorSpec], attrs: Attrs, part: &str) {
    let message = check(op, inputs, &attrs).unwrap_err().to_string();
    assert!(message.contains(part), "no '{part}' in: {message}");
}

fn no_attrs() -> Attrs {
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
fn running_statistics_are_updated_only_in_training() {
    use Access::{Read, ReadWrite};
    let (x, of_channels) = (floats(&[2, 3, 4]), floats(&[3]));
    // The bias is absent.
    let given = [x, of_channels.clone(), of_channels.clone(), of_channels];
    let attrs = no_attrs().with("absent", vec![2]);
    let training =
        check("native_batch_norm", &given, &attrs.clone().with("training", true)).unwrap();
    assert_eq!(training.accesses.to_vec(), [Read, Read, ReadWrite, ReadWrite]);
    assert_eq!(shapes(&training), [vec![2, 3, 4], vec![3], vec![3]]);
    let eval = check("native_batch_norm", &given, &attrs.with("training", false)).unwrap();
    assert_eq!(eval.accesses.to_vec(), [Read; 4]);
    assert_eq!(shapes(&eval), [vec![2, 3, 4], vec![0], vec![0]]);
}

#[test]
fn output_mask_selects_the_gradients() {
    let given = [floats(&[2, 5, 4, 4]), floats(&[2, 3, 6, 6]), floats(&[5, 3, 3, 3])];
    let asked = |mask: [i64; 3]| {
        let attrs = no_attrs().with("output_mask", mask.to_vec());
        shapes(&check("convolution_backward", &given, &attrs).unwrap())
    };
    assert_eq!(asked([0, 1, 1]), [vec![5, 3, 3, 3], vec![5]]);
    assert_eq!(asked([1, 0, 0]), [vec![2, 3, 6, 6]]);
    assert!(asked([0, 0, 0]).is_empty());
    let attrs = no_attrs().with("output_mask", vec![1, 2, 0]);
    refuses("convolution_backward", &given, attrs, "output_mask: expected 3 flags of 0 or 1");
}

#[test]
fn attention_draws_no_numbers() {
    let part = "expected 0, got 0.1";
    let given = [floats(&[1, 2, 3, 4]), floats(&[1, 2, 3, 4]), floats(&[1, 2, 3, 4])];
    let op = "_scaled_dot_product_flash_attention_for_cpu";
    refuses(op, &given, no_attrs().with("dropout_p", 0.1), part);
}

#[test]
fn excessive_arguments_are_refused() {
    let image = [floats(&[1, 1, 5, 5]), floats(&[1, 1, 3, 3])];
    for name in ["stride", "padding", "dilation", "output_padding"] {
        for v in [i64::MIN, -1, i64::MAX] {
            refuses("convolution", &image, no_attrs().with(name, v), name);
        }
    }
    for groups in [i64::MIN, 0, 2, i64::MAX] {
        refuses("convolution", &image, no_attrs().with("groups", groups), "group");
    }
    let greatest = i64::from(i32::MAX);
    let transposed = no_attrs().with("transposed", true);
    for attrs in
        [no_attrs().with("dilation", greatest), transposed.clone().with("padding", greatest)]
    {
        refuses("convolution", &image, attrs, "no elements in the result");
    }
    // The greatest accepted arguments: the result is empty or too large.
    let large = transposed.with("stride", greatest).with("dilation", greatest);
    assert!(check("convolution", &image, &large).is_err());
    for v in [i64::MIN, 0, i64::MAX] {
        refuses("avg_pool2d", &image[..1], no_attrs().with("kernel_size", v), "kernel_size");
        let attrs = no_attrs().with("kernel_size", 2).with("stride", vec![1, v]);
        refuses("max_pool2d_with_indices", &image[..1], attrs, "stride");
    }
    let attrs = no_attrs().with("kernel_size", greatest).with("dilation", greatest);
    refuses("max_pool2d_with_indices", &image[..1], attrs, "no room");
    let indices = TensorSpec::contiguous(DType::I64, &[2]).unwrap();
    let attrs = no_attrs().with("num_weights", i64::MAX);
    assert!(check("embedding_dense_backward", &[floats(&[2, 4]), indices], &attrs).is_err());
}

/// By their expansions, which no check precedes.
#[test]
fn composites_refuse_lengths_and_ranks_without_a_panic() {
    let refuses = |op: &str, inputs: &[TensorSpec], attrs: Attrs, part: &str| {
        let call = CallSpec { inputs, attrs: &attrs };
        let error = composite::find(op).unwrap().signature(call).unwrap_err().to_string();
        assert!(error.contains(part), "{op}: {error}");
    };
    for (op, shape) in [("adaptive_max_pool2d", &[1, 4, 4][..]), ("adaptive_max_pool3d", &[4; 4])] {
        let to = no_attrs().with("output_size", vec![-1; shape.len() - 1]);
        refuses(op, &[floats(shape)], to, "lengths of 0 or more");
    }
    let given = [floats(&[3]), floats(&[1, 4, 4, 4])];
    refuses("_adaptive_avg_pool3d_backward", &given, no_attrs(), "fewer dimensions");
    let padding = no_attrs().with("padding", vec![1i64; 4]);
    refuses("reflection_pad2d_backward", &given, padding, "fewer dimensions");
}
