//! Functions of elements: closures stored in place, compiled once for each op and type of
//! computations into a loop over memory.

use std::mem::MaybeUninit;

use millstream_types::DType;

use super::element::Element;
use super::lanes::lane;
#[cfg(target_arch = "x86_64")]
use super::vectorised::has_avx2;

/// The number of elements that a loop loads, computes and stores at once. All inputs of these
/// elements are read before any is written, so that a result may replace an input.
pub(crate) const LANES: usize = 16;

/// The maximal number of inputs.
pub(crate) const MAX_INPUTS: usize = 3;

/// Memory for one element of any type of computations.
pub(crate) type Word = [u64; 2];

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

/// Computes a number of blocks of [`LANES`] elements each.
type Blocks = unsafe fn(*const (), &[Source; MAX_INPUTS], *mut u8, usize);

/// A function of one to three elements, in one of the types of
/// [`computed!`](super::element::computed).
#[derive(Clone, Copy)]
pub(crate) struct Function {
    closure: [MaybeUninit<u64>; WORDS],
    /// The loop over blocks, for the type of the closure and this processor.
    blocks: Blocks,
    inputs: usize,
    computed: DType,
}

/// A function of the elements of `N` inputs. It is a trait so that its code is part of every loop:
/// a loop is compiled for more than one instruction set.
trait Elements<T, const N: usize>: Copy + Send + Sync + 'static {
    fn of(&self, elements: [T; N]) -> T;
}

#[derive(Clone, Copy)]
struct Unary<F>(F);
#[derive(Clone, Copy)]
struct Binary<F>(F);
#[derive(Clone, Copy)]
struct Ternary<F>(F);

impl<T, F: Fn(T) -> T + Copy + Send + Sync + 'static> Elements<T, 1> for Unary<F> {
    #[inline(always)]
    fn of(&self, [x]: [T; 1]) -> T {
        (self.0)(x)
    }
}
impl<T, F: Fn(T, T) -> T + Copy + Send + Sync + 'static> Elements<T, 2> for Binary<F> {
    #[inline(always)]
    fn of(&self, [x, y]: [T; 2]) -> T {
        (self.0)(x, y)
    }
}
impl<T, F: Fn(T, T, T) -> T + Copy + Send + Sync + 'static> Elements<T, 3> for Ternary<F> {
    #[inline(always)]
    fn of(&self, [x, y, z]: [T; 3]) -> T {
        (self.0)(x, y, z)
    }
}

impl Function {
    fn new<T: Element, F: Elements<T, N>, const N: usize>(f: F) -> Function {
        const {
            assert!(size_of::<F>() <= size_of::<[u64; WORDS]>() && align_of::<F>() <= 8);
        }
        let mut closure = [MaybeUninit::uninit(); WORDS];
        // SAFETY: the closure fits into the words, by the assertion above.
        unsafe { closure.as_mut_ptr().cast::<F>().write(f) };
        #[cfg(target_arch = "x86_64")]
        let blocks: Blocks = match has_avx2() {
            true => blocks_avx2::<T, F, N>,
            false => blocks::<T, F, N>,
        };
        #[cfg(not(target_arch = "x86_64"))]
        let blocks: Blocks = blocks::<T, F, N>;
        Function { closure, blocks, inputs: N, computed: T::DTYPE }
    }

    /// Returns the number of inputs.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the type of computations: f32, f64, i64, or a complex one.
    pub(crate) fn computed(&self) -> DType {
        self.computed
    }

    /// Computes `count` elements of `out`.
    ///
    /// # Safety
    /// `out` is valid for writes of `count` elements of [`Function::computed`], and each of the
    /// first [`Function::inputs`] sources for reads of as many, or of [`LANES`] if it does not
    /// advance. All are aligned. A source may be `out` itself; otherwise they do not overlap.
    #[inline(always)]
    pub(crate) unsafe fn apply(&self, inputs: &[Source; MAX_INPUTS], out: *mut u8, count: usize) {
        let whole = count / LANES;
        // SAFETY: guaranteed by the caller; `new` stored the closure that the loop was made for.
        unsafe {
            if whole > 0 {
                (self.blocks)(self.closure.as_ptr().cast(), inputs, out, whole);
            }
            if !count.is_multiple_of(LANES) {
                self.apply_rest(inputs, out, whole * LANES, count % LANES);
            }
        }
    }

