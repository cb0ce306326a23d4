//! Functions that are made once and pushed often.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use smallvec::SmallVec;

use millstream_instructions::{Priority, TensorRef};
use millstream_runtime::engine::closure_calls::ClosureForm;
use millstream_runtime::scope::origin;
use millstream_runtime::tables::functions::{Function, SharedFunction};
use millstream_types::{Access, Origin, Result};

use super::DependencyEngine;
use super::bulk::Scope;
use super::prop::Prop;
use super::push::{Push, Terms, submit};
use super::var::Var;

/// A function with its variables, to be pushed many times. It keeps the variables.
///
/// ```
/// use millstream_vm::{Machine, MachineConfig};
///
/// # fn main() -> millstream_types::Result<()> {
/// # let machine = Machine::new(MachineConfig::default())?;
/// let engine = machine.dependency_engine()?;
/// let (input, output) = (engine.var()?, engine.var()?);
/// let step = engine.operator(|| println!("step")).reads(&[&input]).writes(&[&output]);
/// for _ in 0..3 {
///     step.push()?;
/// }
/// engine.wait_for(&output)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Operator {
    engine: DependencyEngine,
    function: SharedFunction,
    terms: Terms,
    /// The variables live as long as the operator can be pushed.
    vars: Vec<Var>,
    /// The form and the operands of its calls, after the first push.
    call: OnceLock<(ClosureForm, SmallVec<[TensorRef; 4]>)>,
}

impl Operator {
    pub(super) fn new(engine: &DependencyEngine, function: SharedFunction) -> Operator {
        let (engine, terms) = (engine.clone(), Terms::default());
        Operator { engine, function, terms, vars: Vec::new(), call: OnceLock::new() }
    }

    fn uses(mut self, vars: &[&Var], access: Access) -> Operator {
        let machine = self.engine.machine.shared.tables.machine;
        Var::add_uses(&mut self.terms.uses, vars, access, machine);
        self.vars.extend(vars.iter().map(|var| (*var).clone()));
        Operator { call: OnceLock::new(), ..self }
    }

    /// Names variables that the function reads, as [`Push::reads`](crate::Push::reads).
    #[must_use]
    pub fn reads(self, vars: &[&Var]) -> Operator {
        self.uses(vars, Access::Read)
    }

    /// Names variables that the function changes, as [`Push::writes`](crate::Push::writes).
    #[must_use]
    pub fn writes(self, vars: &[&Var]) -> Operator {
        self.uses(vars, Access::ReadWrite)
    }

    /// Names variables that the function sets anew, as
    /// [`Push::overwrites`](crate::Push::overwrites).
    #[must_use]
    pub fn overwrites(self, vars: &[&Var]) -> Operator {
        self.uses(vars, Access::Write)
    }

    /// Sets the priority, as [`Push::priority`](crate::Push::priority).
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Operator {
        self.terms.priority = Priority(priority);
        Operator { call: OnceLock::new(), ..self }
    }

    /// Sets the property, as [`Push::prop`](crate::Push::prop).
    #[must_use]
    pub fn prop(mut self, prop: Prop) -> Operator {
        self.terms.prop = prop;
        self
    }

    /// Sets the name that lists, failures and profiles show.
    #[must_use]
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Operator {
        self.terms.name = Some(name.into());
        Operator { call: OnceLock::new(), ..self }
    }

    /// Pushes the function.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let step = engine.operator(|| ()).writes(&[&a]);
    /// step.push()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Push::spawn`](crate::Push::spawn).
    #[track_caller]
    pub fn push(&self) -> Result<()> {
        let origin = origin::caller();
        self.engine.pass_layers(&origin)?;
        self.push_at(&origin)
    }

    /// Begins a push of the function that differs from the operator: with another property,
    /// priority, stream or name, or with more variables.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let step = engine.operator(|| ()).writes(&[&a]);
    /// step.begin_push().priority(7).spawn()?;
    /// step.begin_push().on(&s).spawn()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn begin_push(&self) -> Push<'_> {
        let function = Function::Shared(self.function.clone());
        Push::new(&self.engine, function, origin::caller()).like(&self.terms)
    }

    fn push_at(&self, origin: &Origin) -> Result<()> {
        let Operator { engine, function, terms: Terms { uses, prop, priority, name }, .. } = self;
        let function = Function::Shared(function.clone());
        let push = engine.new_push(function, prop, None).map_err(|e| e.at(origin))?;
        let (form, operands) = self.call.get_or_init(|| uses.form(*priority, name.clone()));
        submit(&engine.machine, push, uses, form, operands, origin).map(drop)
    }

    /// Pushes the function as a part of a scope.
    pub(super) fn push_within(
        &self,
        engine: &DependencyEngine,
        bulk: Scope,
        origin: &Origin,
    ) -> Result<()> {
        engine.pass_layers(origin)?;
        let function = Function::Shared(self.function.clone());
        let Terms { uses, .. } = &self.terms;
        match bulk.add(engine, function, uses, self.terms.joins(), origin)? {
            Some(_) => self.push_at(origin),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("name", &self.terms.name)
            .field("uses", &self.terms.uses)
            .finish_non_exhaustive()
    }
}
