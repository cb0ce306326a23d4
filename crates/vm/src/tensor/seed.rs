//! Seeds of random tensors.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use millstream_ops::random::{OFFSET, SEED};
use millstream_types::Attrs;

/// The seed of one random tensor. Equal seeds give equal numbers on every device.
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
    seed: i64,
    offset: i64,
}

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
        Seed { seed: seed as i64, offset: offset as i64 }
    }

    pub(super) fn set(self, attrs: &mut Attrs) {
        attrs.set(SEED, self.seed);
        attrs.set(OFFSET, self.offset);
    }
}

impl From<i32> for Seed {
    fn from(seed: i32) -> Seed {
        Seed { seed: seed.into(), offset: 0 }
    }
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Seed {
        Seed::new(seed, 0)
    }
}

/// A source of seeds: each use gives other numbers, the same in every run of the program.
///
/// A traced function or a recorded list replays the calls with the seeds that they had. To draw new
/// numbers at each replay, pass the offset as a tensor to the op by name.
///
/// ```
/// # fn main() -> millstream_types::Result<()> {
/// use millstream_vm::{Generator, Machine, MachineConfig, Tensor};
///
/// let machine = Machine::new(MachineConfig::default())?;
/// let random = Generator::new(7);
/// let x = Tensor::randn((2, 3), &random, &machine)?;
/// let y = Tensor::randn((2, 3), &random, &machine)?;
/// assert_ne!(x.to_vec::<f32>()?, y.to_vec::<f32>()?);
/// let again = Tensor::randn((2, 3), &Generator::new(7), &machine)?;
/// assert_eq!(x.to_vec::<f32>()?, again.to_vec::<f32>()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    seed: i64,
    next: Arc<AtomicI64>,
}

impl Generator {
    /// Returns the generator of a seed. Clones draw from one sequence.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let random = Generator::new(7);
    /// let (x, y) = (Tensor::rand(3, &random, &machine)?, Tensor::rand(3, &random, &machine)?);
    /// assert_ne!(x.to_vec::<f32>()?, y.to_vec::<f32>()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn new(seed: u64) -> Generator {
        Generator { seed: seed as i64, next: Arc::default() }
    }
}

impl From<&Generator> for Seed {
    fn from(generator: &Generator) -> Seed {
        // Relaxed: only uniqueness is wanted.
        let offset = generator.next.fetch_add(1, Ordering::Relaxed);
        Seed { seed: generator.seed, offset }
    }
}
