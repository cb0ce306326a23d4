//! Functions of elements: closures stored in place, compiled once for each op and type of
//! computations into a loop over memory.

use std::mem::MaybeUninit;

use millstream_types::DType;

use super::element::Element;

/// The number of elements that a loop loads, computes and stores at once. All inputs of these
/// elements are read before any is written, so that a result may replace an input.
pub(crate) const LANES: usize = 16;

/// The maximal number of inputs.
pub(crate) const MAX_INPUTS: usize = 3;

/// The words of the largest closure.
const WORDS: usize = 4;

/// An input of a function: elements of the type of computations.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// The address of the first element.
    pub(crate) data: *const u8,
    /// Whether the elements follow one another. Otherwise there are [`LANES`] equal ones.
    pub(crate) advances: bool,
}

impl Source {
    /// A place holder for inputs that a function does not have.
    pub(crate) const NONE: Source = Source { data: std::ptr::null(), advances: false };
}

type Loop = unsafe fn(*const (), &[Source; MAX_INPUTS], *mut u8, usize);

/// A function of one to three elements, in one of the types of
/// [`compute!`](super::element::compute).
#[derive(Clone, Copy)]
pub(crate) struct Function {
    closure: [MaybeUninit<u64>; WORDS],
    /// The loop over elements, for the type of the closure.
    run: Loop,
    inputs: usize,
    computed: DType,
}

impl Function {
    fn new<T: Element, F: Copy + Send + Sync + 'static>(
        f: F,
        inputs: usize,
        run: Loop,
    ) -> Function {
        const {
            assert!(size_of::<F>() <= size_of::<[u64; WORDS]>() && align_of::<F>() <= 8);
        }
        let mut closure = [MaybeUninit::uninit(); WORDS];
        // SAFETY: the closure fits into the words, by the assertion above.
        unsafe { closure.as_mut_ptr().cast::<F>().write(f) };
        Function { closure, run, inputs, computed: T::DTYPE }
    }

    /// Returns the number of inputs.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the type of computations: f32, f64 or i64.
    pub(crate) fn computed(&self) -> DType {
        self.computed
    }

    /// Computes `count` elements of `out`.
    ///
    /// # Safety
    /// `out` is valid for writes of `count` elements of [`Function::computed`], and each of the
    /// first [`Function::inputs`] sources for reads of as many, or of [`LANES`] if it does not
    /// advance. All are aligned. A source may be `out` itself; otherwise they do not overlap.
    pub(crate) unsafe fn apply(&self, inputs: &[Source; MAX_INPUTS], out: *mut u8, count: usize) {
        // SAFETY: guaranteed by the caller; `new` stored the closure that the loop was made for.
        unsafe { (self.run)(self.closure.as_ptr().cast(), inputs, out, count) }
    }
}

/// Computes `count` elements from `N` inputs.
///
/// # Safety
/// That of [`Function::apply`], for the type `T` and `N` inputs.
#[inline(always)]
unsafe fn compute<T: Copy, const N: usize>(
    inputs: &[Source; MAX_INPUTS],
    out: *mut u8,
    count: usize,
    f: impl Fn([T; N]) -> T,
) {
    let data: [*const T; N] = std::array::from_fn(|k| inputs[k].data.cast());
    let steps: [usize; N] = std::array::from_fn(|k| usize::from(inputs[k].advances));
    let out = out.cast::<T>();
    let whole = count - count % LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: these elements lie in the inputs and in the output; a source that does not
        // advance has as many elements.
        unsafe {
            let lanes: [[T; LANES]; N] =
                std::array::from_fn(|k| data[k].add(at * steps[k]).cast::<[T; LANES]>().read());
            let results: [T; LANES] =
                std::array::from_fn(|i| f(std::array::from_fn(|k| lanes[k][i])));
            out.add(at).cast::<[T; LANES]>().write(results);
        }
    }
    for at in whole..count {
        // SAFETY: as above.
        unsafe { out.add(at).write(f(std::array::from_fn(|k| data[k].add(at * steps[k]).read()))) };
    }
}

/// Returns the function `f` of one element.
pub(crate) fn one<T: Element>(f: impl Fn(T) -> T + Copy + Send + Sync + 'static) -> Function {
    fn of<T: Element, F: Fn(T) -> T + Copy + Send + Sync + 'static>(f: F) -> Function {
        Function::new::<T, F>(f, 1, |f, inputs, out, count| {
            // SAFETY: `Function::apply` passes the closure that `new` stored; the rest is its
            // contract.
            unsafe {
                let f = *f.cast::<F>();
                compute(inputs, out, count, move |[x]: [T; 1]| f(x));
            }
        })
    }
    of(f)
}

/// Returns the function `f` of two elements.
pub(crate) fn two<T: Element>(f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static) -> Function {
    fn of<T: Element, F: Fn(T, T) -> T + Copy + Send + Sync + 'static>(f: F) -> Function {
        Function::new::<T, F>(f, 2, |f, inputs, out, count| {
            // SAFETY: as in `one`.
            unsafe {
                let f = *f.cast::<F>();
                compute(inputs, out, count, move |[x, y]: [T; 2]| f(x, y));
            }
        })
    }
    of(f)
}

/// Returns the function `f` of three elements.
pub(crate) fn three<T: Element>(
    f: impl Fn(T, T, T) -> T + Copy + Send + Sync + 'static,
) -> Function {
    fn of<T: Element, F: Fn(T, T, T) -> T + Copy + Send + Sync + 'static>(f: F) -> Function {
        Function::new::<T, F>(f, 3, |f, inputs, out, count| {
            // SAFETY: as in `one`.
            unsafe {
                let f = *f.cast::<F>();
                compute(inputs, out, count, move |[x, y, z]: [T; 3]| f(x, y, z));
            }
        })
    }
    of(f)
}
