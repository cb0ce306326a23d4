//! Scalars of a list: numbers that each launch gives for arguments of its calls.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::attr::AttrValue;
use crate::id::ScalarId;

/// A use of a list's scalar formal as the value of an attribute: the number that the launch gives
/// for it, plus a constant.
///
/// ```
/// # use millstream_types::*;
/// let draw = ScalarUse { scalar: ScalarId(1), plus: 2 };
/// assert_eq!(AttrValue::from(draw).to_string(), "$1+2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScalarUse {
    /// The scalar.
    pub scalar: ScalarId,
    /// The constant that is added to it, wrapping around.
    pub plus: i64,
}

impl fmt::Display for ScalarUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plus {
            0 => write!(f, "{}", self.scalar),
            plus => write!(f, "{}{plus:+}", self.scalar),
        }
    }
}

/// The number that a launch gives for a scalar. A list declares which of both kinds it is.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!(ScalarValue::from(0.5).to_string(), "0.5");
/// assert_ne!(ScalarValue::from(1), ScalarValue::from(1.0));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ScalarValue {
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

impl ScalarValue {
    /// Returns the number of an attribute, if it is one.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(ScalarValue::of(&AttrValue::from(0.5)), Some(ScalarValue::Float(0.5)));
    /// assert_eq!(ScalarValue::of(&AttrValue::from(true)), None);
    /// ```
    pub const fn of(value: &AttrValue) -> Option<ScalarValue> {
        match value {
            AttrValue::Int(v) => Some(ScalarValue::Int(*v)),
            AttrValue::Float(v) => Some(ScalarValue::Float(*v)),
            _ => None,
        }
    }

    /// Returns the sum of the number and a constant; whole numbers wrap around.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(ScalarValue::Int(40).plus(2), ScalarValue::Int(42));
    /// ```
    #[must_use]
    pub const fn plus(self, constant: i64) -> ScalarValue {
        match self {
            ScalarValue::Int(v) => ScalarValue::Int(v.wrapping_add(constant)),
            // Not even the sign of a zero may change.
            ScalarValue::Float(v) if constant == 0 => ScalarValue::Float(v),
            ScalarValue::Float(v) => ScalarValue::Float(v + constant as f64),
        }
    }

    /// Returns whether both numbers are whole, or both floating-point numbers.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(!ScalarValue::Int(1).is_kind_of(ScalarValue::Float(1.0)));
    /// ```
    pub const fn is_kind_of(self, other: ScalarValue) -> bool {
        matches!(
            (self, other),
            (ScalarValue::Int(_), ScalarValue::Int(_))
                | (ScalarValue::Float(_), ScalarValue::Float(_))
        )
    }

    /// Describes the kind of the number, for errors.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(ScalarValue::Int(7).kind(), "a whole number");
    /// ```
    pub const fn kind(self) -> &'static str {
        match self {
            ScalarValue::Int(_) => "a whole number",
            ScalarValue::Float(_) => "a floating-point number",
        }
    }

    /// Returns the number as 64 bits: those of a float are its representation.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(ScalarValue::Int(7).word(), 7);
    /// assert_eq!(ScalarValue::Float(0.0).word(), 0);
    /// ```
    pub const fn word(self) -> i64 {
        match self {
            ScalarValue::Int(v) => v,
            ScalarValue::Float(v) => v.to_bits() as i64,
        }
    }
}

impl From<ScalarValue> for AttrValue {
    fn from(value: ScalarValue) -> AttrValue {
        match value {
            ScalarValue::Int(v) => AttrValue::Int(v),
            ScalarValue::Float(v) => AttrValue::Float(v),
        }
    }
}

impl From<i64> for ScalarValue {
    fn from(v: i64) -> ScalarValue {
        ScalarValue::Int(v)
    }
}

impl From<f64> for ScalarValue {
    fn from(v: f64) -> ScalarValue {
        ScalarValue::Float(v)
    }
}

impl PartialEq for ScalarValue {
    /// Compares numbers as [`AttrValue`] does.
    fn eq(&self, other: &ScalarValue) -> bool {
        AttrValue::from(*self) == AttrValue::from(*other)
    }
}

impl Eq for ScalarValue {}

impl Hash for ScalarValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        AttrValue::from(*self).hash(state);
    }
}

impl fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        AttrValue::from(*self).fmt(f)
    }
}
