//! Attributes: the named arguments of ops that are not tensors.
//!
//! Long because its items have examples.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::scalar::{ScalarUse, ScalarValue};

/// The value of one attribute.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!(AttrValue::from(2), AttrValue::Int(2));
/// assert_eq!(AttrValue::from(vec![1i64, 2]).to_string(), "[1, 2]");
/// ```
#[derive(Clone, Debug)]
pub enum AttrValue {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Str(String),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of floating-point numbers.
    Floats(Vec<f64>),
    /// A dtype.
    DType(DType),
    /// A number that each launch of the list gives. It stands in lists alone: kernels get the
    /// number.
    Scalar(ScalarUse),
}

/// Returns the bits by which a number is compared: those of one NaN for every NaN.
fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

impl PartialEq for AttrValue {
    /// Compares numbers by their printed form: a NaN equals any NaN, and 0.0 differs from -0.0.
    fn eq(&self, other: &AttrValue) -> bool {
        match (self, other) {
            (AttrValue::Int(a), AttrValue::Int(b)) => a == b,
            (AttrValue::Float(a), AttrValue::Float(b)) => bits(*a) == bits(*b),
            (AttrValue::Bool(a), AttrValue::Bool(b)) => a == b,
            (AttrValue::Str(a), AttrValue::Str(b)) => a == b,
            (AttrValue::Ints(a), AttrValue::Ints(b)) => a == b,
            (AttrValue::Floats(a), AttrValue::Floats(b)) => {
                a.iter().map(|&x| bits(x)).eq(b.iter().map(|&x| bits(x)))
            }
            (AttrValue::DType(a), AttrValue::DType(b)) => a == b,
            (AttrValue::Scalar(a), AttrValue::Scalar(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for AttrValue {}

impl Hash for AttrValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            AttrValue::Int(v) => v.hash(state),
            AttrValue::Float(v) => bits(*v).hash(state),
            AttrValue::Bool(v) => v.hash(state),
            AttrValue::Str(v) => v.hash(state),
            AttrValue::Ints(v) => v.hash(state),
            AttrValue::Floats(v) => v.iter().for_each(|&x| bits(x).hash(state)),
            AttrValue::DType(v) => v.hash(state),
            AttrValue::Scalar(v) => v.hash(state),
        }
    }
}

impl From<i64> for AttrValue {
    fn from(v: i64) -> AttrValue {
        AttrValue::Int(v)
    }
}
impl From<f64> for AttrValue {
    fn from(v: f64) -> AttrValue {
        AttrValue::Float(v)
    }
}
impl From<bool> for AttrValue {
    fn from(v: bool) -> AttrValue {
        AttrValue::Bool(v)
    }
}
impl From<&str> for AttrValue {
    fn from(v: &str) -> AttrValue {
        AttrValue::Str(v.to_owned())
    }
}
impl From<Vec<i64>> for AttrValue {
    fn from(v: Vec<i64>) -> AttrValue {
        AttrValue::Ints(v)
    }
}
impl From<Vec<f64>> for AttrValue {
    fn from(v: Vec<f64>) -> AttrValue {
        AttrValue::Floats(v)
    }
}
impl From<DType> for AttrValue {
    fn from(v: DType) -> AttrValue {
        AttrValue::DType(v)
    }
}

impl From<ScalarUse> for AttrValue {
    fn from(v: ScalarUse) -> AttrValue {
        AttrValue::Scalar(v)
    }
}

impl fmt::Display for AttrValue {
    /// Writes a distinct form for each variant: `1`, `1.0`, `true`, `"a"`, `[1, 2]`, `[1.0]`,
    /// `f32`, `$0+1`. An empty list of floating-point numbers is `[.]`; `[]` is the empty list of
    /// integers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttrValue::Int(v) => write!(f, "{v}"),
            AttrValue::Float(v) => write!(f, "{v:?}"),
            AttrValue::Bool(v) => write!(f, "{v}"),
            AttrValue::Str(v) => write!(f, "{v:?}"),
            AttrValue::Ints(v) => write!(f, "{v:?}"),
            AttrValue::Floats(v) if v.is_empty() => f.write_str("[.]"),
            AttrValue::Floats(v) => write!(f, "{v:?}"),
            AttrValue::DType(v) => write!(f, "{v}"),
            AttrValue::Scalar(v) => write!(f, "{v}"),
        }
    }
}

