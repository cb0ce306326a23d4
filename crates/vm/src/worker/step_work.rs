//! Calls of tapes as work for native streams.

use std::any::Any;
use std::sync::Arc;

use millstream_ep::{Work, WorkResult};
use millstream_kernels::{Kernel, KernelCtx, Operands, RawTensor};

use crate::scope::cancel;
use crate::tables::Tables;
use crate::tapes::run::Run;
use crate::tapes::tape::StepCall;
use crate::worker::ranks;
use crate::worker::stream::NativeStream;
use crate::worker::subject::StepRef;
use crate::worker::work::{NO_ATTRS, TokenSource};

/// Returns the kernel of a call on a device.
pub(super) fn kernel_of(native: &NativeStream, call: &StepCall) -> Option<Arc<dyn Kernel>> {
    native.kernels.get(call.op?.index())?.clone()
}

/// Says that a device has no kernel for a call.
pub(super) fn no_kernel(tables: &Tables, call: &StepCall, native: &NativeStream) -> String {
    let op = call.op.and_then(|op| tables.ops.get(op)).map_or("?", |o| o.name());
    format!("{op} has no kernel on {}", native.device.id())
}

/// The operands of a step.
struct StepOperands<'a> {
    run: &'a Run,
    call: &'a StepCall,
}

impl Operands for StepOperands<'_> {
    fn len(&self) -> usize {
        self.call.operands.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        self.run.raw(&self.call.operands[index])
    }
}

/// Which numbers a call gets for the scalars of the list.
#[derive(Clone, Copy)]
pub(super) enum StepArguments {
    /// Those of its launch.
    OfLaunch,
    /// Those of each launch of the graph that captures the call: the address of its words, if it
    /// has some.
    OfGraph(Option<usize>),
}

/// A call of a tape.
pub(super) struct StepWork<'a> {
    pub(super) tables: &'a Arc<Tables>,
    pub(super) step: &'a StepRef,
    pub(super) call: &'a StepCall,
    pub(super) kernel: &'a Arc<dyn Kernel>,
    pub(super) arguments: StepArguments,
    pub(super) token: TokenSource<'a>,
}

fn run_step(
    tables: &Tables,
    run: &Run,
    call: &StepCall,
    kernel: &dyn Kernel,
    arguments: StepArguments,
    token: Option<&TokenSource<'_>>,
    native: &dyn Any,
) -> WorkResult {
    cancel::check(run.cancel_scope.as_ref())?;
    let operands = StepOperands { run, call };
    let declared = || call.attrs.as_deref().unwrap_or(&NO_ATTRS);
    let (attrs, words) = match arguments {
        StepArguments::OfLaunch => (run.given(call).unwrap_or_else(declared), None),
        StepArguments::OfGraph(words) => (declared(), words),
    };
    let workspace = match call.workspace.as_deref() {
        Some(&(address, bytes)) => (run.resolve(address), bytes as usize),
        None => (std::ptr::null_mut(), 0),
    };
    // SAFETY: the list was checked to order all conflicting uses, and to place no two live storages
    // or workspaces on the same bytes; the launch holds its formals and its private memory until
    // its last step has ended.
    let ctx = unsafe { KernelCtx::new(&operands, attrs, workspace, Some(&tables.threads), native) };
    let ctx = match token {
        Some(token) => ctx.with_deferred_completion(token),
        None => ctx,
    };
    let ctx = match words {
        Some(words) => ctx.with_graph_words(words),
        None => ctx,
    };
    let Some(number) = ranks::number_of_step(run, call) else { return kernel.run(&ctx) };
    let ranks = ranks::rank_context(tables, number, &call.origin);
    kernel.run(&ctx.with_ranks(&ranks))
}

impl Work for StepWork<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let StepWork { tables, step, call, kernel, arguments, token } = self;
        run_step(tables, &step.run, call, &***kernel, *arguments, Some(token), native)
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedStep {
            tables: self.tables.clone(),
            step: self.step.clone(),
            kernel: self.kernel.clone(),
        })
    }
}

/// A call of a tape that runs when its device reaches it.
struct DetachedStep {
    tables: Arc<Tables>,
    step: StepRef,
    kernel: Arc<dyn Kernel>,
}

impl Work for DetachedStep {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let DetachedStep { tables, step, kernel } = self;
        let Some(call) = step.call() else { return Ok(()) };
        crate::scope::reentrancy::enter(tables.machine, || {
            run_step(tables, &step.run, call, &**kernel, StepArguments::OfLaunch, None, native)
        })
    }

    fn detach(&mut self) -> Box<dyn Work> {
        let DetachedStep { tables, step, kernel } = self;
        Box::new(DetachedStep {
            tables: tables.clone(),
            step: step.clone(),
            kernel: kernel.clone(),
        })
    }
}
