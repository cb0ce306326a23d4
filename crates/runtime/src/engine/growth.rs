//! Growth of arenas, between two critical sections.
//!
//! # Rules
//! 1. An arena grows without the engine's lock, as a device may take long to give memory.
//! 2. One arena grows at a time, under the lock of memory growth, so that memory and plan grow in
//!    the same order. That lock is taken before the engine's; under the engine's it is only
//!    tried.
//! 3. A growth enters the critical section once, at its end, and the engine that needs the memory
//!    goes on in there.

use std::sync::{PoisonError, TryLockError};

use millstream_instructions::{ArenaId, Arenas};
use millstream_types::{DeviceId, Error, Result};

use crate::engine::Engine;
use crate::engine::guard::EngineGuard;
use crate::engine::shared::MachineShared;
use crate::sync::MutexGuard;

/// A growth of an arena that is under way.
pub(super) struct Growth<'a> {
    arena: ArenaId,
    device: DeviceId,
    /// The device's limit; none if it is not known yet.
    limit: Option<u64>,
    reserved: u64,
    /// The bytes wanted, and the fewest that are enough, each with the start of such a chunk.
    sizes: [(u64, u64); 2],
    _lock: MutexGuard<'a, ()>,
}

/// The result of a growth, for the planner.
enum Grown {
    Limit(u64),
    Chunk(u64),
    Unchanged,
}

impl<'a> Growth<'a> {
    /// Plans a growth, under the engine's lock. Returns none if another growth is under way.
    /// `sizes` are the bytes wanted and the fewest that are enough.
    pub(super) fn plan(
        shared: &'a MachineShared,
        engine: &Engine,
        arena: ArenaId,
        sizes: [u64; 2],
    ) -> Option<Growth<'a>> {
        let lock = match shared.growth.try_lock() {
            Ok(lock) => lock,
            Err(TryLockError::Poisoned(lock)) => lock.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let planner = engine.builder.planner();
        let device = planner.device(arena).clone();
        let limit = planner.limit(&device);
        let reserved = planner.reserved(arena);
        let sizes = sizes.map(|bytes| (bytes, planner.next_chunk(arena, bytes)));
        Some(Growth { arena, device, limit, reserved, sizes, _lock: lock })
    }

    /// Waits for the growth that is under way, and enters the critical section again.
    pub(super) fn wait_for_other(shared: &MachineShared) -> Result<EngineGuard<'_>> {
        drop(shared.growth.lock().unwrap_or_else(PoisonError::into_inner));
        shared.begin(shared.lock()?)
    }

    /// Grows the arena, and enters the critical section again.
    pub(super) fn carry_out(self, shared: &MachineShared) -> Result<EngineGuard<'_>> {
        let grown = self.grow(shared)?;
        let mut engine = shared.lock()?;
        match grown {
            Grown::Limit(limit) => engine.builder.planner_mut().set_limit(&self.device, limit),
            Grown::Chunk(bytes) => engine.builder.grown(self.arena, bytes),
            Grown::Unchanged => {}
        }
        shared.begin(engine)
    }

    fn grow(&self, shared: &MachineShared) -> Result<Grown> {
        let Growth { arena, device, reserved, .. } = self;
        let memory = &shared.tables.memory;
        let [(bytes, start), (least, least_start)] = self.sizes;
        // Once the limit is known, the planner may want another size.
        let Some(limit) = self.limit else { return memory.limit(device).map(Grown::Limit) };
        if reserved.saturating_add(bytes) > limit {
            return Ok(Grown::Unchanged);
        }
        let mut grown = (memory.grow(*arena, device, start, bytes), bytes);
        if matches!(grown.0, Err(Error::OutOfMemory { .. })) && least < bytes {
            // Other arenas may have taken the rest of a full chunk, and left enough for this need.
            grown = (memory.grow(*arena, device, least_start, least), least);
        }
        match grown {
            (Ok(()), bytes) => Ok(Grown::Chunk(bytes)),
            // The device gives no more: the current size is the limit.
            (Err(Error::OutOfMemory { .. }), _) => Ok(Grown::Limit(*reserved)),
            (Err(error), _) => Err(error),
        }
    }
}
