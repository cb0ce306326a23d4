//! Pairwise combination: the rounding error of a sum grows with the logarithm of its length, and
//! the order of additions depends on that length alone.
//!
//! Source: N. J. Higham, "The accuracy of floating point summation", SIAM Journal on Scientific
//! Computing 14 (1993), section 3, pairwise summation.

use super::real::Real;

/// The number of elements that are reduced as one leaf.
pub(crate) const LEAF: usize = 256;

/// The number of interleaved partial results within a leaf, which map to SIMD lanes.
const LANES: usize = 8;

/// Reduces a leaf in [`LANES`] interleaved partial results.
#[inline(always)]
pub(crate) fn interleaved<T: Copy, P: Copy>(
    values: &[T],
    empty: P,
    step: impl Fn(P, T) -> P,
    join: impl Fn(P, P) -> P,
) -> P {
    let mut all = [empty; LANES];
    // Rows of a known length are vectorised.
    let (rows, rest) = values.as_chunks::<LANES>();
    for row in rows {
        for (one, &v) in all.iter_mut().zip(row) {
            *one = step(*one, v);
        }
    }
    for (one, &v) in all.iter_mut().zip(rest) {
        *one = step(*one, v);
    }
    let [a, b, c, d, e, f, g, h] = all;
    join(join(join(a, b), join(c, d)), join(join(e, f), join(g, h)))
}

/// An accumulator that combines results like a binary counter carries: slot `i` holds the result of
/// 2^i leaves.
pub(crate) struct Pairwise<P> {
    slots: [P; usize::BITS as usize],
    used: usize,
    count: usize,
}

impl<P: Copy> Pairwise<P> {
    pub(crate) fn new(empty: P) -> Pairwise<P> {
        Pairwise { slots: [empty; usize::BITS as usize], used: 0, count: 0 }
    }

    pub(crate) fn clear(&mut self) {
        (self.used, self.count) = (0, 0);
    }

    pub(crate) fn push(&mut self, mut value: P, join: &dyn Fn(P, P) -> P) {
        for _ in 0..self.count.trailing_ones() {
            self.used -= 1;
            value = join(self.slots[self.used], value);
        }
        self.slots[self.used] = value;
        self.used += 1;
        self.count += 1;
    }

    pub(crate) fn total(&self, empty: P, join: &dyn Fn(P, P) -> P) -> P {
        let slots = self.slots[..self.used].iter().rev().copied();
        slots.reduce(|total, earlier| join(earlier, total)).unwrap_or(empty)
    }
}

/// A growing sum of floats.
pub(crate) struct Sum<T>(Pairwise<T>);

impl<T: Real> Sum<T> {
    pub(crate) fn new() -> Sum<T> {
        Sum(Pairwise::new(T::ZERO))
    }

    pub(crate) fn push(&mut self, value: T) {
        self.0.push(value, &|a, b| a + b);
    }

    pub(crate) fn total(&self) -> T {
        self.0.total(T::ZERO, &|a, b| a + b)
    }
}

/// Returns the sum of at most [`LEAF`] floats, without pairing.
pub(crate) fn leaf_sum<T: Real>(values: &[T]) -> T {
    interleaved(values, T::ZERO, |sum, v| sum + v, |a, b| a + b)
}

/// Returns the pairwise sum of floats.
pub(crate) fn pairwise_sum<T: Real>(values: &[T]) -> T {
    let mut sum = Sum::new();
    values.chunks(LEAF).for_each(|values| sum.push(leaf_sum(values)));
    sum.total()
}
