//! Releases of what handles held: emitted at once if no emission is under way, else by the next.
//! Tensors have a shorter way, in `deferred`.

use std::sync::TryLockError;

use millstream_instructions::builder::{EventRef, SectionId};
use millstream_instructions::{Sink, TensorRef};
use millstream_types::{Error, Origin, StreamId};

use crate::emission::Emission;
use crate::emission::guard::EmissionGuard;
use crate::emission::push::QueuedPush;
use crate::emission::shared::MachineShared;
use crate::scope::fork;
use crate::tapes::Ended;

/// A resource whose last handle was dropped.
pub enum Release {
    Tensor(TensorRef, Origin),
    Event(EventRef),
    Stream(StreamId),
    Section(SectionId, Origin),
    Executable(Box<Ended>),
    Call(u32),
    /// A push of a function. It is no release, but stands among them so that its variables end
    /// after it.
    Push(Box<QueuedPush>),
}

impl Emission {
    /// Emits the release of a tensor. Returns it if it must be emitted later.
    #[inline]
    pub(super) fn release_tensor(&mut self, tensor: TensorRef, origin: Origin) -> Option<Release> {
        // A tensor dropped within a critical section is released once the section ends. Any other
        // error means that the program released it before it dropped the handle.
        match self.builder.release(&mut self.router, tensor, None, &origin) {
            Err(Error::Held { .. }) => Some(Release::Tensor(tensor, origin)),
            _ => None,
        }
    }

    #[inline]
    fn release(&mut self, release: Release) -> Option<Release> {
        match release {
            Release::Tensor(tensor, origin) => return self.release_tensor(tensor, origin),
            Release::Event(event) => self.builder.release_event(&event),
            Release::Stream(stream) => {
                if self.leases.give_back(stream) {
                    self.builder.forget_history(stream);
                    self.router.close(stream);
                }
            }
            Release::Section(section, origin) => {
                let Emission { builder, router, .. } = self;
                // The only error is that the section has ended before.
                let _ = builder.end_critical_section(router, section, &origin);
            }
            Release::Call(number) => self.router.forget_call(number),
            Release::Push(push) => push.emit(self, "a function pushed it"),
            Release::Executable(ended) => {
                for tensor in ended.memory {
                    // Nobody else can have released it.
                    let _ = self.builder.release(&mut self.router, tensor, None, &Origin::Unknown);
                }
                self.router.close_tapes(ended.tapes);
            }
        }
        None
    }
}

impl MachineShared {
    /// Emits the pending releases.
    #[inline]
    pub fn drain(&self, emission: &mut Emission) {
        self.emit_deferred(emission);
        if !self.releases.is_empty() {
            self.drain_into(emission);
        }
    }

    fn drain_into(&self, emission: &mut Emission) {
        let mut kept = Vec::new();
        while let Some(release) = self.releases.pop() {
            kept.extend(emission.release(release));
        }
        for release in kept {
            self.releases.push(release);
        }
    }

    /// Emits a release, or queues it. Never blocks: the emission under way, or the next one, emits
    /// what is queued.
    #[inline]
    pub fn release(&self, release: Release) {
        if self.releases.is_empty()
            && let Some(mut emission) = self.try_enter()
        {
            if let Some(kept) = emission.release(release) {
                self.releases.push(kept);
            }
            drop(emission);
        } else {
            self.releases.push(release);
        }
        self.drain_late();
    }

    /// Emits releases that were queued while an emission was under way.
    #[inline]
    pub(super) fn drain_late(&self) {
        if !self.releases.is_empty() {
            self.drain_queued();
        }
    }

    #[cold]
    fn drain_queued(&self) {
        if let Some(mut emission) = self.try_enter() {
            self.drain(&mut emission);
        }
    }

    /// Enters the critical section to release what was dropped, if no other thread is in it.
    #[inline]
    pub(super) fn try_enter(&self) -> Option<EmissionGuard<'_>> {
        if self.is_closed() || fork::is_inherited(self.tables.machine) {
            return None;
        }
        let held = match self.emission.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let mut emission = EmissionGuard::from_lock(held).ok()?;
        if !emission.bulks.is_empty() {
            self.push_bulks(&mut emission);
        }
        self.emit_deferred(&mut emission);
        Some(emission)
    }
}
