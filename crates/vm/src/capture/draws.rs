//! The draws of a captured function from generators.
//!
//! A draw is named by its generator, in the order of their first draws, and by its number among the
//! generator's draws. So another run of the function makes equal notes, and a segment's launch
//! draws as many numbers as the function drew in its part. Generator k has the scalars 2k, its
//! seed, and 2k + 1, its offset; the constant that a use adds is the number of the draw.

use millstream_types::{Attrs, Origin, ScalarId, ScalarUse};

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

/// The draws of a run.
#[derive(Debug, Default)]
pub(super) struct Draws {
    pub(super) generators: Vec<Drawn>,
    /// How many draws of each the function has made. A resumed function first repeats those of the
    /// replay.
    made: Vec<usize>,
}

impl Draws {
    /// Returns the draws of a function that repeats those of a replay first.
    pub(super) fn resumed(generators: Vec<Drawn>) -> Draws {
        let made = vec![0; generators.len()];
        Draws { generators, made }
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
        let scalar = |of: usize| ScalarId((2 * k + of) as u32);
        let seed = ScalarUse { scalar: scalar(0), plus: number as i64 };
        let offset = ScalarUse { scalar: scalar(1), plus: number as i64 };
        Seed::drawn(Some(state), Draw { recording, seed, offset })
    }

    /// Returns the number that a use of a draw stands for in this run.
    fn number(&self, used: ScalarUse) -> Option<i64> {
        let (drawn, is_offset) = place(used);
        let state = self.generators.get(drawn)?.states.get(usize::try_from(used.plus).ok()?)?;
        Some(if is_offset { state.offset } else { state.seed } as i64)
    }
}

/// Returns the number of the generator that a use names, and whether it names the offset.
pub(super) const fn place(used: ScalarUse) -> (usize, bool) {
    let scalar = used.scalar.index();
    (scalar / 2, scalar % 2 == 1)
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

/// Returns the arguments of a call with the numbers of this run, if some are draws of it.
pub(super) fn numbers(attrs: &Attrs) -> Option<Attrs> {
    attrs.scalars().next()?;
    with_any(|session| {
        let number = |used| session.draws.number(used);
        // A scalar that is no draw of the run stays; the op refuses it.
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
