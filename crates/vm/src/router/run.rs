//! Stored lists, moved from their own numbers to the machine's.

use std::convert::Infallible;

use smallvec::SmallVec;

use millstream_instructions::{Body, Instruction, Remap, Via};
use millstream_types::{Point, StreamId};

use crate::job::StoredJob;
use crate::points::Mark;
use crate::task::Task;

use super::{Router, Scope};

impl Remap for &Scope {
    type Error = Infallible;

    fn point(&mut self, point: Point) -> Result<Point, Infallible> {
        Ok(Scope::point(self, point))
    }
}

/// One run of a stored list.
pub(super) struct JobRun<'a> {
    pub(super) router: &'a mut Router,
    pub(super) job: &'a mut StoredJob,
    /// Which of its streams wait for the begin already.
    pub(super) started: SmallVec<[bool; 8]>,
    pub(super) begun: Point,
}

impl JobRun<'_> {
    pub(super) fn all(&mut self) {
        for k in 0..self.job.instructions.len() {
            self.route(self.job.instructions[k].clone());
        }
        for stream in &mut self.job.scope.streams {
            // What a gate stands for is within this run, which is waited for as a whole.
            stream.gates.clear();
        }
    }

    fn give(&mut self, stream: StreamId, seq: u64, task: Task) {
        let s = &mut self.job.scope.streams[stream.index()];
        let (id, worker) = (s.id, s.worker);
        let gates = std::mem::take(&mut s.gates);
        s.tail = seq;
        if !std::mem::replace(&mut self.started[stream.index()], true) {
            let within = self.router.within.clone();
            self.router.push(worker, Task::Enter(id, self.begun, within));
        }
        for gate in gates {
            self.router.push(worker, Task::Hold(id, gate, Mark::Completed));
        }
        self.router.push(worker, task);
    }

    /// Moves an instruction from the list's numbers to the machine's, and gives it to its worker.
    fn route(&mut self, mut instruction: Instruction) {
        let (list_point, list_until) = (instruction.body.at(), instruction.body.until());
        let Ok(()) = instruction.body.remap(&mut &self.job.scope);
        match &instruction.body {
            Body::HostObserved { points } => {
                // Who made the list had seen them pass; here everything later waits for them.
                for stream in &mut self.job.scope.streams {
                    // On a pool an earlier place is not passed because a later one runs.
                    let unknown = |p: &Point| p.stream != stream.id || stream.is_pool;
                    stream.gates.extend(points.iter().copied().filter(unknown));
                }
            }
            Body::StreamWait { until, via: Via::Device(event), .. } => {
                let (until, event, origin) = (*until, *event, instruction.origin.clone());
                if let Some(source) = list_until {
                    self.give(source.stream, until.seq, Task::Record { until, event, origin });
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
            // Taken effect, or refused, when the list was stored.
            Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::SoftSyncStream { .. }
            | Body::AccessBlobByCallback { .. }
            | Body::LazyJobLauncher { .. } => return,
        }
        if let (Some(list_point), Some(at)) = (list_point, instruction.body.at()) {
            self.give(list_point.stream, at.seq, Task::run(instruction));
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
