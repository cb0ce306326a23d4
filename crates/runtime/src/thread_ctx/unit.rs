//! A call as work for a native stream: that of an instruction, of a stored call, or of a step of a
//! tape.

use std::any::Any;
use std::sync::Arc;

use millstream_ep::{Work, WorkResult};
use millstream_instructions::{Body, Instruction, Operand};
use millstream_kernels::{Kernel, KernelCtx, Operands, RawTensor};
use millstream_types::{Attrs, DeviceId, Origin, TensorId};

use crate::scope::cancel::{self, CancelScope};
use crate::scope::reentrancy;
use crate::tables::Tables;
use crate::tables::functions::FunctionId;
use crate::tables::run_context::CallSite;
use crate::tables::slots::{BoundForm, CallSlot, TensorSlot};
use crate::tapes::run::{Base, Run};
use crate::tapes::tape::StepCall;
use crate::thread_ctx::ranks;
use crate::thread_ctx::subject::{StepRef, Subject};
use crate::thread_ctx::task::{MAX_TENSORS, StoredCall};
use crate::thread_ctx::work::TokenSource;

pub(super) static NO_ATTRS: Attrs = Attrs::new();

/// Which numbers a call gets for the scalars of its list.
#[derive(Clone, Copy)]
pub(super) enum Arguments {
    /// Those of its launch.
    OfLaunch,
    /// Those of each launch of the graph that captures the call: the address of its words, if it
    /// has some.
    OfGraph(Option<usize>),
}

/// The call that a unit makes.
#[derive(Clone, Copy)]
pub(super) enum Callee<'a> {
    Subject(&'a Subject),
    /// With the address of its scratch memory; null if it needs none.
    Stored(&'a StoredCall, &'a CallSlot, Base),
}

/// A call that runs now.
pub(super) struct Unit<'a> {
    pub(super) tables: &'a Arc<Tables>,
    pub(super) device: &'a DeviceId,
    pub(super) callee: Callee<'a>,
    pub(super) kernel: &'a Arc<dyn Kernel>,
    /// The kernel in the form that needs addresses alone, if it has one.
    pub(super) bound: Option<&'a BoundForm>,
    /// The function of the program that it runs, if it runs one.
    pub(super) function: Option<FunctionId>,
    /// The scope of an instruction. A step has that of its launch.
    pub(super) cancel_scope: Option<&'a Arc<CancelScope>>,
    pub(super) arguments: Arguments,
    pub(super) token: TokenSource<'a>,
}

impl<'a> Unit<'a> {
    /// Returns the call of a step.
    pub(super) fn of_step(
        tables: &'a Arc<Tables>,
        device: &'a DeviceId,
        step: &'a Subject,
        kernel: &'a Arc<dyn Kernel>,
        token: TokenSource<'a>,
    ) -> Unit<'a> {
        Unit {
            tables,
            device,
            callee: Callee::Subject(step),
            kernel,
            bound: None,
            function: None,
            cancel_scope: None,
            arguments: Arguments::OfLaunch,
            token,
        }
    }
}

impl Work for Unit<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        if let Some(function) = self.function {
            cancel::check(self.cancel_scope)?;
            let site = CallSite { device: self.device, native };
            return self.tables.functions.run(function, Some(&self.token), site);
        }
        if let (Some(bound), Callee::Stored(call, slot, workspace)) = (self.bound, self.callee) {
            let mut addresses = [std::ptr::null_mut(); MAX_TENSORS + 1];
            let count = slot.call.accesses().len();
            for (address, &tensor) in addresses[..count].iter_mut().zip(&call.tensors) {
                *address = slot_of(self.tables, tensor).first();
            }
            addresses[count] = workspace.address();
            let addresses = &addresses[..count + usize::from(slot.call.workspace() > 0)];
            let threads = Some(&self.tables.threads);
            match bound {
                // SAFETY: as in `Given::run`, and the slots are of the layouts that the kernel was
                // bound to: the builder checks the class of each operand of a stored call.
                BoundForm::Prepared(kernel) => return unsafe { kernel.run(addresses, threads) },
                BoundForm::Planned(plan) => {
                    // SAFETY: as above.
                    if unsafe { plan.launch(addresses, native)? } {
                        return Ok(());
                    }
                }
            }
        }
        let given = Given::of(self.tables, self.callee, self.arguments, self.cancel_scope)?;
        given.run(self.tables, &**self.kernel, Some(&self.token), native)
    }

    fn detach(&mut self) -> Box<dyn Work> {
        let subject = match self.callee {
            Callee::Subject(subject) => subject.clone(),
            Callee::Stored(call, slot, _) => Subject::Instruction(call.instruction(slot)),
        };
        Box::new(DetachedUnit {
            tables: self.tables.clone(),
            subject,
            kernel: self.kernel.clone(),
            cancel_scope: self.cancel_scope.cloned(),
        })
    }
}

/// A call that runs when its device reaches it.
#[derive(Clone)]
struct DetachedUnit {
    tables: Arc<Tables>,
    subject: Subject,
    kernel: Arc<dyn Kernel>,
    cancel_scope: Option<Arc<CancelScope>>,
}

impl Work for DetachedUnit {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let DetachedUnit { tables, subject, kernel, cancel_scope } = self;
        reentrancy::enter(tables.machine, || {
            let callee = Callee::Subject(subject);
            let given = Given::of(tables, callee, Arguments::OfLaunch, cancel_scope.as_ref())?;
            given.run(tables, &**kernel, None, native)
        })
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(self.clone())
    }
}

