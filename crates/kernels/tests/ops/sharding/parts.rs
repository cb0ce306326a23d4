//! Parts of tensors: cut, decomposed into those of a reduction, assembled, compared.

use std::ops::Range;

use millstream_testing::kernels::Num::{self, Float, Int};
use millstream_testing::kernels::reference::{Call, tolerance};
use millstream_testing::kernels::{Tensor, indices, rounded};
use millstream_types::{DType, Reduction, TensorSpec};

/// Returns the elements in row-major order, as bytes.
fn elements(x: &Tensor) -> Vec<u8> {
    let (size, layout) = (x.spec.dtype.size(), &x.spec.layout);
    let bytes = x.bytes();
    if layout.is_contiguous() && layout.offset() == 0 {
        return bytes[..layout.numel() * size].to_vec();
    }
    let mut elements = Vec::with_capacity(layout.numel() * size);
    for index in indices(x.shape()) {
        let at: usize = index.iter().zip(layout.strides()).map(|(i, stride)| i * stride).sum();
        elements.extend_from_slice(&bytes[(layout.offset() + at) * size..][..size]);
    }
    elements
}

fn of(dtype: DType, shape: &[usize], bytes: &[u8]) -> Tensor {
    Tensor::of_bytes(TensorSpec::contiguous(dtype, shape).unwrap(), bytes)
}

/// Returns the same elements in new memory, row-major.
pub(super) fn dense(x: &Tensor) -> Tensor {
    of(x.spec.dtype, x.shape(), &elements(x))
}

/// Returns the elements in these ranges.
pub(super) fn cut(x: &Tensor, part: &[Range<usize>]) -> Tensor {
    let shape: Vec<usize> = part.iter().map(ExactSizeIterator::len).collect();
    let offset: usize =
        part.iter().zip(x.spec.layout.strides()).map(|(range, stride)| range.start * stride).sum();
    let offset = if shape.contains(&0) { 0 } else { x.spec.layout.offset() + offset };
    dense(&x.view(&shape, x.spec.layout.strides(), offset))
}

/// Returns a dense tensor as numbers: a complex one as pairs of them.
fn real(x: &Tensor) -> Tensor {
    let pair = usize::from(x.spec.dtype.is_complex());
    let shape = [x.shape(), &vec![2; pair]].concat();
    of(x.spec.dtype.part(), &shape, &elements(x))
}

fn typed(x: &Tensor, like: &TensorSpec) -> Tensor {
    of(like.dtype, like.shape(), &elements(x))
}

/// Returns tensors of which `x` is the reduction, to the bit; `seed` selects them.
pub(super) fn decomposed(x: &Tensor, by: Reduction, count: usize, seed: usize) -> Vec<Tensor> {
    let whole = real(x);
    let parts: Vec<Tensor> = (0..count).map(|_| dense(&whole)).collect();
    for (k, index) in indices(whole.shape()).enumerate() {
        let shares = shares(whole.get(&index), whole.spec.dtype, by, count, k * 7 + seed);
        parts.iter().zip(shares).for_each(|(part, share)| part.set(&index, share));
    }
    parts.iter().map(|part| typed(part, &x.spec)).collect()
}

fn shares(v: Num, dtype: DType, by: Reduction, count: usize, seed: usize) -> Vec<Num> {
    let main = seed % count;
    let mut shares = match (by, v) {
        (Reduction::Sum, Int(_)) => vec![Int(0); count],
        (Reduction::Sum, Float(_)) => vec![Float(0.0); count],
        _ => vec![v; count],
    };
    let next = (main + 1) % count;
    match (by, v) {
        (Reduction::Sum, Int(v)) => {
            let other = (seed % 11) as i128 - 5;
            shares[next] = Int(other);
            shares[main] = Int(v - if next == main { 0 } else { other });
        }
        // Halves and doubles are exact, unless they leave the range.
        (Reduction::Sum, Float(v)) => {
            let exact = v.is_finite()
                && rounded(Float(2.0 * v), dtype) == Float(2.0 * v)
                && rounded(Float(v / 2.0), dtype) == Float(v / 2.0);
            let (a, b) = match seed / count % 3 {
                0 if exact => (2.0 * v, -v),
                1 if exact => (v / 2.0, v / 2.0),
                _ => (v, 0.0),
            };
            shares[main] = Float(v);
            if next != main {
                (shares[main], shares[next]) = (Float(a), Float(b));
            }
        }
        (Reduction::Max | Reduction::Min, _) => {
            let step = if by == Reduction::Max { -1 } else { 1 };
            let other = match v {
                Float(v) => rounded(Float(v + f64::from(step)), dtype),
                Int(v) => match (rounded(Int(v + i128::from(step)), dtype), dtype) {
                    (_, DType::Bool) => Int(i128::from(by == Reduction::Min)),
                    (Int(other), _) if other == v + i128::from(step) => Int(other),
                    _ => Int(v),
                },
            };
            if next != main {
                shares[next] = other;
            }
        }
    }
    shares
}

/// A tensor of the parts that ranks have of it.
pub(super) struct Whole {
    pub(super) tensor: Tensor,
    /// The sum of the magnitudes of what was added, in row-major order.
    scale: Vec<f64>,
    pub(super) is_reduced: bool,
}

fn magnitude(v: Num) -> f64 {
    match v {
        Int(_) => 0.0,
        Float(v) => v.abs(),
    }
}

