//! The current stream, and new streams.

use millstream_types::{DeviceId, Result, StreamKey, StreamType};

use crate::api::handle::{Stream, innermost};

use super::Machine;

impl Machine {
    /// Returns the stream of the innermost [`with_stream`](crate::with_stream) scope of this thread
    /// and machine. Outside of any scope that is compute stream 0 of the default device.
    ///
    /// # Errors
    /// There is no such device.
    pub fn current_stream(&self) -> Result<Stream> {
        innermost(self).map_or_else(|| self.default_stream(), Ok)
    }

    /// Returns compute stream 0 of the default device, without the lock from the second time on.
    fn default_stream(&self) -> Result<Stream> {
        let key = StreamKey::compute(self.shared.default_device.clone(), 0);
        if let Some(&id) = self.shared.default_stream.get() {
            return Ok(Stream { machine: self.of_handle(), id, key });
        }
        let stream = self.stream(&key)?;
        // Another thread may have set the same id meanwhile.
        let _ = self.shared.default_stream.set(stream.id);
        Ok(stream)
    }

    /// Returns a compute stream of `device` that no earlier call returned. As every stream, it
    /// costs nothing before its first instruction.
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
        Ok(Stream { machine: self.of_handle(), id, key })
    }
}
