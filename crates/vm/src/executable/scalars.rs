//! The scalars of a list: numbers that each launch gives for arguments of its calls.
//!
//! The scalars of a generator are its seed and the offset of the launch's first draw. A launch
//! reserves its offsets when it is emitted, as an eager call does when it is made, so that nothing
//! has to be ordered for a generator. A call uses a scalar with a constant added: the number of the
//! draw. Launches within a list are launched with the scalars of the list.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::{GeneratorDecl, InstructionList};
use millstream_types::{AttrValue, Attrs, ScalarId, ScalarUse};

use crate::handle::generator::{Generator, GeneratorState};
use crate::handle::seed::{Draw, Seed};

use super::ExecutableInner;
use super::recorder::Recorder;

/// A launch's values for the scalars of its list, by number.
pub(super) type GivenScalars = SmallVec<[i64; 4]>;

impl ExecutableInner {
    /// Takes the numbers of a launch from the generators, and the other ones as given.
    pub(super) fn draw(&self, given: &[(ScalarId, i64)]) -> GivenScalars {
        let list = &self.program.list;
        let mut values: GivenScalars = list.scalars.iter().map(|s| s.value).collect();
        for (declared, generator) in list.generators.iter().zip(&self.generators) {
            let GeneratorState { seed, offset } = generator.reserve(declared.draws);
            for (scalar, value) in [(declared.seed, seed), (declared.offset, offset)] {
                if let Some(own) = values.get_mut(scalar.index()) {
                    *own = value as i64;
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

    /// Returns the numbers of a launch by name, as its instruction states them.
    pub(super) fn named(&self, scalars: &[i64]) -> Option<Arc<Attrs>> {
        self.program.list.given_scalars(|k, _| scalars[k].into()).map(Arc::new)
    }
}

/// Returns generators for a list from elsewhere, in the states that the list declares.
pub(super) fn generators_of(list: &InstructionList) -> Vec<Generator> {
    let generators = list.generators.iter().map(|declared| {
        let value = |k: usize| list.scalars.get(k).map_or(0, |scalar| scalar.value as u64);
        let (seed, offset) = (value(declared.seed.index()), value(declared.offset.index()));
        let generator = Generator::new(seed);
        generator.restore(GeneratorState { seed, offset });
        generator
    });
    generators.collect()
}

impl Recorder {
    /// Declares a generator, and takes its next `draws` draws for each launch. Returns it with the
    /// number of earlier ones.
    pub(crate) fn draws(&mut self, generator: &Generator, draws: u64) -> GeneratorDecl {
        let known = self.generators.iter().position(|own| own.is_same(generator));
        let recorder = &mut self.sink.recorder;
        let number = known.unwrap_or_else(|| {
            self.generators.push(generator.clone());
            recorder.generator(generator.seed())
        });
        recorder.draw(number, draws)
    }

    /// Declares a scalar of no generator, which launches give by [`LaunchBuilder::scalar`].
    ///
    /// [`LaunchBuilder::scalar`]: super::LaunchBuilder::scalar
    pub(crate) fn scalar(&mut self, name: String) -> ScalarId {
        self.sink.recorder.scalar(name, 0)
    }

    /// Draws from a generator for a call of the recording with this number.
    pub(super) fn draw_in(&mut self, generator: &Generator, recording: u64) -> Seed {
        let [seed, offset] = uses(self.draws(generator, 1));
        Seed::drawn(None, Draw { recording, seed, offset })
    }

    /// Returns the scalars of a launch within the list.
    pub(super) fn scalars_within(&mut self, inner: &ExecutableInner) -> Option<Arc<Attrs>> {
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
        list.given_scalars(|k, _| values[k].clone()).map(Arc::new)
    }
}

/// Returns the seed and the offset of a generator's next draw.
pub(crate) fn uses(declared: GeneratorDecl) -> [ScalarUse; 2] {
    let GeneratorDecl { seed, offset, draws } = declared;
    [ScalarUse { scalar: seed, plus: 0 }, ScalarUse { scalar: offset, plus: draws as i64 }]
}
