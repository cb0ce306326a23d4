//! Work that streams are given: calls and reads, to be run now or when their device gets to them.

use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_ep::{Work, WorkResult};
use millstream_instructions::{Body, Operand};
use millstream_kernels::{
    CompletionToken, DeferredCompletion, Kernel, KernelCtx, Operands, RawTensor,
};
use millstream_types::{Attrs, Point};

use crate::cancel::{self, Within};
use crate::engine::Engine;
use crate::host::copy_out;
use crate::inbox::{Inbox, News};

/// The operands of a call, looked up when the kernel asks.
struct CallOperands<'a> {
    engine: &'a Engine,
    operands: &'a [Operand],
}

impl Operands for CallOperands<'_> {
    fn len(&self) -> usize {
        self.operands.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        // SAFETY: this lives while the call runs, and the call names the tensor.
        match unsafe { self.engine.slots.get(self.operands[index].tensor.index()) } {
            Some(slot) => slot.raw(),
            None => unreachable!("an operand's slot is set before the call is emitted"),
        }
    }
}

pub(super) static NO_ATTRS: Attrs = Attrs::new();

/// What a token needs to tell a call's worker of its end.
pub(super) struct Token<'a> {
    inbox: &'a Arc<Inbox>,
    at: Point,
    taken: Cell<bool>,
}

impl<'a> Token<'a> {
    pub(super) const fn new(inbox: &'a Arc<Inbox>, at: Point) -> Token<'a> {
        Token { inbox, at, taken: Cell::new(false) }
    }

    /// Whether somebody else completes the call.
    pub(super) fn is_taken(&self) -> bool {
        self.taken.get()
    }
}

impl DeferredCompletion for Token<'_> {
    fn take_token(&self) -> Option<CompletionToken> {
        let (inbox, at) = (self.inbox.clone(), self.at);
        let token = || CompletionToken::new(move |result| inbox.post(News::HostDone(at, result)));
        (!self.taken.replace(true)).then(token)
    }
}

fn run_call(
    engine: &Engine,
    body: &Body,
    kernel: &dyn Kernel,
    within: Option<&Arc<Within>>,
    token: Option<&Token<'_>>,
    native: &dyn Any,
) -> WorkResult {
    let Body::OpCall { operands, attrs, workspace, .. } = body else { return Ok(()) };
    // A call without operands is the machine's own: it fills memory that nobody has.
    if !operands.is_empty() {
        cancel::refuse(within)?;
    }
    let operands = CallOperands { engine, operands };
    let attrs = attrs.as_deref().unwrap_or(&NO_ATTRS);
    let workspace = match workspace {
        Some(place) => (engine.memory.resolve(place)?.as_ptr(), place.size as usize),
        None => (std::ptr::null_mut(), 0),
    };
    // SAFETY: the list orders all conflicting uses before and after this call, and places no two
    // live storages or workspaces on the same bytes; the memory lives as long as the engine.
    let ctx = unsafe { KernelCtx::new(&operands, attrs, workspace, Some(&engine.threads), native) };
    match token {
        Some(token) => kernel.run(&ctx.with_deferred_completion(token)),
        None => kernel.run(&ctx),
    }
}

/// A call that is to run now.
pub(super) struct CallWork<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) body: &'a Body,
    pub(super) kernel: &'a Arc<dyn Kernel>,
    pub(super) within: Option<&'a Arc<Within>>,
    pub(super) token: Token<'a>,
}

impl Work for CallWork<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        run_call(self.engine, self.body, &**self.kernel, self.within, Some(&self.token), native)
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedCall {
            engine: self.engine.clone(),
            body: self.body.clone(),
            kernel: self.kernel.clone(),
            within: self.within.cloned(),
        })
    }
}

/// A call that is to run when its device gets to it.
pub(super) struct DetachedCall {
    pub(super) engine: Arc<Engine>,
    pub(super) body: Body,
    pub(super) kernel: Arc<dyn Kernel>,
    pub(super) within: Option<Arc<Within>>,
}

impl Work for DetachedCall {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let DetachedCall { engine, body, kernel, within } = self;
        crate::guard::within(engine.machine, || {
            run_call(engine, body, &**kernel, within.as_ref(), None, native)
        })
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedCall {
            engine: self.engine.clone(),
            body: self.body.clone(),
            kernel: self.kernel.clone(),
            within: self.within.clone(),
        })
    }
}

/// A read of a tensor into host memory.
pub(super) struct ReadWork {
    pub(super) engine: Arc<Engine>,
    pub(super) operand: Operand,
    pub(super) copy: Arc<dyn Kernel>,
    pub(super) bytes: Arc<Mutex<Option<Vec<u8>>>>,
    pub(super) within: Option<Arc<Within>>,
}

impl Work for ReadWork {
    fn run(&mut self, _: &dyn Any) -> WorkResult {
        cancel::refuse(self.within.as_ref())?;
        // SAFETY: the stream runs the instruction that names the tensor.
        let slot = unsafe { self.engine.slots.get(self.operand.tensor.index()) };
        let slot = slot.ok_or_else(|| anyhow::anyhow!("the tensor is gone"))?;
        anyhow::ensure!(slot.on_host, "the tensor does not lie in host memory");
        // SAFETY: the waits before the read order all writes before it and none beside it.
        let bytes = unsafe { copy_out(slot.raw(), &self.copy) }?;
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        Ok(())
    }

    fn runs_on_host(&self) -> bool {
        true
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(ReadWork {
            engine: self.engine.clone(),
            operand: self.operand,
            copy: self.copy.clone(),
            bytes: self.bytes.clone(),
            within: self.within.clone(),
        })
    }
}
