//! A call of an op, to be made on the host and on a device.

use millstream::{AttrValue, DType};

/// The arrangement of an operand's elements in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arrangement {
    Dense,
    /// Every second element of the last dimension.
    Gaps,
    /// The last two dimensions are transposed.
    Transposed,
}

/// The values of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Values {
    /// Numbers between two bounds, truncated for an integer dtype.
    Between(f64, f64),
    /// The same, and among them NaN, infinities, and numbers beyond the range of most dtypes.
    Special,
}

/// An operand.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) arrangement: Arrangement,
    pub(crate) values: Values,
}

impl Given {
    /// Returns a contiguous operand with numbers from -3 to 3, integers from -100 to 100, or any of
    /// u16, u32 or u64.
    pub(crate) fn new(dtype: DType, shape: &[usize]) -> Given {
        let most = if dtype.is_float() { 3.0 } else { 100.0 };
        let least = if [DType::U8, DType::Bool].contains(&dtype) { 0.0 } else { -most };
        let values = match dtype {
            DType::Bool => Values::Between(0.0, 2.0),
            _ if dtype.is_wide_unsigned() => {
                Values::Between(0.0, 2f64.powi(8 * dtype.size() as i32))
            }
            _ => Values::Between(least, most),
        };
        Given { dtype, shape: shape.to_vec(), arrangement: Arrangement::Dense, values }
    }

    pub(crate) fn arranged(self, arrangement: Arrangement) -> Given {
        Given { arrangement, ..self }
    }

    pub(crate) fn values(self, values: Values) -> Given {
        Given { values, ..self }
    }
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) op: String,
    pub(crate) given: Vec<Given>,
    pub(crate) attrs: Vec<(&'static str, AttrValue)>,
    /// The factor by which a result may exceed the error that its dtype allows.
    pub(crate) slack: f64,
    /// The error that the data cause, if they do.
    pub(crate) fails: Option<&'static str>,
}

impl Case {
    pub(crate) fn new(op: &str, given: Vec<Given>) -> Case {
        Case { op: op.to_owned(), given, attrs: Vec::new(), slack: 1.0, fails: None }
    }

    pub(crate) fn attr(mut self, name: &'static str, value: impl Into<AttrValue>) -> Case {
        self.attrs.push((name, value.into()));
        self
    }

    pub(crate) fn fails(self, why: &'static str) -> Case {
        Case { fails: Some(why), ..self }
    }

    pub(crate) fn slack(self, slack: f64) -> Case {
        Case { slack, ..self }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(", self.op)?;
        for (k, given) in self.given.iter().enumerate() {
            let comma = if k == 0 { "" } else { ", " };
            write!(f, "{comma}{}{:?} {:?}", given.dtype, given.shape, given.arrangement)?;
        }
        for (name, value) in &self.attrs {
            write!(f, "; {name}={value:?}")?;
        }
        write!(f, ")")
    }
}
