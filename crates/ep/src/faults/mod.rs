//! Fault injection: a backend that wraps another one and fails as a [`FaultPlan`] says.
//!
//! A test first runs with a plan without faults, which counts the calls. Each number up to that
//! count is a position for the fault, and the test tries them all:
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
//! assert_eq!((plan.count(Site::Allocation), plan.triggered()), (3, 1));
//! # Ok::<(), millstream_types::Error>(())
//! ```
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `plan` | which calls fail, and how |
//! | `state` | whether a device is lost or stuck |
//! | `device`, `stream`, `event` | the wrapped device traits |
//! | `work` | work that fails as planned |

mod device;
mod event;
mod graph;
mod plan;
mod state;
mod stream;
mod work;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::Result;

use crate::device::{Backend, Capabilities, Device};

pub use plan::{Fault, FaultPlan, Site};

use device::FaultyDevice;
use state::FaultState;

/// A backend that behaves as the wrapped one, of the same kind, except for the planned faults.
pub struct FaultyBackend {
    inner: Arc<dyn Backend>,
    plan: FaultPlan,
    /// By index. A device that is opened twice has one state.
    devices: Mutex<HashMap<u32, Arc<FaultState>>>,
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
            FaultState::new(inner.id().clone(), self.plan.clone(), asynchronous)
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
