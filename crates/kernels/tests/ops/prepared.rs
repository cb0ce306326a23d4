//! Prepared kernels leave the bits that the same call leaves without preparation.

use std::sync::Arc;

use millstream_ops::{CallSpec, OutputSpec, families, standard};
use millstream_types::{Attrs, DType, Layout};

use millstream_testing::kernels::*;

pub(super) const FAMILIES: [&str; 4] =
    ["Arithmetic", "Pointwise functions", "Comparison and logic", "Ternary functions"];

const SHAPES: [&[usize]; 8] = [&[], &[0], &[1], &[16], &[17], &[3, 0, 2], &[5, 7], &[2, 1, 130]];

/// Arguments that make calls of all ops valid: of those that an op has, these are given.
pub(super) fn argument_choices(op: &str) -> Vec<Attrs> {
    let ops = standard();
    let op = ops.get(ops.id(op).unwrap()).unwrap();
    let has = |name: &str| op.attrs().iter().any(|a| a.name == name);
    let mut all = vec![Attrs::new()];
    for (name, value) in [("other", 2.5), ("exponent", 3.0), ("self", -1.5), ("threshold", 0.5)] {
        if has(name) {
            all.push(Attrs::new().with(name, value));
        }
    }
    for (name, value) in [("other", 3), ("exponent", 2), ("value", 1), ("min", -1), ("alpha", 2)] {
        if has(name) {
            all.push(Attrs::new().with(name, value));
        }
    }
    if has("max") {
        all.push(Attrs::new().with("min", -1).with("max", 2));
        all.push(Attrs::new().with("max", 2));
    }
    if has("rounding_mode") {
        all.push(Attrs::new().with("rounding_mode", "floor"));
        all.push(Attrs::new().with("rounding_mode", "trunc").with("other", 3));
    }
    if has("approximate") {
        all.push(Attrs::new().with("approximate", "tanh"));
    }
    all
}

/// Runs a call in both ways on operands that `operands` makes anew, and compares all memory.
/// Returns whether the schema accepts the call.
#[track_caller]
pub(super) fn check(op: &str, attrs: &Attrs, operands: impl Fn() -> Vec<Tensor>) -> bool {
    let ops = standard();
    let complete = || {
        let mut all = operands();
        let specs: Vec<_> = all.iter().map(|t| t.spec.clone()).collect();
        let schema = ops.get(ops.id(op).unwrap()).unwrap();
        let signature = schema.check(CallSpec { inputs: &specs, attrs }).ok()?;
        for output in &signature.outputs {
            if let OutputSpec::Fresh(spec) = output {
                all.push(Tensor::unwritten(spec.dtype, spec.layout.clone()));
            }
        }
        Some((all, signature.workspace))
    };
    let (Some((plain, workspace)), Some((prepared, _))) = (complete(), complete()) else {
        return false;
    };
    let expected = try_launch(op, &plain.iter().collect::<Vec<_>>(), attrs, workspace, 0);
    for threads in [3, 0] {
        let prepared = if threads == 0 { complete().unwrap().0 } else { prepared.clone() };
        let all: Vec<&Tensor> = prepared.iter().collect();
        let result = try_launch_prepared(op, &all, attrs, workspace, threads);
        let result = result.unwrap_or_else(|| panic!("{op} has no prepared form"));
        assert_eq!(result, expected, "{op} {attrs}");
        for (got, wanted) in prepared.iter().zip(&plain) {
            let same = expected.is_err() || got.bytes() == wanted.bytes();
            assert!(same, "{op} {attrs}: {got:?} differs from {wanted:?}");
        }
    }
    true
}

fn elementwise_ops() -> impl Iterator<Item = &'static str> {
    let families = families().into_iter().filter(|(title, _)| FAMILIES.contains(title));
    families.flat_map(|(_, ops)| ops.into_iter().map(|op| op.name()))
}

