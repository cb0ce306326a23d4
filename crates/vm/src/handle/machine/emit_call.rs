//! What the machine does with a call of an op, below all layers.

use smallvec::{SmallVec, smallvec};

use millstream_instructions::builder::{Known, Output, Outputs};
use millstream_instructions::{Call, Outcome, TensorRef};
use millstream_runtime::engine::guard::EngineGuard;
use millstream_runtime::engine::{Engine, MadeTensor};
use millstream_types::{Error, OpId, Origin, Result};

use crate::handle::global;
use crate::handle::request::{self, OpCall, Request, Results, Verb};
use crate::handle::{Section, Tensor};

/// What a call returns. Most return one tensor, which is small to move.
pub(crate) enum Emitted {
    One(Tensor),
    Other(Results),
}

impl Emitted {
    /// Returns all results.
    pub(crate) fn all(self) -> Results {
        match self {
            Emitted::One(tensor) => smallvec![tensor],
            Emitted::Other(results) => results,
        }
    }

    /// Returns the first result.
    ///
    /// # Errors
    /// The op, of this name, has none.
    #[inline]
    pub(crate) fn first(self, op: &str) -> Result<Tensor> {
        match self {
            Emitted::One(tensor) => Ok(tensor),
            Emitted::Other(results) => results.into_iter().next().ok_or_else(|| {
                let message = "expected a result, and the op has none".to_owned();
                Error::Op { op: op.to_owned(), message }
            }),
        }
    }
}

