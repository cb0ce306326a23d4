//! Runs of stored lists: their instructions, renumbered and given to workers.

use std::convert::Infallible;

use smallvec::SmallVec;

use millstream_instructions::{Body, Instruction, Remap, Via};
use millstream_types::{Point, StreamId};

use crate::jobs::StoredJob;
use crate::sync::points::Milestone;
use crate::worker::task::Task;

use super::{Router, StreamScope};

impl Remap for &StreamScope {
    type Error = Infallible;

    fn point(&mut self, point: Point) -> Result<Point, Infallible> {
        Ok(StreamScope::point(self, point))
    }
}

/// One run of a stored list.
pub(super) struct StoredRun<'a> {
    pub(super) router: &'a mut Router,
    pub(super) job: &'a mut StoredJob,
    /// Which of its streams already wait for the begin of the run.
    pub(super) started: SmallVec<[bool; 8]>,
    pub(super) begun: Point,
}

impl StoredRun<'_> {
    pub(super) fn all(&mut self) {
        for k in 0..self.job.instructions.len() {
            self.route(self.job.instructions[k].clone());
        }
        for stream in &mut self.job.scope.streams {
            // The points behind gates lie within this run, which its launcher waits for as a whole.
            stream.gates.clear();
        }
    }

    fn submit(&mut self, stream: StreamId, seq: u64, task: Task) {
        let s = &mut self.job.scope.streams[stream.index()];
        let (id, worker) = (s.id, s.worker);
        let gates = std::mem::take(&mut s.gates);
        s.tail = seq;
        if !std::mem::replace(&mut self.started[stream.index()], true) {
            let cancel_scope = self.router.cancel_scope.clone();
            self.router.push(worker, Task::EnterRun(id, self.begun, cancel_scope));
        }
        for gate in gates {
            self.router.push(worker, Task::Gate(id, gate, Milestone::Completed));
        }
        self.router.push(worker, task);
    }

    /// Renumbers an instruction from the list's points to the machine's, and gives it to its
    /// worker.
    fn route(&mut self, mut instruction: Instruction) {
        let (list_point, list_until) = (instruction.body.at(), instruction.body.until());
        let Ok(()) = instruction.body.remap(&mut &self.job.scope);
        match &instruction.body {
            Body::HostObserved { points } => {
                // The maker of the list observed these points. Here every later instruction waits
                // for them.
                for stream in &mut self.job.scope.streams {
                    // On a pool, an earlier point may complete after a later instruction runs.
                    let unknown = |p: &Point| p.stream != stream.id || stream.is_pool;
                    stream.gates.extend(points.iter().copied().filter(unknown));
                }
            }
            Body::StreamWait { until, via: Via::Device(event), .. } => {
                let (until, event, origin) = (*until, *event, instruction.origin.clone());
                if let Some(source) = list_until {
                    self.submit(
                        source.stream,
                        until.seq,
                        Task::RecordForWait { until, event, origin },
                    );
                }
            }
            Body::Barrier { at } | Body::GlobalSync { at } => {
                if let Some(list_point) = list_point {
                    self.gate_barrier(list_point.stream, *at);
                }
            }
            Body::OpCall { priority, .. } => self.router.note_priority(*priority),
            Body::TouchTensors { .. }
            | Body::RecordEvent { .. }
            | Body::StreamWaitEvent { .. }
            | Body::StreamWait { via: Via::Host, .. }
            | Body::SyncRead { .. }
            | Body::CriticalSectionBegin { .. }
            | Body::CriticalSectionEnd { .. } => {}
            // These took effect, or were refused, when the list was stored.
            Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::SoftSyncStream { .. }
            | Body::AccessBlobByCallback { .. }
            | Body::LazyJobLauncher { .. } => return,
        }
        if let (Some(list_point), Some(at)) = (list_point, instruction.body.at()) {
            self.submit(list_point.stream, at.seq, Task::run(instruction));
        }
    }

    fn gate_barrier(&mut self, list_stream: StreamId, at: Point) {
        let scope = &mut self.job.scope;
        let tails: SmallVec<[Point; 8]> = scope
            .streams
            .iter()
            .filter(|s| s.id != at.stream && s.tail > s.base)
            .map(|s| Point::new(s.id, s.tail))
            .collect();
        scope.streams[list_stream.index()].gates.extend(tails);
        for stream in &mut scope.streams {
            if stream.id != at.stream {
                stream.gates.push(at);
            }
        }
    }
}
