//! Reads as work for native streams, the operand of a host function, and the token of a call.

use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_ep::{Work, WorkResult};
use millstream_instructions::Operand;
use millstream_kernels::{CompletionToken, DeferredCompletion, Kernel};
use millstream_types::Point;

use crate::host::Blob;
use crate::scope::cancel::{self, CancelScope};
use crate::sync::inbox::{Inbox, Message};
use crate::tables::Tables;
use crate::thread_ctx::subject::StepRef;

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
