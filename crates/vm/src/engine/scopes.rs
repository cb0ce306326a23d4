//! The functions of bulk scopes that were not pushed yet.
//!
//! # Rules
//! 1. They are a part of the emission, under its lock. Every thread that takes the lock pushes all
//!    of them first (`MachineShared::lock`). So an emission, a wait or a release comes after every
//!    function that joined a scope before it, on any thread.
//! 2. A function that joins a scope pushes the other scopes that it conflicts with. So no two
//!    pending scopes conflict, and the order in which they are pushed does not matter.
//! 3. `MachineShared::has_bulk` is true while a scope holds functions. It changes under the lock;
//!    a wait that takes no lock reads it first.

use std::sync::Arc;

use millstream_instructions::{Priority, TensorRef};
use millstream_types::{Access, Error, Origin, Result, StreamId};

use crate::api::machine::{DriverKind, MachineShared};
use crate::capture;
use crate::emission::cancel::{self, CancelScope};
use crate::emission::guard::EmissionGuard;
use crate::emission::router::Router;
use crate::emission::{Emission, reentrancy};
use crate::sync::Ordering;
use crate::tables::functions::Function;

use super::nested::QueuedPush;
use super::push::Target;
use super::uses::Uses;
use super::{CallSite, Engine};

/// The functions of one scope.
struct Pending {
    scope: u64,
    functions: Vec<Function>,
    uses: Uses,
    stream: StreamId,
    cancel_scope: Option<Arc<CancelScope>>,
    /// The place of the newest function.
    origin: Origin,
}

/// The scopes that hold functions. Part of the emission, under its lock.
#[derive(Default)]
pub(crate) struct BulkScopes(Vec<Pending>);

impl BulkScopes {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the functions of a scope out.
    fn take(&mut self, scope: u64) -> Option<Pending> {
        let at = self.0.iter().position(|pending| pending.scope == scope)?;
        Some(self.0.swap_remove(at))
    }

    /// Takes out another scope than `scope` whose functions conflict with these uses.
    fn take_conflicting(&mut self, scope: u64, uses: &Uses, router: &Router) -> Option<Pending> {
        let conflicts =
            |pending: &Pending| pending.scope != scope && conflict(&pending.uses, uses, router);
        let at = self.0.iter().position(conflicts)?;
        Some(self.0.swap_remove(at))
    }
}

/// Returns whether two functions share a storage that one of them writes.
fn conflict(one: &Uses, other: &Uses, router: &Router) -> bool {
    let storage = |of: TensorRef| router.slot(of.id).map(|slot| slot.storage);
    let meet = |(x, x_access): (TensorRef, Access), (y, y_access): (TensorRef, Access)| {
        (x_access.writes() || y_access.writes()) && (x == y || storage(x) == storage(y))
    };
    one.iter().any(|x| other.iter().any(|y| meet(x, y)))
}

impl Pending {
    /// Returns one push of all functions, which runs them one after the other.
    fn merged(self) -> QueuedPush {
        let Pending { functions, uses, stream, cancel_scope, origin, .. } = self;
        let run = |function: Function| function.run(None, CallSite::HOST);
        let all = move || functions.into_iter().try_for_each(run);
        let (function, stream) = (Function::Once(Box::new(all)), Target::Stream(stream));
        let (form, operands) = uses.form(Priority::default(), None);
        let mut push = QueuedPush::new(function, stream, &uses, &form, &operands, &origin);
        push.cancel_scope = cancel_scope;
        push
    }

    /// Pushes the functions. A refusal becomes a failure of the machine.
    fn push(self, emission: &mut Emission) {
        self.merged().emit(emission, "a bulk scope held it");
    }
}

