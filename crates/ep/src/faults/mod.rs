//! Faults on purpose: a backend that wraps another, and fails where a [`FaultPlan`] says.
//!
//! A first run with a plan without faults counts the calls; each number up to that count is then a
//! position at which a fault can strike, so that a test can try them all:
//!
//! ```
//! use std::sync::Arc;
//! use millstream_ep::faults::{Fault, FaultPlan, FaultyBackend, Site};
//! use millstream_ep::sim::{SimBackend, SimConfig};
//! use millstream_ep::Backend;
//!
//! let plan = FaultPlan::once(Fault::Allocation, 2);
//! let sim = Arc::new(SimBackend::new(SimConfig::default()));
//! let device = FaultyBackend::new(sim, plan.clone()).open(0)?;
//! assert!(device.allocate(512).is_ok());
//! assert!(device.allocate(512).is_err());
//! assert!(device.allocate(512).is_ok());
//! assert_eq!((plan.count(Site::Allocation), plan.struck()), (3, 1));
//! # Ok::<(), millstream_types::Error>(())
//! ```
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `plan` | what fails and when |
//! | `state` | what is lost or stuck |
//! | `stream` | streams, events and works |

mod plan;
mod state;
mod stream;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{DeviceId, Error, Result};

use crate::device::{Backend, Capabilities, Device, Event, Memory, Notify, Stream};

pub use plan::{Fault, FaultPlan, Site};

use state::DeviceState;
use stream::{FaultyEvent, FaultyStream};

/// A backend like the one that it wraps, of the same kind, but for the faults of its plan.
pub struct FaultyBackend {
    inner: Arc<dyn Backend>,
    plan: FaultPlan,
    /// By index: a device opened twice is lost in both.
    devices: Mutex<HashMap<u32, Arc<DeviceState>>>,
}

impl FaultyBackend {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Backend>, plan: FaultPlan) -> FaultyBackend {
        FaultyBackend { inner, plan, devices: Mutex::default() }
    }
}

impl Backend for FaultyBackend {
    fn kind(&self) -> &str {
        self.inner.kind()
    }

    fn count(&self) -> Result<u32> {
        self.inner.count()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn copies_directly(&self, to: u32, from: u32) -> bool {
        self.inner.copies_directly(to, from)
    }

    fn waits_directly(&self, waiter: u32, source: u32) -> bool {
        self.inner.waits_directly(waiter, source)
    }

    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        let inner = self.inner.open(index)?;
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let state = devices.entry(index).or_insert_with(|| {
            let asynchronous = inner.capabilities().asynchronous;
            DeviceState::new(inner.id().clone(), self.plan.clone(), asynchronous)
        });
        Ok(Arc::new(FaultyDevice { inner, state: state.clone() }))
    }
}

impl fmt::Debug for FaultyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyBackend")
            .field("kind", &self.kind())
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

struct FaultyDevice {
    inner: Arc<dyn Device>,
    state: Arc<DeviceState>,
}

impl Device for FaultyDevice {
    fn id(&self) -> &DeviceId {
        self.inner.id()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn kernel_kind(&self) -> &str {
        self.inner.kernel_kind()
    }

    fn default_memory_limit(&self) -> u64 {
        self.inner.default_memory_limit()
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        let fault = self.state.at(Site::Allocation);
        self.state.check()?;
        if fault.is_some() {
            return Err(Error::OutOfMemory {
                device: self.id().clone(),
                purpose: "an allocation that is to fail".to_owned(),
                wanted: bytes as u64,
                in_use: 0,
                limit: self.default_memory_limit(),
                holders: Vec::new(),
            });
        }
        self.inner.allocate(bytes)
    }

    fn create_stream(&self, notify: Notify) -> Result<Box<dyn Stream>> {
        let fault = self.state.at(Site::Stream);
        self.state.check()?;
        if fault.is_some() {
            return Err(self.state.error("opens no stream"));
        }
        let stream = self.inner.create_stream(notify.clone())?;
        self.state.tell(notify);
        Ok(Box::new(FaultyStream::new(stream, self.state.clone())))
    }

    fn create_event(&self) -> Result<Arc<dyn Event>> {
        let fault = self.state.at(Site::Event);
        self.state.check()?;
        if fault.is_some() {
            return Err(self.state.error("makes no event"));
        }
        let inner = self.inner.create_event()?;
        let stuck = AtomicBool::new(false);
        Ok(Arc::new(FaultyEvent { inner, device: self.state.clone(), stuck }))
    }

    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
}
