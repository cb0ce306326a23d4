//! The calls of composite ops: each inner call is made as the program's own.
//!
//! [`InnerCalls`] is less than a [`Submitter`](super::Submitter), as the recorder of a list has
//! neither devices to copy between nor memory to write to.

use millstream_ops::composite::Composite;
use millstream_ops::formula::{Emitter, Symbol};
use millstream_types::{Attrs, DType, Error, Result, TensorSpec};

/// Makes the inner calls of composites: a machine, or the recorder of a list.
///
/// An implementation has the stream, the origin and the section of the composite's call, which
/// every inner call has as well.
pub(crate) trait InnerCalls {
    /// A tensor.
    type Tensor: Clone;

    /// Returns a tensor's dtype, shape and layout.
    ///
    /// # Errors
    /// The tensor was released.
    fn spec(&self, tensor: &Self::Tensor) -> Result<TensorSpec>;

    /// Calls an op and returns its results. The op may be a composite itself.
    ///
    /// # Errors
    /// The op refuses its operands, or the call cannot be made.
    fn call(
        &mut self,
        op: &str,
        inputs: &[&Self::Tensor],
        attrs: Attrs,
    ) -> Result<Vec<Self::Tensor>>;

    /// Returns a list of these elements from memory, if there is a machine that has memory now.
    /// Otherwise calls make the list.
    ///
    /// # Errors
    /// There is no memory for it.
    fn upload(&mut self, _elements: &[f64], _dtype: DType) -> Result<Option<Self::Tensor>> {
        Ok(None)
    }

    /// Returns whether two handles are of one tensor.
    fn is_same(&self, a: &Self::Tensor, b: &Self::Tensor) -> bool;

    /// Releases a tensor that only the inner calls used.
    ///
    /// # Errors
    /// The tensor is held.
    fn release(&mut self, tensor: Self::Tensor) -> Result<()>;

    /// Makes the calls of a composite op, and releases the tensors between them. Returns its
    /// results, or `out`, the tensors that take them.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, an inner call cannot be made, or it has another
    /// number of results than `out` has tensors.
    fn composite(
        &mut self,
        op: &Composite,
        inputs: &[Self::Tensor],
        attrs: &Attrs,
        out: Option<&[Self::Tensor]>,
    ) -> Result<Vec<Self::Tensor>>
    where
        Self: Sized,
    {
        let Some(out) = out else {
            return self.expanded(inputs, |calls, given| op.expand(calls, given, attrs));
        };
        let operands = [inputs, out].concat();
        self.expanded(&operands, |calls, operands| {
            let (given, out) = operands.split_at(inputs.len());
            let made = op.expand(calls, given, attrs)?;
            if made.len() != out.len() {
                let message = format!("expected {} target(s), got {}", made.len(), out.len());
                return Err(Error::Op { op: op.name.to_owned(), message });
            }
            for (target, result) in out.iter().zip(&made) {
                calls.call("copy_", &[*target, *result], Attrs::new())?;
            }
            Ok(out.to_vec())
        })
    }

    /// Makes the calls of a function of symbols on these tensors, and releases the tensors that it
    /// made and does not return.
    ///
    /// # Errors
    /// That of the function, or a tensor cannot be released.
    fn expanded(
        &mut self,
        inputs: &[Self::Tensor],
        calls: impl FnOnce(&mut dyn Emitter, &[Symbol]) -> Result<Vec<Symbol>>,
    ) -> Result<Vec<Self::Tensor>>
    where
        Self: Sized,
    {
        let mut expansion = Expansion { calls: self, tensors: Vec::new() };
        for input in inputs {
            let spec = expansion.calls.spec(input)?;
            expansion.tensors.push((input.clone(), spec));
        }
        let given: Vec<Symbol> = (0..inputs.len()).map(Symbol).collect();
        let made = calls(&mut expansion, &given)?;
        let results = made.iter().map(|x| expansion.tensors[x.0].0.clone()).collect();
        let Expansion { calls, tensors } = expansion;
        for (at, (tensor, _)) in tensors.into_iter().enumerate().skip(inputs.len()) {
            if !made.contains(&Symbol(at)) {
                calls.release(tensor)?;
            }
        }
        Ok(results)
    }
}

/// The calls of one composite. A symbol is a position in the list of tensors.
struct Expansion<'a, C: InnerCalls> {
    calls: &'a mut C,
    tensors: Vec<(C::Tensor, TensorSpec)>,
}

impl<C: InnerCalls> Expansion<'_, C> {
    /// Returns the symbol of a tensor: an op that writes in place returns its operand.
    fn symbol(&mut self, tensor: C::Tensor) -> Result<Symbol> {
        if let Some(known) = self.tensors.iter().position(|(t, _)| self.calls.is_same(t, &tensor)) {
            return Ok(Symbol(known));
        }
        let spec = self.calls.spec(&tensor)?;
        self.tensors.push((tensor, spec));
        Ok(Symbol(self.tensors.len() - 1))
    }
}

impl<C: InnerCalls> Emitter for Expansion<'_, C> {
    fn spec(&self, tensor: Symbol) -> &TensorSpec {
        &self.tensors[tensor.0].1
    }

    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>> {
        let inputs: Vec<&C::Tensor> = inputs.iter().map(|x| &self.tensors[x.0].0).collect();
        let made = self.calls.call(op, &inputs, attrs)?;
        made.into_iter().map(|tensor| self.symbol(tensor)).collect()
    }

    fn list(&mut self, elements: &[f64], dtype: DType) -> Result<Symbol> {
        match self.calls.upload(elements, dtype)? {
            Some(made) => self.symbol(made),
            None => self.list_by_calls(elements, dtype),
        }
    }
}
