//! A stream of the host: runs what it is given before it returns.

use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::device::{Event, Progress, Stream, Ticket, Work, WorkResult};
use crate::run::run_caught;

/// A stream of `cpu:0`.
#[derive(Debug)]
pub(crate) struct CpuStream {
    device: DeviceId,
}

impl CpuStream {
    pub(crate) fn new(device: DeviceId) -> CpuStream {
        CpuStream { device }
    }

    /// The device makes no events, so any event is another's.
    fn foreign(&self) -> Error {
        let message = format!("it belongs to another device; {} has no events", self.device);
        Error::Invalid { what: "event", message }
    }
}

impl Stream for CpuStream {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        // Host kernels launch nothing, so there is no native stream to hand them.
        Ok(Progress::Done(run_caught(work, &())))
    }

    fn record(&mut self, _event: &Arc<dyn Event>) -> Result<Progress> {
        Err(self.foreign())
    }

    fn wait(&mut self, _event: &Arc<dyn Event>) -> Result<Progress> {
        Err(self.foreign())
    }

    fn poll(&mut self, _done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        Ok(())
    }
}