/// What a kernel is given for a call.
struct Given<'a> {
    operands: Names<'a>,
    attrs: &'a Attrs,
    workspace: (*mut u8, usize),
    /// A collective's number within its channel.
    number: Option<u64>,
    origin: &'a Origin,
    /// The address of the words that hold its scalars.
    words: Option<usize>,
}

/// The operands of a call, looked up when the kernel asks.
enum Names<'a> {
    Operands(&'a Tables, &'a [Operand]),
    Tensors(&'a Tables, &'a [TensorId]),
    Step(&'a Run, &'a StepCall),
}

impl Operands for Names<'_> {
    fn len(&self) -> usize {
        match self {
            Names::Operands(_, operands) => operands.len(),
            Names::Tensors(_, tensors) => tensors.len(),
            Names::Step(_, call) => call.operands.len(),
        }
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        match self {
            Names::Operands(tables, operands) => slot_of(tables, operands[index].tensor).raw(),
            Names::Tensors(tables, tensors) => slot_of(tables, tensors[index]).raw(),
            Names::Step(run, call) => run.raw(&call.operands[index]),
        }
    }
}

/// Returns the slot of an operand of the call that runs.
#[inline]
fn slot_of(tables: &Tables, tensor: TensorId) -> &TensorSlot {
    // SAFETY: the result is used while the call runs, and the call names the tensor.
    match unsafe { tables.slots.get(tensor.index()) } {
        Some(slot) => slot,
        None => unreachable!("an operand's slot is set before the call is emitted"),
    }
}

impl<'a> Given<'a> {
    /// Returns what the kernel is given, unless the call's scope was cancelled.
    fn of(
        tables: &'a Tables,
        callee: Callee<'a>,
        arguments: Arguments,
        scope: Option<&Arc<CancelScope>>,
    ) -> anyhow::Result<Given<'a>> {
        let none = (std::ptr::null_mut(), 0);
        let (op, operands, attrs, workspace, origin) = match callee {
            Callee::Subject(Subject::Step(step)) => return Given::of_step(step, arguments),
            Callee::Stored(call, slot, workspace) => {
                let tensors = &call.tensors[..slot.call.accesses().len()];
                let operands = Names::Tensors(tables, tensors);
                let workspace = (workspace.address(), slot.call.workspace() as usize);
                (slot.call.op(), operands, slot.call.attrs(), workspace, &call.origin)
            }
            Callee::Subject(Subject::Instruction(Instruction { body, origin })) => {
                let Body::OpCall { op, operands, attrs, workspace, .. } = body else {
                    anyhow::bail!("{} is no call", body.kind().name());
                };
                let workspace = match workspace {
                    Some(at) => (tables.memory.resolve(at)?.as_ptr(), at.size as usize),
                    None => none,
                };
                (*op, Names::Operands(tables, operands), attrs.as_ref(), workspace, origin)
            }
        };
        // A call without operands is the machine's own: it fills unused memory.
        if operands.len() > 0 {
            cancel::check(scope)?;
        }
        let attrs = attrs.map_or(&NO_ATTRS, |attrs| &**attrs);
        let number = tables.is_collective(op).then(|| ranks::number_of(attrs));
        Ok(Given { operands, attrs, workspace, number, origin, words: None })
    }

    fn of_step(step: &'a StepRef, arguments: Arguments) -> anyhow::Result<Given<'a>> {
        let run = &*step.run;
        cancel::check(run.cancel_scope.as_ref())?;
        let call = step.call().ok_or_else(|| anyhow::anyhow!("the step is no call"))?;
        let declared = || call.attrs.as_deref().unwrap_or(&NO_ATTRS);
        let (attrs, words) = match arguments {
            Arguments::OfLaunch => (run.given(call).unwrap_or_else(declared), None),
            Arguments::OfGraph(words) => (declared(), words),
        };
        let workspace = match call.workspace.as_deref() {
            Some(&(address, bytes)) => (run.resolve(address), bytes as usize),
            None => (std::ptr::null_mut(), 0),
        };
        let number = ranks::number_of_step(run, call);
        let (operands, origin) = (Names::Step(run, call), &call.origin);
        Ok(Given { operands, attrs, workspace, number, origin, words })
    }

    /// Runs the kernel.
    fn run(
        &self,
        tables: &Tables,
        kernel: &dyn Kernel,
        token: Option<&TokenSource<'_>>,
        native: &dyn Any,
    ) -> WorkResult {
        let Given { operands, attrs, workspace, number, origin, words } = self;
        let threads = Some(&tables.threads);
        // SAFETY: the list orders all conflicting uses before and after this call, and places no
        // two live storages or workspaces on the same bytes. The memory of instructions lives as
        // long as the tables; a launch holds its formals and its private memory until its last step
        // has ended.
        let mut ctx = unsafe { KernelCtx::new(operands, attrs, *workspace, threads, native) };
        if let Some(token) = token {
            ctx = ctx.with_deferred_completion(token);
        }
        if let Some(words) = *words {
            ctx = ctx.with_graph_words(words);
        }
        let Some(number) = *number else { return kernel.run(&ctx) };
        let ranks = ranks::rank_context(tables, number, origin);
        kernel.run(&ctx.with_ranks(&ranks))
    }
}
