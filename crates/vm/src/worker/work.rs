//! Work for native streams: calls and reads, run now or when their device reaches them.

use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_ep::{Work, WorkResult};
use millstream_instructions::{Body, Operand};
use millstream_kernels::{
    CompletionToken, DeferredCompletion, Kernel, KernelCtx, Operands, RawTensor,
};
use millstream_types::{Attrs, DeviceId, Origin, Point};

use crate::host::Blob;
use crate::scope::cancel::{self, CancelScope};
use crate::sync::inbox::{Inbox, Message};
use crate::tables::Tables;
use crate::tables::functions::FunctionId;
use crate::tables::run_context::CallSite;
use crate::worker::ranks;
use crate::worker::subject::StepRef;

/// The operands of a call, looked up when the kernel asks.
struct CallOperands<'a> {
    tables: &'a Tables,
    operands: &'a [Operand],
}

impl Operands for CallOperands<'_> {
    fn len(&self) -> usize {
        self.operands.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        // SAFETY: this lives while the call runs, and the call names the tensor.
        match unsafe { self.tables.slots.get(self.operands[index].tensor.index()) } {
            Some(slot) => slot.raw(),
            None => unreachable!("an operand's slot is set before the call is emitted"),
        }
    }
}

pub(super) static NO_ATTRS: Attrs = Attrs::new();

/// The token by which a kernel defers the completion of its call.
pub(super) struct TokenSource<'a> {
    inbox: &'a Arc<Inbox>,
    at: Point,
    taken: Cell<bool>,
}

impl<'a> TokenSource<'a> {
    pub(super) const fn new(inbox: &'a Arc<Inbox>, at: Point) -> TokenSource<'a> {
        TokenSource { inbox, at, taken: Cell::new(false) }
    }

    /// Returns whether another party completes the call.
    pub(super) fn is_taken(&self) -> bool {
        self.taken.get()
    }
}

impl DeferredCompletion for TokenSource<'_> {
    fn take_token(&self) -> Option<CompletionToken> {
        let (inbox, at) = (self.inbox.clone(), self.at);
        let token =
            || CompletionToken::new(move |result| inbox.post(Message::ExternalDone(at, result)));
        (!self.taken.replace(true)).then(token)
    }
}

fn run_call(
    tables: &Tables,
    body: &Body,
    kernel: &dyn Kernel,
    origin: &Origin,
    cancel_scope: Option<&Arc<CancelScope>>,
    token: Option<&TokenSource<'_>>,
    native: &dyn Any,
) -> WorkResult {
    let Body::OpCall { op, operands, attrs, workspace, .. } = body else { return Ok(()) };
    // A call without operands is the machine's own: it fills unused memory.
    if !operands.is_empty() {
        cancel::check(cancel_scope)?;
    }
    let attrs = attrs.as_deref().unwrap_or(&NO_ATTRS);
    let operands = CallOperands { tables, operands };
    let workspace = match workspace {
        Some(place) => (tables.memory.resolve(place)?.as_ptr(), place.size as usize),
        None => (std::ptr::null_mut(), 0),
    };
    // SAFETY: the list orders all conflicting uses before and after this call, and places no two
    // live storages or workspaces on the same bytes; the memory lives as long as the tables.
    let ctx = unsafe { KernelCtx::new(&operands, attrs, workspace, Some(&tables.threads), native) };
    let ctx = match token {
        Some(token) => ctx.with_deferred_completion(token),
        None => ctx,
    };
    if !tables.is_collective(*op) {
        return kernel.run(&ctx);
    }
    let ranks = ranks::rank_context(tables, ranks::number_of(attrs), origin);
    kernel.run(&ctx.with_ranks(&ranks))
}

/// A call that runs now.
pub(super) struct CallWork<'a> {
    pub(super) tables: &'a Arc<Tables>,
    pub(super) device: &'a DeviceId,
    /// The function of the program that it runs, if it runs one.
    pub(super) function: Option<FunctionId>,
    pub(super) body: &'a Body,
    pub(super) origin: &'a Origin,
    pub(super) kernel: &'a Arc<dyn Kernel>,
    pub(super) cancel_scope: Option<&'a Arc<CancelScope>>,
    pub(super) token: TokenSource<'a>,
}

