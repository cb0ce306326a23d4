//! Events, as users hold them.

use std::fmt;
use std::sync::Arc;

use millstream_instructions::builder::EventRef;
use millstream_types::{Origin, Result};

use crate::emission::Release;
use crate::machine::Machine;

use super::Completion;

pub(super) struct EventInner {
    pub(super) machine: Machine,
    pub(super) event: EventRef,
}

impl Drop for EventInner {
    fn drop(&mut self) {
        self.machine.shared.release(Release::Event(self.event.clone()));
    }
}

/// A mark in a stream's order. Clones are the same event.
#[derive(Clone)]
pub struct Event {
    pub(super) inner: Arc<EventInner>,
}

impl Event {
    pub(crate) fn new(machine: Machine, event: EventRef) -> Event {
        Event { inner: Arc::new(EventInner { machine, event }) }
    }

    /// Whether the record, and all before it on its stream, has completed. Never blocks.
    pub fn query(&self) -> bool {
        self.inner.machine.shared.query(self.inner.event.at)
    }

    /// Blocks until the record has completed.
    ///
    /// # Errors
    /// Why the first instruction on the stream, up to the record, failed or was skipped since
    /// failures were last cleared.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.completion().wait_from(None, Origin::caller())
    }

    /// The record, to be waited for with a time-out or as a future.
    pub fn completion(&self) -> Completion {
        self.inner.machine.completion(self.inner.event.at)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.inner.event.at)
    }
}
