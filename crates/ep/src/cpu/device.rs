//! The host as a device.

use std::any::Any;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::account::Account;
use crate::cpu::stream::CpuStream;
use crate::device::{Capabilities, Device, Event, Memory, Notify, Stream};
use crate::host_memory::HostMemory;

/// The device `cpu:0`.
#[derive(Debug)]
pub struct CpuDevice {
    id: DeviceId,
    account: Arc<Account>,
    default_limit: u64,
}

impl CpuDevice {
    pub(crate) fn new(account: Arc<Account>, default_limit: u64) -> CpuDevice {
        CpuDevice { id: DeviceId::cpu(0), account, default_limit }
    }
}

impl Device for CpuDevice {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        super::CAPABILITIES
    }

    fn kernel_kind(&self) -> &str {
        "cpu"
    }

    fn default_memory_limit(&self) -> u64 {
        self.default_limit
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        Ok(Box::new(HostMemory::new(bytes, &self.account, &self.id)?))
    }

    fn create_stream(&self, _notify: Notify) -> Result<Box<dyn Stream>> {
        Ok(Box::new(CpuStream::new(self.id.clone())))
    }

    fn create_event(&self) -> Result<Arc<dyn Event>> {
        let message = format!("{} has no events: its commands complete at once", self.id);
        Err(Error::Invalid { what: "event", message })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
