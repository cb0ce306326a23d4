//! The places of new tensors.

use std::sync::Arc;

use millstream_types::{DeviceId, Result, Sharding, StreamKey};

use crate::handle::machine::Machine;
use crate::handle::{Stream, Tensor, innermost_on};

/// A place of a new tensor: a machine (its current stream), a stream, a machine and a device (that
/// device's stream), a machine and a sharding (the ranks of its mesh), or a tensor (beside it; for
/// a global one, whole on every rank of its mesh).
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::DeviceId;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let s = machine.current_stream()?;
/// let device = DeviceId::cpu(0);
/// let x = Tensor::arange(0..3, &machine)?; // on the machine's current stream
/// let y = Tensor::arange(0..3, &s)?; // on a stream
/// let z = Tensor::arange(0..3, (&machine, &device))?; // on a device
/// let beside = Tensor::arange(0..3, &x)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait Place {
    /// Returns the machine.
    fn machine(&self) -> &Machine;

    /// Returns the stream that makes the tensor, in whose memory it will lie.
    ///
    /// # Errors
    /// There is no such device.
    fn stream(&self) -> Result<Stream>;

    /// Returns how the ranks of a mesh hold the tensor; `None` for a tensor of this rank.
    fn sharding(&self) -> Option<Arc<Sharding>> {
        None
    }
}

impl Place for Machine {
    fn machine(&self) -> &Machine {
        self
    }

    fn stream(&self) -> Result<Stream> {
        self.current_stream()
    }
}

impl Place for Stream {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn stream(&self) -> Result<Stream> {
        Ok(self.clone())
    }
}

impl Place for (&Machine, &DeviceId) {
    fn machine(&self) -> &Machine {
        self.0
    }

    fn stream(&self) -> Result<Stream> {
        let (machine, device) = *self;
        let scope = innermost_on(machine, device);
        scope.map_or_else(|| machine.stream(&StreamKey::compute(device.clone(), 0)), Ok)
    }
}

impl Place for Tensor {
    fn machine(&self) -> &Machine {
        Tensor::machine(self)
    }

    fn stream(&self) -> Result<Stream> {
        Tensor::stream(self)
    }

    fn sharding(&self) -> Option<Arc<Sharding>> {
        let global = self.global()?;
        Some(Arc::new(Sharding::broadcast(global.sharding.mesh())))
    }
}

/// The ranks of a mesh, each with its part. All of them, and no others, have elements.
impl Place for (&Machine, &Sharding) {
    fn machine(&self) -> &Machine {
        self.0
    }

    fn stream(&self) -> Result<Stream> {
        self.0.current_stream()
    }

    fn sharding(&self) -> Option<Arc<Sharding>> {
        Some(Arc::new(self.1.clone()))
    }
}

impl<P: Place + ?Sized> Place for &P {
    fn machine(&self) -> &Machine {
        (**self).machine()
    }

    fn stream(&self) -> Result<Stream> {
        (**self).stream()
    }

    fn sharding(&self) -> Option<Arc<Sharding>> {
        (**self).sharding()
    }
}