/// Returns the operands of an op: tensors of `dtype` and shapes that broadcast to `shape`. The
/// choice changes layouts and shapes.
fn tensors(count: usize, dtype: DType, shape: &[usize], choice: usize) -> Vec<Tensor> {
    let values = samples(dtype);
    (0..count)
        .map(|k| {
            let of = |shape: &[usize], layout: usize| {
                Tensor::laid(dtype, layouts(shape).swap_remove(layout), &values[k % 3..])
            };
            match (choice, k) {
                (0, _) => of(shape, 2),
                (1, _) | (2, 0) => of(shape, choice - 1),
                (2, _) => of(&shape[shape.len().min(1)..], 2),
                (3, 1) => of(&[], 2),
                (3, _) => of(shape, 2),
                // One dtype, then another.
                (4, 0) => of(shape, 2),
                _ => Tensor::laid(
                    DType::F16,
                    layouts(shape).swap_remove(k % 3),
                    &samples(DType::F16),
                ),
            }
        })
        .collect()
}

#[test]
fn elementwise_ops_leave_the_same_bits() {
    let ops = standard();
    for (number, op) in elementwise_ops().enumerate() {
        let mut accepted = 0;
        let inputs = ops.get(ops.id(op).unwrap()).unwrap().inputs().len();
        for (k, attrs) in argument_choices(op).iter().enumerate() {
            for (d, dtype) in DType::REAL.into_iter().enumerate() {
                for (choice, given) in (0..6).flat_map(|c| (1..=inputs).map(move |n| (c, n))) {
                    // Every combination of a shape and a choice occurs, but not for each dtype.
                    let turn = number + k + d + choice;
                    for shape in [SHAPES[turn % SHAPES.len()], SHAPES[(turn + 3) % SHAPES.len()]] {
                        let operands = || {
                            let mut all = tensors(given, dtype, shape, choice);
                            let mask = ["where", "masked_fill"].iter().position(|m| op.contains(m));
                            if let Some(mask) = mask.and_then(|k| all.get_mut(k)) {
                                let truths = samples(DType::Bool);
                                *mask =
                                    Tensor::laid(DType::Bool, mask.spec.layout.clone(), &truths);
                            }
                            all
                        };
                        accepted += usize::from(check(op, attrs, operands));
                    }
                }
            }
        }
        assert!(accepted > 20, "{op}: {accepted} calls");
    }
}

#[test]
fn calls_on_shared_memory_leave_the_same_bits() {
    for (dtype, length) in [(DType::F32, 70), (DType::I16, 70), (DType::F64, 70_000)] {
        for (x, y, z) in [(0, 0, 0), (1, 0, 2), (0, 1, 1), (0, length, 1), (length, 0, 2 * length)]
        {
            let memory = || Tensor::dense(dtype, &[3 * length], &samples(dtype));
            let parts = |count: usize| {
                let memory = memory();
                let at = |offset: usize| memory.view(&[length], &[1], offset);
                [x, y, z][..count].iter().map(|&offset| at(offset)).collect::<Vec<_>>()
            };
            assert!(check("add_", &Attrs::new(), || parts(2)));
            assert!(check("mul", &Attrs::new(), || parts(2)));
            assert!(check("addcmul_", &Attrs::new(), || parts(3)));
            assert!(check("copy_", &Attrs::new(), || parts(2)));
            assert!(check("neg_", &Attrs::new(), || parts(1)));
            // Every second element, of twice as much memory as the first.
            let apart = || {
                let memory = memory();
                vec![memory.view(&[length], &[1], x), memory.view(&[length], &[2], y.min(length))]
            };
            assert!(check("sub_", &Attrs::new(), apart) && check("copy_", &Attrs::new(), apart));
        }
    }
}

#[test]
fn copies_and_fills_leave_the_same_bits() {
    for (k, from) in DType::REAL.into_iter().enumerate() {
        // One large shape, which threads share, with one dtype.
        let large = if k == 0 { &[300, 270][..] } else { &[9, 40] };
        for shape in SHAPES.into_iter().chain([large]) {
            for layout in layouts(shape) {
                let x = || Tensor::laid(from, layout.clone(), &samples(from));
                for attrs in [Attrs::new(), Attrs::new().with("memory_format", "contiguous")] {
                    assert!(check("clone", &attrs, || vec![x()]));
                    for to in [DType::F32, DType::F16, DType::I8, DType::Bool, from] {
                        assert!(check("cast", &attrs.clone().with("dtype", to), || vec![x()]));
                    }
                }
                assert!(check("fill", &Attrs::new().with("value", 3), || vec![x()]));
                let row = &shape[shape.len().min(1)..];
                let row = || Tensor::dense(DType::F32, row, &samples(DType::F32));
                assert!(check("copy_", &Attrs::new(), || vec![x(), row()]));
            }
        }
    }
    let repeated = || {
        Tensor::ints(DType::I32, &[4], &[1]).viewed(Layout::strided(&[3, 4], &[0, 1], 0).unwrap())
    };
    assert!(check("fill", &Attrs::new().with("value", 3), || vec![repeated()]));
}

