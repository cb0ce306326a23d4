//! Arguments that several ops share: scalars, dimensions, optional tensors.

use millstream_types::{AttrValue, Attrs, DType, Error, Result};
use smallvec::SmallVec;

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
}

impl Scalar {
    /// Returns the scalar argument `name`, if it was given.
    ///
    /// # Errors
    /// Fails if the argument is not a scalar.
    pub fn of(attrs: &Attrs, name: &str) -> Result<Option<Scalar>> {
        match attrs.get(name) {
            None => Ok(None),
            Some(AttrValue::Int(v)) => Ok(Some(Scalar::Int(*v))),
            Some(AttrValue::Float(v)) => Ok(Some(Scalar::Float(*v))),
            Some(AttrValue::Bool(v)) => Ok(Some(Scalar::Bool(*v))),
            Some(other) => Err(Error::Invalid {
                what: "argument",
                message: format!("{name}: expected a number, true or false, got {other}"),
            }),
        }
    }

    /// Returns whether a tensor of `dtype` can hold the scalar. An integer dtype holds whole
    /// numbers in its range. A float dtype holds infinities, NaN and finite numbers that do not
    /// round to an infinity. Bool holds every scalar, as "nonzero".
    pub fn fits(self, dtype: DType) -> bool {
        let whole = |v: i128| match dtype {
            DType::I64 => i64::try_from(v).is_ok(),
            DType::I32 => i32::try_from(v).is_ok(),
            DType::I16 => i16::try_from(v).is_ok(),
            DType::I8 => i8::try_from(v).is_ok(),
            DType::U8 => u8::try_from(v).is_ok(),
            DType::U16 => u16::try_from(v).is_ok(),
            DType::U32 => u32::try_from(v).is_ok(),
            DType::U64 => u64::try_from(v).is_ok(),
            _ => true,
        };
        match self {
            Scalar::Bool(_) => true,
            Scalar::Int(v) if dtype.is_float() => (v as f64).abs() < overflow(dtype),
            Scalar::Int(v) => whole(i128::from(v)),
            Scalar::Float(v) if dtype.is_float() => !v.is_finite() || v.abs() < overflow(dtype),
            // An `i128` holds every f64 whose magnitude is below 2^127. Larger ones saturate, and
            // are out of the range of every dtype in any case.
            Scalar::Float(v) if dtype.is_int() => v.fract() == 0.0 && whole(v as i128),
            Scalar::Float(_) => true,
        }
    }
}

macro_rules! scalar {
    ($($ty:ty => $variant:ident;)*) => {$(
        impl From<$ty> for Scalar {
            fn from(value: $ty) -> Scalar {
                Scalar::$variant(value.into())
            }
        }
    )*};
}

scalar! {
    i64 => Int;
    i32 => Int;
    u32 => Int;
    f64 => Float;
    f32 => Float;
    bool => Bool;
}

impl From<usize> for Scalar {
    /// Converts a number; one beyond the range of `i64` becomes a floating-point number.
    fn from(value: usize) -> Scalar {
        i64::try_from(value).map_or(Scalar::Float(value as f64), Scalar::Int)
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::Float(v) => write!(f, "{v:?}"),
            Scalar::Bool(v) => write!(f, "{v}"),
        }
    }
}

/// Returns the text argument `name`, if it was given.
///
/// # Errors
/// Fails if the argument is not one of `allowed`.
pub fn choice<'a>(attrs: &'a Attrs, name: &str, allowed: &[&str]) -> Result<Option<&'a str>> {
    match attrs.get(name) {
        None => Ok(None),
        Some(AttrValue::Str(v)) if allowed.contains(&v.as_str()) => Ok(Some(v)),
        Some(other) => Err(Error::Invalid {
            what: "argument",
            message: format!("{name}: expected one of {allowed:?}, got {other}"),
        }),
    }
}

/// The argument that lists the absent tensors of an op with optional ones, by position from 0.
pub const ABSENT: &str = "absent";

/// Returns, for each of an op's `listed` tensors, its position among the `given` ones, or `None` if
/// it is absent. Absent tensors at the end need not be listed in [`ABSENT`].
///
/// # Errors
/// Fails if a position is out of range or given twice, or if more tensors are given than remain.
pub fn input_positions(
    attrs: &Attrs,
    listed: usize,
    given: usize,
) -> Result<SmallVec<[Option<usize>; 8]>> {
    let invalid = |message: String| Error::Invalid { what: "argument", message };
    let mut there: SmallVec<[bool; 8]> = SmallVec::from_elem(true, listed);
    for number in attrs.ints(ABSENT)?.unwrap_or_default() {
        match usize::try_from(number).ok().and_then(|n| there.get_mut(n)) {
            Some(there) if *there => *there = false,
            Some(_) => {
                return Err(invalid(format!(
                    "{ABSENT}: expected each position once, got {number} twice"
                )));
            }
            None => {
                return Err(invalid(format!(
                    "{ABSENT}: expected positions from 0 to {}, got {number}",
                    listed.saturating_sub(1)
                )));
            }
        }
    }
    let left = there.iter().filter(|there| **there).count();
    if given > left {
        return Err(invalid(format!("{ABSENT}: expected at most {left} tensor(s), got {given}")));
    }
    let mut next = 0;
    let position = |there: bool| {
        let position = (there && next < given).then_some(next);
        next += usize::from(position.is_some());
        position
    };
    Ok(there.into_iter().map(position).collect())
}

