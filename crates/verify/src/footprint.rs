//! The bytes that a tensor occupies within its storage.
//!
//! A footprint is a run of bytes repeated by strides: `start + Σ ik · stride k + (0..run)`.
//! Adjacent dimensions are merged: a dense tensor of any shape is one run, and a block of a matrix
//! has one stride.
//!
//! The overlap of two footprints is computed exactly, by descending their dimensions in parallel.
//! For dimensions with equal strides, two or three offsets suffice. For different strides, the
//! larger one is enumerated. After [`STEP_BUDGET`] steps the footprints count as overlapping,
//! unless the common divisor of all strides separates them.

use std::ops::Range;

use millstream_types::TensorSpec;
use smallvec::SmallVec;

/// The maximum number of steps of one comparison.
const STEP_BUDGET: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dim {
    /// In bytes.
    stride: u64,
    /// At least 2.
    count: u64,
}

/// A set of bytes of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// The first byte.
    start: u64,
    /// One past the last byte; `start` if there is none.
    end: u64,
    /// The length of a run in bytes.
    run: u64,
    /// Largest stride first.
    dims: SmallVec<[Dim; 2]>,
}

impl Footprint {
    /// Returns the footprint of `start..end`.
    pub(crate) fn dense(start: u64, end: u64) -> Footprint {
        Footprint { start, end, run: end - start, dims: SmallVec::new() }
    }

    /// Returns the footprint of a tensor's elements.
    pub(crate) fn of(spec: &TensorSpec) -> Footprint {
        let size = spec.dtype.size() as u64;
        if spec.numel() == 0 {
            return Footprint::dense(0, 0);
        }
        let start = spec.layout.offset() as u64 * size;
        let lengths = spec.layout.shape().iter().zip(spec.layout.strides());
        let mut all: SmallVec<[Dim; 4]> = lengths
            .filter(|&(&length, &stride)| length > 1 && stride > 0)
            .map(|(&length, &stride)| Dim { stride: stride as u64 * size, count: length as u64 })
            .collect();
        all.sort_unstable_by_key(|d| d.stride);
        let mut run = size;
        let mut dims: SmallVec<[Dim; 2]> = SmallVec::new();
        for dim in all {
            match dims.last_mut() {
                // Runs that touch or overlap form one run.
                None if dim.stride <= run => run += (dim.count - 1) * dim.stride,
                Some(last) if dim.stride == last.stride * last.count => last.count *= dim.count,
                _ => dims.push(dim),
            }
        }
        dims.reverse();
        Footprint { start, end: start + extent(&dims, run), run, dims }
    }

    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_dense(&self) -> bool {
        self.dims.is_empty()
    }

    /// Returns whether the footprint contains `other`. False negatives are possible.
    pub(crate) fn contains(&self, other: &Footprint) -> bool {
        (self.is_dense() && self.start <= other.start && other.end <= self.end) || self == other
    }

