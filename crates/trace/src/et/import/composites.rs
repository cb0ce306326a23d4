//! Appends the calls of composite ops.

use millstream_ops::composite::Composite;
use millstream_ops::formula::{Emitter, Symbol};
use millstream_types::{Attrs, DType, Error, Result, TensorSpec};

use super::{Import, Lowered, Refusal, Val};
use crate::number::Number;

/// Appends the calls of one composite. A symbol has the number of its tensor.
struct Expansion<'i, 'a>(&'i mut Import<'a>);

impl Import<'_> {
    /// Appends the calls of a composite op and returns its results.
    pub(super) fn expand(
        &mut self,
        composite: &Composite,
        inputs: &[Val],
        attrs: &Attrs,
    ) -> Lowered<Vec<Val>> {
        let inputs: Vec<Symbol> = inputs.iter().map(|val| Symbol(val.0)).collect();
        let made = composite.expand(&mut Expansion(self), &inputs, attrs)?;
        Ok(made.into_iter().map(|Symbol(number)| Val(number)).collect())
    }
}

/// Returns a refusal of a call as an error, to which the composite adds its name.
fn error(refusal: Refusal) -> Error {
    let (Refusal::Wrong(message) | Refusal::Unsupported { message, .. }) = refusal;
    Error::Invalid { what: "argument", message }
}

impl Emitter for Expansion<'_, '_> {
    fn spec(&self, tensor: Symbol) -> &TensorSpec {
        self.0.spec(Val(tensor.0))
    }

    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>> {
        let inputs: Vec<Val> = inputs.iter().map(|symbol| Val(symbol.0)).collect();
        let made = self.0.call(op, &inputs, attrs).map_err(error)?;
        Ok(made.into_iter().map(|val| Symbol(val.0)).collect())
    }

    fn number(&mut self, value: f64, dtype: DType) -> Result<Symbol> {
        Ok(Symbol(self.0.number(number(value, dtype), dtype).map_err(error)?.0))
    }

    fn list(&mut self, values: &[f64], dtype: DType) -> Result<Symbol> {
        let numbers = values.iter().map(|&value| number(value, dtype));
        Ok(Symbol(self.0.numbers(numbers, dtype).map_err(error)?.0))
    }
}

/// Returns a number as the dtype has it.
fn number(value: f64, dtype: DType) -> Number {
    match dtype.is_float() {
        true => Number::Float(value),
        false => Number::Int(value as i128),
    }
}
