//! Seeds of random tensors.

use millstream_ops::random::{OFFSET, SEED};
use millstream_types::{AttrValue, Attrs, Origin, ScalarId, ScalarUse};

use super::generator::{Generator, GeneratorState};
use super::request::{self, Request, Verb};

/// The seed of one random tensor. Equal seeds give equal numbers on every device.
///
/// A seed that is drawn from a generator by a function that is captured or recorded is one of the
/// numbers that each launch draws.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let one = Tensor::rand(3, Seed::new(7, 0), &machine)?;
/// let same = Tensor::rand(3, 7, &machine)?;
/// assert_eq!(one.to_vec::<f32>()?, same.to_vec::<f32>()?);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Seed and offset; none if it was drawn in a recording that ran nothing.
    numbers: Option<(i64, i64)>,
    /// Its place among the draws of a recording, if it is one of them.
    draw: Option<Draw>,
}

/// A draw of a function that is captured or recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    /// The number of the recording.
    pub(crate) recording: u64,
    /// The seed and the offset, as the recording names them.
    pub(crate) seed: ScalarUse,
    pub(crate) offset: ScalarUse,
}

/// A scalar that no list declares.
const NO_SCALAR: ScalarUse = ScalarUse { scalar: ScalarId(u32::MAX), plus: 0 };

impl Seed {
    /// Returns a seed, and the number of the call among those that use it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::rand(3, Seed::new(7, 100), &machine)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const fn new(seed: u64, offset: u64) -> Seed {
        Seed { numbers: Some((seed as i64, offset as i64)), draw: None }
    }

    /// Returns a draw of a recording. If the recording runs its calls, `state` has the numbers of
    /// this run.
    pub(crate) fn drawn(state: Option<GeneratorState>, draw: Draw) -> Seed {
        let numbers = state.map(|state| (state.seed as i64, state.offset as i64));
        Seed { numbers, draw: Some(draw) }
    }

    /// Sets the arguments of a call: numbers, or the scalars of the recording that drew the seed.
    pub(crate) fn set(self, attrs: &mut Attrs) {
        let draw = self.draw.filter(|draw| request::is_recording(draw.recording));
        let [seed, offset]: [AttrValue; 2] = match (draw, self.numbers) {
            (Some(Draw { seed, offset, .. }), _) => [seed.into(), offset.into()],
            (None, Some((seed, offset))) => [seed.into(), offset.into()],
            // The call refuses it: a function that was not run has drawn no numbers.
            (None, None) => [NO_SCALAR.into(), NO_SCALAR.into()],
        };
        attrs.set(SEED, seed);
        attrs.set(OFFSET, offset);
    }
}

impl From<i32> for Seed {
    fn from(seed: i32) -> Seed {
        Seed { numbers: Some((seed.into(), 0)), draw: None }
    }
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Seed {
        Seed::new(seed, 0)
    }
}

impl From<&Generator> for Seed {
    fn from(generator: &Generator) -> Seed {
        let reserve = || {
            let GeneratorState { seed, offset } = generator.reserve(1);
            Seed::new(seed, offset)
        };
        let draw = Request::new(Verb::Draw { generator }, &Origin::Unknown);
        // No layer refuses it.
        request::submit(draw, |_| Ok(reserve())).unwrap_or_else(|_| reserve())
    }
}
