//! Functions that join bulk scopes, and the end of scopes.

use millstream_runtime::driver::DriverKind;
use millstream_runtime::engine::Engine;
use millstream_runtime::engine::guard::EngineGuard;
use millstream_runtime::engine::push::{Pending, Series, Uses};
use millstream_runtime::scope::{cancel, reentrancy};
use millstream_runtime::sync::Ordering;
use millstream_runtime::tables::functions::Function;
use millstream_types::{Error, Origin, Result};

use super::DependencyEngine;

impl DependencyEngine {
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
        let shared = &self.machine.shared;
        let at = |error: Error| error.at(origin);
        let is_nested = reentrancy::is_within(shared.tables.machine);
        if is_nested && shared.driver != DriverKind::Threaded {
            return Ok(Some(function));
        }
        uses.check().map_err(at)?;
        if !is_nested {
            shared.wait_for_room().map_err(at)?;
        }
        let mut engine = shared.lock_beside_bulks().map_err(at)?;
        if shared.is_closed() {
            return Err(at(Error::Closed));
        }
        let (mut pushed, cancel_scope) = (false, cancel::current());
        loop {
            let Engine { bulks, router, .. } = &mut *engine;
            let Some(other) = bulks.take_conflicting(scope, uses, router) else { break };
            other.push(&mut engine);
            pushed = true;
        }
        let bulks = &mut engine.bulks;
        let mut own = bulks.take(scope);
        if let Some(other) =
            own.take_if(|own| !cancel::same(own.cancel_scope.as_ref(), cancel_scope.as_ref()))
        {
            other.push(&mut engine);
            pushed = true;
        }
        let mut own = own.unwrap_or_else(|| Pending {
            scope,
            functions: Series::default(),
            uses: Uses::default(),
            stream: self.streams.normal.id,
            cancel_scope,
            origin: Origin::Unknown,
        });
        own.uses.then(uses);
        let count = own.functions.push(function);
        own.origin = origin.clone();
        if is_nested {
            shared.nested_pushes.fetch_add(1, Ordering::Release);
        }
        if count >= most {
            shared.has_bulk.store(!engine.bulks.is_empty(), Ordering::Release);
            return self.push_own(engine, own).map(|()| None);
        }
        engine.bulks.add(own);
        shared.has_bulk.store(true, Ordering::Release);
        if pushed {
            shared.leave(engine);
        }
        Ok(None)
    }

    /// Pushes the functions of a scope.
    ///
    /// # Errors
    /// As [`Push::spawn`](super::Push::spawn).
    pub(super) fn push_scope(&self, scope: u64) -> Result<()> {
        match self.take_scope(scope)? {
            Some((engine, own)) => self.push_own(engine, own),
            None => Ok(()),
        }
    }

    /// Pushes the functions of a scope that ends. A refusal is a failure of the machine. In a batch
    /// of this thread they stay until its end.
    pub(super) fn end_scope(&self, scope: u64) {
        if let Ok(Some((mut engine, own))) = self.take_scope(scope) {
            own.push(&mut engine);
            self.machine.shared.leave(engine);
        }
    }

    /// Takes a scope's functions out, under the lock. None if there are none: they were pushed.
    ///
    /// # Errors
    /// The machine has been shut down; or this thread is in a batch.
    fn take_scope(&self, scope: u64) -> Result<Option<(EngineGuard<'_>, Pending)>> {
        let shared = &self.machine.shared;
        // On a driver without threads, a function runs under the lock, and joins no scope.
        let is_nested = reentrancy::is_within(shared.tables.machine);
        let is_locked = is_nested && shared.driver != DriverKind::Threaded;
        // Acquire: pairs with the store under the lock.
        if is_locked || !shared.has_bulk.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut engine = shared.lock_beside_bulks()?;
        let Some(own) = engine.bulks.take(scope) else { return Ok(None) };
        shared.has_bulk.store(!engine.bulks.is_empty(), Ordering::Release);
        if shared.is_closed() {
            drop(engine);
            return Err(Error::Closed.at(&own.origin));
        }
        if is_nested {
            shared.nested_pushes.fetch_add(1, Ordering::Release);
        }
        Ok(Some((engine, own)))
    }

    /// Pushes the functions of a scope, which was taken out.
    fn push_own(&self, mut engine: EngineGuard<'_>, own: Pending) -> Result<()> {
        let (origin, mut push) = (own.origin.clone(), own.merged());
        let made = push.try_emit(&mut engine);
        self.machine.shared.leave(engine);
        // A refused function is dropped outside of the critical section.
        drop(push);
        made.map(drop).map_err(|e| e.at(&origin))
    }
}
