//! Instructions of pools: each is run by itself, as its own.

use millstream_ep::WorkResult;
use millstream_types::{StreamId, StreamKey};

use crate::pool::ReadyTask;
use crate::sync::sleep;
use crate::worker::task::StoredCall;
use crate::worker::{ExternalCompletion, NONE, Worker};

use super::POLL;

impl Worker {
    /// Runs an instruction that all has been waited for. Returns it if somebody else has yet to
    /// complete it; otherwise it has completed. Where its place
    /// is to be published, the pool knows.
    pub(crate) fn run_pooled(&mut self, ready: ReadyTask) -> Option<ExternalCompletion> {
        let at = self.index[ready.stream.index()] as usize;
        let stream = &mut self.streams[at];
        (stream.cancel_scope, stream.launcher) = (ready.cancel_scope, ready.launcher);
        let mut task = ready.task;
        while let Some(blocked_on) = self.run(at, task) {
            self.wait_in_flight(at);
            task = blocked_on;
        }
        self.wait_in_flight(at);
        self.streams[at].external.take()
    }

    /// As [`Worker::run_pooled`], of a stored call with nothing context it.
    #[inline]
    pub(crate) fn call_pooled(&mut self, call: StoredCall) -> Option<ExternalCompletion> {
        let at = self.index[call.stream.index()] as usize;
        let stream = &mut self.streams[at];
        if stream.cancel_scope.is_some() {
            stream.cancel_scope = None;
        }
        stream.launcher = None;
        let mut blocked_on = self.call_stored(at, call);
        self.wait_in_flight(at);
        while let Some(task) = blocked_on {
            blocked_on = self.run(at, task);
            self.wait_in_flight(at);
        }
        self.streams[at].external.take()
    }

    /// Where the device runs by itself, the worker stays with what it was given.
    #[inline]
    fn wait_in_flight(&mut self, at: usize) {
        while !self.streams[at].in_flight.is_empty() {
            self.poll(at);
            if !self.streams[at].in_flight.is_empty() {
                sleep(POLL);
            }
        }
    }

    /// Completes what [`Worker::run_pooled`] returned, also on another worker.
    pub(crate) fn finish_pooled(&mut self, external: ExternalCompletion, result: WorkResult) {
        let Some(point) = external.instruction.body.at() else { return };
        let at = self.index[point.stream.index()] as usize;
        self.streams[at].external = Some(external);
        self.external_done(at, point.seq, result);
    }

    /// Makes a pool's stream known, before anything of it is run or finished here.
    #[inline]
    pub(crate) fn open_pooled(&mut self, id: StreamId, key: impl FnOnce(StreamId) -> StreamKey) {
        if self.index.get(id.index()).is_none_or(|at| *at == NONE) {
            self.open(id, key(id));
            let at = self.index[id.index()] as usize;
            self.streams[at].pooled = true;
        }
    }
}
