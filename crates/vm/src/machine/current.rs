//! The default stream, new streams, and the current one.

use millstream_types::{DeviceId, Result, StreamKey, StreamType};

use crate::handle::{Stream, innermost};

use super::Machine;

impl Machine {
    /// Compute stream 0 of the default device.
    ///
    /// # Errors
    /// There is no such device.
    pub fn default_stream(&self) -> Result<Stream> {
        self.any_stream(&StreamKey::compute(self.shared.default_device.clone(), 0))
    }

    /// The stream that the innermost [`with_stream`](crate::with_stream) of this thread names, of
    /// those of this machine; outside of any the default stream.
    ///
    /// # Errors
    /// As [`Machine::default_stream`].
    pub fn current_stream(&self) -> Result<Stream> {
        innermost(self).map_or_else(|| self.default_stream(), Ok)
    }

    /// A compute stream of `device` that nobody has been given yet. As every stream, it costs
    /// nothing before its first instruction.
    ///
    /// # Errors
    /// There is no such device, or the machine has no more streams.
    pub fn create_stream(&self, device: &DeviceId) -> Result<Stream> {
        let mut emission = self.shared.lock()?;
        let keys = emission.builder.streams().map(|s| &s.key);
        let taken = keys.filter(|k| k.device == *device && k.ty == StreamType::COMPUTE);
        // The first is left to be the default stream.
        let index = taken.map(|k| k.index + 1).max().unwrap_or(0).max(1);
        let key = StreamKey::compute(device.clone(), index);
        let id = emission.builder.stream(&key)?;
        Ok(Stream { machine: self.clone(), id, key })
    }
}
