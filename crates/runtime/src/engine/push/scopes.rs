//! The functions of bulk scopes that were not pushed yet.
//!
//! # Rules
//! 1. They are a part of the engine, under its lock. Every thread that takes the lock pushes all
//!    of them first (`MachineShared::lock`). So an emission, a wait or a release comes after every
//!    function that joined a scope before it, on any thread.
//! 2. A function that joins a scope pushes the other scopes that it conflicts with. So no two
//!    pending scopes conflict, and the order in which they are pushed does not matter.
//! 3. `MachineShared::has_bulk` is true while a scope holds functions. It changes under the lock;
//!    a wait that takes no lock reads it first.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;

use millstream_ep::WorkResult;
use millstream_instructions::{Priority, TensorRef};
use millstream_types::{Access, Origin, Result, StreamId, catch_panic, catch_unit};

use crate::engine::Engine;
use crate::engine::router::Router;
use crate::engine::shared::MachineShared;
use crate::scope::cancel::CancelScope;
use crate::scope::reentrancy;
use crate::sync::Ordering;
use crate::tables::functions::Function;

use super::Target;
use super::queued::QueuedPush;
use super::uses::Uses;
use crate::tables::run_context::CallSite;

/// Functions that run one after the other. The drop of each is caught by itself: a second panic
/// while the first unwinds would end the process.
#[derive(Default)]
pub struct Series(VecDeque<Function>);

impl Series {
    /// Adds a function. Returns how many there are.
    pub fn push(&mut self, function: Function) -> usize {
        self.0.push_back(function);
        self.0.len()
    }

    /// Runs the functions until one fails, and drops the others.
    fn run(mut self) -> WorkResult {
        let mut ran = Ok(());
        while ran.is_ok()
            && let Some(function) = self.0.pop_front()
        {
            ran = catch_panic(|| function.run(None, CallSite::HOST));
        }
        ran.and(catch_unit(|| drop(self)).map_err(Into::into))
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        let drops = self.0.drain(..).map(|unused| catch_unit(|| drop(unused)));
        if let Err(first) = drops.fold(Ok(()), Result::and)
            && !std::thread::panicking()
        {
            resume_unwind(Box::new(first.message));
        }
    }
}

/// The functions of one scope.
pub struct Pending {
    pub scope: u64,
    pub functions: Series,
    pub uses: Uses,
    pub stream: StreamId,
    pub cancel_scope: Option<Arc<CancelScope>>,
    /// The place of the newest function.
    pub origin: Origin,
}

/// The scopes that hold functions. Part of the engine, under its lock.
#[derive(Default)]
pub struct BulkScopes(pub(super) Vec<Pending>);

impl BulkScopes {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the functions of a scope.
    pub fn add(&mut self, scope: Pending) {
        self.0.push(scope);
    }

    /// Takes the functions of a scope out.
    pub fn take(&mut self, scope: u64) -> Option<Pending> {
        let at = self.0.iter().position(|pending| pending.scope == scope)?;
        Some(self.0.swap_remove(at))
    }

    /// Takes out another scope than `scope` whose functions conflict with these uses.
    pub fn take_conflicting(
        &mut self,
        scope: u64,
        uses: &Uses,
        router: &Router,
    ) -> Option<Pending> {
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
    pub fn merged(self) -> QueuedPush {
        let Pending { functions, uses, stream, cancel_scope, origin, .. } = self;
        let function = Function::Once(Box::new(move || functions.run()));
        let stream = Target::Stream(stream);
        let (form, operands) = uses.form(Priority::default(), None);
        let mut push = QueuedPush::new(function, stream, &uses, &form, &operands, &origin);
        push.cancel_scope = cancel_scope;
        push
    }

    /// Pushes the functions. A refusal becomes a failure of the machine.
    pub fn push(self, engine: &mut Engine) {
        self.merged().emit(engine, "a bulk scope held it");
    }
}

impl MachineShared {
    /// Pushes the functions of all scopes.
    #[cold]
    pub(crate) fn push_bulks(&self, engine: &mut Engine) {
        let scopes = std::mem::take(&mut engine.bulks.0);
        self.has_bulk.store(false, Ordering::Release);
        if self.is_closed() {
            // The machine is gone, so nobody is left to report a panic to.
            let functions = scopes.into_iter().map(|pending| pending.functions);
            return reentrancy::enter(self.tables.machine, || {
                functions.for_each(|functions| drop(catch_unit(|| drop(functions))));
            });
        }
        for pending in scopes {
            pending.push(engine);
        }
        self.advance_driver(engine);
    }

    /// Pushes the functions of all scopes before a wait that does not take the lock.
    #[inline]
    pub(crate) fn push_bulks_before_wait(&self) -> Result<()> {
        // Acquire: pairs with the store under the lock.
        if self.has_bulk.load(Ordering::Acquire) { self.lock().map(drop) } else { Ok(()) }
    }
}
