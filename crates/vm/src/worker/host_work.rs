//! Work of the host: functions of the program with a tensor's memory, and reads.

use std::sync::{Arc, Mutex, PoisonError};

use millstream_ep::{Progress, WorkResult, catch_panic};
use millstream_kernels::Kernel;
use millstream_types::{Cause, Error, Point};

use crate::emission::cancel;
use crate::host::Callback;
use crate::profile::Outcome;
use crate::worker::Worker;
use crate::worker::inbox::Message;
use crate::worker::outcome::cause_of;
use crate::worker::stream::{Effect, ExternalCompletion};
use crate::worker::subject::Subject;
use crate::worker::work::{HostOperand, ReadWork};

impl Worker {
    /// Calls a host function with a tensor's memory, on a host thread.
    pub(super) fn call_back(
        &mut self,
        at: usize,
        point: Point,
        operand: HostOperand,
        callback: Option<Callback>,
        subject: Subject,
    ) {
        if let Some(cause) = subject.poison(&self.tables) {
            drop(callback);
            subject.skip(&self.tables, &cause);
            self.note_outcome(at, Outcome::Skipped);
            self.launched(at, point.seq, None, None, Effect::None);
            return;
        }
        let (tables, copy) = (self.tables.clone(), self.host_copy(at));
        let cancel_scope = self.streams[at].cancel_scope.clone();
        self.submit_to_host(at, point, subject, move || {
            cancel::check(cancel_scope.as_ref())?;
            let callback =
                callback.ok_or_else(|| anyhow::anyhow!("the function no longer exists"))?;
            let copy = copy?;
            // SAFETY: the stream runs the instruction that names the tensor, and is blocked until
            // this returns. The waits before the instruction order all conflicting uses; the memory
            // lives until after its last use.
            let mut blob = unsafe { operand.blob(&tables, &copy) }?;
            callback(&mut blob)
        });
    }

    /// Submits the job of an instruction to a host thread; the stream is blocked until it returns.
    pub(super) fn submit_to_host(
        &mut self,
        at: usize,
        point: Point,
        subject: Subject,
        job: impl FnOnce() -> WorkResult + Send + 'static,
    ) {
        let inbox = self.inbox.clone();
        let started = self.tables.host_workers.run(Box::new(move || {
            let result = catch_panic(job);
            inbox.post(Message::ExternalDone(point, result));
        }));
        match started {
            Ok(()) => {
                self.streams[at].external = Some(ExternalCompletion { subject, so_far: Ok(()) })
            }
            Err(error) => {
                self.fail(at, &subject, Cause::Error, error.to_string());
                self.launched(at, point.seq, None, None, Effect::None);
            }
        }
    }

    /// Returns the kernel by which the host copies strided tensors. It is the host's kernel for
    /// streams of any device.
    fn host_copy(&mut self, at: usize) -> anyhow::Result<Arc<dyn Kernel>> {
        self.native_stream(at)?;
        let kernel = self.tables.kernels.get("cpu", "copy").cloned();
        kernel.ok_or_else(|| anyhow::anyhow!("the host has no kernel of copy"))
    }

    /// Reads a tensor. Returns false if the stream is blocked before the read.
    pub(super) fn read(
        &mut self,
        at: usize,
        seq: u64,
        operand: HostOperand,
        subject: &Subject,
    ) -> bool {
        if let Some(cause) = subject.poison(&self.tables) {
            if self.drain_first(at) {
                return false;
            }
            subject.finish_read(&self.tables, Err(Error::of(cause)));
            self.note_outcome(at, Outcome::Skipped);
            self.launched(at, seq, None, None, Effect::None);
            return true;
        }
        let tables = self.tables.clone();
        let bytes = Arc::new(Mutex::new(None));
        let copy = self.host_copy(at);
        let progress = copy.and_then(|copy| {
            let (bytes, cancel_scope) = (bytes.clone(), self.streams[at].cancel_scope.clone());
            let mut work = ReadWork { tables, operand, copy, bytes, cancel_scope };
            Ok(self.native_stream(at)?.stream.submit(&mut work)?)
        });
        match progress {
            Ok(Progress::Pending(ticket)) => {
                let effect = Effect::Read(subject.clone(), bytes);
                self.launched(at, seq, Some(ticket), None, effect);
            }
            Ok(Progress::Done(result)) => {
                self.finish_read(at, subject, &bytes, result);
                self.launched(at, seq, None, None, Effect::None);
            }
            Err(error) => {
                self.finish_read(at, subject, &bytes, Err(error));
                self.launched(at, seq, None, None, Effect::None);
            }
        }
        true
    }

    /// Gives a host read its bytes, or the reason why there are none.
    pub(super) fn finish_read(
        &self,
        at: usize,
        subject: &Subject,
        bytes: &Mutex<Option<Vec<u8>>>,
        result: WorkResult,
    ) {
        let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = match (subject.poison(&self.tables), result, bytes) {
            (Some(cause), _, _) => Err(Error::of(cause)),
            (None, Ok(()), Some(bytes)) => Ok(bytes),
            (None, Ok(()), None) => Err(Error::Internal { message: "nothing was read".to_owned() }),
            (None, Err(error), _) => {
                let (cause, message) = cause_of(&error);
                let key = &self.streams[at].key;
                Err(Error::of(subject.failure(&self.tables, key, cause, message)))
            }
        };
        subject.finish_read(&self.tables, result);
    }
}
