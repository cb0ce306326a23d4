//! Compares results with the values that a trace expects.

use std::fmt;

use millstream_types::{DType, TensorSpec};
use serde::Deserialize;

use crate::data::{Data, memory};
use crate::element_iter::{ElementIter, unravel_index};
use crate::error::Result;
use crate::number::{read_complex, read_float, read_int};
use crate::program::Output;

/// The tolerance of a comparison: `|actual - expected| <= atol + rtol · |expected|`. A bound that
/// is `None` has the default of [`Tolerance::of`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Tolerance {
    /// The relative tolerance: the allowed error as a fraction of the expected value.
    pub rtol: Option<f64>,
    /// The absolute tolerance: the allowed error independent of the expected value.
    pub atol: Option<f64>,
}

impl Tolerance {
    /// Returns the default tolerances of a dtype, relative and absolute: those of PyTorch's
    /// `assert_close`; zero for integers and booleans.
    ///
    /// Source: <https://docs.pytorch.org/docs/stable/testing.html#torch.testing.assert_close>.
    pub const fn of(dtype: DType) -> (f64, f64) {
        match dtype {
            DType::F64 | DType::C128 => (1e-7, 1e-7),
            DType::F32 | DType::C64 => (1.3e-6, 1e-5),
            DType::F16 => (1e-3, 1e-5),
            DType::BF16 => (1.6e-2, 1e-5),
            _ => (0.0, 0.0),
        }
    }

    /// Returns this tolerance with missing bounds taken from `other`.
    #[must_use]
    pub fn or(self, other: Tolerance) -> Tolerance {
        Tolerance { rtol: self.rtol.or(other.rtol), atol: self.atol.or(other.atol) }
    }

    /// Returns the relative and the absolute tolerance for a dtype. Integers and booleans are
    /// always compared exactly.
    pub fn resolve(self, dtype: DType) -> (f64, f64) {
        let (rtol, atol) = Tolerance::of(dtype);
        match dtype.is_inexact() {
            true => (self.rtol.unwrap_or(rtol), self.atol.unwrap_or(atol)),
            false => (0.0, 0.0),
        }
    }
}

/// A difference between a tensor and its expectation.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch {
    /// The tensor has another dtype.
    DType {
        /// The actual dtype.
        actual: DType,
        /// The expected dtype.
        expected: DType,
    },
    /// The tensor has another shape.
    Shape {
        /// The actual shape.
        actual: Vec<usize>,
        /// The expected shape.
        expected: Vec<usize>,
    },
    /// An element differs by more than the tolerance: the first one in row-major order.
    Element {
        /// The element's index.
        index: Vec<usize>,
        /// The actual value.
        actual: String,
        /// The expected value.
        expected: String,
    },
    /// A fact about the elements differs by more than the tolerance.
    Fact {
        /// The fact.
        what: &'static str,
        /// The actual value.
        actual: String,
        /// The expected value.
        expected: String,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::DType { actual, expected } => write!(f, "expected {expected}, got {actual}"),
            Mismatch::Shape { actual, expected } => {
                write!(f, "expected shape {expected:?}, got {actual:?}")
            }
            Mismatch::Element { index, actual, expected } => {
                write!(f, "at {index:?} expected {expected}, got {actual}")
            }
            Mismatch::Fact { what, actual, expected } => {
                write!(f, "expected {what} to be {expected}, got {actual}")
            }
        }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The maximum of `|actual - expected|`; infinite where only one of them is NaN or infinite.
    pub max_abs: f64,
    /// The maximum of `|actual - expected| / |expected|`; infinite where the expected value is zero
    /// and the actual value is not.
    pub max_rel: f64,
    /// The relative tolerance of the comparison.
    pub rtol: f64,
    /// The absolute tolerance of the comparison.
    pub atol: f64,
    /// Whether dtype, shape and all elements match.
    pub ok: bool,
    /// The number of elements that differ by more than the tolerance.
    pub mismatches: usize,
    /// The first mismatch.
    pub first: Option<Mismatch>,
}

impl Comparison {
    fn new((rtol, atol): (f64, f64)) -> Comparison {
        Comparison { max_abs: 0.0, max_rel: 0.0, rtol, atol, ok: true, mismatches: 0, first: None }
    }

    /// Adds the errors of a floating-point value; returns whether it is within the tolerance.
    pub(crate) fn note(&mut self, actual: f64, expected: f64) -> bool {
        self.add(float_error(actual, expected, self.rtol, self.atol))
    }

    fn add(&mut self, (abs, rel, ok): (f64, f64, bool)) -> bool {
        self.max_abs = self.max_abs.max(abs);
        self.max_rel = self.max_rel.max(rel);
        self.mismatches += usize::from(!ok);
        self.ok &= ok;
        ok
    }

    fn differ(mut self, first: Mismatch) -> Comparison {
        (self.ok, self.first) = (false, Some(first));
        (self.max_abs, self.max_rel) = (f64::INFINITY, f64::INFINITY);
        self
    }
}