impl Work for CallWork<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        if let Some(function) = self.function {
            cancel::check(self.cancel_scope)?;
            let site = CallSite { device: self.device, native };
            return self.tables.functions.run(function, Some(&self.token), site);
        }
        run_call(
            self.tables,
            self.body,
            &**self.kernel,
            self.origin,
            self.cancel_scope,
            Some(&self.token),
            native,
        )
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedCall {
            tables: self.tables.clone(),
            body: self.body.clone(),
            origin: self.origin.clone(),
            kernel: self.kernel.clone(),
            cancel_scope: self.cancel_scope.cloned(),
        })
    }
}

/// A call that runs when its device reaches it.
pub(super) struct DetachedCall {
    pub(super) tables: Arc<Tables>,
    pub(super) body: Body,
    pub(super) origin: Origin,
    pub(super) kernel: Arc<dyn Kernel>,
    pub(super) cancel_scope: Option<Arc<CancelScope>>,
}

impl Work for DetachedCall {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let DetachedCall { tables, body, origin, kernel, cancel_scope } = self;
        crate::scope::reentrancy::enter(tables.machine, || {
            run_call(tables, body, &**kernel, origin, cancel_scope.as_ref(), None, native)
        })
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedCall {
            tables: self.tables.clone(),
            body: self.body.clone(),
            origin: self.origin.clone(),
            kernel: self.kernel.clone(),
            cancel_scope: self.cancel_scope.clone(),
        })
    }
}

/// The tensor that a host function or a read works on.
#[derive(Clone)]
pub(super) enum HostOperand {
    /// A tensor of the machine.
    Slot(Operand),
    /// The operand of a step of a tape. The list was checked to name host memory there.
    Step(StepRef),
}

impl HostOperand {
    /// Lends the tensor's memory.
    ///
    /// # Safety
    /// The instruction that names the tensor runs, and no conflicting use of it is under way.
    pub(super) unsafe fn blob<'a>(
        &'a self,
        tables: &'a Tables,
        copy: &'a Arc<dyn Kernel>,
    ) -> anyhow::Result<Blob<'a>> {
        let gone = || anyhow::anyhow!("the tensor no longer exists");
        match self {
            HostOperand::Slot(operand) => {
                // SAFETY: the caller runs the instruction, which names the tensor.
                let slot = unsafe { tables.slots.get(operand.tensor.index()) }.ok_or_else(gone)?;
                anyhow::ensure!(slot.on_host, "the tensor does not lie in host memory");
                // SAFETY: the caller's promise.
                Ok(unsafe { Blob::new(slot.raw(), &slot.spec, operand.access, copy) })
            }
            HostOperand::Step(step) => {
                let operand = step.call().and_then(|call| call.operands.first());
                let operand = operand.ok_or_else(gone)?;
                let raw = step.run.raw(operand);
                // SAFETY: the caller's promise.
                Ok(unsafe { Blob::new(raw, &operand.spec, operand.access, copy) })
            }
        }
    }
}

/// A read of a tensor into host memory.
pub(super) struct ReadWork {
    pub(super) tables: Arc<Tables>,
    pub(super) operand: HostOperand,
    pub(super) copy: Arc<dyn Kernel>,
    pub(super) bytes: Arc<Mutex<Option<Vec<u8>>>>,
    pub(super) cancel_scope: Option<Arc<CancelScope>>,
}

impl Work for ReadWork {
    fn run(&mut self, _: &dyn Any) -> WorkResult {
        cancel::check(self.cancel_scope.as_ref())?;
        // SAFETY: the stream runs the instruction that names the tensor; the waits before it order
        // all writes before it and none beside it.
        let bytes = unsafe { self.operand.blob(&self.tables, &self.copy) }?.to_bytes()?;
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        Ok(())
    }

    fn runs_on_host(&self) -> bool {
        true
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(ReadWork {
            tables: self.tables.clone(),
            operand: self.operand.clone(),
            copy: self.copy.clone(),
            bytes: self.bytes.clone(),
            cancel_scope: self.cancel_scope.clone(),
        })
    }
}
