//! The scalars of a list: numbers that each launch gives for arguments of its calls.
//!
//! A scalar is whole or a floating-point number, as it was declared. The scalars of a generator are
//! its seed and the offset of the launch's first draw. A launch reserves its offsets when it is
//! emitted, as an eager call does when it is made, so that nothing has to be ordered for a
//! generator. A call uses one with a constant added: the number of the draw. The other scalars are
//! the program's. Launches within a list are launched with the scalars of the list.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::{GeneratorDecl, InstructionList};
use millstream_runtime::scope::origin::at_caller;
use millstream_types::nearest::did_you_mean;
use millstream_types::{AttrValue, Attrs, Error, Result, ScalarId, ScalarUse, ScalarValue};

use crate::handle::generator::{Generator, GeneratorState};
use crate::handle::seed::{Draw, Seed};

use super::ExecutableInner;
use super::foreign::check_numbers;
use super::recorder::{Recorder, list_of};

/// A launch's values for the scalars of its list, by number.
pub(super) type GivenScalars = SmallVec<[ScalarValue; 4]>;

impl ExecutableInner {
    /// Takes the numbers of a launch from the generators, and the other ones as given.
    pub(super) fn draw(&self, given: &[(ScalarId, ScalarValue)]) -> GivenScalars {
        let list = &self.program.list;
        let mut values: GivenScalars = list.scalars.iter().map(|s| s.value).collect();
        for (declared, generator) in list.generators.iter().zip(&self.generators) {
            let GeneratorState { seed, offset } = generator.reserve(declared.draws);
            for (scalar, value) in [(declared.seed, seed), (declared.offset, offset)] {
                if let Some(own) = values.get_mut(scalar.index()) {
                    *own = ScalarValue::Int(value as i64);
                }
            }
        }
        for (scalar, value) in given {
            if let Some(own) = values.get_mut(scalar.index()) {
                *own = *value;
            }
        }
        values
    }

    /// Checks that the calls can take the numbers that a launch gives.
    pub(super) fn check_numbers(&self, given: &[(ScalarId, ScalarValue)]) -> Result<()> {
        if given.is_empty() {
            return Ok(());
        }
        let list = &self.program.list;
        let mut values: GivenScalars = list.scalars.iter().map(|s| s.value).collect();
        given.iter().for_each(|(scalar, value)| values[scalar.index()] = *value);
        check_numbers(list, &self.machine.shared.tables.ops, &values)
    }

    /// Returns the scalar of this name, which a launch may set to this number.
    ///
    /// # Errors
    /// There is none, or it is of the other kind, or the state of a generator.
    pub(super) fn scalar(&self, name: &str, value: ScalarValue) -> Result<ScalarId> {
        let list = &self.program.list;
        let invalid = |message: String| Err(Error::Invalid { what: "launch", message });
        let Some(at) = list.scalars.iter().position(|scalar| scalar.name == name) else {
            return Err(Error::Unknown {
                what: "scalar",
                name: name.to_owned(),
                help: did_you_mean(name, list.scalars.iter().map(|s| s.name.as_str())),
            });
        };
        let (scalar, declared) = (ScalarId(at as u32), list.scalars[at].value);
        if list.generators.iter().any(|g| g.seed == scalar || g.offset == scalar) {
            return invalid(format!(
                "the scalar {name:?} is the state of a generator, which has it"
            ));
        }
        if !value.is_kind_of(declared) {
            let kind = declared.kind();
            return invalid(format!("the scalar {name:?} is {kind}, and {value} is given"));
        }
        Ok(scalar)
    }

    /// Returns the numbers of a launch by name, as its instruction states them.
    pub(super) fn named(&self, scalars: &[ScalarValue]) -> Option<Arc<Attrs>> {
        self.program.list.given_scalars(|k, _| scalars[k].into()).map(Arc::new)
    }
}

/// Returns generators for a list from elsewhere, in the states that the list declares.
pub(super) fn generators_of(list: &InstructionList) -> Vec<Generator> {
    let generators = list.generators.iter().map(|declared| {
        let value = |k: usize| list.scalars.get(k).map_or(0, |scalar| scalar.value.word() as u64);
        let (seed, offset) = (value(declared.seed.index()), value(declared.offset.index()));
        let generator = Generator::new(seed);
        generator.restore(GeneratorState { seed, offset });
        generator
    });
    generators.collect()
}

