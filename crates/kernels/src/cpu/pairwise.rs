//! Pairwise combination: the rounding error of a sum grows with the logarithm of its length, and
//! the order of additions depends on that length alone.
//!
//! Source: N. J. Higham, "The accuracy of floating point summation", SIAM Journal on Scientific
//! Computing 14 (1993), section 3, pairwise summation.

use super::lanes;
use super::real::Real;
use super::vectorised::vectorised;

/// The number of elements that are reduced as one leaf.
pub(crate) const LEAF: usize = 256;

/// The number of interleaved partial results within a leaf, which map to SIMD lanes.
pub(crate) const LANES: usize = 8;

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

    #[inline]
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

/// The number of leaves whose sums are computed side by side, because each addition waits for the
/// one before it in its lane.
const SIDE_BY_SIDE: usize = 4;

/// Returns the sums over the elements of equally long slices, at most a leaf, of functions of one
/// element of each, without pairing.
#[inline(always)]
fn leaf_sums_of<T: Real, const N: usize, const M: usize>(
    slices: [&[T]; N],
    f: &impl Fn([T; N]) -> [T; M],
) -> [T; M] {
    let count = slices[0].len() / LANES;
    let [mut sums] = lanes_of([lanes::range(slices, 0..count * LANES)], f);
    let rest = lanes::range(slices, count * LANES..slices[0].len());
    for lane in 0..rest[0].len() {
        let values = f(lanes::element(&rest, lane));
        for (sums, value) in sums.iter_mut().zip(values) {
            sums[lane] += value;
        }
    }
    sums.map(of_lanes)
}

/// Returns the sum of the lanes of a leaf.
#[inline(always)]
fn of_lanes<T: Real>([a, b, c, d, e, f, g, h]: [T; LANES]) -> T {
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// Returns the sums by lane of `L` leaves of equally many full rows of lanes.
#[inline(always)]
fn lanes_of<T: Real, const N: usize, const M: usize, const L: usize>(
    leaves: [[&[T]; N]; L],
    f: &impl Fn([T; N]) -> [T; M],
) -> [[[T; LANES]; M]; L] {
    let count = leaves[0][0].len() / LANES;
    let rows: [[&[[T; LANES]]; N]; L] = rows_of(leaves, count);
    let mut all = [[[T::ZERO; LANES]; M]; L];
    for at in 0..count {
        for (sums, rows) in all.iter_mut().zip(&rows) {
            let row: [[T; LANES]; N] = lanes::element(rows, at);
            for lane in 0..LANES {
                let values = f(lanes::lane(&row, lane));
                for (sums, value) in sums.iter_mut().zip(values) {
                    sums[lane] += value;
                }
            }
        }
    }
    // Hidden from the compiler, so that it keeps lanes in vectors: it would order the lanes by the
    // additions that follow, and move each element for them.
    std::hint::black_box(all)
}

/// Returns the pairwise sums over the elements of equally long slices of functions of one element
/// of each. It is part of functions that are vectorised.
#[inline(always)]
pub(crate) fn sums_of<T: Real, const N: usize, const M: usize>(
    slices: [&[T]; N],
    f: impl Fn([T; N]) -> [T; M],
) -> [T; M] {
    let count = slices[0].len();
    if count <= LEAF {
        return leaf_sums_of(slices, &f);
    }
    let mut sums = Sums::new();
    let mut at = 0;
    while at + SIDE_BY_SIDE * LEAF <= count {
        for leaf in lanes_of(leaves_at(slices, at), &f) {
            sums.push(leaf.map(of_lanes));
        }
        at += SIDE_BY_SIDE * LEAF;
    }
    while at < count {
        let end = count.min(at + LEAF);
        sums.push(leaf_sums_of(lanes::range(slices, at..end), &f));
        at = end;
    }
    sums.total()
}

/// Returns the leaves whose sums are computed side by side, from an element on.
#[inline(always)]
fn leaves_at<T, const N: usize>(slices: [&[T]; N], from: usize) -> [[&[T]; N]; SIDE_BY_SIDE] {
    std::array::from_fn(|k| lanes::range(slices, from + k * LEAF..from + (k + 1) * LEAF))
}

/// Returns the first rows of lanes of each slice of some leaves.
#[inline(always)]
fn rows_of<T, const N: usize, const L: usize>(
    leaves: [[&[T]; N]; L],
    count: usize,
) -> [[&[[T; LANES]]; N]; L] {
    leaves.map(|slices| lanes::range(lanes::blocks(slices), 0..count))
}

/// Several growing sums.
struct Sums<T, const M: usize>([Sum<T>; M]);

impl<T: Real, const M: usize> Sums<T, M> {
    fn new() -> Sums<T, M> {
        Sums(std::array::from_fn(|_| Sum::new()))
    }

    fn push(&mut self, values: [T; M]) {
        self.0.iter_mut().zip(values).for_each(|(sum, value)| sum.push(value));
    }

    fn total(&self) -> [T; M] {
        self.0.each_ref().map(Sum::total)
    }
}

/// Returns the pairwise sum over the elements of equally long slices of a function of one element
/// of each. It is part of functions that are vectorised.
#[inline(always)]
pub(crate) fn sum_of<T: Real, const N: usize>(slices: [&[T]; N], f: impl Fn([T; N]) -> T) -> T {
    let [sum] = sums_of(slices, |values| [f(values)]);
    sum
}

vectorised! {
    /// Returns the sum of at most [`LEAF`] floats, without pairing.
    pub(crate) fn leaf_sum<T: Real>(values: &[T]) -> T {
        let [sum] = leaf_sums_of([values], &|[v]| [v]);
        sum
    }

    /// Returns the pairwise sum of floats.
    pub(crate) fn pairwise_sum<T: Real>(values: &[T]) -> T {
        sum_of([values], |[v]| v)
    }

    /// Adds each element of the second slice to that of the first.
    pub(crate) fn add_rows<T: Real>(sums: &mut [T], row: &[T]) {
        sums.iter_mut().zip(row).for_each(|(sum, &v)| *sum += v);
    }

    /// Returns the mean of some values and the mean of their squared distances from it.
    pub(crate) fn moments<T: Real>(values: &[T]) -> (T, T) {
        let count = T::from_f64(values.len() as f64);
        let mean = sum_of([values], |[v]| v) / count;
        (mean, sum_of([values], |[v]| (v - mean) * (v - mean)) / count)
    }
}

/// Many results that are combined pairwise at once, element by element.
pub(crate) struct PairwiseRows<T> {
    slots: Vec<Vec<T>>,
    count: usize,
}

impl<T: Copy> PairwiseRows<T> {
    pub(crate) fn new() -> PairwiseRows<T> {
        PairwiseRows { slots: Vec::new(), count: 0 }
    }

    /// Adds a row of results, which is as long as the rows before it. `join` combines the row in
    /// its first argument with a later one.
    pub(crate) fn push(&mut self, mut row: Vec<T>, join: impl Fn(&mut [T], &[T])) {
        for _ in 0..self.count.trailing_ones() {
            let Some(mut earlier) = self.slots.pop() else { break };
            join(&mut earlier, &row);
            row = earlier;
        }
        self.slots.push(row);
        self.count += 1;
    }

    /// Returns the combination of all rows; none if there were none.
    pub(crate) fn total(mut self, join: impl Fn(&mut [T], &[T])) -> Option<Vec<T>> {
        let mut total = self.slots.pop()?;
        while let Some(mut earlier) = self.slots.pop() {
            join(&mut earlier, &total);
            total = earlier;
        }
        Some(total)
    }
}
