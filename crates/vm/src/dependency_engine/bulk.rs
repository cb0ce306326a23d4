//! Several pushes as one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_runtime::engine::push::Uses;
use millstream_runtime::scope::origin;
use millstream_runtime::tables::functions::Function;
use millstream_types::{Origin, Result};

use super::operator::Operator;
use super::push::Push;
use super::{ClosureResult, DependencyEngine};

/// A scope in which consecutive pushes become one: a function that runs them one after the other,
/// and uses all their variables. That costs less where functions are small. Functions with a
/// priority, a property or a stream, those that complete later and those with a context are pushed
/// by themselves, behind those before them.
///
/// A scope does not change the order of the program. Whatever is emitted, released or waited for,
/// by any thread, comes after the functions in all scopes of the machine, which are pushed first.
/// Only a function that joins another scope, and shares no variable with them that one of the two
/// writes, leaves them where they are. If such a push is refused, that is a failure of the machine
/// ([`DependencyEngine::wait_all`](crate::DependencyEngine::wait_all)).
///
/// If one of the functions fails, those after it in the same push do not run, and all variables
/// that the push writes are poisoned.
///
/// ```
/// use millstream_vm::{Machine, MachineConfig};
///
/// # fn main() -> millstream_types::Result<()> {
/// # let machine = Machine::new(MachineConfig::default())?;
/// let engine = machine.dependency_engine()?;
/// let a = engine.var()?;
/// let mut bulk = engine.bulk(15);
/// for _ in 0..100 {
///     bulk.push(|| ()).writes(&[&a]).spawn()?; // seven pushes in all
/// }
/// bulk.flush()?;
/// # Ok(())
/// # }
/// ```
pub struct Bulk<'a> {
    engine: &'a DependencyEngine,
    scope: Scope,
}

/// The number of a scope, under which the machine keeps its functions, and its size.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    number: u64,
    most: usize,
}

static SCOPES: AtomicU64 = AtomicU64::new(1);

impl<'a> Bulk<'a> {
    pub(super) fn new(engine: &'a DependencyEngine, most: usize) -> Bulk<'a> {
        // Relaxed: only uniqueness is wanted.
        let number = SCOPES.fetch_add(1, Ordering::Relaxed);
        Bulk { engine, scope: Scope { number, most: most.max(1) } }
    }

    /// Begins a push of a function as a part of the scope.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let mut bulk = engine.bulk(8);
    /// for _ in 0..20 {
    ///     bulk.push(|| ()).writes(&[&a]).spawn()?;
    /// }
    /// bulk.flush()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn push<R: ClosureResult>(
        &mut self,
        function: impl FnOnce() -> R + Send + 'static,
    ) -> Push<'_> {
        let function = Function::Once(Box::new(|| function().into_result()));
        Push::new(self.engine, function, origin::caller()).within(self.scope)
    }

    /// Pushes an operator as a part of the scope.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let step = engine.operator(|| ()).writes(&[&a]);
    /// let mut bulk = engine.bulk(8);
    /// bulk.operator(&step)?;
    /// bulk.flush()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Push::spawn`].
    #[track_caller]
    pub fn operator(&mut self, operator: &Operator) -> Result<()> {
        operator.push_within(self.engine, self.scope, &origin::caller())
    }

    /// Pushes the pending functions. At the end of the scope, which
    /// does the same, a refusal is a failure of the machine.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let mut bulk = engine.bulk(8);
    /// bulk.push(|| ()).writes(&[&a]).spawn()?;
    /// bulk.flush()?; // pushed, though there are fewer than eight
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Push::spawn`].
    pub fn flush(&mut self) -> Result<()> {
        self.engine.push_scope(self.scope.number)
    }
}

impl Scope {
    /// Adds a function. Returns it if it is to be pushed by itself.
    pub(super) fn add(
        self,
        engine: &DependencyEngine,
        function: Function,
        uses: &Uses,
        joins: bool,
        origin: &Origin,
    ) -> Result<Option<Function>> {
        match joins && !function.is_alone() {
            true => engine.join(self.number, self.most, function, uses, origin),
            false => Ok(Some(function)),
        }
    }
}

impl Drop for Bulk<'_> {
    fn drop(&mut self) {
        self.engine.end_scope(self.scope.number);
    }
}

impl fmt::Debug for Bulk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").field("most", &self.scope.most).finish_non_exhaustive()
    }
}
