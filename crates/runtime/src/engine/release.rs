//! Releases of what handles held: emitted at once if no emission is under way, else by the next.
//! Tensors have a shorter way, in `deferred`.

use std::sync::TryLockError;

use millstream_instructions::builder::{EventRef, SectionId};
use millstream_instructions::{Sink, TensorRef};
use millstream_types::{Error, Origin, StreamId};

use crate::engine::Engine;
use crate::engine::guard::EngineGuard;
use crate::engine::push::QueuedPush;
use crate::engine::shared::MachineShared;
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

impl Engine {
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
                let Engine { builder, router, .. } = self;
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
    pub fn drain(&self, engine: &mut Engine) {
        self.emit_deferred(engine);
        if !self.releases.is_empty() {
            self.drain_into(engine);
        }
    }

    fn drain_into(&self, engine: &mut Engine) {
        let mut kept = Vec::new();
        while let Some(release) = self.releases.pop() {
            kept.extend(engine.release(release));
        }
        for release in kept {
            self.releases.push(release);
        }
    }

    /// Emits a release, or queues it. Never blocks: the engine under way, or the next one, emits
    /// what is queued.
    #[inline]
    pub fn release(&self, release: Release) {
        if self.releases.is_empty()
            && let Some(mut engine) = self.try_enter()
        {
            if let Some(kept) = engine.release(release) {
                self.releases.push(kept);
            }
            drop(engine);
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
        if let Some(mut engine) = self.try_enter() {
            self.drain(&mut engine);
        }
    }

    /// Enters the critical section to release what was dropped, if no other thread is in it.
    #[inline]
    pub(super) fn try_enter(&self) -> Option<EngineGuard<'_>> {
        if self.is_closed() || fork::is_inherited(self.tables.machine) {
            return None;
        }
        let held = match self.engine.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let mut engine = EngineGuard::from_lock(held).ok()?;
        if !engine.bulks.is_empty() {
            self.push_bulks(&mut engine);
        }
        self.emit_deferred(&mut engine);
        Some(engine)
    }
}
