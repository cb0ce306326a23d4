//! Pauses of workers between tasks.

use crate::sync::inbox::Inbox;
use crate::sync::{spin_loop, spins};
use crate::tables::Tables;

/// How many pauses a worker makes once it has taken all tasks of its queue, before it polls the
/// queue again: one or two microseconds, the time of a few calls. A poll takes the cache line of
/// the queue's counter from a submitter that is about to write it, so it lets some tasks
/// accumulate. A thread that waits for a result ends the pauses.
pub(crate) const PAUSES: u32 = spins(200);

/// Lets a submitter proceed that has just submitted something. Ends early if there is a message or
/// a thread of the program waits.
pub(crate) fn pause(pauses: u32, inbox: &Inbox, tables: &Tables) {
    for _ in 0..pauses {
        if inbox.has_messages() || tables.is_awaited() {
            return;
        }
        spin_loop();
    }
}
