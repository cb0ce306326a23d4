//! Policies by stream type and device.

use std::fmt;
use std::sync::Arc;

use dashmap::DashMap;

use millstream_ep::{Device, EventPool, Notify, Registry};
use millstream_instructions::{StreamCatalog, StreamDecl, StreamFacts};
use millstream_types::nearest::did_you_mean;
use millstream_types::{DeviceId, Error, Result, StreamKey, StreamType, catch_panic};

use crate::policy::{StreamParts, StreamPolicy};
use crate::standard;

/// The policies of a machine, its backends, and the event pool of each device.
pub struct PolicyTable {
    /// In the order of registration. The last policy that serves a stream applies.
    policies: Vec<Arc<dyn StreamPolicy>>,
    devices: Arc<Registry>,
    events: DashMap<DeviceId, Arc<EventPool>>,
    timed_events: DashMap<DeviceId, Arc<EventPool>>,
    /// The priorities that the program has set.
    priorities: DashMap<StreamKey, i32>,
}

impl PolicyTable {
    /// Creates a table of the standard policies on the backends of `devices`.
    pub fn standard(devices: Arc<Registry>) -> PolicyTable {
        let (events, timed_events, priorities) = Default::default();
        PolicyTable { policies: standard::all(), devices, events, timed_events, priorities }
    }

    /// Adds a policy. It replaces all earlier policies of its type on the devices that it serves.
    pub fn register(&mut self, policy: Arc<dyn StreamPolicy>) {
        self.policies.push(policy);
    }

    /// Returns all policies, in the order in which they were registered.
    pub fn all(&self) -> &[Arc<dyn StreamPolicy>] {
        &self.policies
    }

    /// Returns the backends.
    pub const fn devices(&self) -> &Arc<Registry> {
        &self.devices
    }

    /// Returns the answer of the policy that serves a stream.
    ///
    /// # Errors
    /// No policy serves it, its device is missing, or the policy panicked.
    pub fn query<T>(
        &self,
        key: &StreamKey,
        query: impl FnOnce(&dyn StreamPolicy) -> T,
    ) -> Result<T> {
        catch_panic(|| Ok(query(&**self.policy(key)?))).map_err(|error| match error {
            Error::Panicked(panicked) => {
                let message = format!("{key}: the policy of {} streams {panicked}", key.ty);
                Error::Invalid { what: "stream", message }
            }
            other => other,
        })
    }

    fn policy(&self, key: &StreamKey) -> Result<&Arc<dyn StreamPolicy>> {
        self.devices.probe(&key.device)?;
        let found =
            self.policies.iter().rev().find(|p| p.stream_type() == key.ty && p.serves(&key.device));
        found.ok_or_else(|| {
            let types = || self.policies.iter().map(|p| p.stream_type());
            if types().any(|ty| ty == key.ty) {
                let message = format!("{key}: no policy serves {} streams there", key.ty);
                return Error::Invalid { what: "stream", message };
            }
            Error::Unknown {
                what: "stream type",
                name: key.ty.to_string(),
                help: did_you_mean(key.ty.name(), types().map(StreamType::name)),
            }
        })
    }

    /// Checks that a policy serves a stream of a list, and accepts all work that the list's header
    /// says it does.
    ///
    /// # Errors
    /// None does, or it accepts less.
    pub fn check(&self, decl: &StreamDecl) -> Result<()> {
        let accepted = self.query(&decl.key, |policy| policy.accepts())?;
        if decl.work.is_subset(accepted) {
            return Ok(());
        }
        let (key, ty, work) = (&decl.key, decl.key.ty, decl.work);
        let message = format!("{key} is to run {work}; {ty} streams run {accepted} here");
        Err(Error::Invalid { what: "stream", message })
    }

    /// Opens the parts of a stream, as its policy says.
    ///
    /// # Errors
    /// The device cannot be opened or refuses a stream.
    pub fn create(&self, key: &StreamKey, notify: Notify) -> Result<StreamParts> {
        let events = |device: &Arc<dyn Device>| self.event_pool(device);
        let own = self.priorities.get(key).map(|priority| *priority);
        self.query(key, |policy| {
            let priority = own.unwrap_or_else(|| policy.priority());
            policy.create(key, priority, &self.devices, &events, notify)
        })?
    }

    /// Sets the priority of a stream that is yet to be opened.
    pub fn set_priority(&self, key: &StreamKey, priority: i32) {
        self.priorities.insert(key.clone(), priority);
    }

    fn event_pool(&self, device: &Arc<dyn Device>) -> Arc<EventPool> {
        let create = || Arc::new(EventPool::new(device.clone()));
        self.events.entry(device.id().clone()).or_insert_with(create).clone()
    }

    /// Returns the pool of a device's events that keep the times of their records.
    pub fn timed_events(&self, device: &Arc<dyn Device>) -> Arc<EventPool> {
        let create = || Arc::new(EventPool::timed(device.clone()));
        self.timed_events.entry(device.id().clone()).or_insert_with(create).clone()
    }

    /// Returns the event pools that exist so far, by device.
    pub fn event_pools(&self) -> Vec<(DeviceId, Arc<EventPool>)> {
        self.events.iter().map(|e| (e.key().clone(), e.value().clone())).collect()
    }
}

impl fmt::Debug for PolicyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.policies.iter().map(|p| p.stream_type().name());
        f.debug_list().entries(types).finish()
    }
}

/// A [`PolicyTable`] as the builder's stream catalog.
#[derive(Clone, Debug)]
pub struct Catalog(pub Arc<PolicyTable>);

impl StreamCatalog for Catalog {
    fn describe(&self, key: &StreamKey) -> Result<StreamFacts> {
        let (mut facts, copies) = self.0.query(key, |policy| {
            (policy.facts(key).accepting(policy.accepts()), policy.copies_between_devices())
        })?;
        if copies {
            facts.copies = self.0.devices.copy_sources(&key.device)?;
        }
        let exists = |device: &DeviceId| self.0.devices.probe(device).is_ok();
        if facts.memory.kind() == "pinned" && !exists(&facts.memory) {
            facts.memory = DeviceId::cpu(0);
        }
        self.0.devices.probe(&facts.memory)?;
        facts.reads.retain(|device| exists(device));
        facts.writes.retain(|device| exists(device));
        Ok(facts)
    }

    fn waits_on_device(&self, waiter: &StreamKey, source: &StreamKey) -> bool {
        self.0.devices.waits_directly(&waiter.device, &source.device).unwrap_or(false)
            && [waiter, source]
                .iter()
                .all(|key| self.0.query(key, |p| p.runs_native()).unwrap_or(false))
    }
}
