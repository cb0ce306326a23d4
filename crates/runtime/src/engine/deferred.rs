//! What threads leave for the next emission: dropped tensors and observed points.
//!
//! The drop of a handle and the end of a read take no lock: they leave a note in a ring, and the
//! thread that enters the critical section next emits it first. So nothing can be observed or
//! emitted before it.
//!
//! # Rules
//! 1. Each thread has a ring for each machine. The thread pushes; the thread that holds the
//!    emission's lock pops.
//! 2. A thread's notes are emitted in their order, and before everything that it emits later. Drops
//!    that find the ring full, or other releases pending, are emitted at once or queued behind them
//!    ([`MachineShared::release`]).
//! 3. The machine's own work, such as a function that runs on a worker, leaves no notes: the
//!    releases of what it drops come after what it pushed.

use std::cell::RefCell;

use millstream_instructions::TensorRef;
use millstream_types::{Origin, Point, Result};

use crate::engine::Engine;
use crate::engine::release::Release;
use crate::engine::shared::MachineShared;
use crate::scope::reentrancy;
use crate::sync::ring::{RingConsumer, RingProducer, ring};
use crate::sync::thread_local;

/// A note for the next emission.
pub(crate) enum Deferred {
    /// The last handle of a tensor was dropped.
    Dropped(TensorRef, Origin),
    /// The program has observed that a point completed.
    Observed(Point, Origin),
}

thread_local! {
    /// The rings of this thread, each with the number of its machine.
    static RINGS: RefCell<Vec<(u64, RingProducer<Deferred>)>> = const { RefCell::new(Vec::new()) };
}

/// Leaves a note in this thread's ring for `machine`. Returns it if there is no ring, or no place.
#[inline]
fn leave(machine: u64, note: Deferred) -> Result<(), Deferred> {
    // The thread's rings are gone while it ends.
    let mut note = Some(note);
    let left = RINGS.try_with(|rings| {
        let mut rings = rings.borrow_mut();
        // Most threads use one machine.
        let ring = match &mut rings[..] {
            [(number, ring), ..] if *number == machine => ring,
            all => &mut all.iter_mut().find(|(number, _)| *number == machine)?.1,
        };
        ring.push(note.take()?).err().map(|refused| note = Some(refused))
    });
    let _ = left;
    note.map_or(Ok(()), Err)
}

/// Gives this thread a ring for `machine`, unless it has one. Returns its other end.
fn join(machine: u64) -> Option<RingConsumer<Deferred>> {
    let joined = RINGS.try_with(|rings| {
        let mut rings = rings.borrow_mut();
        if rings.iter().any(|(number, _)| *number == machine) {
            return None;
        }
        // Rings of machines that are gone.
        rings.retain(|(_, ring)| ring.has_consumer());
        let (producer, consumer) = ring();
        rings.push((machine, producer));
        Some(consumer)
    });
    joined.ok().flatten()
}

/// The rings of a machine, one for each thread that has left a note.
#[derive(Default)]
pub struct DeferredNotes(Vec<RingConsumer<Deferred>>);

impl DeferredNotes {
    /// Gives this thread a ring, unless it has one.
    fn join(&mut self, machine: u64) {
        if let Some(consumer) = join(machine) {
            // Threads that have ended, once all their notes were emitted.
            self.0.retain(|ring| ring.has_producer() || !ring.is_empty());
            self.0.push(consumer);
        }
    }
}

impl MachineShared {
    /// Releases a tensor whose last handle was dropped: at the next emission, or as
    /// [`MachineShared::release`] does.
    #[inline]
    pub fn drop_tensor(&self, tensor: TensorRef, origin: &Origin) {
        let machine = self.tables.machine;
        // The owner of lent memory waits for its end, and makes no emission.
        let is_now = self.is_closed() || !self.releases.is_empty() || self.tables.loans.any();
        if is_now || reentrancy::is_within(machine) {
            self.release(Release::Tensor(tensor, origin.clone()));
        } else if let Err(Deferred::Dropped(tensor, origin)) =
            leave(machine, Deferred::Dropped(tensor, origin.clone()))
        {
            self.join_deferred();
            self.release(Release::Tensor(tensor, origin));
        }
    }

    /// Gives this thread a ring, if no other thread is in the critical section.
    #[cold]
    fn join_deferred(&self) {
        if let Some(mut engine) = self.try_enter() {
            engine.deferred.join(self.tables.machine);
        }
    }

    /// Records that the program has observed a point: later instructions come after it.
    ///
    /// # Errors
    /// Called within a batch of this thread, or an earlier emission panicked.
    #[inline]
    pub fn observe(&self, point: Point, origin: &Origin) -> Result<()> {
        reentrancy::check_batch(self.tables.machine)?;
        match leave(self.tables.machine, Deferred::Observed(point, origin.clone())) {
            Ok(()) => Ok(()),
            Err(_) => self.observe_now(point, origin),
        }
    }

    #[cold]
    fn observe_now(&self, point: Point, origin: &Origin) -> Result<()> {
        let mut engine = self.lock()?;
        engine.deferred.join(self.tables.machine);
        let Engine { builder, router, .. } = &mut *engine;
        builder.observe(router, &[point], origin);
        Ok(())
    }

    /// Emits the notes of all threads.
    #[inline]
    pub(super) fn emit_deferred(&self, engine: &mut Engine) {
        for k in 0..engine.deferred.0.len() {
            while let Some(note) = engine.deferred.0[k].pop() {
                self.emit_note(engine, note);
            }
        }
    }

    #[inline]
    fn emit_note(&self, engine: &mut Engine, note: Deferred) {
        match note {
            Deferred::Dropped(tensor, origin) => {
                if let Some(kept) = engine.release_tensor(tensor, origin) {
                    self.releases.push(kept);
                }
            }
            Deferred::Observed(point, origin) => {
                let Engine { builder, router, .. } = engine;
                builder.observe(router, &[point], &origin);
            }
        }
    }
}