    /// Computes `count` elements from number `from` on, fewer than [`LANES`], as part of a block of
    /// their own, so that their bits do not depend on their position.
    ///
    /// # Safety
    /// That of [`Function::apply`].
    unsafe fn apply_rest(
        &self,
        inputs: &[Source; MAX_INPUTS],
        out: *mut u8,
        from: usize,
        count: usize,
    ) {
        let size = self.computed.size();
        let mut blocks = [MaybeUninit::<[Word; LANES]>::uninit(); MAX_INPUTS];
        let mut result = MaybeUninit::<[Word; LANES]>::uninit();
        let mut sources = *inputs;
        for k in 0..self.inputs {
            if inputs[k].advances {
                let block = blocks[k].as_mut_ptr().cast::<u8>();
                let first = inputs[k].data.wrapping_add(from * size);
                // SAFETY: the block has room for `LANES` elements of at most 16 bytes; the others
                // repeat the first of the rest.
                unsafe {
                    block.copy_from_nonoverlapping(first, count * size);
                    for at in count..LANES {
                        block.add(at * size).copy_from_nonoverlapping(first, size);
                    }
                }
                sources[k].data = block;
            }
        }
        let to = result.as_mut_ptr().cast::<u8>();
        // SAFETY: one block of each source and of the result; the rest is the caller's promise.
        unsafe {
            (self.blocks)(self.closure.as_ptr().cast(), &sources, to, 1);
            out.add(from * size).copy_from_nonoverlapping(to, count * size);
        }
    }
}

/// Computes `count` blocks from `N` inputs.
///
/// # Safety
/// That of [`Function::apply`], for the type `T`, `N` inputs, and a closure of the type `F`.
#[inline(always)]
unsafe fn compute<T: Copy, F: Elements<T, N>, const N: usize>(
    closure: *const (),
    inputs: &[Source; MAX_INPUTS],
    out: *mut u8,
    count: usize,
) {
    // SAFETY: guaranteed by the caller.
    let f = unsafe { *closure.cast::<F>() };
    for block in 0..count {
        // SAFETY: these elements lie in the inputs and in the output; a source that does not
        // advance has as many elements.
        unsafe {
            let blocks = load::<T, N>(inputs, block);
            let mut results = blocks[0];
            for (i, result) in results.iter_mut().enumerate() {
                *result = f.of(lane(&blocks, i));
            }
            out.cast::<[T; LANES]>().add(block).write(results);
        }
    }
}

/// Loads a block of each of the first `N` inputs. In [`compute`], its closure would be compiled
/// again for each function.
///
/// # Safety
/// That of [`compute`], for a block below its count.
#[inline(always)]
unsafe fn load<T: Copy, const N: usize>(
    inputs: &[Source; MAX_INPUTS],
    block: usize,
) -> [[T; LANES]; N] {
    std::array::from_fn(|k| {
        let Source { data, advances } = inputs[k];
        // SAFETY: guaranteed by the caller.
        unsafe { data.cast::<[T; LANES]>().add(block * usize::from(advances)).read() }
    })
}

/// # Safety
/// That of [`compute`].
unsafe fn blocks<T: Copy, F: Elements<T, N>, const N: usize>(
    closure: *const (),
    inputs: &[Source; MAX_INPUTS],
    out: *mut u8,
    count: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { compute::<T, F, N>(closure, inputs, out, count) }
}

/// # Safety
/// That of [`compute`]; the processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn blocks_avx2<T: Copy, F: Elements<T, N>, const N: usize>(
    closure: *const (),
    inputs: &[Source; MAX_INPUTS],
    out: *mut u8,
    count: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { compute::<T, F, N>(closure, inputs, out, count) }
}

/// Returns the function `f` of one element.
pub(crate) fn one<T: Element>(f: impl Fn(T) -> T + Copy + Send + Sync + 'static) -> Function {
    Function::new::<T, _, 1>(Unary(f))
}

/// Returns the function `f` of two elements.
pub(crate) fn two<T: Element>(f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static) -> Function {
    Function::new::<T, _, 2>(Binary(f))
}

/// Returns the function `f` of three elements.
pub(crate) fn three<T: Element>(
    f: impl Fn(T, T, T) -> T + Copy + Send + Sync + 'static,
) -> Function {
    Function::new::<T, _, 3>(Ternary(f))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::vector_math::{erf, exp, log, tanh};
    use super::*;

    /// Every instruction set, every position in a block and every length give the same bits.
    #[test]
    fn bits_do_not_depend_on_the_loop() {
        let values: Vec<f32> = (0..100_000).map(|k| f32::from_bits(k * 42_949)).collect();
        let apply = |f: &Function, values: &[f32]| {
            let mut out = vec![0f32; values.len()];
            let x = Source { data: values.as_ptr().cast(), advances: true };
            let inputs = [x, Source::NONE, Source::NONE];
            // SAFETY: both slices have this length.
            unsafe { f.apply(&inputs, out.as_mut_ptr().cast(), values.len()) };
            out.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        #[track_caller]
        fn check<F: Fn(f32) -> f32 + Copy + Send + Sync + 'static>(
            f: F,
            values: &[f32],
            apply: impl Fn(&Function, &[f32]) -> Vec<u32>,
        ) {
            let function = one(f);
            let plain = Function { blocks: blocks::<f32, Unary<F>, 1>, ..function };
            let all = apply(&function, values);
            assert!(all == apply(&plain, values));
            for from in [1, 7, 99_990] {
                assert!(all[from..] == apply(&function, &values[from..]), "from {from}");
            }
        }
        check(exp, &values, apply);
        check(log, &values, apply);
        check(tanh, &values, apply);
        check(erf, &values, apply);
    }
}
