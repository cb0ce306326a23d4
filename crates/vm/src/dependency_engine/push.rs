//! A push under construction, and its emission.

use std::borrow::Cow;
use std::fmt;

use millstream_instructions::{Priority, TensorRef};
use millstream_runtime::driver::DriverKind;
use millstream_runtime::engine::Engine;
use millstream_runtime::engine::closure_calls::ClosureForm;
use millstream_runtime::engine::push::QueuedPush;
use millstream_runtime::engine::push::Uses;
use millstream_runtime::engine::push::{Target, emit};
use millstream_runtime::scope::{cancel, reentrancy};
use millstream_runtime::tables::functions::Function;
use millstream_runtime::tables::run_context::CallSite;
use millstream_runtime::thread_ctx::apart::Apart;
use millstream_types::{Access, Origin, Point, Result};

use crate::handle::Stream;
use crate::handle::machine::Machine;
use crate::handle::request::{self, Request, Verb};

use super::DependencyEngine;
use super::bulk::Scope;
use super::prop::Prop;
use super::var::Var;

/// A push of a function, under construction.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let engine = machine.dependency_engine()?;
/// # let a = engine.var()?;
/// # let b = engine.var()?;
/// let push: Push<'_> = engine.push(|| ()).reads(&[&b]).writes(&[&a]).name("step");
/// push.priority(1).prop(Prop::CpuPrioritized).spawn()?;
/// engine.wait_for(&a)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "a function is pushed by `spawn`"]
pub struct Push<'a> {
    engine: &'a DependencyEngine,
    bulk: Option<Scope>,
    function: Function,
    terms: Terms,
    stream: Option<&'a Stream>,
    origin: Origin,
}

/// How a function is pushed.
#[derive(Clone, Default)]
pub(super) struct Terms {
    pub(super) uses: Uses,
    pub(super) prop: Prop,
    pub(super) priority: Priority,
    pub(super) name: Option<Cow<'static, str>>,
}

impl Terms {
    /// Returns whether the function may join others of a scope.
    pub(super) fn joins(&self) -> bool {
        self.prop == Prop::Normal && self.priority == Priority::default()
    }
}

impl<'a> Push<'a> {
    #[inline(always)]
    pub(super) fn new(
        engine: &'a DependencyEngine,
        function: Function,
        origin: Origin,
    ) -> Push<'a> {
        Push { engine, bulk: None, function, terms: Terms::default(), stream: None, origin }
    }

    #[inline(always)]
    pub(super) fn within(mut self, bulk: Scope) -> Push<'a> {
        self.bulk = Some(bulk);
        self
    }

    /// Sets everything but the function and the stream.
    pub(super) fn like(self, terms: &Terms) -> Push<'a> {
        Push { terms: terms.clone(), ..self }
    }

    // The methods of a push under construction are inlined, so that it is not moved by each.
    #[inline(always)]
    fn uses(mut self, vars: &[&Var], access: Access) -> Push<'a> {
        let machine = self.engine.machine.shared.tables.machine;
        Var::add_uses(&mut self.terms.uses, vars, access, machine);
        self
    }

    /// Names the variables that the function reads. A variable may be named twice, and in other
    /// lists: then the function reads and writes it.
    #[inline(always)]
    pub fn reads(self, vars: &[&Var]) -> Push<'a> {
        self.uses(vars, Access::Read)
    }

    /// Names the variables that the function changes. If one is poisoned, the function is dropped
    /// without a call.
    #[inline(always)]
    pub fn writes(self, vars: &[&Var]) -> Push<'a> {
        self.uses(vars, Access::ReadWrite)
    }

    /// Names the variables that the function sets anew, whatever they were: it runs even if they
    /// are poisoned, and heals them.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// engine.push(|| "x".parse::<u8>().map(drop)).writes(&[&a]).spawn()?;
    /// assert!(engine.wait_for(&a).is_err());
    /// engine.push(|| ()).overwrites(&[&a]).spawn()?; // heals it
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[inline(always)]
    pub fn overwrites(self, vars: &[&Var]) -> Push<'a> {
        self.uses(vars, Access::Write)
    }

    /// Sets the priority: of the functions that can run, those of the highest run first. The
    /// default is 0; in-order streams ignore it.
    #[inline(always)]
    pub fn priority(mut self, priority: i32) -> Push<'a> {
        self.terms.priority = Priority(priority);
        self
    }

    /// Sets the property, which determines the worker.
    #[inline(always)]
    pub fn prop(mut self, prop: Prop) -> Push<'a> {
        self.terms.prop = prop;
        self
    }

    /// Runs the function on this stream instead of that of its property.
    #[inline(always)]
    pub fn on(mut self, stream: &'a Stream) -> Push<'a> {
        self.stream = Some(stream);
        self
    }

    /// Sets the name that lists, failures and profiles show.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let broken = || "x".parse::<u8>().map(drop);
    /// engine.push(broken).writes(&[&a]).name("decode").spawn()?;
    /// assert!(engine.wait_for(&a).unwrap_err().to_string().contains("decode"));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[inline(always)]
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Push<'a> {
        self.terms.name = Some(name.into());
        self
    }

    /// Pushes the function. Blocks only while too many instructions are pending
    /// ([`MachineConfig::watermark`](crate::MachineConfig::watermark)).
    ///
    /// A function, kernel or callback of the machine may push. Its push waits for no room, and the
    /// function that it pushes comes after what has been pushed so far, as from any thread: after
    /// its pusher too, if the two conflict.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// engine.push(|| ()).writes(&[&a]).spawn()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A variable has ended or is another machine's, the stream is another machine's, or the
    /// machine is being shut down. The function is dropped.
    pub fn spawn(self) -> Result<()> {
        let Push { engine, bulk, function, terms, stream, origin } = self;
        engine.pass_layers(&origin)?;
        let joins = stream.is_none() && terms.joins();
        let Terms { uses, prop, priority, name } = terms;
        let function = match bulk {
            Some(bulk) => match bulk.add(engine, function, &uses, joins, &origin)? {
                Some(function) => function,
                None => return Ok(()),
            },
            None => function,
        };
        let push = engine.new_push(function, &prop, stream).map_err(|e| e.at(&origin))?;
        let (form, operands) = uses.form(priority, name);
        submit(&engine.machine, push, &uses, &form, &operands, &origin).map(drop)
    }
}

