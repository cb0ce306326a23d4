//! Backends by kind. A registry is a value: each machine has its own, and anyone can add to it.

use std::fmt;
use std::sync::Arc;

use dashmap::DashMap;
use once_cell::sync::OnceCell;

use millstream_types::nearest::nearest;
use millstream_types::{DeviceId, Error, Result};

use crate::device::{Backend, Capabilities, Device};

/// The backends that a machine knows, and those of their devices that were opened.
#[derive(Default)]
pub struct Registry {
    backends: DashMap<String, Arc<dyn Backend>>,
    open: DashMap<DeviceId, Arc<OnceCell<Arc<dyn Device>>>>,
}

impl Registry {
    /// A registry without backends.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a backend. One of the same kind is replaced; its open devices stay open.
    pub fn register(&self, backend: Arc<dyn Backend>) {
        self.backends.insert(backend.kind().to_owned(), backend);
    }

    fn backend(&self, device: &DeviceId) -> Result<Arc<dyn Backend>> {
        if let Some(found) = self.backends.get(device.kind()) {
            return Ok(found.value().clone());
        }
        let mut kinds: Vec<String> = self.backends.iter().map(|b| b.key().clone()).collect();
        kinds.sort();
        Err(Error::Unknown {
            what: "device kind",
            name: device.kind().to_owned(),
            nearest: nearest(device.kind(), kinds.iter().map(String::as_str)),
        })
    }

    /// Whether there is a backend for `device`.
    pub fn serves(&self, device: &DeviceId) -> bool {
        self.backends.contains_key(device.kind())
    }

    /// Checks that `device` could be opened, and opens nothing.
    ///
    /// # Errors
    /// There is no such backend, it cannot be used here, or it has no such device.
    pub fn probe(&self, device: &DeviceId) -> Result<()> {
        if self.open.get(device).is_some_and(|cell| cell.get().is_some()) {
            return Ok(());
        }
        let count = self.backend(device)?.count()?;
        if device.index() < count {
            return Ok(());
        }
        let message = format!("there are {count} devices of this kind");
        Err(Error::Device { device: device.clone(), message })
    }

    /// What `device` can do. Opens nothing.
    ///
    /// # Errors
    /// As [`Registry::probe`].
    pub fn capabilities(&self, device: &DeviceId) -> Result<Capabilities> {
        self.probe(device)?;
        Ok(self.backend(device)?.capabilities())
    }

    /// The devices whose memory streams of `device` copy from where it lies. Opens nothing.
    ///
    /// # Errors
    /// As [`Registry::probe`].
    pub fn sources(&self, device: &DeviceId) -> Result<Vec<DeviceId>> {
        let backend = self.backend(device)?;
        let others = (0..backend.count()?).filter(|&other| {
            other != device.index() && backend.copies_directly(device.index(), other)
        });
        others.map(|other| DeviceId::new(device.kind().to_owned(), other)).collect()
    }

    /// Whether streams of `waiter` can wait for events of `source` on the device. Opens nothing.
    ///
    /// # Errors
    /// As [`Registry::probe`].
    pub fn waits_directly(&self, waiter: &DeviceId, source: &DeviceId) -> Result<bool> {
        if waiter == source {
            return Ok(self.capabilities(waiter)?.device_waits);
        }
        self.probe(waiter)?;
        self.probe(source)?;
        // Events are a backend's own.
        let same = waiter.kind() == source.kind();
        Ok(same && self.backend(waiter)?.waits_directly(waiter.index(), source.index()))
    }

    /// The open device, opened now if this is its first use.
    ///
    /// # Errors
    /// As [`Registry::probe`], or the device cannot be opened; a later call tries again.
    pub fn device(&self, device: &DeviceId) -> Result<Arc<dyn Device>> {
        // The map's lock is not held while a device is being opened.
        let cell = self.open.entry(device.clone()).or_default().clone();
        let opened = cell.get_or_try_init(|| {
            self.probe(device)?;
            self.backend(device)?.open(device.index())
        })?;
        Ok(opened.clone())
    }

    /// The devices that have been opened so far.
    pub fn opened(&self) -> Vec<Arc<dyn Device>> {
        let mut all: Vec<Arc<dyn Device>> =
            self.open.iter().filter_map(|cell| cell.get().cloned()).collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        all
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.backends.iter().map(|b| b.key().clone())).finish()
    }
}
