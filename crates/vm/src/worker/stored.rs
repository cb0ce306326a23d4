//! Stored calls: the path of most instructions of a busy stream.

use std::any::Any;
use std::sync::Arc;

use millstream_ep::{Progress, Work, WorkResult};
use millstream_kernels::{Kernel, KernelCtx, Operands, PreparedKernel, RawTensor};
use millstream_types::{DeviceId, TensorId};

use crate::tables::Tables;
use crate::tables::run_context::CallSite;
use crate::tables::slots::{CallSlot, TensorSlot};
use crate::worker::Worker;
use crate::worker::stream::{NativeStream, WorkerStream};
use crate::worker::subject::Subject;
use crate::worker::task::{MAX_TENSORS, StoredCall, Task};
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
        // A function of an in-order stream does not run here, where it would hold up others.
        let ready = ready && (stream.pooled || !call.function.is_some());
        let WorkerStream { native, key, .. } = stream;
        let Some(native) = native.as_mut().filter(|_| ready) else {
            let instruction = call.instruction(slot);
            return self.call(at, instruction).map(Task::run);
        };
        let Some(Some(kernel)) = native.kernels.get(slot.op.index()) else {
            let instruction = call.instruction(slot);
            return self.call(at, instruction).map(Task::run);
        };
        let (token, bound) =
            (TokenSource::new(inbox, call.at()), bound_kernel(native, slot, kernel));
        let device = &key.device;
        let mut work = StoredWork { tables, device, slot, kernel, bound, call: &call, token };
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

/// Returns the kernel in the form that needs addresses alone, if the stream makes calls at once.
#[inline]
fn bound_kernel<'a>(
    native: &NativeStream,
    slot: &'a CallSlot,
    kernel: &Arc<dyn Kernel>,
) -> Option<&'a dyn PreparedKernel> {
    if native.asynchronous { None } else { slot.bound(kernel) }
}

/// A stored call that runs now.
struct StoredWork<'a> {
    tables: &'a Arc<Tables>,
    device: &'a DeviceId,
    slot: &'a CallSlot,
    kernel: &'a Arc<dyn Kernel>,
    bound: Option<&'a dyn PreparedKernel>,
    call: &'a StoredCall,
    token: TokenSource<'a>,
}

impl Work for StoredWork<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let operands = StoredOperands {
            tables: self.tables,
            tensors: &self.call.tensors[..self.slot.accesses.len()],
        };
        if self.call.function.is_some() {
            let site = CallSite { device: self.device, native };
            return self.tables.functions.run(self.call.function, Some(&self.token), site);
        }
        if let Some(bound) = self.bound {
            let mut addresses = [std::ptr::null_mut(); MAX_TENSORS];
            for (k, address) in addresses[..operands.len()].iter_mut().enumerate() {
                *address = operands.slot(k).first();
            }
            // SAFETY: as below, and the slots are of the layouts that the kernel was bound to: the
            // builder checks the class of each operand of a stored call.
            return unsafe { bound.run(&addresses[..operands.len()], Some(&self.tables.threads)) };
        }
        let attrs = self.slot.attrs.as_deref().unwrap_or(&NO_ATTRS);
        let (none, threads) = ((std::ptr::null_mut(), 0), Some(&self.tables.threads));
        // SAFETY: as for every call: the list orders all conflicting uses before and after it, and
        // places no two live storages on the same bytes; the memory lives as long as the tables.
        let ctx = unsafe { KernelCtx::new(&operands, attrs, none, threads, native) };
        self.kernel.run(&ctx.with_deferred_completion(&self.token))
    }

    fn detach(&mut self) -> Box<dyn Work> {
        let instruction = self.call.instruction(self.slot);
        Box::new(DetachedCall {
            tables: self.tables.clone(),
            body: instruction.body,
            origin: instruction.origin,
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
        self.slot(index).raw()
    }
}

impl StoredOperands<'_> {
    #[inline]
    fn slot(&self, index: usize) -> &TensorSlot {
        // SAFETY: this lives while the call runs, and the call names the tensor.
        match unsafe { self.tables.slots.get(self.tensors[index].index()) } {
            Some(slot) => slot,
            None => unreachable!("an operand's slot is set before the call is emitted"),
        }
    }
}
