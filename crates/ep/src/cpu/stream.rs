//! A stream of the host: runs work inside `submit`.

use std::any::Any;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result, catch_panic};

use crate::device::{Event, Progress, Stream, Ticket, Work, WorkResult};

/// A stream of `cpu:0`.
#[derive(Debug)]
pub(crate) struct CpuStream {
    device: DeviceId,
}

impl CpuStream {
    pub(crate) fn new(device: DeviceId) -> CpuStream {
        CpuStream { device }
    }

    /// Returns the error for any event: the host has none, so it belongs to another device.
    fn foreign_event(&self) -> Error {
        let message = format!("it belongs to another device; {} has no events", self.device);
        Error::Invalid { what: "event", message }
    }
}

impl Stream for CpuStream {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        // Host kernels launch nothing, so they get no native stream.
        Ok(Progress::Done(catch_panic(|| work.run(&()))))
    }

    fn direct(&self) -> Option<&dyn Any> {
        Some(&())
    }

    fn record(&mut self, _event: &Arc<dyn Event>) -> Result<Progress> {
        Err(self.foreign_event())
    }

    fn wait(&mut self, _event: &Arc<dyn Event>) -> Result<Progress> {
        Err(self.foreign_event())
    }

    fn poll(&mut self, _done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        Ok(())
    }
}
