//! The memory behind the planner's arenas.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use millstream_ep::{Memory, Registry};
use millstream_instructions::{ArenaId, Arenas, Placement};
use millstream_types::panics::{Guarded, catch_panic};
use millstream_types::{DeviceId, Error, Result};

/// The chunks of device memory behind all arenas of a machine.
pub struct ArenaMemory {
    devices: Arc<Registry>,
    limits: HashMap<DeviceId, u64>,
    chunks: Mutex<FxHashMap<ArenaId, Vec<Chunk>>>,
    /// How often a chunk was given back.
    removals: AtomicU64,
}

/// The most chunks that [`KnownChunks`] keeps.
const MAX_KNOWN: usize = 8;

/// Chunks in which placements were found, to find others there without a lock.
#[derive(Debug, Default)]
pub struct KnownChunks {
    chunks: Vec<KnownChunk>,
    /// The count of [`ArenaMemory::removals`] when they were found: later, they may be gone.
    removals: u64,
}

#[derive(Debug)]
struct KnownChunk {
    arena: ArenaId,
    start: u64,
    /// The offset behind its last byte.
    end: u64,
    base: AtomicPtr<u8>,
    host_accessible: bool,
}

impl KnownChunks {
    #[inline]
    fn find(&mut self, placement: &Placement) -> Option<(NonNull<u8>, bool)> {
        let Placement { arena, offset, size, .. } = *placement;
        let has = |chunk: &&mut KnownChunk| {
            // A range that ends before it starts has wrapped around.
            let end = offset.wrapping_add(size);
            chunk.arena == arena && (chunk.start..end).contains(&offset) && end <= chunk.end
        };
        let chunk = self.chunks.iter_mut().find(has)?;
        let address = chunk.base.get_mut().wrapping_add((offset - chunk.start) as usize);
        Some((NonNull::new(address)?, chunk.host_accessible))
    }

    fn note(&mut self, chunk: KnownChunk, removals: u64) {
        if self.removals != removals || self.chunks.len() == MAX_KNOWN {
            self.chunks.clear();
        }
        self.removals = removals;
        self.chunks.push(chunk);
    }
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
    base: AtomicPtr<u8>,
    bytes: u64,
    _memory: Guarded<Box<dyn Memory>>,
}

impl ArenaMemory {
    /// Creates an empty table. A device missing in `limits` has its own default limit.
    pub fn new(devices: Arc<Registry>, limits: HashMap<DeviceId, u64>) -> ArenaMemory {
        let removals = AtomicU64::new(0);
        ArenaMemory { devices, limits, chunks: Mutex::default(), removals }
    }

    /// Returns the address of a placement's first byte. The address is valid until the chunk is
    /// given back ([`Arenas::shrink`]).
    ///
    /// # Errors
    /// The placement is outside the memory of its arena.
    pub fn resolve(&self, placement: &Placement) -> Result<NonNull<u8>> {
        self.locate(placement, &mut KnownChunks::default()).map(|(address, _)| address)
    }

    /// Returns the address of a placement's first byte, as [`ArenaMemory::resolve`] does, and
    /// whether the host can access the memory through it. Looks in the `known` chunks first, and
    /// adds the chunk if it is none of them.
    ///
    /// # Errors
    /// As [`ArenaMemory::resolve`].
    #[inline]
    pub fn locate(
        &self,
        placement: &Placement,
        known: &mut KnownChunks,
    ) -> Result<(NonNull<u8>, bool)> {
        // Acquire: pairs with `removed`. Who learns that a chunk's range is in use again has learnt
        // before that the chunk was given back.
        if known.removals == self.removals.load(Ordering::Acquire)
            && let Some(found) = known.find(placement)
        {
            return Ok(found);
        }
        self.look_up(placement, known)
    }

    #[cold]
    fn look_up(
        &self,
        placement: &Placement,
        known: &mut KnownChunks,
    ) -> Result<(NonNull<u8>, bool)> {
        let Placement { arena, offset, size, .. } = *placement;
        if size == 0 {
            // No byte is accessed, so any aligned address serves.
            return Ok((NonNull::<u64>::dangling().cast(), self.is_host_accessible(arena)));
        }
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let found = chunks.get(&arena).and_then(|list| {
            let index = list.partition_point(|c| c.start <= offset).checked_sub(1)?;
            let Chunk { start, base, bytes, host_accessible, .. } = &list[index];
            let relative = offset - start;
            let (end, start, bytes) = (relative.checked_add(size)?, *start, *bytes);
            // Relaxed: it never changes.
            let (base, host_accessible) = (base.load(Ordering::Relaxed), *host_accessible);
            let chunk = KnownChunk {
                arena,
                start,
                end: start.saturating_add(bytes),
                base: AtomicPtr::new(base),
                host_accessible,
            };
            // Relaxed: the lock orders it.
            known.note(chunk, self.removals.load(Ordering::Relaxed));
            (end <= bytes).then_some((base, relative, host_accessible))
        });
        let Some((base, relative, on_host)) = found else {
            let message = format!("a placement at {arena}+{offset} has no memory");
            return Err(Error::Internal { message });
        };
        // Both lie in one allocation of less than `isize::MAX` bytes, so the sum cannot wrap.
        let address = base.wrapping_add(relative as usize);
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
        let chunk = catch_panic(|| {
            let memory = Guarded::new(device.allocate(bytes)?);
            let (base, bytes) = (AtomicPtr::new(memory.base().as_ptr()), memory.bytes() as u64);
            let host_accessible = device.capabilities().host_memory;
            Ok::<_, Error>(Chunk { host_accessible, start, base, bytes, _memory: memory })
        })?;
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let list = chunks.entry(arena).or_default();
        let index = list.partition_point(|c| c.start < start);
        list.insert(index, chunk);
        Ok(())
    }

    /// Notes, under the lock, that a chunk is given back.
    fn removed(&self) {
        // Release: pairs with `locate`.
        self.removals.fetch_add(1, Ordering::Release);
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
        let mut chunks = self.arenas.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.remove(&self.arena);
        self.arenas.removed();
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
            None => catch_panic(|| Ok(self.devices.device(device)?.default_memory_limit())),
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
        self.removed();
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
