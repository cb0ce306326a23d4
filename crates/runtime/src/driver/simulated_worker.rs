//! A worker of a simulated machine: each of its actions is a step.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_stream_policy::WorkerGroup;
use millstream_types::StreamId;
use rustc_hash::FxHashMap;

use crate::pool::{MachineContext, Scheduler};
use crate::sync::inbox::Inbox;
use crate::tables::Tables;
use crate::thread_ctx::task::Task;
use crate::thread_ctx::{Progress, ThreadCtx};

use super::log::Log;

/// A worker, with its queue and inbox.
pub(super) struct SimulatedWorker {
    pub(super) worker: ThreadCtx,
    pub(super) inbox: Arc<Inbox>,
    pub(super) tasks: VecDeque<Task>,
    /// The progress of each stream that the log has noted.
    logged: FxHashMap<StreamId, Progress>,
    /// The bookkeeping of the pools, if this stands for the workers of all pools.
    pub(super) pools: Option<Box<Scheduler>>,
}

impl SimulatedWorker {
    /// Returns a worker without streams.
    pub(super) fn new(tables: &Arc<Tables>, group: WorkerGroup) -> SimulatedWorker {
        let inbox: Arc<Inbox> = Arc::default();
        SimulatedWorker {
            worker: ThreadCtx::new(tables.clone(), inbox.clone(), group),
            inbox,
            tasks: VecDeque::new(),
            logged: FxHashMap::default(),
            pools: None,
        }
    }

    pub(super) fn accept(&mut self, task: Task, tables: &Tables) {
        match &mut self.pools {
            Some(pools) => pools.accept(task, &MachineContext { tables, inbox: &self.inbox }),
            None => self.worker.accept(task),
        }
    }

    pub(super) fn poll_inbox(&mut self, tables: &Tables) {
        let Some(pools) = &mut self.pools else { return self.worker.poll_inbox_once() };
        if let Some(messages) = self.inbox.take_one() {
            pools.handle(
                messages,
                &mut self.worker,
                &MachineContext { tables, inbox: &self.inbox },
            );
        }
    }

    /// Runs one of the pools' ready instructions.
    pub(super) fn run(&mut self, which: usize, tables: &Tables, log: &mut Log) {
        let Some(pools) = &mut self.pools else { return };
        let Some(ready) = pools.any(which) else { return };
        log.step(format_args!("a worker of the pools runs {}", ready.task.name()));
        let (number, stream) = (ready.number, ready.stream);
        self.worker.open_pooled(stream, |stream| pools.key(stream).clone());
        let context = MachineContext { tables, inbox: &self.inbox };
        match self.worker.run_pooled(ready) {
            None => pools.ran(number, stream, &context),
            Some(external) => pools.register_external(number, external, &mut self.worker, &context),
        }
    }

    /// Wakes all waiters, and logs the changes.
    pub(super) fn end_step(&mut self, tables: &Tables, log: &mut Log) {
        match &mut self.pools {
            Some(pools) => pools.flush(&MachineContext { tables, inbox: &self.inbox }),
            None => self.worker.flush(),
        }
        let SimulatedWorker { worker, logged, .. } = self;
        worker.each_progress(|stream, now| {
            let before = logged.insert(stream, now).unwrap_or_else(|| {
                log.note(format_args!("{stream} opens"));
                Progress::default()
            });
            if now.launched > before.launched && now.launched > now.completed {
                log.note(format_args!("{stream} launched {}", now.launched));
            }
            if now.completed > before.completed {
                log.note(format_args!("{stream} completed {}", now.completed));
            }
            match (before.blocked, now.blocked) {
                (false, true) => log.note(format_args!("{stream} is blocked")),
                (true, false) => log.note(format_args!("{stream} continues")),
                _ => {}
            }
        });
    }
}
