//! Generators of random numbers: a seed, and a counter of the calls that drew from it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_runtime::scope::origin;

use super::request::{self, Request, Verb};

/// A source of seeds: each use gives other numbers, the same in every run of the program. Clones
/// are the same generator.
///
/// A generator is state of the program, as a tensor is. A traced function or a recorded list names
/// the generators that it draws from, and each launch draws their next numbers: the ones that the
/// calls would have drawn in its place. A generator that the function itself makes gives the same
/// numbers at each launch, as it does at each call. An integer as seed always stays fixed.
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
#[derive(Clone)]
pub struct Generator(Arc<Inner>);

struct Inner {
    /// Tells whether the generator was made before a recording began.
    number: u64,
    /// Held for a moment, also while a launch is emitted. Nothing is locked within.
    state: Mutex<GeneratorState>,
}

/// The state of a generator: the numbers that it gives next depend on nothing else.
///
/// ```
/// # use millstream_vm::*;
/// let state = GeneratorState { seed: 7, offset: 100 };
/// let random = Generator::new(0);
/// random.set_state(state);
/// assert_eq!(random.state(), state);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GeneratorState {
    /// The seed.
    pub seed: u64,
    /// How many calls have drawn from the generator since it had the seed.
    pub offset: u64,
}

/// Returns the next number of those by which generators and recordings are told apart, and which
/// came first. No list contains one.
pub(crate) fn serial_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: a thread that sees a recording or a generator sees it through a lock or a channel.
    NEXT.fetch_add(1, Ordering::Relaxed)
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
        let state = Mutex::new(GeneratorState { seed, offset: 0 });
        Generator(Arc::new(Inner { number: serial_number(), state }))
    }

    /// Returns the state, to be restored by [`Generator::set_state`]. Launches count as soon as
    /// they are made.
    ///
    /// A function that is captured or recorded cannot depend on it: `traced` runs such a function
    /// plainly, and recording it is an error.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let random = Generator::new(7);
    /// Tensor::rand(3, &random, &machine)?;
    /// assert_eq!(random.state(), GeneratorState { seed: 7, offset: 1 });
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn state(&self) -> GeneratorState {
        self.note_use("it reads the state of a generator");
        *self.lock()
    }

    /// Sets the state. Launches that were made before have drawn their numbers.
    ///
    /// As for [`Generator::state`], a function that does so cannot be captured or recorded.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let random = Generator::new(7);
    /// let saved = random.state();
    /// let x = Tensor::rand(3, &random, &machine)?;
    /// random.set_state(saved);
    /// let same = Tensor::rand(3, &random, &machine)?;
    /// assert_eq!(x.to_vec::<f32>()?, same.to_vec::<f32>()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn set_state(&self, state: GeneratorState) {
        self.note_use("it sets the state of a generator");
        *self.lock() = state;
    }

    /// Notes a use that no launch can repeat.
    #[track_caller]
    fn note_use(&self, reason: &str) {
        let origin = origin::caller();
        let used = Request::new(Verb::UseGenerator { generator: self, use_of: reason }, &origin);
        // What refuses it fails as a whole.
        let _ = request::submit(used, |_| Ok(Some(())));
    }

    /// Sets the state of a generator that nobody else has.
    pub(crate) fn restore(&self, state: GeneratorState) {
        *self.lock() = state;
    }

    /// Takes the next `draws` offsets. Returns the seed, and the first of them.
    pub(crate) fn reserve(&self, draws: u64) -> GeneratorState {
        let mut state = self.lock();
        let first = *state;
        state.offset = first.offset.wrapping_add(draws);
        first
    }

    /// Returns the seed that the generator has now.
    pub(crate) fn seed(&self) -> i64 {
        self.lock().seed as i64
    }

    /// Returns whether the generator was made before a recording with this number began.
    pub(crate) fn is_before(&self, recording: u64) -> bool {
        self.0.number < recording
    }

    /// Returns whether both are clones of one generator.
    pub(crate) fn is_same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, GeneratorState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GeneratorState { seed, offset } = *self.lock();
        f.debug_struct("Generator").field("seed", &seed).field("offset", &offset).finish()
    }
}
