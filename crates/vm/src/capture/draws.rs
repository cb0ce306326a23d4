//! The numbers of a captured function that each replay gives: the scalars of its call, and its
//! draws from generators.
//!
//! A draw is named by its generator, in the order of their first draws, and by its number among the
//! generator's draws. So another run of the function makes equal notes, and a segment's launch
//! draws as many numbers as the function drew in its part. Of n scalars of the call, number k is
//! scalar k. Generator k has the scalars n + 2k, its seed, and n + 2k + 1, its offset; the constant
//! that a use adds is the number of the draw.

use millstream_types::{Attrs, Origin, ScalarId, ScalarUse, ScalarValue};

use crate::handle::generator::{Generator, GeneratorState};
use crate::handle::seed::{Draw, Seed};

use super::session::with_any;

/// A generator from elsewhere that a function draws from.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) generator: Generator,
    /// The state at each draw, in the run or the replay.
    pub(super) states: Vec<GeneratorState>,
}

/// The scalars of a run.
#[derive(Debug, Default)]
pub(super) struct Draws {
    /// Those of the call.
    pub(super) arguments: Vec<ScalarValue>,
    pub(super) generators: Vec<Drawn>,
    /// How many draws of each the function has made. A resumed function first repeats those of the
    /// replay.
    made: Vec<usize>,
}

impl Draws {
    /// Returns the scalars of a function that repeats the draws of a replay first.
    pub(super) fn resumed(arguments: Vec<ScalarValue>, generators: Vec<Drawn>) -> Draws {
        let made = vec![0; generators.len()];
        Draws { arguments, generators, made }
    }

    /// Ends the part that is repeated: all draws of the replay count as made.
    pub(super) fn end_repetition(&mut self) {
        self.made = self.counts();
    }

    /// Returns how many draws of each generator there were.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.generators.iter().map(|drawn| drawn.states.len()).collect()
    }

    /// Makes the next draw of a generator.
    fn draw(&mut self, generator: &Generator, recording: u64) -> Seed {
        let known = self.generators.iter().position(|own| own.generator.is_same(generator));
        let k = known.unwrap_or_else(|| {
            self.generators.push(Drawn { generator: generator.clone(), states: Vec::new() });
            self.made.push(0);
            self.generators.len() - 1
        });
        let (states, number) = (&mut self.generators[k].states, self.made[k]);
        self.made[k] += 1;
        let state = match states.get(number) {
            Some(state) => *state,
            None => {
                let state = generator.reserve(1);
                states.push(state);
                state
            }
        };
        let first = self.arguments.len() + 2 * k;
        let scalar = |of: usize| ScalarId((first + of) as u32);
        let seed = ScalarUse { scalar: scalar(0), plus: number as i64 };
        let offset = ScalarUse { scalar: scalar(1), plus: number as i64 };
        Seed::drawn(Some(state), Draw { recording, seed, offset })
    }

    /// Returns the number that a use stands for in this run.
    fn number(&self, used: ScalarUse) -> Option<ScalarValue> {
        let state = |k: usize| {
            self.generators.get(k)?.states.get(usize::try_from(used.plus).ok()?).copied()
        };
        let whole = |number: u64| ScalarValue::Int(number as i64);
        match source(used, self.arguments.len()) {
            Source::Argument(k) => self.arguments.get(k).map(|value| value.plus(used.plus)),
            Source::Seed(k) => state(k).map(|state| whole(state.seed)),
            Source::Offset(k) => state(k).map(|state| whole(state.offset)),
        }
    }
}

/// What a scalar of a run stands for, by number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A scalar of the call.
    Argument(usize),
    /// The seed of a generator.
    Seed(usize),
    /// The offset of a generator's draw.
    Offset(usize),
}

/// Returns what a use names, in a call with so many scalars.
pub(super) const fn source(used: ScalarUse, arguments: usize) -> Source {
    match used.scalar.index().checked_sub(arguments) {
        None => Source::Argument(used.scalar.index()),
        Some(scalar) if scalar % 2 == 0 => Source::Seed(scalar / 2),
        Some(scalar) => Source::Offset(scalar / 2),
    }
}

/// Returns the number of this thread's run of a function that is captured.
pub(super) fn recording() -> Option<u64> {
    with_any(|session| Some(session.number))
}

/// Draws from a generator that was made before the function of this thread that is captured.
pub(super) fn draw(generator: &Generator) -> Option<Seed> {
    with_any(|session| {
        let number = session.number;
        generator.is_before(number).then(|| session.draws.draw(generator, number))
    })
}

/// Returns the arguments of a call with the numbers of this run, if some are scalars of it.
pub(super) fn numbers(attrs: &Attrs) -> Option<Attrs> {
    attrs.scalars().next()?;
    with_any(|session| {
        let number = |used| session.draws.number(used);
        // A scalar that is none of the run stays; the op refuses it.
        Some(attrs.with_scalars(|used| number(used).map_or(used.into(), Into::into)))
    })
}

/// Notes that a function does something with a generator from elsewhere that cannot be captured.
pub(super) fn refuse_generator(generator: &Generator, reason: &str, origin: &Origin) {
    with_any(|session| {
        if generator.is_before(session.number) {
            session.refuse(reason.to_owned(), origin);
        }
        Some(())
    });
}
