//! Calls of kernels as a machine makes them: schema, signature, outputs, workspace, context.

use std::sync::{Arc, Mutex, OnceLock, mpsc};

use anyhow::Result;
use millstream_comm::Communicator;
use millstream_kernels::{
    CompletionToken, DeferredCompletion, KernelCtx, KernelRegistry, KernelSpec, Operands,
    RankContext, RawTensor, Threads,
};
use millstream_ops::{CallSpec, OutputSpec, Signature};
use millstream_types::{Access, Attrs, DType, Layout, Origin, TensorSpec};

use super::num::Num::Int;
use super::tensor::{Tensor, UNWRITTEN};

/// Returns the signature that an op's schema infers for a call, or its error.
pub fn signature(op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Result<Signature, String> {
    let ops = millstream_ops::standard();
    let op = ops.get(ops.id(op).unwrap()).unwrap();
    let specs: Vec<TensorSpec> = inputs.iter().map(|t| t.spec.clone()).collect();
    op.check(CallSpec { inputs: &specs, attrs }).map_err(|e| e.to_string())
}

/// Returns the standard kernels.
fn kernels() -> &'static KernelRegistry {
    static KERNELS: OnceLock<KernelRegistry> = OnceLock::new();
    KERNELS.get_or_init(millstream_kernels::standard)
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
    launch_from(kernels(), op, operands, attrs, workspace, threads)
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

/// As [`try_launch`], by the kernel's prepared form. Returns none if it has none.
pub fn try_launch_prepared(
    op: &str,
    operands: &[&Tensor],
    attrs: &Attrs,
    workspace: usize,
    threads: usize,
) -> Option<Result<(), String>> {
    let specs: Vec<Arc<TensorSpec>> = operands.iter().map(|t| Arc::new(t.spec.clone())).collect();
    let kernel = kernels().get("cpu", op).expect("a kernel");
    let prepared = kernel.prepare(KernelSpec { operands: &specs, attrs, workspace })?;
    let mut scratch = vec![UNWRITTEN; workspace + 1];
    let mut addresses: Vec<*mut u8> = operands.iter().map(|t| t.raw().data).collect();
    addresses.extend((workspace > 0).then(|| scratch.as_mut_ptr().wrapping_add(1)));
    let pool = thread_pool(threads);
    // SAFETY: the tensors own their memory, and only this call uses it now.
    let result = unsafe { prepared.run(&addresses, pool.as_ref()) };
    Some(result.map_err(|e| format!("{e:#}")))
}

/// Runs the op's CPU kernel, and then, on the memory as it was before, its prepared form with
/// threads. Returns the error of the first run.
///
/// # Panics
/// If the prepared form leaves other bits or has another outcome, or if the op is elementwise, a
/// copy or a fill and has none.
pub fn run_and_compare_prepared(op: &str, ctx: &KernelCtx<'_>) -> Result<()> {
    let kernel = kernels().get("cpu", op).expect("a kernel");
    let operands = (0..ctx.operands()).map(|k| ctx.operand(k)).collect::<Result<Vec<_>>>()?;
    let spec = |t: &RawTensor<'_>| {
        TensorSpec::new(t.dtype, Layout::strided(t.shape, t.strides, 0).unwrap()).unwrap()
    };
    let specs: Vec<Arc<TensorSpec>> = operands.iter().map(|t| Arc::new(spec(t))).collect();
    let (scratch, workspace) = ctx.workspace();
    let prepared = kernel.prepare(KernelSpec { operands: &specs, attrs: ctx.attrs(), workspace });
    let families =
        ["Arithmetic", "Pointwise functions", "Comparison and logic", "Ternary functions"];
    let families = millstream_ops::families().into_iter().filter(|f| families.contains(&f.0));
    let mut elementwise = families.flat_map(|(_, ops)| ops).map(|op| op.name());
    let copies = ["copy", "clone", "cast", "copy_", "fill", "full"];
    let expected = copies.contains(&op) || elementwise.any(|name| name == op);
    assert!(prepared.is_some() || !expected, "{op} has no prepared form");
    let Some(prepared) = prepared else { return kernel.run(ctx) };
    let memory = |k: usize| {
        let bytes = specs[k].span_bytes();
        // SAFETY: the bytes from the first element to the end of the last, which a context promises
        // to be valid. No kernel runs now.
        unsafe { std::slice::from_raw_parts_mut(operands[k].data, bytes) }
    };
    let content = || (0..specs.len()).map(|k| memory(k).to_vec()).collect::<Vec<_>>();
    let before = content();
    let result = kernel.run(ctx);
    let after = content();
    for (k, bytes) in before.iter().enumerate() {
        memory(k).copy_from_slice(bytes);
    }
    let of_workspace = (workspace > 0).then_some(scratch);
    let addresses: Vec<*mut u8> = operands.iter().map(|t| t.data).chain(of_workspace).collect();
    // SAFETY: operands of the context at their addresses.
    let again = unsafe { prepared.run(&addresses, thread_pool(3).as_ref()) };
    let outcome = |r: &Result<()>| r.as_ref().map_err(|e| format!("{e:#}")).cloned();
    assert_eq!(outcome(&again), outcome(&result), "{op} {specs:?} {}", ctx.attrs());
    assert!(result.is_err() || content() == after, "{op} {specs:?} {}: other bits", ctx.attrs());
    result
}

/// Starts a collective on one rank. The outcome arrives once all ranks have started it; the
/// operands must live until then.
pub fn start_on_rank(
    op: &str,
    operands: &[&Tensor],
    attrs: &Attrs,
    communicator: &Arc<dyn Communicator>,
) -> mpsc::Receiver<Result<(), String>> {
    let (sender, outcome) = mpsc::channel();
    let failed = sender.clone();
    let token = Token(Mutex::new(Some(CompletionToken::new(move |result| {
        // A test that has ended asks for nothing more.
        let _ = sender.send(result.map_err(|e| format!("{e:#}")));
    }))));
    let raw: Vec<RawTensor<'_>> = operands.iter().map(|t| t.raw()).collect();
    let operands = RawOperands(&raw);
    let ranks = RankContext { communicator, number: 0, origin: &Origin::Unknown };
    let none = (std::ptr::null_mut(), 0);
    // SAFETY: the tensors own their memory, and only this call uses it now.
    let ctx = unsafe { KernelCtx::new(&operands, attrs, none, None, &()) };
    let ctx = ctx.with_deferred_completion(&token).with_ranks(&ranks);
    if let Err(error) = run_on_host(kernels(), op, &ctx) {
        failed.send(Err(format!("{error:#}"))).expect("the receiver is here");
    }
    outcome
}

/// The completion token of one call.
struct Token(Mutex<Option<CompletionToken>>);

impl DeferredCompletion for Token {
    fn take_token(&self) -> Option<CompletionToken> {
        self.0.lock().unwrap().take()
    }
}

/// Runs a kernel with these operands.
pub(super) fn launch_with(
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
    let kernels = kernels();
    let on_host = |op: &str, ctx: &KernelCtx<'_>| run_on_host(kernels, op, ctx);
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
                let layout = Layout::contiguous(&shape).unwrap();
                results.push(operands[next].viewed(layout));
                next += 2;
            }
            OutputSpec::View { of, layout, dtype } => {
                let of = &operands[*of];
                results.push(of.viewed_as(layout.clone(), dtype.unwrap_or(of.spec.dtype)));
            }
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
