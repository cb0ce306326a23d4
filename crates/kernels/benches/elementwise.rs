//! The time of elementwise kernels: `cargo bench -p millstream-kernels --bench elementwise`.
#![allow(missing_docs, reason = "a benchmark has no readers of its items")]

mod common;

use std::sync::Arc;

use common::Call;
use divan::Bencher;
use millstream_kernels::{KernelSpec, standard};
use millstream_types::{Attrs, DType, TensorSpec};

fn main() {
    divan::main();
}

/// Returns a call on dense inputs of one dtype.
fn dense(op: &'static str, dtype: DType, inputs: &[&[usize]], attrs: Attrs) -> Call {
    let spec = |shape: &&[usize]| TensorSpec::contiguous(dtype, shape).unwrap();
    Call::new(op, inputs.iter().map(spec).collect(), attrs)
}

fn bench_run(mut call: Call, bencher: Bencher<'_, '_>) {
    let mut run = call.run();
    // The first call touches the memory. It would mislead divan's choice of a sample size.
    run();
    bencher.bench_local(run);
}

fn bench_prepared(mut call: Call, bencher: Bencher<'_, '_>) {
    let mut run = call.prepared().unwrap();
    run();
    bencher.bench_local(run);
}

const SIZES: [usize; 4] = [16, 4096, 1_000_000, 16_000_000];

/// The limit of the others: the same bytes moved as by an op of one tensor.
#[divan::bench(args = SIZES)]
fn copy_nonoverlapping(bencher: Bencher<'_, '_>, n: usize) {
    let (from, mut to) = (vec![1f32; n], vec![0f32; n]);
    bencher.bench_local(|| divan::black_box(&mut to[..]).copy_from_slice(divan::black_box(&from)));
}

fn calls(case: &str, n: usize) -> Call {
    let attrs = Attrs::new;
    match case {
        "add" => dense("add", DType::F32, &[&[n], &[n]], attrs()),
        "add_" => dense("add_", DType::F32, &[&[n], &[n]], attrs()),
        "mul" => dense("mul", DType::F32, &[&[n], &[n]], attrs()),
        "sub" => dense("sub", DType::F32, &[&[n], &[n]], attrs()),
        "add_number" => dense("add", DType::F32, &[&[n]], attrs().with("other", 2.5)),
        "mul_scalar" => dense("mul", DType::F32, &[&[n], &[]], attrs()),
        "add_row" => dense("add", DType::F32, &[&[n / 16, 16], &[16]], attrs()),
        "add_i32" => dense("add", DType::I32, &[&[n], &[n]], attrs()),
        "add_bf16" => dense("add", DType::BF16, &[&[n], &[n]], attrs()),
        "relu" => dense("relu", DType::F32, &[&[n]], attrs()),
        "gelu" => dense("gelu", DType::F32, &[&[n]], attrs()),
        "exp" => dense("exp", DType::F32, &[&[n]], attrs()),
        "tanh" => dense("tanh", DType::F32, &[&[n]], attrs()),
        "eq" => dense("eq", DType::F32, &[&[n], &[n]], attrs()),
        "addcmul" => dense("addcmul", DType::F32, &[&[n], &[n], &[n]], attrs()),
        "cast" => dense("cast", DType::F32, &[&[n]], attrs().with("dtype", DType::F16)),
        "clone" => dense("clone", DType::F32, &[&[n]], attrs()),
        "fill" => dense("fill", DType::F32, &[&[n]], attrs().with("value", 1.0)),
        other => panic!("no case {other}"),
    }
}

/// Defines the benchmarks of a case: `run`, as the machine calls a kernel, and `prepared`.
macro_rules! cases {
    ($($case:ident)*) => {$(
        mod $case {
            use super::*;

            #[divan::bench(args = SIZES)]
            fn run(bencher: Bencher<'_, '_>, n: usize) {
                bench_run(calls(stringify!($case), n), bencher);
            }

            #[divan::bench(args = SIZES)]
            fn prepared(bencher: Bencher<'_, '_>, n: usize) {
                bench_prepared(calls(stringify!($case), n), bencher);
            }
        }
    )*};
}

/// Eight steps on two tensors.
const CHAIN: [(&str, [usize; 2]); 8] = [
    ("mul", [0, 1]),
    ("add", [2, 1]),
    ("relu", [3, 3]),
    ("sub", [4, 0]),
    ("mul", [5, 5]),
    ("maximum", [6, 1]),
    ("add", [7, 0]),
    ("neg", [8, 8]),
];

/// A chain as one program, and as one call for each step.
mod chain {
    use super::*;

    #[divan::bench(args = SIZES)]
    fn fused(bencher: Bencher<'_, '_>, n: usize) {
        let value = |k: usize| if k < 2 { format!("%{k}") } else { format!("#{}", k - 2) };
        let steps = CHAIN.map(|(op, [x, y])| match op {
            "relu" | "neg" => format!("{op}({})", value(x)),
            _ => format!("{op}({},{})", value(x), value(y)),
        });
        let attrs = Attrs::new().with("program", steps.join(";").as_str());
        bench_prepared(dense("fused", DType::F32, &[&[n], &[n]], attrs), bencher);
    }

    #[divan::bench(args = SIZES)]
    fn one_by_one(bencher: Bencher<'_, '_>, n: usize) {
        let kernels = standard();
        let spec = Arc::new(TensorSpec::contiguous(DType::F32, &[n]).unwrap());
        let mut memory = vec![vec![0f32; n]; CHAIN.len() + 2];
        let at: Vec<*mut u8> = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
        let step = |(k, (op, [x, y])): (usize, (&str, [usize; 2]))| {
            let operands = match op {
                "relu" | "neg" => vec![at[x], at[k + 2]],
                _ => vec![at[x], at[y], at[k + 2]],
            };
            let specs = vec![spec.clone(); operands.len()];
            let call = KernelSpec { operands: &specs, attrs: &Attrs::new(), workspace: 0 };
            (kernels.get("cpu", op).unwrap().prepare(call).unwrap(), operands)
        };
        let steps: Vec<_> = CHAIN.into_iter().enumerate().map(step).collect();
        let run = || {
            for (prepared, operands) in &steps {
                // SAFETY: the operands are memory of this call, and nothing else uses them.
                unsafe { prepared.run(operands, None) }.unwrap();
            }
        };
        run();
        bencher.bench_local(run);
    }
}

cases! {
    add add_ mul sub add_number mul_scalar add_row add_i32 add_bf16 relu tanh gelu exp eq addcmul cast clone
    fill
}
