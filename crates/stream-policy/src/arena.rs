//! The memory behind the planner's arenas.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_ep::{Memory, Registry};
use millstream_instructions::{ArenaId, Arenas, Placement};
use millstream_types::{DeviceId, Error, Result};

/// Chunks of device memory, which together are the planner's arenas.
pub struct ArenaMemory {
    devices: Arc<Registry>,
    limits: HashMap<DeviceId, u64>,
    chunks: Mutex<HashMap<ArenaId, Vec<Chunk>>>,
}

/// Memory that one arena consists of, beside the planner's.
pub struct PrivateArena {
    table: Arc<ArenaMemory>,
    arena: ArenaId,
}

struct Chunk {
    /// Whether the host can use it through its address.
    on_host: bool,
    /// Its first byte's offset in the arena.
    start: u64,
    memory: Box<dyn Memory>,
}

impl ArenaMemory {
    /// No memory yet. Devices that `limits` does not name have their own default limit.
    pub fn new(devices: Arc<Registry>, limits: HashMap<DeviceId, u64>) -> ArenaMemory {
        ArenaMemory { devices, limits, chunks: Mutex::new(HashMap::new()) }
    }

    /// The address of a placement's first byte. It stays what it is for as long as this lives.
    ///
    /// # Errors
    /// The placement is not within the memory that the arena was given.
    pub fn resolve(&self, place: &Placement) -> Result<NonNull<u8>> {
        if place.size == 0 {
            // No byte will be touched; any aligned address does.
            return Ok(NonNull::<u64>::dangling().cast());
        }
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let found = chunks.get(&place.arena).and_then(|list| {
            let at = list.partition_point(|c| c.start <= place.offset).checked_sub(1)?;
            let within = place.offset - list[at].start;
            let end = within.checked_add(place.size)?;
            (end <= list[at].memory.bytes() as u64).then_some((list[at].memory.base(), within))
        });
        let Some((base, within)) = found else {
            let message = format!("a placement at {}+{} has no memory", place.arena, place.offset);
            return Err(Error::Internal { message });
        };
        // Within one allocation of less than `isize::MAX` bytes, so the sum cannot wrap.
        let address = base.as_ptr().wrapping_add(within as usize);
        NonNull::new(address).ok_or_else(|| Error::Internal { message: "null memory".to_owned() })
    }
}

impl ArenaMemory {
    /// Whether the host can use an arena's memory through its addresses.
    pub fn on_host(&self, arena: ArenaId) -> bool {
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        // An arena without memory holds storages of no bytes alone.
        chunks.get(&arena).and_then(|list| list.first()).is_none_or(|c| c.on_host)
    }

    fn add(&self, arena: ArenaId, device: &DeviceId, start: u64, bytes: usize) -> Result<()> {
        let device = self.devices.device(device)?;
        let memory = device.allocate(bytes)?;
        let on_host = device.capabilities().host_memory;
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let list = chunks.entry(arena).or_default();
        let at = list.partition_point(|c| c.start < start);
        list.insert(at, Chunk { on_host, start, memory });
        Ok(())
    }

    /// An arena of `bytes` bytes of `device`'s memory that no planner hands out. `arena` is an id
    /// that no other arena has.
    ///
    /// # Errors
    /// The device has no memory left, or cannot be opened.
    pub fn private(
        self: &Arc<ArenaMemory>,
        arena: ArenaId,
        device: &DeviceId,
        bytes: usize,
    ) -> Result<PrivateArena> {
        self.add(arena, device, 0, bytes)?;
        Ok(PrivateArena { table: self.clone(), arena })
    }
}

impl Drop for PrivateArena {
    fn drop(&mut self) {
        self.table.chunks.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.arena);
    }
}

impl fmt::Debug for PrivateArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrivateArena").field(&self.arena).finish()
    }
}

impl Arenas for ArenaMemory {
    fn limit(&self, device: &DeviceId) -> Result<u64> {
        match self.limits.get(device) {
            Some(&limit) => Ok(limit),
            None => Ok(self.devices.device(device)?.default_memory_limit()),
        }
    }

    fn grow(&self, arena: ArenaId, device: &DeviceId, start: u64, bytes: u64) -> Result<()> {
        let size = usize::try_from(bytes).map_err(|_| Error::OutOfMemory {
            device: device.clone(),
            purpose: "an arena".to_owned(),
            wanted: bytes,
            in_use: 0,
            limit: usize::MAX as u64,
            holders: Vec::new(),
        })?;
        self.add(arena, device, start, size)
    }

    fn shrink(&self, arena: ArenaId, start: u64) {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let list = chunks.entry(arena).or_default();
        let gone = list.iter().position(|c| c.start == start).map(|at| list.remove(at));
        // The device is told with no lock held: it may take its time.
        drop(chunks);
        drop(gone);
    }
}

impl fmt::Debug for ArenaMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = chunks.iter().map(|(a, list)| (a.to_string(), list.len()));
        f.debug_map().entries(sizes).finish()
    }
}