/// Returns the reduction of tensors of one shape.
pub(super) fn reduced(parts: &[Tensor], by: Reduction) -> Whole {
    if let [one] = parts {
        return Whole { tensor: one.clone(), scale: Vec::new(), is_reduced: false };
    }
    let reals: Vec<Tensor> = parts.iter().map(real).collect();
    let sum = dense(&reals[0]);
    let mut scale = Vec::new();
    for index in indices(sum.shape()) {
        let values: Vec<Num> = reals.iter().map(|part| part.get(&index)).collect();
        scale.push(values.iter().map(|v| magnitude(*v)).sum());
        sum.set(&index, values.into_iter().reduce(|a, b| combined(a, b, by)).unwrap());
    }
    let is_reduced = !scale.is_empty();
    Whole { tensor: typed(&sum, &parts[0].spec), scale, is_reduced }
}

fn combined(a: Num, b: Num, by: Reduction) -> Num {
    match (a, b, by) {
        (Int(a), Int(b), Reduction::Sum) => Int(a + b),
        (Int(a), Int(b), Reduction::Max) => Int(a.max(b)),
        (Int(a), Int(b), Reduction::Min) => Int(a.min(b)),
        (Float(a), Float(b), Reduction::Sum) => Float(a + b),
        (Float(a), Float(b), _) if a.is_nan() || b.is_nan() => Float(f64::NAN),
        (Float(a), Float(b), Reduction::Max) => Float(a.max(b)),
        (Float(a), Float(b), Reduction::Min) => Float(a.min(b)),
        _ => panic!("{a:?} and {b:?}"),
    }
}

/// Returns the tensor of a shape whose parts these are.
pub(super) fn assembled(shape: &[usize], mut parts: Vec<(Vec<Range<usize>>, Whole)>) -> Whole {
    if let [(_, one)] = &parts[..]
        && one.tensor.shape() == shape
    {
        return parts.swap_remove(0).1;
    }
    let dtype = parts[0].1.tensor.spec.dtype;
    let pair = if dtype.is_complex() { 2 } else { 1 };
    let size = dtype.size();
    let numel: usize = shape.iter().product();
    let (mut bytes, mut scale) = (vec![0; numel * size], vec![0.0; numel * pair]);
    for (ranges, part) in &parts {
        assert!(part.tensor.spec.dtype == dtype);
        let own = elements(&part.tensor);
        for (k, index) in indices(part.tensor.shape()).enumerate() {
            let place = index.iter().zip(ranges).zip(shape);
            let at = place.fold(0, |at, ((i, range), length)| at * length + range.start + i);
            bytes[at * size..][..size].copy_from_slice(&own[k * size..][..size]);
            if part.is_reduced {
                scale[at * pair..][..pair].copy_from_slice(&part.scale[k * pair..][..pair]);
            }
        }
    }
    let is_reduced = parts.iter().any(|(_, part)| part.is_reduced);
    Whole { tensor: of(dtype, shape, &bytes), scale, is_reduced }
}

/// Returns a tensor divided by a number.
pub(super) fn quotient(x: &Whole, by: f64) -> Whole {
    let (values, scale) = (real(&x.tensor), x.scale.iter().map(|scale| scale / by).collect());
    for index in indices(values.shape()) {
        if let Float(v) = values.get(&index) {
            values.set(&index, Float(v / by));
        }
    }
    Whole { tensor: typed(&values, &x.tensor.spec), scale, is_reduced: true }
}

fn has_special(x: &Tensor) -> bool {
    real(x).values().iter().any(|v| matches!(v, Float(v) if !v.is_finite()))
}

/// Returns how an assembled tensor differs from the expected one, if it does: in bits, or by more
/// than rounding.
pub(super) fn difference(
    call: &Call,
    expected: &Tensor,
    got: &Whole,
    rounds: bool,
) -> Option<String> {
    if (expected.spec.dtype, expected.shape()) != (got.tensor.spec.dtype, got.tensor.shape()) {
        return Some(format!(
            "expected {}, got {}",
            expected.spec.brief(),
            got.tensor.spec.brief()
        ));
    }
    if elements(expected) == elements(&got.tensor) {
        return None;
    }
    let (e, g) = (real(expected), real(&got.tensor));
    let special = call.inputs.iter().any(|x| x.spec.dtype.is_inexact() && has_special(x));
    let size = e.spec.dtype.size();
    let (rtol, atol) = tolerance(e.spec.dtype);
    let (rtol, atol) = (call.tolerances.0.unwrap_or(rtol), call.tolerances.1.unwrap_or(atol));
    let (e_bytes, g_bytes) = (elements(&e), elements(&g));
    for (k, (e, g)) in e.values().into_iter().zip(g.values()).enumerate() {
        let bits = |bytes: &[u8]| bytes[k * size..][..size].to_vec();
        let close = match (e, g) {
            // Parts of infinities may add up to NaN.
            (Float(e), Float(g)) if !g.is_finite() => special || !e.is_finite(),
            (Float(e), Float(g)) => {
                let scale = got.scale.get(k).copied().unwrap_or(0.0);
                (e - g).abs() <= 2.0 * (atol + rtol * (e.abs() + scale))
            }
            _ => false,
        };
        if bits(&e_bytes) != bits(&g_bytes) && !(rounds && (close || e == g)) {
            return Some(format!("element {k}: expected {e:?}, got {g:?}"));
        }
    }
    None
}
