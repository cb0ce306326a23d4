//! Instructions of pools: each is run by itself, as its own.

use millstream_ep::WorkResult;
use millstream_types::{StreamId, StreamKey};

use crate::pool::Job;
use crate::sync::sleep;
use crate::worker::task::StoredCall;
use crate::worker::{Core, Hosting, NONE};

use super::POLL;

impl Core {
    /// Runs an instruction that all has been waited for. Returns it if somebody else has yet to
    /// complete it; otherwise it has completed. Where its place
    /// is to be published, the pool knows.
    pub(crate) fn run_pooled(&mut self, job: Job) -> Option<Hosting> {
        let at = self.index[job.lane.index()] as usize;
        let lane = &mut self.lanes[at];
        (lane.within, lane.launcher) = (job.within, job.launcher);
        let mut task = job.task;
        while let Some(held) = self.run(at, task) {
            self.land(at);
            task = held;
        }
        self.land(at);
        self.lanes[at].hosting.take()
    }

    /// As [`Core::run_pooled`], of a stored call with nothing around it.
    #[inline]
    pub(crate) fn call_pooled(&mut self, call: StoredCall) -> Option<Hosting> {
        let at = self.index[call.stream.index()] as usize;
        let lane = &mut self.lanes[at];
        if lane.within.is_some() {
            lane.within = None;
        }
        lane.launcher = None;
        let mut held = self.call_stored(at, call);
        self.land(at);
        while let Some(task) = held {
            held = self.run(at, task);
            self.land(at);
        }
        self.lanes[at].hosting.take()
    }

    /// Where the device runs by itself, the worker stays with what it was given.
    #[inline]
    fn land(&mut self, at: usize) {
        while !self.lanes[at].flying.is_empty() {
            self.poll(at);
            if !self.lanes[at].flying.is_empty() {
                sleep(POLL);
            }
        }
    }

    /// Completes what [`Core::run_pooled`] returned, also on another worker.
    pub(crate) fn finish_pooled(&mut self, hosting: Hosting, result: WorkResult) {
        let Some(point) = hosting.instruction.body.at() else { return };
        let at = self.index[point.stream.index()] as usize;
        self.lanes[at].hosting = Some(hosting);
        self.host_done(at, point.seq, result);
    }

    /// Makes a pool's stream known, before anything of it is run or finished here.
    #[inline]
    pub(crate) fn open_pooled(&mut self, id: StreamId, key: impl FnOnce(StreamId) -> StreamKey) {
        if self.index.get(id.index()).is_none_or(|at| *at == NONE) {
            self.open(id, key(id));
            let at = self.index[id.index()] as usize;
            self.lanes[at].pooled = true;
        }
    }
}
