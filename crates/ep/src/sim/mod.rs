//! A simulated asynchronous device. It runs the host's kernels on the host's memory, but completes
//! commands after their submission, when the simulation decides.
//!
//! # When commands complete
//! - [`Completion::ByHand`]: a command runs when a [`SimControl`] steps it. A test can thus choose
//!   every interleaving of streams that a real device could produce.
//! - [`Completion::IssueOrder`]: the commands of a device run in the order of submission, whenever
//!   one of its streams is polled or one of its events is queried. They never run inside `submit`.
//!
//! In both modes a command runs on the thread that steps, polls or queries, outside every lock of
//! the device, and at most one command of a stream runs at a time. A wait whose record has not run
//! blocks its stream and no other one.
//!
//! A dropped stream leaves its commands on the device: they may still run, as they would on real
//! hardware, but their completions are not reported.
//!
//! # Time
//! The clock of a device advances by a microsecond with each command that it completes. The times
//! of records ([`Event::since`](crate::device::Event::since)) therefore depend on the order of
//! commands alone.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `simulation`, `state` | all devices behind one lock, and the steps that change them |
//! | `control` | observation and control by tests |
//! | `device`, `stream`, `event` | the device traits |

mod control;
mod device;
mod event;
mod simulation;
mod state;
mod stream;

use std::fmt;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::device::{Backend, Capabilities, Device};

pub use control::{Command, CommandKind, SimControl, SimStats, SimStreamId, StreamView};
pub use device::SimDevice;

const CAPABILITIES: Capabilities = Capabilities {
    asynchronous: true,
    device_waits: true,
    notifies: true,
    host_memory: true,
    timestamps: true,
    graphs: false,
};

/// When the commands of simulated devices complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// When a [`SimControl`] steps them.
    ByHand,
    /// In the order of submission, at the next poll or query.
    IssueOrder,
}

/// The configuration of simulated devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// The number of devices.
    pub devices: u32,
    /// The memory of each device in bytes: its total, and a machine's default limit.
    pub memory_limit: u64,
    /// When commands complete.
    pub completion: Completion,
    /// Whether devices copy directly from one another's memory. If false, such copies go through
    /// host memory.
    pub direct_copies: bool,
    /// Whether streams wait on the device for events of other devices. If false, the host waits.
    pub direct_waits: bool,
}

impl Default for SimConfig {
    /// Returns the configuration of one device with 1 GiB that completes commands in issue order.
    fn default() -> SimConfig {
        SimConfig {
            devices: 1,
            memory_limit: 1 << 30,
            completion: Completion::IssueOrder,
            direct_copies: false,
            direct_waits: false,
        }
    }
}

/// The backend of kind `sim`. Opening a device again returns the same device.
pub struct SimBackend {
    simulation: Arc<simulation::Simulation>,
    devices: Vec<Arc<SimDevice>>,
    direct_copies: bool,
}

impl SimBackend {
    /// Creates the devices, without streams.
    pub fn new(config: SimConfig) -> SimBackend {
        let simulation = simulation::Simulation::new(&config);
        let devices = (0..config.devices).map(|k| Arc::new(SimDevice::new(k, simulation.clone())));
        SimBackend { devices: devices.collect(), simulation, direct_copies: config.direct_copies }
    }

    /// Returns a handle that observes and controls the devices. All handles are equivalent.
    pub fn control(&self) -> SimControl {
        SimControl::new(self.simulation.clone())
    }
}

impl Backend for SimBackend {
    fn kind(&self) -> &str {
        "sim"
    }

    fn count(&self) -> Result<u32> {
        Ok(self.devices.len() as u32)
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn copies_directly(&self, _: u32, _: u32) -> bool {
        self.direct_copies
    }

    fn waits_directly(&self, _: u32, _: u32) -> bool {
        self.simulation.direct_waits
    }

    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        let Some(device) = self.devices.get(index as usize) else {
            let message = format!("there are {} simulated devices", self.devices.len());
            return Err(Error::Device { device: DeviceId::sim(index), message });
        };
        Ok(device.clone())
    }
}

impl fmt::Debug for SimBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimBackend").field("devices", &self.devices.len()).finish()
    }
}