#[test]
fn integer_division_by_zero_fails_in_the_same_way() {
    for length in [3, 1000, 70_000] {
        let operands = || {
            let y = Tensor::ints(DType::I32, &[length], &[2, 3]);
            y.set(&[length - 1], Int(0));
            vec![Tensor::ints(DType::I32, &[length], &[7, 8, 9]), y]
        };
        for op in ["remainder", "fmod_"] {
            assert!(check(op, &Attrs::new(), operands));
            let all = operands();
            let all = [&all[0], &all[1], &all[0]];
            let all = &all[..if op == "fmod_" { 2 } else { 3 }];
            let error = try_launch_prepared(op, all, &Attrs::new(), 0, 0).unwrap().unwrap_err();
            assert_eq!(error, "i32 divided by zero");
        }
    }
}

#[test]
fn calls_with_other_numbers_of_operands_are_not_prepared() {
    let x = Tensor::floats(DType::F32, &[4], &[1.0]);
    let kernels = millstream_kernels::standard();
    let prepared = |op: &str, count: usize| {
        let spec = Arc::new(x.spec.clone());
        let specs = vec![spec; count];
        let attrs = Attrs::new().with("value", 1.0);
        let attrs = if op == "fill" { attrs } else { Attrs::new() };
        let spec = millstream_kernels::KernelSpec { operands: &specs, attrs: &attrs, workspace: 0 };
        kernels.get("cpu", op).unwrap().prepare(spec)
    };
    assert!(prepared("add", 3).is_some() && prepared("add", 0).is_none());
    assert!(prepared("fill", 1).is_some() && prepared("fill", 2).is_none());
}

/// Some of these calls need a workspace.
#[test]
fn rows_and_products_leave_the_same_bits() {
    let floats = |shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        let values: Vec<f64> = (0..count).map(|k| (k * 37 % 101) as f64 / 7.0 - 7.0).collect();
        Tensor::floats(DType::F32, shape, &values)
    };
    let no = Attrs::new;
    let line = || no().with("dim", -1).with("half_to_float", false);
    let back = || no().with("dim", -1).with("input_dtype", DType::F32);
    let rows = || no().with("normalized_shape", vec![300i64]).with("eps", 1e-5);
    let causal = || no().with("is_causal", true);
    let x = || floats(&[5, 300]);
    assert!(check("_softmax", &line(), || vec![x()]));
    assert!(check("_log_softmax", &line(), || vec![x()]));
    assert!(check("_softmax_backward_data", &back(), || vec![x(), x()]));
    assert!(check("_log_softmax_backward_data", &back(), || vec![x(), x()]));
    assert!(check("native_layer_norm", &rows(), || vec![x(), floats(&[300]), floats(&[300])]));
    assert!(check("sum", &no().with("dim", 0), || vec![x()]));
    assert!(check("mean", &no(), || vec![x()]));
    assert!(check("argmax", &no().with("dim", 1), || vec![x()]));
    assert!(check("matmul", &no(), || vec![x(), floats(&[300, 7])]));
    assert!(check("addmm", &no(), || vec![floats(&[7]), x(), floats(&[300, 7])]));
    assert!(check("cat", &no().with("dim", 1), || vec![x(), floats(&[5, 3])]));
    let indices = || Tensor::ints(DType::I64, &[4], &[4, 0, 1, 1]);
    assert!(check("embedding", &no(), || vec![x(), indices()]));
    let heads = || floats(&[2, 3, 70, 8]);
    let attention = "_scaled_dot_product_flash_attention_for_cpu";
    assert!(check(attention, &causal(), || vec![heads(), heads(), heads()]));
    let loss = signature("mse_loss", &[&x(), &x()], &no()).unwrap();
    assert!(loss.workspace > 0);
    assert!(check("mse_loss", &no(), || vec![x(), x()]));
}
