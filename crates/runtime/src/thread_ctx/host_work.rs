//! Work of the host: functions of the program with a tensor's memory, and reads.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_ep::{Progress, WorkResult};
use millstream_kernels::{CompletionToken, Kernel};
use millstream_types::{Cause, Error, Point, catch_panic};

use crate::host::Callback;
use crate::profile::Outcome;
use crate::scope::cancel;
use crate::sync::inbox::Message;
use crate::tables::Tables;
use crate::tables::functions::FunctionId;
use crate::tables::run_context::CallSite;
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::apart::Apart;
use crate::thread_ctx::outcome::{cause_of, refusal_of};
use crate::thread_ctx::stream::{Effect, ExternalCompletion};
use crate::thread_ctx::subject::Subject;
use crate::thread_ctx::work::{HostOperand, ReadWork};

impl ThreadCtx {
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
            subject.drop_unused(&self.tables, &self.streams[at].key, callback);
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

    /// Lets a host thread run a function that the program pushed to an in-order stream: it may take
    /// as long as it likes, and blocks only its stream. Everything that it comes after has
    /// completed.
    pub(super) fn hand_over(
        &mut self,
        at: usize,
        point: Point,
        subject: Subject,
        function: Option<FunctionId>,
    ) {
        let native = self
            .native_stream(at)
            .and_then(|native| catch_panic(|| Ok(native.stream.share_native())));
        let gone = || Error::Internal { message: "the function no longer exists".to_owned() };
        let started = native.and_then(|native| {
            // A function that does not start stays in the table: the refusal drops it.
            let function = function.and_then(|id| self.tables.functions.take(id));
            let (machine, inbox) = (self.tables.machine, self.inbox.clone());
            let device = self.streams[at].key.device.clone();
            let cancel_scope = self.streams[at].cancel_scope.clone();
            let done = move |result| inbox.post(Message::ExternalDone(point, result));
            let apart = Apart::new(function.ok_or_else(gone)?, CompletionToken::new(done));
            self.tables.host_workers.run(Box::new(move || {
                let native: &dyn Any = native.as_ref().map_or(&(), |native| &**native);
                let site = CallSite { device: &device, native };
                apart.run(machine, cancel_scope.as_ref(), site);
            }))
        });
        match started {
            Ok(()) => {
                self.streams[at].external = Some(ExternalCompletion { subject, so_far: Ok(()) });
            }
            Err(error) => self.refused(at, point.seq, subject, refusal_of(&error)),
        }
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
        let Tables { host_copy, kernels, .. } = &*self.tables;
        let kernel = host_copy.get_or_init(|| kernels.get("cpu", "copy").cloned());
        kernel.clone().ok_or_else(|| anyhow::anyhow!("the host has no kernel of copy"))
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
