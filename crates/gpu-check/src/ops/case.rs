//! A call of an op, to be made on the host and on a device.

use millstream::{AttrValue, DType};

/// How an operand lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lie {
    Dense,
    /// Every second element of the last dimension.
    Gaps,
    /// The last two dimensions lie the other way round.
    Turned,
}

/// What its elements are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Values {
    /// Numbers between two, cut if the dtype is whole.
    Between(f64, f64),
    /// The same, and among them some that are no numbers, infinite, or beyond most dtypes.
    Wild,
}

/// An operand.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) lie: Lie,
    pub(crate) values: Values,
}

impl Given {
    /// Numbers from -3 to 3, or of integers from -100 to 100, without gaps.
    pub(crate) fn new(dtype: DType, shape: &[usize]) -> Given {
        let most = if dtype.is_float() { 3.0 } else { 100.0 };
        let least = if [DType::U8, DType::Bool].contains(&dtype) { 0.0 } else { -most };
        let values = match dtype {
            DType::Bool => Values::Between(0.0, 2.0),
            _ => Values::Between(least, most),
        };
        Given { dtype, shape: shape.to_vec(), lie: Lie::Dense, values }
    }

    pub(crate) fn lie(self, lie: Lie) -> Given {
        Given { lie, ..self }
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
    /// How many times as far off as an element's dtype allows a result may be.
    pub(crate) slack: f64,
    /// What the data make it fail with, if they do.
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
            write!(f, "{comma}{}{:?} {:?}", given.dtype, given.shape, given.lie)?;
        }
        for (name, value) in &self.attrs {
            write!(f, "; {name}={value:?}")?;
        }
        write!(f, ")")
    }
}
