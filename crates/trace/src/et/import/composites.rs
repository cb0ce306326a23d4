//! Makes the calls of composite ops.

use millstream_ops::formula::{Emitter, Symbol};
use millstream_types::{Attrs, DType, Error, Result, TensorSpec};

use super::{Import, Refusal};
use crate::number::Number;

/// Returns a refusal of a call as an error, to which the composite adds its name.
fn error(refusal: Refusal) -> Error {
    let (Refusal::Wrong(message) | Refusal::Unsupported { message, .. }) = refusal;
    Error::Invalid { what: "argument", message }
}

impl Emitter for Import<'_> {
    fn spec(&self, tensor: Symbol) -> &TensorSpec {
        Import::spec(self, tensor)
    }

    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>> {
        Import::call(self, op, inputs, attrs).map_err(error)
    }

    fn number(&mut self, value: f64, dtype: DType) -> Result<Symbol> {
        Import::number(self, number(value, dtype), dtype).map_err(error)
    }

    fn list(&mut self, values: &[f64], dtype: DType) -> Result<Symbol> {
        self.numbers(values.iter().map(|&value| number(value, dtype)), dtype).map_err(error)
    }
}

/// Returns a number as the dtype has it.
fn number(value: f64, dtype: DType) -> Number {
    match dtype.is_float() {
        true => Number::Float(value),
        false => Number::Int(value as i128),
    }
}