/// Returns the least magnitude that rounds to an infinity in a float dtype: halfway between the
/// largest finite value and its successor, by IEEE 754 rounding to nearest, ties to even.
fn overflow(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65520.0,
        // 2^128 minus half a unit in the last place, for 24 and for 8 bits of precision.
        DType::F32 => (2.0 - 2f64.powi(-24)) * 2f64.powi(127),
        DType::BF16 => (2.0 - 2f64.powi(-8)) * 2f64.powi(127),
        _ => f64::INFINITY,
    }
}

/// Returns the index of dimension `dim` of a tensor of `rank` dimensions. Negative numbers count
/// from the end. A tensor without dimensions counts as having one.
///
/// # Errors
/// Fails if `dim` is out of range.
pub fn dimension(dim: i64, rank: usize) -> Result<usize> {
    let count = rank.max(1) as i64;
    let at = if dim < 0 { dim.checked_add(count) } else { Some(dim) };
    match at {
        Some(at) if (0..count).contains(&at) => Ok(at as usize),
        _ => Err(Error::Invalid {
            what: "dimension",
            message: format!("{dim}: expected {} to {}", -count, count - 1),
        }),
    }
}

/// Returns the value of a required argument, or an error if it is absent.
pub(crate) fn required<T>(name: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::Invalid {
        what: "argument",
        message: format!("{name}: missing; this argument is required"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits() {
        use DType::*;
        for (value, dtype, expected) in [
            (Scalar::Int(255), U8, true),
            (Scalar::Int(256), U8, false),
            (Scalar::Int(-1), U8, false),
            (Scalar::Int(-1), U64, false),
            (Scalar::Int(65535), U16, true),
            (Scalar::Int(65536), U16, false),
            (Scalar::Float(1.8e19), U64, true),
            (Scalar::Float(1.9e19), U64, false),
            (Scalar::Int(i64::MIN), I64, true),
            (Scalar::Float(1.5), I32, false),
            (Scalar::Float(2.0), I32, true),
            (Scalar::Float(9.3e18), I64, false),
            (Scalar::Float(-9_223_372_036_854_775_808.0), I64, true),
            (Scalar::Float(f64::NAN), I8, false),
            (Scalar::Float(f64::INFINITY), I64, false),
            (Scalar::Float(f64::INFINITY), F16, true),
            (Scalar::Float(65519.0), F16, true),
            (Scalar::Int(65520), F16, false),
            (Scalar::Float(3.5e38), F32, false),
            (Scalar::Float(f64::from(f32::MAX)), F32, true),
            (Scalar::Float(3.4e38), BF16, false),
            (Scalar::Int(i64::MAX), BF16, true),
            (Scalar::Float(f64::MAX), F64, true),
            (Scalar::Float(0.5), Bool, true),
            (Scalar::Bool(true), U8, true),
        ] {
            assert_eq!(value.fits(dtype), expected, "{value} in {dtype}");
        }
    }

    #[test]
    fn absent_tensors_leave_gaps() {
        let absent = |list: &[i64]| Attrs::new().with(ABSENT, list.to_vec());
        let positions = |attrs: &Attrs, given| input_positions(attrs, 4, given).map(|p| p.to_vec());
        assert_eq!(positions(&Attrs::new(), 2), Ok(vec![Some(0), Some(1), None, None]));
        assert_eq!(positions(&absent(&[1]), 3), Ok(vec![Some(0), None, Some(1), Some(2)]));
        assert_eq!(positions(&absent(&[2, 1]), 1), Ok(vec![Some(0), None, None, None]));
        for (list, given) in [(&[4][..], 1), (&[-1], 1), (&[1, 1], 1), (&[1], 4)] {
            assert!(positions(&absent(list), given).is_err(), "{list:?} {given}");
        }
    }

    #[test]
    fn dimensions_count_from_both_ends() {
        assert_eq!(dimension(-1, 3), Ok(2));
        assert_eq!(dimension(2, 3), Ok(2));
        assert_eq!(dimension(-1, 0), Ok(0));
        for bad in [3, -4, i64::MIN, i64::MAX] {
            let err = dimension(bad, 3).unwrap_err().to_string();
            assert!(err.contains("expected -3 to 2"), "{err}");
        }
    }
}
