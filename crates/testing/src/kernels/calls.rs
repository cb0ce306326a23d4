//! Calls of kernels as a machine makes them: schema, signature, outputs, workspace, context.

use anyhow::Result;
use millstream_kernels::{KernelCtx, KernelRegistry, Operands, RawTensor, Threads};
use millstream_ops::{CallSpec, OutputSpec, Signature};
use millstream_types::{Access, Attrs, DType, Layout, TensorSpec};

use super::num::Num::Int;
use super::tensor::{Tensor, UNWRITTEN};

/// Returns the signature that an op's schema infers for a call, or its error.
pub fn signature(op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Result<Signature, String> {
    let ops = millstream_ops::standard();
    let op = ops.get(ops.id(op).unwrap()).unwrap();
    let specs: Vec<TensorSpec> = inputs.iter().map(|t| t.spec.clone()).collect();
    op.check(CallSpec { inputs: &specs, attrs }).map_err(|e| e.to_string())
}

/// Returns a pool of kernel threads; `None` for zero threads.
pub fn thread_pool(threads: usize) -> Option<Threads> {
    (threads > 0).then(|| Threads::new(threads, std::sync::Arc::new(|| ())))
}

/// Runs the op's CPU kernel on these operands, outputs included, and expects success.
pub fn launch(op: &str, operands: &[&Tensor], attrs: &Attrs, workspace: usize, threads: usize) {
    try_launch(op, operands, attrs, workspace, threads).expect("a run without errors");
}

/// As [`launch`], for kernels that may fail on their data.
pub fn try_launch(
    op: &str,
    operands: &[&Tensor],
    attrs: &Attrs,
    workspace: usize,
    threads: usize,
) -> Result<(), String> {
    launch_from(&millstream_kernels::standard(), op, operands, attrs, workspace, threads)
}

/// As [`try_launch`], with kernels of the caller.
pub fn launch_from(
    kernels: &KernelRegistry,
    op: &str,
    operands: &[&Tensor],
    attrs: &Attrs,
    workspace: usize,
    threads: usize,
) -> Result<(), String> {
    let on_host = |op: &str, ctx: &KernelCtx<'_>| run_on_host(kernels, op, ctx);
    launch_with(on_host, op, operands, attrs, workspace, threads)
}

fn run_on_host(kernels: &KernelRegistry, op: &str, ctx: &KernelCtx<'_>) -> Result<()> {
    kernels.get("cpu", op).expect("a kernel").run(ctx)
}

/// Runs a kernel with these operands.
fn launch_with(
    run: impl Fn(&str, &KernelCtx<'_>) -> Result<()>,
    op: &str,
    operands: &[&Tensor],
    attrs: &Attrs,
    workspace: usize,
    threads: usize,
) -> Result<(), String> {
    let raw: Vec<RawTensor<'_>> = operands.iter().map(|t| t.raw()).collect();
    // One byte further than aligned: the contract promises no alignment of the workspace.
    let mut scratch = vec![UNWRITTEN; workspace + 1];
    let pool = thread_pool(threads);
    let operands = RawOperands(&raw);
    // SAFETY: the tensors own their memory, and only this call uses it now.
    let ctx = unsafe {
        let workspace = (scratch.as_mut_ptr().add(1), workspace);
        KernelCtx::new(&operands, attrs, workspace, pool.as_ref(), &())
    };
    run(op, &ctx).map_err(|e| format!("{e:#}"))
}

struct RawOperands<'a>(&'a [RawTensor<'a>]);

impl Operands for RawOperands<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        self.0[index]
    }
}

/// Calls an op with its CPU kernel as a machine does, and returns its results.
pub fn call(op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Result<Vec<Tensor>, String> {
    call_on(op, inputs, attrs, 0)
}

/// As [`call`], on a pool of this many threads.
pub fn call_on(
    op: &str,
    inputs: &[&Tensor],
    attrs: &Attrs,
    threads: usize,
) -> Result<Vec<Tensor>, String> {
    let kernels = millstream_kernels::standard();
    let on_host = |op: &str, ctx: &KernelCtx<'_>| run_on_host(&kernels, op, ctx);
    call_with(on_host, op, inputs, attrs, threads)
}

/// As [`call_on`], with a function that runs the kernel of an op.
pub fn call_with(
    run: impl Fn(&str, &KernelCtx<'_>) -> Result<()>,
    op: &str,
    inputs: &[&Tensor],
    attrs: &Attrs,
    threads: usize,
) -> Result<Vec<Tensor>, String> {
    let signature = signature(op, inputs, attrs)?;
    let before: Vec<Vec<u8>> = inputs.iter().map(|t| t.bytes()).collect();
    let mut operands: Vec<Tensor> = inputs.iter().map(|&t| t.clone()).collect();
    let fresh = |spec: &TensorSpec| Tensor::unwritten(spec.dtype, spec.layout.clone());
    for output in &signature.outputs {
        match output {
            OutputSpec::Fresh(spec) => operands.push(fresh(spec)),
            OutputSpec::Bounded(spec) => {
                operands.push(fresh(spec));
                operands.push(fresh(&TensorSpec::contiguous(DType::I64, &[]).unwrap()));
            }
            OutputSpec::View { .. } | OutputSpec::Same(_) => {}
        }
    }
    if !signature.is_view() {
        let all: Vec<&Tensor> = operands.iter().collect();
        launch_with(run, op, &all, attrs, signature.workspace, threads)?;
    }
    if signature.accesses.iter().all(|a| *a == Access::Read) {
        for (input, before) in inputs.iter().zip(&before) {
            assert!(input.bytes() == *before, "{op} wrote its input {}", input.spec);
        }
    }
    let mut next = inputs.len();
    let mut results = Vec::new();
    for output in &signature.outputs {
        match output {
            OutputSpec::Fresh(_) => {
                operands[next].check_gaps();
                results.push(operands[next].clone());
                next += 1;
            }
            OutputSpec::Bounded(spec) => {
                let Int(count) = operands[next + 1].get(&[]) else { panic!("a count") };
                let mut shape = spec.shape().to_vec();
                shape[0] = count as usize;
                results.push(operands[next].viewed(Layout::contiguous(&shape).unwrap()));
                next += 2;
            }
            OutputSpec::View { of, layout } => results.push(operands[*of].viewed(layout.clone())),
            OutputSpec::Same(of) => results.push(operands[*of].clone()),
        }
    }
    Ok(results)
}

/// Returns the only result of a call that must succeed.
pub fn one(op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Tensor {
    call(op, inputs, attrs).unwrap().remove(0)
}

/// Runs an op with one fresh result and stores it to an output of the given layout.
pub fn one_into(op: &str, inputs: &[&Tensor], attrs: &Attrs, layout: Layout) -> Tensor {
    let signature = signature(op, inputs, attrs).unwrap();
    let [OutputSpec::Fresh(spec)] = signature.outputs.as_slice() else { panic!("one output") };
    let output = Tensor::unwritten(spec.dtype, layout);
    let mut all = inputs.to_vec();
    all.push(&output);
    launch(op, &all, attrs, signature.workspace, 0);
    output.check_gaps();
    output
}