impl OpCall<'_> {
    /// Submits the call of the op of its name: to the layers of this thread, then to the machine.
    ///
    /// # Errors
    /// As [`CallBuilder::on`](super::CallBuilder::on).
    #[inline]
    pub(crate) fn submit(
        &self,
        op: OpId,
        section: Option<&Section>,
        origin: &Origin,
    ) -> Result<Results> {
        let request = Request { verb: Verb::Op(*self), is_within: section.is_some(), origin };
        request::submit(request, |request| {
            let call = if let Verb::Op(call) = &request.verb { call } else { self };
            call.emit(op, section, origin).map(Emitted::all)
        })
    }

    /// Returns whether a mesh holds one of its tensors.
    pub(crate) fn is_global(&self) -> bool {
        let mut tensors = self.inputs.iter().chain(self.out.unwrap_or_default());
        tensors.any(|tensor| tensor.global().is_some())
    }

    /// Emits the call of the op of its name, or makes the calls on this rank's parts if it has a
    /// global tensor.
    ///
    /// # Errors
    /// As [`CallBuilder::on`](super::CallBuilder::on).
    pub(crate) fn emit(
        &self,
        op: OpId,
        section: Option<&Section>,
        origin: &Origin,
    ) -> Result<Emitted> {
        let OpCall { machine, inputs, out, attrs, stream, priority, .. } = *self;
        let at = |e: Error| e.at(origin);
        machine.own_stream(stream).map_err(at)?;
        // A loop, as collecting results costs more.
        let mut given: SmallVec<[TensorRef; 4]> = SmallVec::new();
        for tensor in inputs {
            let Some(slot) = machine.slot(tensor) else { return self.emit_other(section, origin) };
            given.push(slot);
        }
        let mut targets: Option<SmallVec<[TensorRef; 2]>> = None;
        if let Some(out) = out {
            targets = out.iter().map(|tensor| machine.slot(tensor)).collect();
            if targets.is_none() {
                return self.emit_other(section, origin);
            }
        }
        let section = machine.own_section(section).map_err(at)?;
        let (inputs, into, stream) = (&given[..], targets.as_deref(), stream.id);
        let call = Call { op, inputs, into, attrs, stream, priority, section, origin };
        let mut engine = machine.shared.enter().map_err(at)?;
        let known = engine.open(stream).and_then(|()| {
            let Engine { builder, router, .. } = &mut *engine;
            builder.call_known(router, &call)
        });
        // Most calls end here: nothing but their result is moved.
        let found = match known {
            Ok(Known::Called(Output::Same(input))) => {
                machine.shared.leave(engine);
                return Ok(Emitted::One(self.inputs[input].clone()));
            }
            Ok(Known::Called(Output::Tensor(tensor))) => {
                let made = engine.made(tensor);
                machine.shared.leave(engine);
                let made = made.map_err(at)?;
                return Ok(Emitted::One(machine.tensor(made, self.stream, origin)));
            }
            found => found,
        };
        self.emit_rest(engine, &call, found).map(Emitted::Other)
    }

    /// Makes a call of which a tensor has no slot of this machine. Most have, so a call asks only
    /// here whether a mesh holds one.
    #[inline(never)]
    fn emit_other(&self, section: Option<&Section>, origin: &Origin) -> Result<Emitted> {
        if self.is_global() {
            return global::make(*self, None, section.is_some(), origin).map(Emitted::Other);
        }
        let mut tensors = self.inputs.iter().chain(self.out.unwrap_or_default());
        let refused = tensors.find_map(|tensor| self.machine.owns(tensor).err());
        let missing = || Error::Internal { message: format!("{} has all slots", self.name) };
        Err(refused.unwrap_or_else(missing).at(origin))
    }

    /// Emits the call after its look-up.
    #[inline(never)]
    fn emit_rest(
        &self,
        engine: EngineGuard<'_>,
        call: &Call<'_>,
        found: Result<Known>,
    ) -> Result<Results> {
        let OpCall { machine, name, inputs, out, stream, .. } = *self;
        let origin = call.origin;
        let mut found = Some(found);
        // Set in place, as results of a call are large to move.
        let mut outputs: SmallVec<[CallResult; 1]> = SmallVec::new();
        machine.shared.emit_in(engine, origin, |e| {
            let made = match found.take() {
                Some(known) => {
                    let Engine { builder, router, .. } = &mut *e;
                    match known? {
                        Known::Called(output) => Outcome::Done(smallvec![output]),
                        Known::Need(need) => Outcome::Need(need),
                        Known::Not(found) => builder.call_looked_up(router, call, found)?,
                    }
                }
                None => {
                    e.open(call.stream)?;
                    let Engine { builder, router, .. } = &mut *e;
                    builder.call(router, call)?
                }
            };
            match made {
                Outcome::Done(made) => {
                    results(e, made, out.is_none(), &mut outputs).map(Outcome::Done)
                }
                Outcome::Need(need) => Ok(Outcome::Need(need)),
            }
        })?;
        let mut made = Results::new();
        for (k, output) in outputs.into_iter().enumerate() {
            made.push(match output {
                CallResult::Input(input) => inputs[input].clone(),
                CallResult::Given => out.map_or_else(|| inputs[0].clone(), |t| t[k].clone()),
                CallResult::New(new) => machine.tensor(new, stream, origin),
                CallResult::Bounded(pair) => {
                    let [data, count] = *pair;
                    machine.known(Some(name)).map_err(|e| e.at(origin))?;
                    let reason = format!("the size of a result of {name} depends on data");
                    let data = machine.tensor(data, stream, origin);
                    let count = machine.tensor(count, stream, origin);
                    machine.fix_bound(&data, &count, stream, &reason, origin)?
                }
            });
        }
        Ok(made)
    }
}

/// A result of a call, described under the lock that made it. Small, as each call moves it often.
enum CallResult {
    /// The input of this number, changed in place.
    Input(usize),
    /// The tensor that the caller gave for it.
    Given,
    New(MadeTensor),
    /// A tensor of the most rows possible, and their actual count, which is yet to be read.
    Bounded(Box<[MadeTensor; 2]>),
}

/// Describes the outputs of a call. `new` says whether the caller gave no tensors for them.
#[inline]
fn results(
    engine: &Engine,
    outputs: Outputs,
    new: bool,
    described: &mut SmallVec<[CallResult; 1]>,
) -> Result<()> {
    for output in outputs {
        described.push(match output {
            Output::Same(input) => CallResult::Input(input),
            Output::Tensor(_) if !new => CallResult::Given,
            Output::Tensor(made) => CallResult::New(engine.made(made)?),
            Output::Bounded { data, count } => {
                CallResult::Bounded(Box::new([engine.made(data)?, engine.made(count)?]))
            }
        });
    }
    Ok(())
}