/// Compares a tensor with its expected elements, which are dense and of the same dtype and shape.
///
/// NaN equals NaN, an infinity equals the same infinity, and integers and booleans are compared
/// exactly. `actual` holds the tensor's storage. An element that lies past the end of `actual` or
/// of `expected` is a mismatch.
pub fn compare(
    actual: &[u8],
    spec: &TensorSpec,
    expected: &[u8],
    tolerance: Tolerance,
) -> Comparison {
    let (dtype, size) = (spec.dtype, spec.dtype.size());
    let mut result = Comparison::new(tolerance.resolve(dtype));
    let show = |bytes: Option<&[u8]>| match bytes {
        None => "nothing".to_owned(),
        Some(b) if dtype.is_float() => format!("{:?}", read_float(b, dtype)),
        Some(b) if dtype.is_complex() => {
            let (re, im) = read_complex(b, dtype);
            format!("{re:?}{im:+?}i")
        }
        Some(b) if dtype == DType::Bool => (read_int(b, dtype) != 0).to_string(),
        Some(b) => read_int(b, dtype).to_string(),
    };
    for (n, offset) in ElementIter::new(&spec.layout).enumerate() {
        let got = actual.get(offset * size..(offset + 1) * size);
        let want = expected.get(n * size..(n + 1) * size);
        let error = match (got, want) {
            (Some(a), Some(e)) if dtype.is_float() => {
                let (a, e) = (read_float(a, dtype), read_float(e, dtype));
                float_error(a, e, result.rtol, result.atol)
            }
            (Some(a), Some(e)) if dtype.is_complex() => {
                let (a, e) = (read_complex(a, dtype), read_complex(e, dtype));
                complex_error(a, e, result.rtol, result.atol)
            }
            (Some(a), Some(e)) => {
                let (a, e) = (read_int(a, dtype), read_int(e, dtype));
                let abs = a.abs_diff(e) as f64;
                (abs, relative_error(abs, e as f64), a == e)
            }
            _ => (f64::INFINITY, f64::INFINITY, false),
        };
        if !result.add(error) {
            result.first.get_or_insert_with(|| Mismatch::Element {
                index: unravel_index(n, spec.shape()),
                actual: show(got),
                expected: show(want),
            });
        }
    }
    result
}

fn relative_error(abs: f64, expected: f64) -> f64 {
    match abs == 0.0 {
        true => 0.0,
        false => abs / expected.abs(),
    }
}

fn float_error(a: f64, e: f64, rtol: f64, atol: f64) -> (f64, f64, bool) {
    if a == e || (a.is_nan() && e.is_nan()) {
        return (0.0, 0.0, true);
    }
    if !a.is_finite() || !e.is_finite() {
        return (f64::INFINITY, f64::INFINITY, false);
    }
    let abs = (a - e).abs();
    (abs, relative_error(abs, e), abs <= atol + rtol * e.abs())
}

/// Compares complex numbers by the size of their difference. Parts that are not finite must agree.
fn complex_error(a: (f64, f64), e: (f64, f64), rtol: f64, atol: f64) -> (f64, f64, bool) {
    let same = |a: f64, e: f64| a == e || (a.is_nan() && e.is_nan());
    if same(a.0, e.0) && same(a.1, e.1) {
        return (0.0, 0.0, true);
    }
    // A part that both lack as a number is left out.
    let part = |a: f64, e: f64| if same(a, e) { 0.0 } else { a - e };
    let abs = part(a.0, e.0).hypot(part(a.1, e.1));
    if !abs.is_finite() {
        return (f64::INFINITY, f64::INFINITY, false);
    }
    let size = |v: f64| if v.is_finite() { v } else { 0.0 };
    let expected = size(e.0).hypot(size(e.1));
    (abs, relative_error(abs, expected), abs <= atol + rtol * expected)
}

impl Output {
    /// Returns the difference between the dtype and shape of a result and the expected ones.
    pub fn mismatch(&self, spec: &TensorSpec) -> Option<Mismatch> {
        let dtype = self.dtype.or_else(|| self.expected.as_ref().and_then(Data::dtype));
        if let Some(expected) = dtype.filter(|d| *d != spec.dtype) {
            return Some(Mismatch::DType { actual: spec.dtype, expected });
        }
        let expected: &[usize] = match (&self.shape, &self.expected) {
            (Some(shape), _) if shape.as_slice() != spec.shape() => shape,
            (_, Some(Data::File(f))) if f.shape() != spec.shape() => f.shape(),
            (_, Some(Data::Values(v))) if !v.fits(spec.shape(), Some(spec.dtype)) => v.shape(),
            _ => return None,
        };
        Some(Mismatch::Shape { actual: spec.shape().to_vec(), expected: expected.to_vec() })
    }

    /// Compares the tensor that a run produced with the trace's expectation; `actual` holds the
    /// tensor's storage. If the trace expects no elements, only dtype and shape are checked.
    ///
    /// # Errors
    /// The expected elements do not fit in memory; they cannot be converted to this dtype; a
    /// sidecar file has changed since the trace was loaded.
    pub fn compare(&self, actual: &[u8], spec: &TensorSpec) -> Result<Comparison> {
        let done = Comparison::new(self.tolerance.resolve(spec.dtype));
        if let Some(mismatch) = self.mismatch(spec) {
            return Ok(done.differ(mismatch));
        }
        match &self.expected {
            None => Ok(match &self.probe {
                Some(probe) => probe.compare(actual, spec, done),
                None => done,
            }),
            Some(data) => {
                let dense = TensorSpec::contiguous(spec.dtype, spec.shape())
                    .map_err(|e| self.site.wrap(&e))?;
                let mut expected = memory(dense.span_bytes(), &self.site)?;
                data.write(&dense, &mut expected, &self.site)?;
                Ok(compare(actual, spec, &expected, self.tolerance))
            }
        }
    }
}
