//! Calls that stand in the engine's table: the way that most instructions of a busy stream go.

use std::any::Any;
use std::sync::Arc;

use millstream_ep::{Progress, Work, WorkResult};
use millstream_kernels::{Kernel, KernelCtx, Operands, RawTensor};
use millstream_types::TensorId;

use crate::core::Core;
use crate::core::work::{DetachedCall, NO_ATTRS, Token};
use crate::engine::Engine;
use crate::slots::CallSlot;
use crate::task::{StoredCall, Task};

impl Core {
    /// Makes a stored call. Gives it back, as an instruction, if the lane is held before it.
    pub(super) fn call_stored(&mut self, at: usize, call: StoredCall) -> Option<Task> {
        let Core { engine, inbox, lanes, .. } = self;
        let lane = &mut lanes[at];
        // SAFETY: the lane runs the call, which names the slot; the borrow ends with this function.
        let Some(slot) = (unsafe { engine.calls.get(call.number as usize) }) else {
            unreachable!("a stored call is in the table before it is emitted")
        };
        // Whatever is out of the ordinary goes the way of all instructions.
        let ready = lane.lost.is_none() && lane.within.is_none() && !engine.poison.any();
        let Some(native) = lane.native.as_mut().filter(|_| ready) else {
            let instruction = call.instruction(slot);
            return self.call(at, instruction).map(Task::run);
        };
        let Some(Some(kernel)) = native.kernels.get(slot.op.index()) else {
            let instruction = call.instruction(slot);
            return self.call(at, instruction).map(Task::run);
        };
        let token = Token::new(inbox, call.at());
        let mut work = StoredWork { engine, slot, kernel, call, token };
        let submitted = native.stream.submit(&mut work);
        let taken = work.token.is_taken();
        match submitted {
            Ok(Progress::Done(Ok(()))) if !taken && !engine.poison.any() => {
                self.completed(at, call.seq);
            }
            submitted => {
                let instruction = call.instruction(slot);
                self.submitted(at, call.seq, instruction, submitted, taken);
            }
        }
        None
    }
}

/// A stored call that is to run now.
struct StoredWork<'a> {
    engine: &'a Arc<Engine>,
    slot: &'a CallSlot,
    kernel: &'a Arc<dyn Kernel>,
    call: StoredCall,
    token: Token<'a>,
}

impl Work for StoredWork<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let operands = StoredOperands {
            engine: self.engine,
            tensors: &self.call.tensors[..self.slot.accesses.len()],
        };
        let attrs = self.slot.attrs.as_deref().unwrap_or(&NO_ATTRS);
        let (none, threads) = ((std::ptr::null_mut(), 0), Some(&self.engine.threads));
        // SAFETY: as for every call: the list orders all conflicting uses before and after it, and
        // places no two live storages on the same bytes; the memory lives as long as the engine.
        let ctx = unsafe { KernelCtx::new(&operands, attrs, none, threads, native) };
        self.kernel.run(&ctx.with_deferred_completion(&self.token))
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedCall {
            engine: self.engine.clone(),
            body: self.call.instruction(self.slot).body,
            kernel: self.kernel.clone(),
            // A lane within a scope goes the way of all instructions.
            within: None,
        })
    }
}

/// The tensors of a stored call, looked up when the kernel asks.
struct StoredOperands<'a> {
    engine: &'a Engine,
    tensors: &'a [TensorId],
}

impl Operands for StoredOperands<'_> {
    fn len(&self) -> usize {
        self.tensors.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        // SAFETY: this lives while the call runs, and the call names the tensor.
        match unsafe { self.engine.slots.get(self.tensors[index].index()) } {
            Some(slot) => slot.raw(),
            None => unreachable!("an operand's slot is set before the call is emitted"),
        }
    }
}
