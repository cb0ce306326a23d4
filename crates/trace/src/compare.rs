//! Comparing results with what was expected.

use std::fmt;

use millstream_types::{DType, TensorSpec};

use crate::data::{Data, memory};
use crate::error::Result;
use crate::number::{read_float, read_int};
use crate::positions::{Positions, index_of};
use crate::program::Output;

/// How far a value may be off: `|actual - expected| <= atol + rtol · |expected|`. What is not said
/// is that of [`Tolerance::of`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// The error allowed, as a share of the expected value.
    pub rtol: Option<f64>,
    /// The error allowed whatever the expected value is.
    pub atol: Option<f64>,
}

impl Tolerance {
    /// The tolerance for a dtype where nobody says another: that of PyTorch's `assert_close`; zero
    /// for integers and booleans.
    ///
    /// Source: <https://docs.pytorch.org/docs/stable/testing.html#torch.testing.assert_close>.
    pub const fn of(dtype: DType) -> (f64, f64) {
        match dtype {
            DType::F64 => (1e-7, 1e-7),
            DType::F32 => (1.3e-6, 1e-5),
            DType::F16 => (1e-3, 1e-5),
            DType::BF16 => (1.6e-2, 1e-5),
            _ => (0.0, 0.0),
        }
    }

    /// With what is not said taken from `other`.
    #[must_use]
    pub fn or(self, other: Tolerance) -> Tolerance {
        Tolerance { rtol: self.rtol.or(other.rtol), atol: self.atol.or(other.atol) }
    }

    /// The relative and the absolute tolerance for a dtype. Integers and booleans are exact
    /// whatever is said.
    pub fn resolve(self, dtype: DType) -> (f64, f64) {
        let (rtol, atol) = Tolerance::of(dtype);
        match dtype.is_float() {
            true => (self.rtol.unwrap_or(rtol), self.atol.unwrap_or(atol)),
            false => (0.0, 0.0),
        }
    }
}

/// How a tensor differs from what was expected of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch {
    /// It has another dtype.
    DType {
        /// The dtype it has.
        actual: DType,
        /// The dtype it should have.
        expected: DType,
    },
    /// It has another shape.
    Shape {
        /// The shape it has.
        actual: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// An element is off by more than the tolerance: the first such one, in row-major order.
    Element {
        /// Its index.
        index: Vec<usize>,
        /// What it is.
        actual: String,
        /// What it should be.
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
        }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The greatest `|actual - expected|`; infinite where only one is NaN or infinite.
    pub max_abs: f64,
    /// The greatest `|actual - expected| / |expected|`; infinite where the expected value is zero
    /// and the actual one is not.
    pub max_rel: f64,
    /// The relative tolerance used.
    pub rtol: f64,
    /// The absolute tolerance used.
    pub atol: f64,
    /// Whether everything is as expected.
    pub ok: bool,
    /// How many elements are off by more than the tolerance.
    pub mismatches: usize,
    /// The first thing that is not as expected.
    pub first: Option<Mismatch>,
}

impl Comparison {
    fn new((rtol, atol): (f64, f64)) -> Comparison {
        Comparison { max_abs: 0.0, max_rel: 0.0, rtol, atol, ok: true, mismatches: 0, first: None }
    }

    fn differ(mut self, first: Mismatch) -> Comparison {
        (self.ok, self.first) = (false, Some(first));
        (self.max_abs, self.max_rel) = (f64::INFINITY, f64::INFINITY);
        self
    }
}

/// Compares a tensor with the dense elements expected of it, both of the same dtype and shape.
///
/// NaN equals NaN, an infinity equals the same infinity, and integers and booleans are exact.
/// `actual` holds the tensor's storage; bytes that are missing on either side are mismatches.
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
        Some(b) if dtype == DType::Bool => (read_int(b, dtype) != 0).to_string(),
        Some(b) => read_int(b, dtype).to_string(),
    };
    for (n, at) in Positions::new(&spec.layout).enumerate() {
        let got = actual.get(at * size..(at + 1) * size);
        let want = expected.get(n * size..(n + 1) * size);
        let (abs, rel, ok) = match (got, want) {
            (Some(a), Some(e)) if dtype.is_float() => {
                let (a, e) = (read_float(a, dtype), read_float(e, dtype));
                float_error(a, e, result.rtol, result.atol)
            }
            (Some(a), Some(e)) => {
                let (a, e) = (read_int(a, dtype), read_int(e, dtype));
                let abs = a.abs_diff(e) as f64;
                (abs, share(abs, e as f64), a == e)
            }
            _ => (f64::INFINITY, f64::INFINITY, false),
        };
        result.max_abs = result.max_abs.max(abs);
        result.max_rel = result.max_rel.max(rel);
        if !ok {
            result.mismatches += 1;
            result.ok = false;
            result.first.get_or_insert_with(|| Mismatch::Element {
                index: index_of(n, spec.shape()),
                actual: show(got),
                expected: show(want),
            });
        }
    }
    result
}

fn share(abs: f64, expected: f64) -> f64 {
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
    (abs, share(abs, e), abs <= atol + rtol * e.abs())
}

impl Output {
    /// Compares the tensor that a run gave with what the trace expects of it; `actual` holds its
    /// storage. Where the trace expects no elements, only dtype and shape are checked.
    ///
    /// # Errors
    /// The expected elements do not fit in memory; they are none of this dtype; a sidecar file has
    /// changed since the trace was loaded.
    pub fn compare(&self, actual: &[u8], spec: &TensorSpec) -> Result<Comparison> {
        let done = Comparison::new(self.tolerance.resolve(spec.dtype));
        let dtype = self.dtype.or_else(|| self.expected.as_ref().and_then(Data::dtype));
        if let Some(expected) = dtype.filter(|d| *d != spec.dtype) {
            return Ok(done.differ(Mismatch::DType { actual: spec.dtype, expected }));
        }
        let wrong_shape = |expected: &[usize]| {
            let (actual, expected) = (spec.shape().to_vec(), expected.to_vec());
            Ok(done.clone().differ(Mismatch::Shape { actual, expected }))
        };
        match (&self.shape, &self.expected) {
            (Some(shape), _) if shape.as_slice() != spec.shape() => wrong_shape(shape),
            (_, Some(Data::File(f))) if f.shape() != spec.shape() => wrong_shape(f.shape()),
            (_, Some(Data::Values(v))) if !v.fits(spec.shape()) => wrong_shape(v.shape()),
            (_, None) => Ok(done),
            (_, Some(data)) => {
                let dense = TensorSpec::contiguous(spec.dtype, spec.shape())
                    .map_err(|e| self.site.wrap(&e))?;
                let mut expected = memory(dense.span_bytes(), &self.site)?;
                data.write(&dense, &mut expected, &self.site)?;
                Ok(compare(actual, spec, &expected, self.tolerance))
            }
        }
    }
}
