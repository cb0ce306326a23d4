//! Backends by kind. A registry is a value: each machine has its own, and programs can add to it.

use std::fmt;
use std::sync::Arc;

use dashmap::DashMap;
use once_cell::sync::OnceCell;

use millstream_types::nearest::did_you_mean;
use millstream_types::{DeviceId, Error, Result, catch_panic};

use crate::device::{Backend, Capabilities, Device};

/// The backends of a machine, and the devices that it has opened.
#[derive(Default)]
pub struct Registry {
    backends: DashMap<String, Arc<dyn Backend>>,
    open: DashMap<DeviceId, Arc<OnceCell<Arc<dyn Device>>>>,
}

impl Registry {
    /// Creates a registry without backends.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a backend. It replaces one of the same kind, whose open devices stay open.
    pub fn register(&self, backend: Arc<dyn Backend>) {
        self.backends.insert(backend.kind().to_owned(), backend);
    }

    /// Returns the answer of the backend of a device.
    fn query<T>(
        &self,
        device: &DeviceId,
        query: impl FnOnce(&dyn Backend) -> Result<T>,
    ) -> Result<T> {
        catch_panic(|| query(&*self.backend(device)?)).map_err(|error| match error {
            Error::Panicked(panicked) => {
                let message = format!("its backend {panicked}");
                Error::Device { device: device.clone(), message }
            }
            other => other,
        })
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
            help: match device.kind() {
                "gpu" | "nvidia" => Some("an NVIDIA GPU is called 'cuda', as in cuda:0".to_owned()),
                kind => did_you_mean(kind, kinds.iter().map(String::as_str))
                    .or_else(|| Some(format!("there are {}", kinds.join(", ")))),
            },
        })
    }

    /// Returns whether there is a backend for `device`.
    pub fn serves(&self, device: &DeviceId) -> bool {
        self.backends.contains_key(device.kind())
    }

    /// Checks that `device` exists. Opens nothing.
    ///
    /// # Errors
    /// There is no backend of its kind, the backend does not work on this computer, or it has no
    /// device of this index.
    pub fn probe(&self, device: &DeviceId) -> Result<()> {
        if self.open.get(device).is_some_and(|cell| cell.get().is_some()) {
            return Ok(());
        }
        let count = self.query(device, |backend| backend.count())?;
        if device.index() < count {
            return Ok(());
        }
        let message = format!("there are {count} devices of this kind");
        Err(Error::Device { device: device.clone(), message })
    }

    /// Returns the capabilities of `device`. Opens nothing.
    ///
    /// # Errors
    /// As [`Registry::probe`].
    pub fn capabilities(&self, device: &DeviceId) -> Result<Capabilities> {
        self.probe(device)?;
        self.query(device, |backend| Ok(backend.capabilities()))
    }

    /// Returns the devices from whose memory the streams of `device` copy directly. Opens nothing.
    ///
    /// # Errors
    /// As [`Registry::probe`].
    pub fn copy_sources(&self, device: &DeviceId) -> Result<Vec<DeviceId>> {
        let others = self.query(device, |backend| {
            let is_source = |other: &u32| backend.copies_directly(device.index(), *other);
            let others = (0..backend.count()?).filter(|other| *other != device.index());
            Ok(others.filter(is_source).collect::<Vec<_>>())
        })?;
        others.into_iter().map(|other| DeviceId::new(device.kind().to_owned(), other)).collect()
    }

    /// Returns whether streams of `waiter` can wait for events of `source` on the device, without
    /// the host. Opens nothing.
    ///
    /// # Errors
    /// As [`Registry::probe`].
    pub fn waits_directly(&self, waiter: &DeviceId, source: &DeviceId) -> Result<bool> {
        if waiter == source {
            return Ok(self.capabilities(waiter)?.device_waits);
        }
        self.probe(waiter)?;
        self.probe(source)?;
        // An event belongs to one backend.
        let same = waiter.kind() == source.kind();
        let (waiting, recording) = (waiter.index(), source.index());
        Ok(same && self.query(waiter, |b| Ok(b.waits_directly(waiting, recording)))?)
    }

    /// Returns the open device. Opens it on first use.
    ///
    /// # Errors
    /// As [`Registry::probe`], or the device cannot be opened. A later call tries again.
    pub fn device(&self, device: &DeviceId) -> Result<Arc<dyn Device>> {
        // The clone releases the map's lock before the device is opened.
        let cell = self.open.entry(device.clone()).or_default().clone();
        let opened = cell.get_or_try_init(|| {
            self.probe(device)?;
            self.query(device, |backend| backend.open(device.index()))
        })?;
        Ok(opened.clone())
    }

    /// Returns the devices that have been opened so far, in the order of their ids.
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
