//! Parts of random tensors: each has the elements of the whole.

use std::ops::Range;

use millstream_types::{Attrs, DType};

use super::reference::Run;
use super::{Tensor, call_with, signature};

/// A call that draws: the op, whether it takes a tensor, and arguments.
type Draw = (&'static str, bool, &'static [(&'static str, f64)]);

const DRAWS: &[Draw] = &[
    ("uniform", false, &[("from", -2.0), ("to", 3.0)]),
    ("uniform_", true, &[]),
    ("normal", false, &[("mean", 1.0)]),
    ("normal_", true, &[]),
    ("exponential", false, &[]),
    ("exponential_", true, &[]),
    ("randint", false, &[]),
    ("randint_", true, &[]),
    ("bernoulli", true, &[("p", 0.4)]),
    ("bernoulli", true, &[]),
    ("bernoulli_", true, &[("p", 0.6)]),
    ("native_dropout", true, &[("p", 0.3)]),
];

const SHAPES: &[&[usize]] = &[&[13], &[3, 5], &[4, 1, 7], &[2, 3, 2, 3]];

/// Returns the parts of a shape: every range of each dimension, which are all for short ones.
fn parts(shape: &[usize]) -> Vec<Vec<Range<usize>>> {
    let ranges = |length: usize| {
        let starts = 0..length;
        starts.flat_map(move |start| (start + 1..=length).map(move |end| start..end))
    };
    shape.iter().fold(vec![Vec::new()], |all, &length| {
        let with = |of: Vec<Range<usize>>| {
            ranges(length).map(move |range| of.iter().cloned().chain([range]).collect())
        };
        all.into_iter().flat_map(with).collect()
    })
}

/// Checks that every part of a random tensor has the bits of the whole: every box of shapes, for
/// every dtype; one box of a large shape, which several threads draw.
///
/// # Panics
/// If a part has others.
pub fn check_random_parts(run: Run<'_>) {
    let mut checked = 0;
    for &(op, reads, numbers) in DRAWS {
        for dtype in DType::REAL {
            for &shape in SHAPES {
                let parts = parts(shape);
                // Fewer of the many, by a step that is prime to their number.
                let step = if parts.len() > 60 { 17 } else { 1 };
                let chosen = parts.into_iter().step_by(step);
                checked += check(run, 0, (op, reads, numbers), dtype, shape, chosen);
            }
        }
        let large = [[3..90, 5..300]].map(Vec::from).into_iter();
        checked += check(run, 3, (op, reads, numbers), DType::F32, &[100, 301], large);
    }
    assert!(checked > 3000, "{checked} parts");
}

fn check(
    run: Run,
    threads: usize,
    (op, reads, numbers): (&str, bool, &[(&'static str, f64)]),
    dtype: DType,
    shape: &[usize],
    parts: impl Iterator<Item = Vec<Range<usize>>>,
) -> usize {
    let list = |of: &[usize]| of.iter().map(|n| *n as i64).collect::<Vec<_>>();
    let attrs = |shape: &[usize]| {
        let attrs = Attrs::new().with("seed", 71).with("offset", 5);
        let attrs = numbers.iter().fold(attrs, |attrs, (name, v)| attrs.with(*name, *v));
        let attrs = if op.starts_with("randint") { attrs.with("high", 100) } else { attrs };
        if reads { attrs } else { attrs.with("shape", list(shape)).with("dtype", dtype) }
    };
    let shares =
        |shape: &[usize]| Tensor::floats(dtype, shape, &[0.5, 0.25, 0.75, 0.125, 0.625, 0.0, 1.0]);
    let x = shares(shape);
    let given = |x: &Tensor| if reads { vec![x.clone()] } else { Vec::new() };
    let call = |x: &Tensor, attrs: &Attrs| {
        let given = given(x);
        call_with(run, op, &given.iter().collect::<Vec<_>>(), attrs, threads).unwrap()
    };
    let inputs = given(&x);
    if signature(op, &inputs.iter().collect::<Vec<_>>(), &attrs(shape)).is_err() {
        return 0;
    }
    // In place, the whole is drawn on a copy.
    let copy = x.relaid(x.spec.layout.clone());
    let whole = call(&copy, &attrs(shape));
    let mut checked = 0;
    for part in parts {
        let lengths: Vec<usize> = part.iter().map(ExactSizeIterator::len).collect();
        let starts: Vec<usize> = part.iter().map(|range| range.start).collect();
        let attrs = attrs(&lengths).with("whole", list(shape)).with("first", list(&starts));
        let cut = |x: &Tensor| {
            let strides = x.spec.layout.strides();
            x.view(&lengths, strides, starts.iter().zip(strides).map(|(at, step)| at * step).sum())
        };
        let dense = millstream_types::Layout::contiguous(&lengths).unwrap();
        let drawn = call(&cut(&x).relaid(dense), &attrs);
        for (drawn, whole) in drawn.iter().zip(&whole) {
            assert_eq!(drawn.values(), cut(whole).values(), "{op} {dtype} {shape:?} {part:?}");
        }
        checked += 1;
    }
    checked
}
