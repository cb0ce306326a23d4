//! Numbers as arguments: those of the program, and those that each launch of a list gives.

use millstream_ops::args::Scalar;
use millstream_types::{AttrValue, Attrs, Error, Result, ScalarUse};

/// A number as an argument: one that the program knows, or one that each launch of a list gives.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let scaled = machine.traced(|inputs, arguments| {
///     let factor = Number::of(arguments, "factor")?;
///     Ok(vec![inputs[0].mul(factor)?])
/// });
/// let y = scaled.call(&[&x]).scalar("factor", 0.5).run()?;
/// assert_eq!(y[0].to_vec::<f32>()?, [0.5, 1.0, 1.5, 2.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A number of the program.
    Known(Scalar),
    /// A number that each launch gives.
    OfLaunch(ScalarUse),
}

impl Number {
    /// Returns the argument `name` of a traced function.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Attrs;
    /// let arguments = Attrs::new().with("factor", 2);
    /// assert_eq!(Number::of(&arguments, "factor")?, Number::from(2));
    /// assert!(Number::of(&arguments, "rate").is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// It was not given, or is no number.
    pub fn of(arguments: &Attrs, name: &str) -> Result<Number> {
        if let Some(AttrValue::Scalar(used)) = arguments.get(name) {
            return Ok(Number::OfLaunch(*used));
        }
        let missing = || Error::Invalid {
            what: "argument",
            message: format!("{name}: missing; the call has to give a number"),
        };
        Scalar::of(arguments, name)?.map(Number::Known).ok_or_else(missing)
    }
}

macro_rules! number {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Number {
            fn from(number: $ty) -> Number {
                Number::Known(number.into())
            }
        }
    )*};
}

number! { Scalar i32 i64 u32 usize f32 f64 bool }

impl From<ScalarUse> for Number {
    fn from(used: ScalarUse) -> Number {
        Number::OfLaunch(used)
    }
}

impl From<Number> for AttrValue {
    fn from(number: Number) -> AttrValue {
        match number {
            Number::Known(Scalar::Int(v)) => AttrValue::Int(v),
            Number::Known(Scalar::Float(v)) => AttrValue::Float(v),
            Number::Known(Scalar::Bool(v)) => AttrValue::Bool(v),
            Number::OfLaunch(used) => AttrValue::Scalar(used),
        }
    }
}
