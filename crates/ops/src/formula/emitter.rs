//! What makes the calls of formulas.

use millstream_types::{Attrs, DType, Result, TensorSpec};

use super::wrong;

/// A tensor of an expansion, by the number that its [`Emitter`] gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol(pub usize);

/// Makes the calls of an expansion.
pub trait Emitter {
    /// Returns the dtype, shape and layout of a tensor.
    fn spec(&self, tensor: Symbol) -> &TensorSpec;

    /// Calls an op and returns its results. The op may be a composite itself.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the call cannot be made.
    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>>;

    /// Calls an op and returns its first result.
    ///
    /// # Errors
    /// As [`Emitter::call`], or the op returns no tensor.
    fn one(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Symbol> {
        let made = self.call(op, inputs, attrs)?.first().copied();
        made.ok_or_else(|| wrong(format!("'{op}' returns no tensor")))
    }

    /// Returns a tensor without dimensions of this number, rounded to the dtype.
    ///
    /// # Errors
    /// There is no memory for it.
    fn number(&mut self, number: f64, dtype: DType) -> Result<Symbol> {
        let attrs = Attrs::new().with("shape", Vec::<i64>::new()).with("value", number);
        Ok(self.call("full", &[], attrs.with("dtype", dtype))?[0])
    }

    /// Returns a list of these numbers, rounded to the dtype.
    ///
    /// # Errors
    /// There is no memory for it.
    fn list(&mut self, numbers: &[f64], dtype: DType) -> Result<Symbol> {
        self.list_by_calls(numbers, dtype)
    }

    /// Makes a list by calls, one for each run of equal numbers, where no memory can be written
    /// yet.
    ///
    /// # Errors
    /// As [`Emitter::call`].
    fn list_by_calls(&mut self, numbers: &[f64], dtype: DType) -> Result<Symbol> {
        let mut parts = Vec::new();
        for run in numbers.chunk_by(|a, b| a.to_bits() == b.to_bits()) {
            let attrs = Attrs::new().with("shape", vec![run.len() as i64]).with("value", run[0]);
            parts.extend(self.call("full", &[], attrs.with("dtype", dtype))?);
        }
        match parts[..] {
            [whole] => Ok(whole),
            [] => {
                let attrs = Attrs::new().with("shape", vec![0]).with("value", 0.0);
                Ok(self.call("full", &[], attrs.with("dtype", dtype))?[0])
            }
            _ => Ok(self.call("cat", &parts, Attrs::new().with("dim", 0))?[0]),
        }
    }
}