    /// Returns bytes that both footprints contain. If the step budget runs out, returns the
    /// intersection of their bounds.
    pub(crate) fn overlap(&self, other: &Footprint) -> Option<Range<u64>> {
        let both = self.start.max(other.start)..self.end.min(other.end);
        if both.is_empty() || (self.is_dense() && other.is_dense()) {
            return (!both.is_empty()).then_some(both);
        }
        let all = self.dims.iter().chain(&other.dims);
        let divisor = all.fold(0, |d, dim| gcd(d, dim.stride));
        let apart = (i128::from(other.start) - i128::from(self.start))
            .rem_euclid(i128::from(divisor.max(1))) as u64;
        if self.run <= apart && apart + other.run <= divisor {
            return None;
        }
        let mut budget = STEP_BUDGET;
        let (a, b) = (i128::from(self.start), i128::from(other.start));
        match overlap_runs(a, &self.dims, self.run, b, &other.dims, other.run, &mut budget) {
            Overlap::Disjoint => None,
            Overlap::At(from, to) => Some(from as u64..to as u64),
            Overlap::Unknown => Some(both),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the number of bytes from the start of the first run to the end of the last.
fn extent(dims: &[Dim], run: u64) -> u64 {
    dims.iter().map(|d| (d.count - 1) * d.stride).sum::<u64>() + run
}

enum Overlap {
    Disjoint,
    At(i128, i128),
    Unknown,
}

/// Where two footprints overlap_runs, given by their first bytes, dimensions and runs.
fn overlap_runs(
    a: i128,
    p: &[Dim],
    run_a: u64,
    b: i128,
    q: &[Dim],
    run_b: u64,
    budget: &mut u32,
) -> Overlap {
    let (len_a, len_b) = (i128::from(extent(p, run_a)), i128::from(extent(q, run_b)));
    if a + len_a <= b || b + len_b <= a {
        return Overlap::Disjoint;
    }
    let Some(left) = budget.checked_sub(1) else { return Overlap::Unknown };
    *budget = left;
    let (x, y) = match (p.split_first(), q.split_first()) {
        (None, None) => return Overlap::At(a.max(b), (a + len_a).min(b + len_b)),
        (Some((x, inner)), Some((y, rest))) if x.stride == y.stride => {
            // Only the difference of the two indices matters: b moves by k strides against a.
            let stride = i128::from(x.stride);
            let (la, lb) = (i128::from(extent(inner, run_a)), i128::from(extent(rest, run_b)));
            let least = (a - b - lb).div_euclid(stride) + 1;
            let most = -(b - a - la).div_euclid(stride) - 1;
            let least = least.max(1 - i128::from(x.count));
            let most = most.min(i128::from(y.count) - 1);
            return first(least..=most, |k| {
                // All index pairs with this difference are equivalent; this takes the first.
                let (i, j) = ((-k).max(0) * stride, k.max(0) * stride);
                overlap_runs(a + i, inner, run_a, b + j, rest, run_b, budget)
            });
        }
        (x, y) => (x, y),
    };
    // Enumerates the larger stride.
    let stride = |side: &Option<(&Dim, &[Dim])>| side.map_or(0, |(d, _)| d.stride);
    if stride(&x) < stride(&y) {
        return overlap_runs(b, q, run_b, a, p, run_a, budget);
    }
    let Some((x, inner)) = x else { return Overlap::Unknown };
    let (step, la) = (i128::from(x.stride), i128::from(extent(inner, run_a)));
    let least = ((b - a - la).div_euclid(step) + 1).max(0);
    let most = (-(a - b - len_b).div_euclid(step) - 1).min(i128::from(x.count) - 1);
    first(least..=most, |i| overlap_runs(a + i * step, inner, run_a, b, q, run_b, budget))
}

/// Returns the first result that is not disjoint.
fn first(
    places: std::ops::RangeInclusive<i128>,
    mut overlap_runs: impl FnMut(i128) -> Overlap,
) -> Overlap {
    for k in places {
        match overlap_runs(k) {
            Overlap::Disjoint => {}
            found => return found,
        }
    }
    Overlap::Disjoint
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use millstream_types::{DType, Layout};
    use proptest::prelude::*;

    use super::*;

    fn view() -> impl Strategy<Value = TensorSpec> {
        let dims = proptest::collection::vec((0usize..5, 0usize..14), 0..4);
        let dtype = proptest::sample::select(vec![DType::U8, DType::F16, DType::F32]);
        (dims, 0usize..40, dtype).prop_map(|(dims, offset, dtype)| {
            let (shape, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            TensorSpec::new(dtype, Layout::strided(&shape, &strides, offset).unwrap()).unwrap()
        })
    }

    /// Every byte of every element.
    fn bytes(spec: &TensorSpec) -> BTreeSet<u64> {
        let mut places = vec![spec.layout.offset()];
        for (&length, &stride) in spec.shape().iter().zip(spec.layout.strides()) {
            let steps = |at: usize| (0..length).map(move |k| at + k * stride);
            places = places.into_iter().flat_map(steps).collect();
        }
        let size = spec.dtype.size();
        places.into_iter().flat_map(|at| (at * size..(at + 1) * size).map(|b| b as u64)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]
        #[test]
        fn overlap_is_exact_for_small_views(a in view(), b in view()) {
            let (x, y) = (Footprint::of(&a), Footprint::of(&b));
            let (p, q) = (bytes(&a), bytes(&b));
            prop_assert_eq!(x.start..x.end, match (p.first(), p.last()) {
                (Some(&from), Some(&to)) => from..to + 1,
                _ => 0..0,
            });
            let found = x.overlap(&y);
            prop_assert_eq!(found.is_some(), !p.is_disjoint(&q), "{} {}", a, b);
            prop_assert_eq!(y.overlap(&x).is_some(), found.is_some());
            for byte in found.into_iter().flatten() {
                prop_assert!(p.contains(&byte) && q.contains(&byte), "{} {} {}", a, b, byte);
            }
            prop_assert!(!x.contains(&y) || q.is_subset(&p), "{} {}", a, b);
        }
    }

    fn spec(shape: &[usize], strides: &[usize], offset: usize) -> Footprint {
        let layout = Layout::strided(shape, strides, offset).unwrap();
        Footprint::of(&TensorSpec::new(DType::F32, layout).unwrap())
    }

    #[test]
    fn blocks_of_large_matrices_are_told_apart() {
        let n = 1 << 20;
        let left = spec(&[n, 8], &[16, 1], 0);
        let right = spec(&[n, 8], &[16, 1], 8);
        assert_eq!((left.dims.len(), left.overlap(&right)), (1, None));
        let middle = spec(&[n, 8], &[16, 1], 4);
        assert_eq!(left.overlap(&middle), Some(16..32));
        // Rows below and above, of the same columns.
        let (top, low) = (spec(&[n / 2, 8], &[16, 1], 0), spec(&[n / 2, 8], &[16, 1], 16 * n / 2));
        assert_eq!(top.overlap(&low), None);
        // Every third element against every fifth: they overlap_runs.
        let (third, fifth) = (spec(&[n], &[3], 1), spec(&[n], &[5], 2));
        assert!(third.overlap(&fifth).is_some());
        // Odd and even elements, by different strides.
        let (odd, even) = (spec(&[n], &[2], 1), spec(&[n / 2], &[4], 0));
        assert_eq!(odd.overlap(&even), None);
        assert_eq!(spec(&[0, 3], &[1, 1], 7).overlap(&left), None);
    }
}