impl fmt::Debug for Push<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("name", &self.terms.name)
            .field("uses", &self.terms.uses)
            .finish_non_exhaustive()
    }
}

impl DependencyEngine {
    /// Lets the layers of this thread note a push, or refuse it.
    #[inline]
    pub(super) fn pass_layers(&self, origin: &Origin) -> Result<()> {
        let push = Request::new(Verb::Push { machine: &self.machine }, origin);
        request::submit(push, |_| Ok(Some(()))).map(drop)
    }

    /// Returns what to submit for a function of this property.
    #[inline]
    pub(super) fn new_push(
        &self,
        function: Function,
        prop: &Prop,
        stream: Option<&Stream>,
    ) -> Result<NewPush> {
        let stream = match stream {
            Some(stream) => {
                self.machine.own_stream(stream)?;
                Target::Stream(stream.id)
            }
            None => self.streams.of(prop),
        };
        Ok(NewPush { function, stream, on_pusher: *prop == Prop::Async })
    }
}

/// A function, and where it is to run.
pub(super) struct NewPush {
    pub(super) function: Function,
    pub(super) stream: Target,
    /// Whether the pushing thread runs it if nothing that it must come after is pending.
    pub(super) on_pusher: bool,
}

/// Emits a push.
///
/// # Errors
/// As [`Push::spawn`]. The function is dropped outside of the critical section, since that may run
/// code of the program.
pub(super) fn submit(
    machine: &Machine,
    push: NewPush,
    uses: &Uses,
    form: &ClosureForm,
    operands: &[TensorRef],
    origin: &Origin,
) -> Result<Point> {
    let NewPush { function, stream, on_pusher } = push;
    let shared = &machine.shared;
    // A function of the machine pushes: it waits for nothing, since that might wait for it.
    let is_nested = reentrancy::is_within(shared.tables.machine);
    if is_nested && shared.driver != DriverKind::Threaded {
        uses.check().map_err(|e| e.at(origin))?;
        let push = QueuedPush::new(function, stream, uses, form, operands, origin);
        return shared.queue_push(push).map_err(|e| e.at(origin));
    }
    let mut function = Some(function);
    let mut own = None;
    let mut emit = || {
        uses.check()?;
        let mut engine = if is_nested { shared.enter_nested()? } else { shared.enter()? };
        let on_pusher = on_pusher && shared.driver == DriverKind::Threaded;
        if on_pusher && is_ready(&engine, uses) {
            own = function.take().map(|whole| {
                let (of_call, own) = Apart::split(whole);
                function = Some(of_call);
                own
            });
        }
        let pushed =
            emit(&mut engine, &mut function, &stream, uses.are_plain, form, operands, origin);
        shared.leave(engine);
        pushed
    };
    let point = emit().map_err(|e| e.at(origin))?;
    if let Some(own) = own {
        own.run(shared.tables.machine, None, CallSite::HOST);
    }
    Ok(point)
}

/// Returns whether everything that a push must come after has completed, and nothing is poisoned or
/// cancelled.
fn is_ready(engine: &Engine, uses: &Uses) -> bool {
    let Engine { builder, router, .. } = engine;
    cancel::check(router.cancel_scope.as_ref()).is_ok()
        && !router.tables.poison.any()
        && router.has_passed_barriers()
        && uses.iter().all(|(operand, access)| builder.is_settled(operand, access, router))
}