/// The attributes of one call, sorted by name, with unique names. A name that stands in the
/// program's text is not copied.
///
/// ```
/// # use millstream_types::*;
/// let attrs = Attrs::new().with("dim", 1).with("keepdim", true);
/// assert_eq!(attrs.to_string(), "{dim=1, keepdim=true}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attrs(SmallVec<[(Cow<'static, str>, AttrValue); 1]>);

impl From<Attrs> for Cow<'_, Attrs> {
    fn from(attrs: Attrs) -> Self {
        Cow::Owned(attrs)
    }
}

impl<'a> From<&'a Attrs> for Cow<'a, Attrs> {
    fn from(attrs: &'a Attrs) -> Self {
        Cow::Borrowed(attrs)
    }
}

impl Attrs {
    /// Returns the empty set of attributes.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Attrs::new().is_empty());
    /// ```
    pub const fn new() -> Attrs {
        Attrs(SmallVec::new_const())
    }

    /// Returns these attributes with `name` set to `value`; replaces an earlier value.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("alpha", 2.5).with("alpha", 3.0);
    /// assert_eq!(attrs.float("alpha")?, Some(3.0));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<AttrValue>,
    ) -> Attrs {
        self.set(name, value);
        self
    }

    /// Sets `name` to `value`; replaces an earlier value.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let mut attrs = Attrs::new();
    /// attrs.set("dim", 1);
    /// attrs.set(format!("dim{}", 2), 0); // a name made at run time
    /// assert_eq!(attrs.iter().count(), 2);
    /// ```
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<AttrValue>) {
        let (name, value) = (name.into(), value.into());
        match self.0.binary_search_by(|(n, _)| (**n).cmp(&*name)) {
            Ok(index) => self.0[index].1 = value,
            Err(index) => self.0.insert(index, (name, value)),
        }
    }

    /// Returns the value of `name`, if it is set.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("dim", 1);
    /// assert_eq!(attrs.get("dim"), Some(&AttrValue::Int(1)));
    /// assert_eq!(attrs.get("dims"), None);
    /// ```
    pub fn get(&self, name: &str) -> Option<&AttrValue> {
        let index = self.0.binary_search_by(|(n, _)| (**n).cmp(name)).ok()?;
        Some(&self.0[index].1)
    }

    /// Iterates over all attributes in the order of their names.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("dim", 1).with("alpha", 2.5);
    /// let names: Vec<&str> = attrs.iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["alpha", "dim"]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttrValue)> {
        self.0.iter().map(|(n, v)| (&**n, v))
    }

    /// Returns whether there are no attributes.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(!Attrs::new().with("dim", 1).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an integer.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("dim", 1);
    /// assert_eq!(attrs.int("dim")?, Some(1));
    /// assert_eq!(attrs.int("other")?, None);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The attribute is set and has another type.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::Int(v)) => Ok(Some(*v)),
            Some(other) => Err(mistyped(name, "an integer", other)),
        }
    }

    /// Returns a floating-point number; converts an integer.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("alpha", 2);
    /// assert_eq!(attrs.float("alpha")?, Some(2.0));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The attribute is set and has another type.
    pub fn float(&self, name: &str) -> Result<Option<f64>> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::Float(v)) => Ok(Some(*v)),
            Some(AttrValue::Int(v)) => Ok(Some(*v as f64)),
            Some(other) => Err(mistyped(name, "a number", other)),
        }
    }

    /// Returns a boolean.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("keepdim", 1);
    /// assert!(attrs.bool("keepdim").is_err()); // a number is no boolean
    /// ```
    ///
    /// # Errors
    /// The attribute is set and has another type.
    pub fn bool(&self, name: &str) -> Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::Bool(v)) => Ok(Some(*v)),
            Some(other) => Err(mistyped(name, "true or false", other)),
        }
    }

    /// Returns a list of integers; a single integer counts as a list of one.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("dim", 1);
    /// assert_eq!(attrs.ints("dim")?, Some(vec![1]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The attribute is set and has another type.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::Ints(v)) => Ok(Some(v.clone())),
            Some(AttrValue::Int(v)) => Ok(Some(vec![*v])),
            Some(other) => Err(mistyped(name, "a list of integers", other)),
        }
    }

    /// Returns a dtype; parses a string as a dtype's name.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("dtype", "f16");
    /// assert_eq!(attrs.dtype("dtype")?, Some(DType::F16));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The attribute is set and has another type.
    pub fn dtype(&self, name: &str) -> Result<Option<DType>> {
        match self.get(name) {
            None => Ok(None),
            Some(AttrValue::DType(v)) => Ok(Some(*v)),
            Some(AttrValue::Str(v)) => Ok(Some(v.parse()?)),
            Some(other) => Err(mistyped(name, "a dtype", other)),
        }
    }

    /// Iterates over the values that are scalars of a list.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let offset = ScalarUse { scalar: ScalarId(0), plus: 3 };
    /// let attrs = Attrs::new().with("offset", offset).with("seed", 7);
    /// assert_eq!(attrs.scalars().collect::<Vec<_>>(), [offset]);
    /// ```
    pub fn scalars(&self) -> impl Iterator<Item = ScalarUse> {
        self.0.iter().filter_map(|(_, value)| match value {
            AttrValue::Scalar(scalar) => Some(*scalar),
            _ => None,
        })
    }

    /// Iterates over the values, in the order of their names, to change them.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let mut attrs = Attrs::new().with("dim", 1);
    /// attrs.values_mut().for_each(|value| *value = AttrValue::Int(2));
    /// assert_eq!(attrs.int("dim")?, Some(2));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut AttrValue> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Returns the attributes with the scalars of a list replaced by `value`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let attrs = Attrs::new().with("offset", ScalarUse { scalar: ScalarId(0), plus: 3 });
    /// let launched = attrs.with_scalars(|scalar| AttrValue::Int(40 + scalar.plus));
    /// assert_eq!(launched.int("offset")?, Some(43));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_scalars(&self, mut value: impl FnMut(ScalarUse) -> AttrValue) -> Attrs {
        let replaced = self.0.iter().map(|(name, own)| match own {
            AttrValue::Scalar(scalar) => (name.clone(), value(*scalar)),
            other => (name.clone(), other.clone()),
        });
        Attrs(replaced.collect())
    }

    /// Sets the values that are scalars of a list in `declared`, of which this is a copy, to
    /// numbers. Allocates nothing.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let declared = Attrs::new().with("offset", ScalarUse { scalar: ScalarId(0), plus: 3 });
    /// let mut launched = declared.clone();
    /// launched.set_scalars(&declared, |used| ScalarValue::Int(40).plus(used.plus));
    /// assert_eq!(launched.int("offset")?, Some(43));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_scalars(&mut self, declared: &Attrs, number: impl Fn(ScalarUse) -> ScalarValue) {
        for ((_, own), (_, declared)) in self.0.iter_mut().zip(&declared.0) {
            if let AttrValue::Scalar(scalar) = declared {
                *own = number(*scalar).into();
            }
        }
    }

    /// Refuses every attribute that is not among `known`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let error = Attrs::new().with("dims", 1).only(&["dim", "keepdim"]).unwrap_err();
    /// assert!(error.to_string().contains("did you mean 'dim'"), "{error}");
    /// ```
    ///
    /// # Errors
    /// [`Error::Unknown`] with the first unknown attribute and the nearest known name.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        match self.iter().find(|(n, _)| !known.contains(n)) {
            None => Ok(()),
            Some((name, _)) => Err(Error::Unknown {
                what: "argument",
                name: name.to_owned(),
                help: crate::nearest::did_you_mean(name, known.iter().copied()),
            }),
        }
    }
}

fn mistyped(name: &str, expected: &str, got: &AttrValue) -> Error {
    let hint = match got {
        AttrValue::Scalar(_) => ", which each launch gives and only calls get to know",
        _ => "",
    };
    let message = format!("{name}: expected {expected}, got {got}{hint}");
    Error::Invalid { what: "argument", message }
}

impl fmt::Display for Attrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (k, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if k == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_access() {
        let a = Attrs::new().with("dim", 1).with("alpha", 2.5).with("dtype", "f16");
        assert_eq!(a.int("dim"), Ok(Some(1)));
        assert_eq!(a.ints("dim"), Ok(Some(vec![1])));
        assert_eq!(a.float("dim"), Ok(Some(1.0)));
        assert_eq!(a.dtype("dtype"), Ok(Some(DType::F16)));
        assert_eq!(a.int("absent"), Ok(None));
        assert!(a.int("alpha").is_err());
        let err = a.only(&["dims", "alpha", "dtype"]).unwrap_err().to_string();
        assert!(err.contains("'dim'") && err.contains("'dims'"), "{err}");
        assert_eq!(a.to_string(), r#"{alpha=2.5, dim=1, dtype="f16"}"#);
    }
}
