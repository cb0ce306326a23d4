//! Stored calls: the path of most instructions of a busy stream.

use std::any::Any;
use std::sync::Arc;

use millstream_ep::{Progress, Work, WorkResult};
use millstream_kernels::{Kernel, KernelCtx, Operands, RawTensor};
use millstream_types::TensorId;

use crate::tables::Tables;
use crate::tables::slots::CallSlot;
use crate::worker::Worker;
use crate::worker::subject::Subject;
use crate::worker::task::{StoredCall, Task};
use crate::worker::work::{DetachedCall, NO_ATTRS, TokenSource};

impl Worker {
    /// Makes a stored call. Returns it, as an instruction, if the stream is blocked before it.
    pub(super) fn call_stored(&mut self, at: usize, call: StoredCall) -> Option<Task> {
        let Worker { tables, inbox, streams, .. } = self;
        let stream = &mut streams[at];
        if let Some(samples) = &mut stream.samples {
            samples.begin();
        }
        // SAFETY: the stream runs the call, which names the slot; the borrow ends with this
        // function.
        let Some(slot) = (unsafe { tables.calls.get(call.number as usize) }) else {
            unreachable!("a stored call is in the table before it is emitted")
        };
        // Every special case takes the path of all instructions.
        let ready = stream.lost.is_none() && stream.cancel_scope.is_none() && !tables.poison.any();
        let Some(native) = stream.native.as_mut().filter(|_| ready) else {
            let instruction = call.instruction(slot);
            return self.call(at, instruction).map(Task::run);
        };
        let Some(Some(kernel)) = native.kernels.get(slot.op.index()) else {
            let instruction = call.instruction(slot);
            return self.call(at, instruction).map(Task::run);
        };
        let token = TokenSource::new(inbox, call.at());
        let mut work = StoredWork { tables, slot, kernel, call, token };
        let submitted = native.stream.submit(&mut work);
        let taken = work.token.is_taken();
        match submitted {
            Ok(Progress::Done(Ok(()))) if !taken && !tables.poison.any() => {
                self.completed(at, call.seq);
            }
            submitted => {
                let instruction = call.instruction(slot);
                self.submitted(at, call.seq, Subject::Instruction(instruction), submitted, taken);
            }
        }
        None
    }
}

/// A stored call that runs now.
struct StoredWork<'a> {
    tables: &'a Arc<Tables>,
    slot: &'a CallSlot,
    kernel: &'a Arc<dyn Kernel>,
    call: StoredCall,
    token: TokenSource<'a>,
}

impl Work for StoredWork<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let operands = StoredOperands {
            tables: self.tables,
            tensors: &self.call.tensors[..self.slot.accesses.len()],
        };
        let attrs = self.slot.attrs.as_deref().unwrap_or(&NO_ATTRS);
        let (none, threads) = ((std::ptr::null_mut(), 0), Some(&self.tables.threads));
        // SAFETY: as for every call: the list orders all conflicting uses before and after it, and
        // places no two live storages on the same bytes; the memory lives as long as the tables.
        let ctx = unsafe { KernelCtx::new(&operands, attrs, none, threads, native) };
        self.kernel.run(&ctx.with_deferred_completion(&self.token))
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedCall {
            tables: self.tables.clone(),
            body: self.call.instruction(self.slot).body,
            kernel: self.kernel.clone(),
            // A stream within a cancel scope takes the path of all instructions.
            cancel_scope: None,
        })
    }
}

/// The tensors of a stored call, looked up when the kernel asks.
struct StoredOperands<'a> {
    tables: &'a Tables,
    tensors: &'a [TensorId],
}

impl Operands for StoredOperands<'_> {
    fn len(&self) -> usize {
        self.tensors.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        // SAFETY: this lives while the call runs, and the call names the tensor.
        match unsafe { self.tables.slots.get(self.tensors[index].index()) } {
            Some(slot) => slot.raw(),
            None => unreachable!("an operand's slot is set before the call is emitted"),
        }
    }
}
