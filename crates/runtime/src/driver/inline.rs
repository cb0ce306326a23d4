//! One worker on the caller's thread, in program order: the reference for all other drivers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use millstream_stream_policy::WorkerGroup;

use crate::scope::reentrancy;
use crate::sync::inbox::Inbox;
use crate::tables::Tables;
use crate::thread_ctx::POLL;
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::task::{StoredCall, Task};

/// The inline driver.
#[derive(Default)]
pub struct Inline {
    worker: Option<ThreadCtx>,
    inbox: Arc<Inbox>,
    tasks: VecDeque<Task>,
}

impl Inline {
    pub(super) fn push(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    /// Makes a stored call at once if all earlier tasks were taken, which is so but for the first
    /// call of a machine and for calls of an emission that has more instructions.
    #[inline]
    pub(crate) fn call(&mut self, tables: &Tables, call: StoredCall) {
        match &mut self.worker {
            Some(worker) if self.tasks.is_empty() => {
                reentrancy::enter(tables.machine, || worker.accept_call(call));
            }
            _ => self.tasks.push_back(Task::Call(call)),
        }
    }

    /// Runs everything that can run now. Returns whether there was anything.
    pub(super) fn advance(&mut self, tables: &Arc<Tables>) -> bool {
        let mut moved = false;
        let worker = self.worker.get_or_insert_with(|| {
            ThreadCtx::new(tables.clone(), self.inbox.clone(), WorkerGroup::Host)
        });
        loop {
            while let Some(task) = self.tasks.pop_front() {
                match task {
                    Task::Call(call) => worker.accept_call(call),
                    other => worker.accept(other),
                }
                moved = true;
            }
            worker.flush();
            if !worker.awaits_others() {
                return moved;
            }
            if worker.poll_inbox() | worker.poll_devices() {
                worker.flush();
                moved = true;
                continue;
            }
            // Program order: the next instruction comes after the function has returned.
            if worker.awaits_external() && tables.host_workers.waiting() > 0 {
                tables.host_workers.run_waiting(0);
                moved = true;
                continue;
            }
            return moved;
        }
    }

    /// Returns whether nothing can run before another rank or the program acts, after nothing could
    /// run.
    pub(super) fn is_quiet(&self, tables: &Tables) -> bool {
        self.worker.as_ref().is_none_or(ThreadCtx::is_quiet) && tables.host_workers.waiting() == 0
    }

    /// Waits for messages from devices or host functions. Returns whether any came in time, and
    /// whether there may be work.
    pub(super) fn wait_for_messages(&mut self, timeout: Duration) -> (bool, bool) {
        let polled = self.worker.as_ref().is_some_and(ThreadCtx::must_poll);
        // A device that sends no notifications is polled as often as a worker thread polls it.
        let patience = if polled { timeout.min(POLL) } else { timeout };
        let came = self.inbox.wait_for_messages(patience);
        (came, came || polled)
    }
}
