//! Several pushes as one.

use std::fmt;

use millstream_instructions::Priority;
use millstream_types::{Error, Origin, Result};

use crate::emission::origin;
use crate::tables::functions::Function;

use super::operator::Operator;
use super::push::{Push, Request, Target, submit};
use super::uses::Uses;
use super::{ClosureResult, Engine};

/// A scope in which consecutive pushes become one: a function that runs them one after the other,
/// and uses all their variables. That costs less where functions are small. Functions with a
/// priority, a property or a stream, and those that complete later, are pushed by themselves,
/// behind those before them.
///
/// If one of the functions fails, those after it in the same push do not run, and all variables
/// that the push writes are poisoned.
///
/// ```
/// use millstream_vm::{Machine, MachineConfig};
///
/// # fn main() -> millstream_types::Result<()> {
/// # let machine = Machine::new(MachineConfig::default())?;
/// let engine = machine.engine()?;
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
    engine: &'a Engine,
    pending: Pending,
}

/// The functions that were not pushed yet.
pub(super) struct Pending {
    most: usize,
    functions: Vec<Function>,
    uses: Uses,
    origin: Origin,
}

impl<'a> Bulk<'a> {
    pub(super) fn new(engine: &'a Engine, most: usize, origin: Origin) -> Bulk<'a> {
        let pending =
            Pending { most: most.max(1), functions: Vec::new(), uses: Uses::default(), origin };
        Bulk { engine, pending }
    }

    /// Begins a push of a function as a part of the scope.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.engine()?;
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
        Push::new(self.engine, function, origin::caller()).within(&mut self.pending)
    }

    /// Pushes an operator as a part of the scope.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.engine()?;
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
        let origin = origin::caller();
        operator.push_within(self.engine, &mut self.pending, &origin)
    }

    /// Pushes what was not pushed yet. The end of the scope does the same, without the error.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.engine()?;
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
        self.pending.flush(self.engine)
    }
}

impl Pending {
    /// Adds a function. Returns it if it is to be pushed by itself.
    pub(super) fn add(
        &mut self,
        engine: &Engine,
        function: Function,
        uses: &Uses,
        joins: bool,
        origin: &Origin,
    ) -> Result<Option<Function>> {
        if !joins || function.is_async() {
            self.flush(engine)?;
            return Ok(Some(function));
        }
        uses.check().map_err(|e: Error| e.at(origin))?;
        self.uses.then(uses);
        self.functions.push(function);
        self.origin = origin.clone();
        if self.functions.len() >= self.most {
            self.flush(engine)?;
        }
        Ok(None)
    }

    fn flush(&mut self, engine: &Engine) -> Result<()> {
        if self.functions.is_empty() {
            return Ok(());
        }
        let functions = std::mem::take(&mut self.functions);
        let uses = std::mem::take(&mut self.uses);
        let all = move || functions.into_iter().try_for_each(|function| function.run(None));
        let stream = Target::Stream(engine.streams.normal.id);
        let function = Function::Once(Box::new(all));
        let request = Request { function, stream, on_pusher: false };
        let (form, operands) = uses.form(Priority::default(), None);
        submit(&engine.machine, request, &uses, &form, &operands, &self.origin).map(drop)
    }
}

impl Drop for Bulk<'_> {
    fn drop(&mut self) {
        // `flush` returns the error to those who want it.
        let _ = self.flush();
    }
}

impl fmt::Debug for Bulk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").field("pending", &self.pending.functions.len()).finish()
    }
}
