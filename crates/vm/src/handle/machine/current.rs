//! The current stream, and new streams.

use millstream_runtime::engine::Engine;
use millstream_runtime::engine::StreamOptions;
use millstream_runtime::engine::leases::Kind;
use millstream_runtime::sync::OnceLock;
use millstream_types::{DeviceId, Error, Result, StreamId, StreamKey, StreamType};

use crate::handle::{Stream, innermost};

use super::Machine;

impl Machine {
    /// Returns the stream of the innermost [`with_stream`](crate::with_stream) scope of this thread
    /// and machine, or the one that [`Stream::set_current`] has set there. Without either that is
    /// compute stream 0 of the default device.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let s = machine.current_stream()?;
    /// assert_eq!(s.key().to_string(), "cpu:0 compute 0");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device.
    pub fn current_stream(&self) -> Result<Stream> {
        innermost(self).map_or_else(|| self.default_stream(), Ok)
    }

    fn default_stream(&self) -> Result<Stream> {
        let key = StreamKey::compute(self.shared.default_device.clone(), 0);
        self.first_stream(&self.shared.default_stream, key)
    }

    /// Returns the stream of launches that name none.
    pub(crate) fn launch_stream(&self) -> Result<Stream> {
        let key = StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, 0);
        self.first_stream(&self.shared.launch_stream, key)
    }

    /// Returns the first stream of a type, without the lock once its id is known.
    fn first_stream(&self, known: &OnceLock<StreamId>, key: StreamKey) -> Result<Stream> {
        if let Some(&id) = known.get() {
            return Ok(Stream { machine: self.clone(), id, key, lease: None });
        }
        let stream = self.stream(&key)?;
        // Another thread may have set the same id meanwhile.
        let _ = known.set(stream.id);
        Ok(stream)
    }

    /// Returns a compute stream of `device` that nothing else holds, and that no key names by
    /// chance: created streams are counted apart. As every stream, it costs nothing before its
    /// first instruction. Once its handles are gone, with the tensors made on it, a later call may
    /// return it again.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DeviceId;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let own = machine.create_stream(&DeviceId::cpu(0))?; // nobody else has it
    /// assert_eq!(own.key().to_string(), "cpu:0 compute c0");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device, or the machine has no more streams.
    pub fn create_stream(&self, device: &DeviceId) -> Result<Stream> {
        self.create_stream_with(device, StreamOptions::default())
    }

    /// Returns a new compute stream as [`Machine::create_stream`] does, with a priority or a
    /// worker.
    ///
    /// ```
    /// use millstream_types::DeviceId;
    /// use millstream_vm::{Machine, MachineConfig, StreamOptions};
    ///
    /// # fn main() -> millstream_types::Result<()> {
    /// let machine = Machine::new(MachineConfig::default().host_workers(2))?;
    /// let urgent = StreamOptions::default().priority(1);
    /// let urgent = machine.create_stream_with(&DeviceId::cpu(0), urgent)?;
    /// let second = StreamOptions::default().worker(1);
    /// let second = machine.create_stream_with(&DeviceId::cpu(0), second)?;
    /// # let _ = (urgent, second);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Machine::create_stream`]; or a worker is named that the host does not have, or for a
    /// stream of another device.
    pub fn create_stream_with(&self, device: &DeviceId, options: StreamOptions) -> Result<Stream> {
        self.check_options(device, &options)?;
        let mut guard = self.shared.lock()?;
        // Streams that were dropped before are free.
        self.shared.drain(&mut guard);
        let Engine { builder, router, leases, .. } = &mut *guard;
        let kind = Kind::Created(device.clone(), options);
        let id = match leases.reuse(&kind, builder) {
            Some(id) => {
                self.shared.tables.failures.begin(builder.tail(id));
                id
            }
            None => {
                let key = builder.next_created(device);
                let id = builder.stream(&key)?;
                if let Some(priority) = options.priority {
                    self.policies().set_priority(&key, priority);
                }
                router.set_options(id, options);
                id
            }
        };
        // It is held from here on, before the lock is left.
        let _lease = leases.begin(&self.shared, id, kind);
        self.handle(&mut guard, id).ok_or_else(|| Error::Foreign { what: id.to_string() })
    }

    /// Returns a handle of a known stream.
    pub(crate) fn handle(&self, engine: &mut Engine, id: StreamId) -> Option<Stream> {
        let key = engine.builder.streams().nth(id.index())?.key.clone();
        let lease = engine.leases.of(&self.shared, id);
        Some(Stream { machine: self.clone(), id, key, lease })
    }

    fn check_options(&self, device: &DeviceId, options: &StreamOptions) -> Result<()> {
        let Some(worker) = options.worker else { return Ok(()) };
        let workers = self.shared.host_workers;
        let message = if !device.is_host() {
            format!("{device} has one worker; choose a worker for streams of the host alone")
        } else if worker >= workers {
            format!(
                "expected the number of a worker below {workers}, got {worker}; \
                 MachineConfig::host_workers sets how many there are"
            )
        } else {
            return Ok(());
        };
        Err(Error::Invalid { what: "stream", message })
    }
}
