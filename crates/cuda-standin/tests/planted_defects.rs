//! Tests of the comparison of kernels with PyTorch's values and with the host's kernels: it detects
//! each defect that is planted in a kernel's source, and passes without the defect.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::Result;
use millstream::ep::Backend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream_cuda_standin::StandIn;
use millstream_gpu_check::ops::{self, large};
use millstream_kernels::cuda::Unsupported;
use millstream_kernels::{KernelCtx, KernelRegistry};
use millstream_testing::cases;
use millstream_testing::kernels::reference::{FOLDER, File};
use millstream_types::DType;

/// The defects: an op, a text in the source of its kernel, and the replacement.
const DEFECTS: &[(&str, &str, &str)] = &[
    // Elementwise kernels: the tail after accesses of 16 bytes, an operator, a missing dimension.
    ("add", "index < count; index += step", "index + 1 < count; index += step"),
    ("sub", "plus(x, times(negative(a), y))", "plus(x, times(a, y))"),
    ("mul", "int dim = (int)args.rank - 1; dim >= 0", "int dim = (int)args.rank - 1; dim > 0"),
    // Errors of the data: a divisor of zero.
    ("fmod", "failed || y == 0", "failed || false"),
    // Row reductions: the last partial sum, the last step of a tree, a bias.
    ("sum", "reduce_row(combine(total, partial), s", "reduce_row(total, s"),
    ("_softmax", "half > 0; half /= 2", "half > 1; half /= 2"),
    ("native_layer_norm", "* rstd * w + b", "* rstd * w"),
    // Vectors of elements: every element, the last one of a thread, a broadcast element.
    ("mean", "read<T, Via>(xs.at[k])", "read<T, Via>(xs.at[0])"),
    ("_log_softmax", "if (index < end) f(", "if (index + step < end) f("),
    ("native_batch_norm", "all.at[k] = one.at[0]", "all.at[k] = Vector<E, 1>().at[0]"),
    // Partitioned rows: the last part.
    (
        "native_layer_norm_backward",
        "part < args.parts; part += s.threads",
        "part + 1 < args.parts; part += s.threads",
    ),
    // Scans: the end of a line. Sorting: the last comparisons.
    ("cumsum", "at < length; ++at", "at + 1 < length; ++at"),
    ("sort", "distance > 0; distance /= 2", "distance > 1; distance /= 2"),
    // Indices: a stride, and a factor.
    ("index_select", "(u64)at * (u64)index_info[2]", "(u64)at"),
    ("index_add", "a + (float)args.scalars[0] * b", "a + b"),
    // Masks: accumulated values.
    ("index_put", "added((T)load(to), (T)load(from))", "(T)load(from)"),
    // Positions: the diagonal itself, the direction.
    ("tril", "diagonal <= args.integers[2]", "diagonal < args.integers[2]"),
    ("flip", "at = length - 1 - at", "at = at"),
    // Pooling windows: the last column, the divisor of a mean.
    ("max_pool2d_with_indices", "column < x.to", "column + 1 < x.to"),
    ("avg_pool2d", "(y.length * x.length)", "(y.length)"),
    // Attention: the key of the query's own position. Losses: a sign.
    ("_scaled_dot_product_flash_attention_for_cpu", "key > row.query", "key >= row.query"),
    (
        "nll_loss_forward",
        "-load(DATA(const E, 0) + target.at)",
        "load(DATA(const E, 0) + target.at)",
    ),
];

/// Makes all calls of an op on a new device, which compiles its kernels anew. Returns the errors.
fn failures(kernels: &KernelRegistry, files: &[File], op: &str) -> Vec<String> {
    let device = CudaBackend::new(CudaConfig::default()).open(0).unwrap();
    // Kernels are compiled for each dtype.
    let usual = [DType::F32, DType::I64, DType::Bool];
    let run = |op: &str, ctx: &KernelCtx<'_>| -> Result<()> {
        let is_usual = |k| ctx.operand(k).is_ok_and(|x| usual.contains(&x.dtype));
        let by_device = (0..ctx.operands()).all(is_usual);
        match by_device.then(|| ops::run(kernels, &device, op, ctx)) {
            Some(result) if result.as_ref().err().is_none_or(|e| !e.is::<Unsupported>()) => result,
            _ => kernels.get("cpu", op).expect("a kernel").run(ctx),
        }
    };
    let mut failed = Vec::new();
    let mut check = |check: &dyn Fn() -> Result<(), String>| {
        let outcome = catch_unwind(AssertUnwindSafe(check));
        failed.extend(outcome.unwrap_or_else(|_| Err("a panic".to_owned())).err());
    };
    for file in files {
        for (number, _) in file.calls().filter(|(_, name)| *name == op) {
            check(&|| file.check(number, &run));
        }
    }
    for case in large::cases(7).iter().filter(|case| case.op() == op) {
        check(&|| case.check(&run));
    }
    failed
}

/// Long because the kernels of each op are compiled with and without its defect.
#[test]
fn planted_defects_are_detected() {
    if !millstream_cuda_standin::compiles() {
        return println!("skipped: no C++ compiler");
    }
    let stand_in = StandIn::load().unwrap_or_else(|error| panic!("{error:#}"));
    let kernels = millstream_kernels::standard();
    let files = File::read_all(Path::new(FOLDER)).unwrap();
    let mut missed = Vec::new();
    for &(op, from, to) in DEFECTS.iter().step_by(cases(3, 1)) {
        let failures = |planted: bool| {
            let turn = stand_in.turn();
            if planted {
                turn.mutate_source(from, to);
            }
            failures(&kernels, &files, op)
        };
        let (without, with) = (failures(false), failures(true));
        assert!(without.is_empty(), "{op}: {without:#?}");
        match with.first() {
            // A source that does not compile shows nothing about the comparison.
            Some(found) if found.contains("NVRTC_ERROR_COMPILATION") => missed.push(found.clone()),
            Some(found) => println!("{op}: {to}: {found}"),
            None => missed.push(format!("{op}: '{to}' in place of '{from}'")),
        }
    }
    assert!(missed.is_empty(), "not detected:\n{}", missed.join("\n"));
}