impl Engine {
    /// Adds a function to a scope of up to `most`. Returns the function if it has to be pushed by
    /// itself: what it pushes would be pushed only once it has returned.
    ///
    /// # Errors
    /// As [`Push::spawn`](super::Push::spawn).
    pub(super) fn join(
        &self,
        scope: u64,
        most: usize,
        function: Function,
        uses: &Uses,
        origin: &Origin,
    ) -> Result<Option<Function>> {
        let (machine, shared) = (&self.machine, &self.machine.shared);
        let at = |error: Error| error.at(origin);
        if capture::is_active() {
            capture::refuse(machine, "it pushes a function of the program", origin);
        }
        let is_nested = reentrancy::is_within(shared.tables.machine);
        if is_nested && shared.driver != DriverKind::Threaded {
            return Ok(Some(function));
        }
        uses.check().map_err(at)?;
        if !is_nested {
            shared.wait_for_room().map_err(at)?;
        }
        let mut emission = shared.lock_beside_bulks().map_err(at)?;
        if shared.is_closed() {
            return Err(at(Error::Closed));
        }
        let (mut pushed, cancel_scope) = (false, cancel::current());
        loop {
            let Emission { bulks, router, .. } = &mut *emission;
            let Some(other) = bulks.take_conflicting(scope, uses, router) else { break };
            other.push(&mut emission);
            pushed = true;
        }
        let bulks = &mut emission.bulks;
        let mut own = bulks.take(scope);
        if let Some(other) =
            own.take_if(|own| !cancel::same(own.cancel_scope.as_ref(), cancel_scope.as_ref()))
        {
            other.push(&mut emission);
            pushed = true;
        }
        let mut own = own.unwrap_or_else(|| Pending {
            scope,
            functions: Vec::new(),
            uses: Uses::default(),
            stream: self.streams.normal.id,
            cancel_scope,
            origin: Origin::Unknown,
        });
        own.uses.then(uses);
        own.functions.push(function);
        own.origin = origin.clone();
        if is_nested {
            shared.nested_pushes.fetch_add(1, Ordering::Release);
        }
        if own.functions.len() >= most {
            shared.has_bulk.store(!emission.bulks.is_empty(), Ordering::Release);
            return self.push_own(emission, own).map(|()| None);
        }
        emission.bulks.0.push(own);
        shared.has_bulk.store(true, Ordering::Release);
        if pushed {
            shared.leave(emission);
        }
        Ok(None)
    }

    /// Pushes the functions of a scope.
    ///
    /// # Errors
    /// As [`Push::spawn`](super::Push::spawn).
    pub(super) fn push_scope(&self, scope: u64) -> Result<()> {
        match self.take_scope(scope)? {
            Some((emission, own)) => self.push_own(emission, own),
            None => Ok(()),
        }
    }

    /// Pushes the functions of a scope that ends. A refusal is a failure of the machine. In a batch
    /// of this thread they stay until its end.
    pub(super) fn end_scope(&self, scope: u64) {
        if let Ok(Some((mut emission, own))) = self.take_scope(scope) {
            own.push(&mut emission);
            self.machine.shared.leave(emission);
        }
    }

    /// Takes a scope's functions out, under the lock. None if there are none: they were pushed.
    ///
    /// # Errors
    /// The machine has been shut down; or this thread is in a batch.
    fn take_scope(&self, scope: u64) -> Result<Option<(EmissionGuard<'_>, Pending)>> {
        let shared = &self.machine.shared;
        // On a driver without threads, a function runs under the lock, and joins no scope.
        let is_nested = reentrancy::is_within(shared.tables.machine);
        let is_locked = is_nested && shared.driver != DriverKind::Threaded;
        // Acquire: pairs with the store under the lock.
        if is_locked || !shared.has_bulk.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut emission = shared.lock_beside_bulks()?;
        let Some(own) = emission.bulks.take(scope) else { return Ok(None) };
        shared.has_bulk.store(!emission.bulks.is_empty(), Ordering::Release);
        if shared.is_closed() {
            drop(emission);
            return Err(Error::Closed.at(&own.origin));
        }
        if is_nested {
            shared.nested_pushes.fetch_add(1, Ordering::Release);
        }
        Ok(Some((emission, own)))
    }

    /// Pushes the functions of a scope, which was taken out.
    fn push_own(&self, mut emission: EmissionGuard<'_>, own: Pending) -> Result<()> {
        let (origin, mut push) = (own.origin.clone(), own.merged());
        let made = push.try_emit(&mut emission);
        self.machine.shared.leave(emission);
        // A refused function is dropped outside of the critical section.
        drop(push);
        made.map(drop).map_err(|e| e.at(&origin))
    }
}

impl MachineShared {
    /// Pushes the functions of all scopes.
    #[cold]
    pub(crate) fn push_bulks(&self, emission: &mut Emission) {
        let scopes = std::mem::take(&mut emission.bulks.0);
        self.has_bulk.store(false, Ordering::Release);
        if self.is_closed() {
            return reentrancy::enter(self.tables.machine, || drop(scopes));
        }
        for pending in scopes {
            pending.push(emission);
        }
        self.advance_driver(emission);
    }

    /// Pushes the functions of all scopes before a wait that does not take the lock.
    #[inline]
    pub(crate) fn push_bulks_before_wait(&self) -> Result<()> {
        // Acquire: pairs with the store under the lock.
        if self.has_bulk.load(Ordering::Acquire) { self.lock().map(drop) } else { Ok(()) }
    }
}
