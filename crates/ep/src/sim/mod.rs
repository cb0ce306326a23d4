//! A simulated asynchronous device. It computes with the host's kernels on the host's memory, but
//! completes commands when it is told to, not when it is handed them.
//!
//! # When commands complete
//! - [`Completion::ByHand`]: nothing runs until a [`SimControl`] steps it. A test so decides every
//!   interleaving of streams that a real device might show.
//! - [`Completion::IssueOrder`]: the commands of a device run in the order they were handed over,
//!   whenever one of its streams is polled or one of its events is queried. Never in `submit`.
//!
//! Either way a command runs on the thread that steps, polls or queries, outside every lock of the
//! device, and at most one command of a stream runs at a time. A wait whose record has not run
//! blocks its stream, and only that.
//!
//! A stream that is dropped leaves its commands to the device: they may still run, as they would on
//! real hardware, but nobody is told.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `simulation`, `state` | all devices behind one lock, and the steps that change them |
//! | `control` | what a test sees and steers |
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
};

/// When the commands of simulated devices complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// When a [`SimControl`] steps them.
    ByHand,
    /// In the order they were handed over, at the next poll or query.
    IssueOrder,
}

/// What to simulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// How many devices there are.
    pub devices: u32,
    /// The memory of each in bytes: the default limit of a machine, and all there is.
    pub memory_limit: u64,
    /// When commands complete.
    pub completion: Completion,
    /// Whether devices copy from one another's memory where it lies. If not, such copies go by way
    /// of the host.
    pub direct_copies: bool,
    /// Whether streams wait on the device for events of other devices. If not, the host waits.
    pub direct_waits: bool,
}

impl Default for SimConfig {
    /// One device with 1 GiB that completes commands in the order of issue.
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

/// The backend of kind `sim`. A device opened twice is the same device.
pub struct SimBackend {
    simulation: Arc<simulation::Simulation>,
    devices: Vec<Arc<SimDevice>>,
    direct_copies: bool,
}

impl SimBackend {
    /// New devices, of which none has a stream.
    pub fn new(config: SimConfig) -> SimBackend {
        let simulation = simulation::Simulation::new(&config);
        let devices = (0..config.devices).map(|k| Arc::new(SimDevice::new(k, simulation.clone())));
        SimBackend { devices: devices.collect(), simulation, direct_copies: config.direct_copies }
    }

    /// A handle that sees and steers the devices. There may be many; they are all the same.
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
