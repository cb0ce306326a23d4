//! How the elements of a bound call are read, computed and written along a row.

use std::mem::MaybeUninit;

use millstream_types::DType;

use super::element::{Element, computed};
use super::elementwise::{Bound, BoundInput};
use super::function::{LANES, MAX_INPUTS, Source, Word};
use super::strided::{CHUNK, StridedRow};

/// The number of operands of a row: the input tensors in order, and the output at [`OUT`].
pub(crate) const OPERANDS: usize = MAX_INPUTS + 1;

/// The place of the output among the operands of a row.
pub(crate) const OUT: usize = MAX_INPUTS;

/// How an operand is accessed.
#[derive(Clone, Copy)]
enum Mode {
    /// Not at all: the input is a number.
    Number,
    /// One element is loaded for the whole row.
    Single { via: Option<DType> },
    /// In place: the elements follow one another and are of the type of computations.
    Direct,
    /// Through a buffer.
    Converted { via: Option<DType> },
}

/// [`LANES`] equal elements of a type of computations.
type Splat = MaybeUninit<[Word; LANES]>;

type Buffer = MaybeUninit<[Word; CHUNK]>;

/// A bound call for rows of operands with these dtypes and steps.
pub(crate) struct RowPlan {
    bound: Bound,
    modes: [Mode; MAX_INPUTS],
    /// The place among the operands of each input that is a tensor.
    places: [usize; MAX_INPUTS],
    /// The numbers, as words of the type of computations, at the place of their inputs.
    numbers: [u64; MAX_INPUTS],
    dtypes: [DType; OPERANDS],
    steps: [usize; OPERANDS],
    out_direct: bool,
    /// Whether rows are computed in place, without buffers and checks.
    direct: bool,
}

impl RowPlan {
    /// Returns the plan for operands with these dtypes and steps in bytes.
    #[inline(always)]
    pub(crate) fn new(
        bound: Bound,
        dtypes: [DType; OPERANDS],
        steps: [usize; OPERANDS],
    ) -> RowPlan {
        let computed = bound.function.computed();
        let is_direct = |place: usize| dtypes[place] == computed && steps[place] == computed.size();
        let mut plan = RowPlan {
            bound,
            modes: [Mode::Number; MAX_INPUTS],
            places: [0; MAX_INPUTS],
            numbers: [0; MAX_INPUTS],
            dtypes,
            steps,
            out_direct: is_direct(OUT),
            direct: is_direct(OUT) && !bound.divides,
        };
        let mut next = 0;
        for k in 0..bound.function.inputs() {
            match bound.inputs[k] {
                BoundInput::Number(word) => plan.numbers[k] = word,
                BoundInput::Tensor { via } => {
                    plan.places[k] = next;
                    plan.modes[k] = match steps[next] {
                        0 => Mode::Single { via },
                        _ if is_direct(next) && via.is_none() => Mode::Direct,
                        _ => Mode::Converted { via },
                    };
                    plan.direct &= matches!(plan.modes[k], Mode::Direct);
                    next += 1;
                }
            }
        }
        plan
    }

    /// Returns the steps of the operands in bytes.
    pub(crate) fn steps(&self) -> [usize; OPERANDS] {
        self.steps
    }

    /// Returns the dtype that the inputs are converted to.
    pub(crate) fn common(&self) -> DType {
        self.bound.common
    }

    /// Computes `count` elements of a row. Returns whether a divisor was zero where that fails the
    /// call.
    ///
    /// # Safety
    /// At `data` begin rows of `count` elements of the operands' dtypes and steps, aligned and
    /// valid for reads, and for writes of the output. The output does not overlap itself; each
    /// input is the output itself, with the same dtype and step, or does not overlap it.
    #[inline]
    pub(crate) unsafe fn run(&self, data: &[*mut u8; OPERANDS], count: usize) -> bool {
        if !self.direct {
            // SAFETY: guaranteed by the caller.
            return unsafe {
                computed!(self.bound.function.computed(), T => self.run_in_chunks::<T>(data, count))
            };
        }
        let mut splats = [Splat::uninit(); MAX_INPUTS];
        let mut sources = [Source::NONE; MAX_INPUTS];
        for k in 0..self.bound.function.inputs() {
            sources[k] = match self.modes[k] {
                Mode::Direct => Source { data: data[self.places[k]], advances: true },
                _ => self.number(k, &mut splats[k]),
            };
        }
        // SAFETY: guaranteed by the caller; numbers are `LANES` equal elements.
        unsafe { self.bound.function.apply(&sources, data[OUT], count) };
        false
    }

