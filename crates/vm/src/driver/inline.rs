//! One core on the caller's thread, in program order: the reference for all other drivers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::tables::Engine;
use crate::worker::Core;
use crate::worker::POLL;
use crate::worker::inbox::Inbox;
use crate::worker::task::Task;

/// The caller's thread.
#[derive(Default)]
pub(crate) struct Inline {
    core: Option<Core>,
    inbox: Arc<Inbox>,
    tasks: VecDeque<Task>,
}

impl Inline {
    pub(super) fn push(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    /// Runs all that can run now. Returns whether there was anything.
    pub(super) fn advance(&mut self, engine: &Arc<Engine>) -> bool {
        let mut moved = false;
        let core = self.core.get_or_insert_with(|| Core::new(engine.clone(), self.inbox.clone()));
        loop {
            while let Some(task) = self.tasks.pop_front() {
                core.accept(task);
                moved = true;
            }
            core.flush();
            let heard = core.hear() | core.poll_devices();
            core.flush();
            if heard {
                moved = true;
                continue;
            }
            // Program order: what comes next comes after the function has returned.
            if core.is_hosting() && engine.host_workers.waiting() > 0 {
                engine.host_workers.run_waiting(0);
                moved = true;
                continue;
            }
            return moved;
        }
    }

    /// Waits for news from devices or host functions. Returns whether any came in time, and
    /// whether there may be something to do.
    pub(super) fn wait_for_news(&mut self, timeout: Duration) -> (bool, bool) {
        let polled = self.core.as_ref().is_some_and(Core::must_poll);
        // A device that does not tell by itself is asked as often as a worker asks it.
        let patience = if polled { timeout.min(POLL) } else { timeout };
        let came = self.inbox.wait_for_news(patience);
        (came, came || polled)
    }
}
