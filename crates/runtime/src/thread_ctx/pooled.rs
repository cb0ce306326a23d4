//! Instructions of pools: each is run by itself, without the order of its stream.

use std::sync::Arc;

use millstream_ep::WorkResult;
use millstream_types::{StreamId, StreamKey};

use crate::profile::recording::Recording;
use crate::scope::cancel::CancelScope;
use crate::sync::backoff::{Backoff, POLLS};
use crate::thread_ctx::task::{StoredCall, Task};
use crate::thread_ctx::{ExternalCompletion, NONE, ThreadCtx};

/// An instruction that can run, with the state of its stream at its emission.
#[derive(Debug)]
pub(crate) struct ReadyTask {
    pub(crate) number: u32,
    pub(crate) stream: StreamId,
    pub(crate) task: Task,
    pub(crate) cancel_scope: Option<Arc<CancelScope>>,
}

impl ThreadCtx {
    /// Begins or ends the recording of times, if the pools' recording is another than before.
    #[inline]
    pub(crate) fn follow_recording(&mut self, recording: Option<&Arc<Recording>>) {
        if self.recording.as_ref().map(Arc::as_ptr) != recording.map(Arc::as_ptr) {
            self.recording = recording.cloned();
            for at in 0..self.streams.len() {
                self.record_times(at, self.recording.clone());
            }
        }
    }

    /// Gives the recording the times so far: a pool's worker may not run again before its end.
    #[inline]
    pub(crate) fn deliver_samples(&mut self) {
        if self.recording.is_some() {
            let samples = self.streams.iter_mut().filter_map(|stream| stream.samples.as_mut());
            samples.for_each(|samples| samples.deliver());
        }
    }

    /// Runs an instruction whose waits are complete. Returns it if another party has yet to
    /// complete it; otherwise it has completed. The pool publishes its point.
    pub(crate) fn run_pooled(&mut self, ready: ReadyTask) -> Option<ExternalCompletion> {
        let at = self.index[ready.stream.index()] as usize;
        self.streams[at].cancel_scope = ready.cancel_scope;
        let mut task = ready.task;
        while let Some(blocked_on) = self.run(at, task) {
            self.wait_in_flight(at);
            task = blocked_on;
        }
        self.wait_in_flight(at);
        self.streams[at].external.take()
    }

    /// Runs a stored call without a scope, as [`ThreadCtx::run_pooled`] does.
    #[inline]
    pub(crate) fn call_pooled(&mut self, call: StoredCall) -> Option<ExternalCompletion> {
        let at = self.index[call.stream.index()] as usize;
        let stream = &mut self.streams[at];
        if stream.cancel_scope.is_some() {
            stream.cancel_scope = None;
        }
        let mut blocked_on = self.call_stored(at, call);
        self.wait_in_flight(at);
        while let Some(task) = blocked_on {
            blocked_on = self.run(at, task);
            self.wait_in_flight(at);
        }
        self.streams[at].external.take()
    }

    /// Waits until the instructions in flight have completed. On an asynchronous device, the worker
    /// stays with its instruction.
    #[inline]
    fn wait_in_flight(&mut self, at: usize) {
        if self.streams[at].in_flight.is_empty() {
            return;
        }
        let mut backoff = Backoff::new(POLLS);
        loop {
            self.poll(at);
            if self.streams[at].in_flight.is_empty() {
                return;
            }
            backoff.snooze();
        }
    }

    /// Completes an instruction that [`ThreadCtx::run_pooled`] returned, possibly on another
    /// worker.
    pub(crate) fn finish_pooled(&mut self, external: ExternalCompletion, result: WorkResult) {
        let Some(point) = external.subject.point() else { return };
        let at = self.index[point.stream.index()] as usize;
        self.streams[at].external = Some(external);
        self.external_done(at, point.seq, result);
    }

    /// Opens a pool's stream, before any of its instructions run or complete here.
    #[inline]
    pub(crate) fn open_pooled(&mut self, id: StreamId, key: impl FnOnce(StreamId) -> StreamKey) {
        if self.index.get(id.index()).is_none_or(|at| *at == NONE) {
            self.open(id, key(id));
            let at = self.index[id.index()] as usize;
            self.streams[at].pooled = true;
            let recording = self.recording.clone();
            self.record_times(at, recording);
        }
    }
}
