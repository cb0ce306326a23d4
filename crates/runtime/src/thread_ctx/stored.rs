//! Stored calls: the path of most instructions of a busy stream.

use std::sync::Arc;

use millstream_ep::{Progress, WorkResult};
use millstream_kernels::Kernel;
use millstream_types::{Cause, catch_panic};

use crate::tables::slots::{BoundForm, CallSlot};
use crate::tapes::run::Base;
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::stream::{Effect, NativeStream, WorkerStream};
use crate::thread_ctx::subject::Subject;
use crate::thread_ctx::task::{StoredCall, Task};
use crate::thread_ctx::unit::{Arguments, Callee, Unit};
use crate::thread_ctx::work::TokenSource;

impl ThreadCtx {
    /// Makes a stored call. Returns it, as an instruction, if the stream is blocked before it.
    pub(super) fn call_stored(&mut self, at: usize, call: StoredCall) -> Option<Task> {
        let ThreadCtx { tables, inbox, streams, known_chunks, .. } = self;
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
        let function = call.function(slot);
        let ready = ready && (stream.pooled || !function.is_some());
        // Scratch memory that cannot be found fails the call there.
        let (workspace, ready) = match call.workspace(slot) {
            None => (std::ptr::null_mut(), ready),
            Some(at) => match tables.memory.locate(&at, known_chunks) {
                Ok((address, _)) => (address.as_ptr(), ready),
                Err(_) => (std::ptr::null_mut(), false),
            },
        };
        let workspace = Base::new(workspace);
        let WorkerStream { native, key, .. } = stream;
        let Some(native) = native.as_mut().filter(|_| ready) else {
            let instruction = call.instruction(slot);
            return self.call(at, Subject::Instruction(instruction)).and_then(Subject::task);
        };
        let Some(Some(kernel)) = native.kernels.get(slot.call.op().index()) else {
            let instruction = call.instruction(slot);
            return self.call(at, Subject::Instruction(instruction)).and_then(Subject::task);
        };
        let mut work = Unit {
            tables,
            device: &key.device,
            callee: Callee::Stored(&call, slot, workspace),
            kernel,
            bound: None,
            function: function.is_some().then_some(function),
            // A stream within a cancel scope takes the path of all instructions.
            cancel_scope: None,
            arguments: Arguments::OfLaunch,
            token: TokenSource::new(inbox, call.at()),
        };
        let bound = catch_panic(|| Ok(bound_kernel(native, slot, kernel)));
        let submitted = bound.and_then(|bound| {
            work.bound = bound;
            native.stream.submit(&mut work)
        });
        let taken = work.token.is_taken();
        match submitted {
            Ok(Progress::Done(Ok(()))) if !taken && !tables.poison.any() => {
                self.completed(at, call.seq);
            }
            Ok(Progress::Pending(ticket)) => {
                self.launched(at, call.seq, Some(ticket), None, Effect::Stored(call));
            }
            submitted => {
                let instruction = call.instruction(slot);
                self.submitted(at, call.seq, Subject::Instruction(instruction), submitted, taken);
            }
        }
        None
    }

    /// Finishes a stored call that was launched, and whose outcome poisons or heals its outputs.
    #[cold]
    pub(super) fn finish_stored(
        &mut self,
        at: usize,
        call: &StoredCall,
        result: WorkResult,
        lost: Option<String>,
    ) {
        // SAFETY: the call has not completed, and names the slot.
        let slot = unsafe { self.tables.calls.get(call.number as usize) };
        let Some(instruction) = slot.map(|slot| call.instruction(slot)) else { return };
        let subject = Subject::Instruction(instruction);
        match lost {
            Some(message) => self.fail(at, &subject, Cause::Device, message),
            None => self.finish_call(at, &subject, result),
        }
    }
}

/// Returns the kernel in the form that needs addresses alone, if the stream makes calls at once or
/// its device computes by itself.
#[inline]
fn bound_kernel<'a>(
    native: &NativeStream,
    slot: &'a CallSlot,
    kernel: &Arc<dyn Kernel>,
) -> Option<&'a BoundForm> {
    match (native.asynchronous, native.launches_collectives) {
        (false, _) => slot.bound(kernel, None),
        (true, true) => slot.bound(kernel, Some(native.stream.native())),
        (true, false) => None,
    }
}