    /// Returns number `k` as a source in `to`.
    fn number(&self, k: usize, to: &mut Splat) -> Source {
        computed!(self.bound.function.computed(), T => splat(to, T::from_word(self.numbers[k])));
        Source { data: to.as_ptr().cast(), advances: false }
    }

    /// As [`RowPlan::run`], where `T` is the type of computations.
    ///
    /// # Safety
    /// That of [`RowPlan::run`].
    unsafe fn run_in_chunks<T: Element>(&self, data: &[*mut u8; OPERANDS], count: usize) -> bool {
        let inputs = self.bound.function.inputs();
        let mut buffers: [Buffer; OPERANDS] = [MaybeUninit::uninit(); OPERANDS];
        let row = |place: usize| {
            // SAFETY: guaranteed by the caller.
            unsafe { StridedRow::new(data[place], self.steps[place], count, self.dtypes[place]) }
        };
        let mut sources = [Source::NONE; MAX_INPUTS];
        let mut chunk = if self.out_direct { count } else { CHUNK };
        for k in 0..inputs {
            let (place, buffer) = (self.places[k], buffers[k].as_mut_ptr().cast::<T>());
            sources[k] = match self.modes[k] {
                Mode::Number => {
                    splat(&mut buffers[k], T::from_word(self.numbers[k]));
                    Source { data: buffers[k].as_ptr().cast(), advances: false }
                }
                Mode::Direct => Source { data: data[place], advances: true },
                Mode::Converted { .. } => {
                    chunk = CHUNK;
                    Source { data: buffer.cast(), advances: true }
                }
                Mode::Single { via } => {
                    let mut value = T::ZERO;
                    if count > 0 {
                        // SAFETY: the buffer is one element, outside of the operands.
                        unsafe { load(row(place), via, 0, &raw mut value, 1) };
                    }
                    splat(&mut buffers[k], value);
                    Source { data: buffers[k].as_ptr().cast(), advances: false }
                }
            };
        }
        let out_buffer = buffers[OUT].as_mut_ptr().cast::<T>();
        let mut zero = false;
        let mut at = 0;
        while at < count {
            let n = chunk.min(count - at);
            for (k, buffer) in buffers.iter_mut().enumerate().take(inputs) {
                if let Mode::Converted { via } = self.modes[k] {
                    let to = buffer.as_mut_ptr().cast::<T>();
                    // SAFETY: the buffer has room for `CHUNK` elements.
                    unsafe { load(row(self.places[k]), via, at, to, n) };
                }
            }
            // SAFETY: sources and output hold `n` elements from here on: buffers, or elements of
            // the operands that the caller guarantees. Divisors are loaded.
            unsafe {
                zero = zero || self.bound.divides && has_zero::<T>(&sources[1], n);
                if self.out_direct {
                    let out = data[OUT].wrapping_add(at * size_of::<T>());
                    self.bound.function.apply(&sources, out, n);
                } else {
                    self.bound.function.apply(&sources, out_buffer.cast(), n);
                    row(OUT).store_from(at, out_buffer, n);
                }
            }
            for (source, mode) in sources.iter_mut().zip(&self.modes) {
                if let Mode::Direct = mode {
                    source.data = source.data.wrapping_add(n * size_of::<T>());
                }
            }
            at += n;
        }
        zero
    }
}

/// Sets the first [`LANES`] elements of a buffer.
fn splat<T: Element, const WORDS: usize>(to: &mut MaybeUninit<[Word; WORDS]>, value: T) {
    const { assert!(size_of::<T>() * LANES <= size_of::<[Word; WORDS]>()) };
    let to = to.as_mut_ptr().cast::<T>();
    for k in 0..LANES {
        // SAFETY: the words have room for `LANES` elements of at most 16 bytes.
        unsafe { to.add(k).write(value) };
    }
}

/// Loads `count` elements from number `at` on, converted to the dtype `via` first.
///
/// # Safety
/// `to` is valid for writes of as many elements, and outside of the row.
unsafe fn load<T: Element>(
    row: StridedRow,
    via: Option<DType>,
    at: usize,
    to: *mut T,
    count: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match via {
            Some(via) => row.load_via_to(via, at, to, count),
            None => row.load_to(at, to, count),
        }
    }
}

/// Returns whether one of the first `count` elements is zero.
///
/// # Safety
/// The source holds `count` elements of the type `T`, or [`LANES`] if it does not advance.
unsafe fn has_zero<T: Element>(source: &Source, count: usize) -> bool {
    let count = if source.advances { count } else { count.min(1) };
    let data = source.data.cast::<T>();
    // SAFETY: guaranteed by the caller.
    (0..count).any(|k| unsafe { data.add(k).read() }.to_word() == T::ZERO.to_word())
}
