//! Ops of neural networks: independence from the number of threads, and errors of indices.

use millstream_types::{Attrs, DType};

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
