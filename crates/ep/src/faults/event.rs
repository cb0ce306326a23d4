//! An event whose newest record may never complete.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_types::{Error, Result};

use crate::device::Event;

use super::state::FaultState;

/// An event of a faulty device.
pub(super) struct FaultyEvent {
    pub(super) inner: Arc<dyn Event>,
    pub(super) state: Arc<FaultState>,
    /// Whether the newest record is on a stream that never completes.
    pub(super) stuck: AtomicBool,
}

impl FaultyEvent {
    /// Returns `event` as an event of a faulty device. The wrapped backend checks whether a stream
    /// can wait for an event of that device.
    ///
    /// # Errors
    /// The event belongs to another backend.
    pub(super) fn downcast(event: &Arc<dyn Event>) -> Result<&FaultyEvent> {
        event.as_any().downcast_ref::<FaultyEvent>().ok_or_else(|| Error::Invalid {
            what: "event",
            message: "it belongs to another backend".to_owned(),
        })
    }
}

impl Event for FaultyEvent {
    fn query(&self) -> Result<bool> {
        self.state.check()?;
        Ok(!self.stuck.load(Ordering::SeqCst) && self.inner.query()?)
    }

    fn since(&self, earlier: &dyn Event) -> Result<Option<f64>> {
        match earlier.as_any().downcast_ref::<FaultyEvent>() {
            Some(earlier) => self.inner.since(&*earlier.inner),
            None => Ok(None),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