impl Recorder {
    /// Declares a generator, and takes its next draw for each launch. Returns the seed and the
    /// offset, for the arguments of a random call.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// let [seed, offset] = r.draw(&Generator::new(7));
    /// let y = r.call("uniform", &[]).attr("shape", vec![3]).attr("seed", seed);
    /// y.attr("offset", offset).run()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn draw(&mut self, generator: &Generator) -> [ScalarUse; 2] {
        uses(self.draws(generator, 1))
    }

    /// Declares a generator, and takes its next `draws` draws for each launch. Returns it with the
    /// number of earlier ones.
    pub(crate) fn draws(&mut self, generator: &Generator, draws: u64) -> GeneratorDecl {
        let known = self.generators.iter().position(|own| own.is_same(generator));
        if known.is_none() {
            self.generators.push(generator.clone());
        }
        let mut engine = self.engine();
        let list = list_of(&mut engine);
        let number = known.unwrap_or_else(|| list.generator(generator.seed()));
        list.draw(number, draws)
    }

    /// Declares a scalar: a number that each launch gives by [`LaunchBuilder::scalar`], and that is
    /// `value` where a launch gives none. It may stand for patchable arguments of calls, such as
    /// `alpha`, that take numbers of its kind.
    ///
    /// [`LaunchBuilder::scalar`]: super::LaunchBuilder::scalar
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let step = machine.record(|r| {
    ///     let w = r.input("w", TensorSpec::contiguous(DType::F32, &[2])?)?;
    ///     let gradient = r.input("gradient", TensorSpec::contiguous(DType::F32, &[2])?)?;
    ///     let minus_lr = r.scalar("minus_lr", -0.1)?;
    ///     r.call("add_", &[w, gradient]).attr("alpha", minus_lr).run()?;
    ///     Ok(())
    /// })?.compile()?;
    /// let w = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let gradient = Tensor::ones(2, DType::F32, &machine)?;
    /// for minus_lr in [-0.5, -0.25] {
    ///     let launch = step.launch().input("w", &w).input("gradient", &gradient);
    ///     launch.scalar("minus_lr", minus_lr).run()?;
    /// }
    /// assert_eq!(w.to_vec::<f32>()?, [0.25, 1.25]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is another scalar of this name.
    #[track_caller]
    pub fn scalar(&mut self, name: &str, value: impl Into<ScalarValue>) -> Result<ScalarUse> {
        let mut engine = self.engine();
        let list = list_of(&mut engine);
        if list.list().scalars.iter().any(|scalar| scalar.name == name) {
            let message = format!("the scalar {name:?} is declared twice");
            return at_caller(Err(Error::Invalid { what: "list", message }));
        }
        let scalar = list.scalar(name.to_owned(), value.into());
        Ok(ScalarUse { scalar, plus: 0 })
    }

    /// Declares a whole number that each launch gives, by its number.
    pub(crate) fn numbered_scalar(&mut self, name: String) -> ScalarId {
        list_of(&mut self.engine()).scalar(name, ScalarValue::Int(0))
    }

    /// Draws from a generator for a call of the recording with this number.
    pub(super) fn draw_in(&mut self, generator: &Generator, recording: u64) -> Seed {
        let [seed, offset] = self.draw(generator);
        Seed::drawn(None, Draw { recording, seed, offset })
    }

    /// Returns the scalar of this name that a launch within the list sets to this value.
    ///
    /// # Errors
    /// There is none, or it is of the other kind, or the state of a generator; a call refuses the
    /// number; or it is a scalar of another list.
    pub(super) fn scalar_within(
        &self,
        inner: &ExecutableInner,
        name: &str,
        value: &AttrValue,
    ) -> Result<ScalarId> {
        let mut engine = self.engine();
        let declared = &list_of(&mut engine).list().scalars;
        let number = match value {
            AttrValue::Scalar(used) => declared.get(used.scalar.index()).map(|s| s.value),
            value => ScalarValue::of(value),
        };
        let wrong = || Error::Invalid {
            what: "launch",
            message: format!("{name}: expected a number or a scalar of this list, got {value}"),
        };
        let number = number.ok_or_else(wrong)?;
        let scalar = inner.scalar(name, number)?;
        if ScalarValue::of(value).is_some() {
            inner.check_numbers(&[(scalar, number)])?;
        }
        Ok(scalar)
    }

    /// Returns the scalars of a launch within the list, of which some are given.
    pub(super) fn scalars_within(
        &mut self,
        inner: &ExecutableInner,
        given: &[(ScalarId, AttrValue)],
    ) -> Option<Arc<Attrs>> {
        let list = &inner.program.list;
        let mut values: Vec<AttrValue> = list.scalars.iter().map(|s| s.value.into()).collect();
        for (declared, generator) in list.generators.iter().zip(&inner.generators) {
            let [seed, offset] = uses(self.draws(generator, declared.draws));
            for (scalar, outer) in [(declared.seed, seed), (declared.offset, offset)] {
                if let Some(value) = values.get_mut(scalar.index()) {
                    *value = outer.into();
                }
            }
        }
        for (scalar, value) in given {
            values[scalar.index()] = value.clone();
        }
        list.given_scalars(|k, _| values[k].clone()).map(Arc::new)
    }
}

/// Returns the seed and the offset of a generator's next draw.
pub(crate) fn uses(declared: GeneratorDecl) -> [ScalarUse; 2] {
    let GeneratorDecl { seed, offset, draws } = declared;
    [ScalarUse { scalar: seed, plus: 0 }, ScalarUse { scalar: offset, plus: draws as i64 }]
}
