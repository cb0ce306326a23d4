//! The memory behind the planner's arenas.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use millstream_ep::{Memory, Registry};
use millstream_instructions::{ArenaId, Arenas, Placement};
use millstream_types::{DeviceId, Error, Result};

/// The chunks of device memory behind all arenas of a machine.
pub struct ArenaMemory {
    devices: Arc<Registry>,
    limits: HashMap<DeviceId, u64>,
    chunks: Mutex<FxHashMap<ArenaId, Vec<Chunk>>>,
}

/// The memory of an arena outside the planner's control. Dropping it frees the memory.
pub struct PrivateArena {
    arenas: Arc<ArenaMemory>,
    arena: ArenaId,
}

struct Chunk {
    /// Whether the host can access the memory through its address.
    host_accessible: bool,
    /// The offset of the chunk's first byte in the arena.
    start: u64,
    memory: Box<dyn Memory>,
}

impl ArenaMemory {
    /// Creates an empty table. A device missing in `limits` has its own default limit.
    pub fn new(devices: Arc<Registry>, limits: HashMap<DeviceId, u64>) -> ArenaMemory {
        ArenaMemory { devices, limits, chunks: Mutex::default() }
    }

    /// Returns the address of a placement's first byte. The address is valid until the chunk is
    /// given back ([`Arenas::shrink`]).
    ///
    /// # Errors
    /// The placement is outside the memory of its arena.
    pub fn resolve(&self, placement: &Placement) -> Result<NonNull<u8>> {
        self.locate(placement).map(|(address, _)| address)
    }

    /// Returns the address of a placement's first byte, as [`ArenaMemory::resolve`] does, and
    /// whether the host can access the memory through it.
    ///
    /// # Errors
    /// As [`ArenaMemory::resolve`].
    pub fn locate(&self, placement: &Placement) -> Result<(NonNull<u8>, bool)> {
        let Placement { arena, offset, size, .. } = *placement;
        if size == 0 {
            // No byte is accessed, so any aligned address serves.
            return Ok((NonNull::<u64>::dangling().cast(), self.is_host_accessible(arena)));
        }
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let found = chunks.get(&arena).and_then(|list| {
            let index = list.partition_point(|c| c.start <= offset).checked_sub(1)?;
            let Chunk { start, memory, host_accessible } = &list[index];
            let relative = offset - start;
            let end = relative.checked_add(size)?;
            (end <= memory.bytes() as u64).then_some((memory.base(), relative, *host_accessible))
        });
        let Some((base, relative, on_host)) = found else {
            let message = format!("a placement at {arena}+{offset} has no memory");
            return Err(Error::Internal { message });
        };
        // Both lie in one allocation of less than `isize::MAX` bytes, so the sum cannot wrap.
        let address = base.as_ptr().wrapping_add(relative as usize);
        let null = || Error::Internal { message: "null memory".to_owned() };
        Ok((NonNull::new(address).ok_or_else(null)?, on_host))
    }

    /// Returns whether the host can access an arena's memory through its addresses.
    pub fn is_host_accessible(&self, arena: ArenaId) -> bool {
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        // An arena without memory holds only storages of zero bytes.
        chunks.get(&arena).and_then(|list| list.first()).is_none_or(|c| c.host_accessible)
    }

    fn add(&self, arena: ArenaId, device: &DeviceId, start: u64, bytes: usize) -> Result<()> {
        let device = self.devices.device(device)?;
        let memory = device.allocate(bytes)?;
        let host_accessible = device.capabilities().host_memory;
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let list = chunks.entry(arena).or_default();
        let index = list.partition_point(|c| c.start < start);
        list.insert(index, Chunk { host_accessible, start, memory });
        Ok(())
    }

    /// Allocates an arena of `bytes` bytes of `device`'s memory that no planner manages. No other
    /// arena may have the id `arena`.
    ///
    /// # Errors
    /// The device is out of memory, or cannot be opened.
    pub fn create_private(
        self: &Arc<ArenaMemory>,
        arena: ArenaId,
        device: &DeviceId,
        bytes: usize,
    ) -> Result<PrivateArena> {
        self.add(arena, device, 0, bytes)?;
        Ok(PrivateArena { arenas: self.clone(), arena })
    }
}

impl Drop for PrivateArena {
    fn drop(&mut self) {
        self.arenas.chunks.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.arena);
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
        let removed = list.iter().position(|c| c.start == start).map(|index| list.remove(index));
        // The lock is released first: the device may take long to free the memory.
        drop(chunks);
        drop(removed);
    }
}

impl fmt::Debug for ArenaMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = chunks.iter().map(|(a, list)| (a.to_string(), list.len()));
        f.debug_map().entries(sizes).finish()
    }
}
