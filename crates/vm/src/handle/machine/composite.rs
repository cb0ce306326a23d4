//! The calls of composite ops: each inner call is made as the program's own.

use millstream_ops::composite::{self, Emitter, Symbol};
use millstream_types::{Attrs, DType, Element, Error, Result, TensorSpec};

use crate::handle::request::Results;
use crate::handle::{Stream, Tensor};

use super::call::CallBuilder;

/// The calls of one composite. A symbol is a position in the list of tensors.
struct Expansion<'a, 'b> {
    call: &'a CallBuilder<'b>,
    stream: &'a Stream,
    tensors: Vec<Tensor>,
}

impl CallBuilder<'_> {
    /// Makes the calls of the composite op of this name. `unknown` is the error if there is none.
    #[cold]
    pub(super) fn expand(&self, unknown: Error, stream: &Stream) -> Result<Results> {
        let at = |e: Error| e.without_place().clone().at(&self.origin);
        let composite = composite::find(self.name).ok_or_else(|| at(unknown))?;
        self.machine.own_stream(stream).map_err(at)?;
        let tensors: Vec<Tensor> = self.inputs.iter().map(|&tensor| tensor.clone()).collect();
        let inputs: Vec<Symbol> = (0..tensors.len()).map(Symbol).collect();
        let mut expansion = Expansion { call: self, stream, tensors };
        let made = composite.expand(&mut expansion, &inputs, &self.attrs).map_err(at)?;
        let results: Results = made.iter().map(|x| expansion.tensors[x.0].clone()).collect();
        let Some(out) = &self.out else { return Ok(results) };
        if results.len() != out.len() {
            let message = format!("expected {} target(s), got {}", results.len(), out.len());
            return Err(at(Error::Op { op: self.name.to_owned(), message }));
        }
        for (target, result) in out.iter().zip(&results) {
            expansion.inner("copy_", &[target, result], Attrs::new())?;
        }
        Ok(out.iter().map(|&target| target.clone()).collect())
    }
}

impl Expansion<'_, '_> {
    /// Makes one call, with the stream, section, priority and origin of the composite.
    fn inner(&self, op: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Results> {
        let CallBuilder { machine, priority, section, origin, .. } = self.call;
        let inputs = inputs.iter().copied().collect();
        let mut call = CallBuilder::new(machine, op, inputs, attrs, origin.clone());
        (call.priority, call.section) = (*priority, *section);
        call.make(self.stream)
    }
}

impl Emitter for Expansion<'_, '_> {
    fn spec(&self, tensor: Symbol) -> &TensorSpec {
        self.tensors[tensor.0].spec()
    }

    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>> {
        let inputs: Vec<&Tensor> = inputs.iter().map(|x| &self.tensors[x.0]).collect();
        let made = self.inner(op, &inputs, attrs)?;
        let first = self.tensors.len();
        self.tensors.extend(made);
        Ok((first..self.tensors.len()).map(Symbol).collect())
    }

    fn constant(&mut self, elements: &[f64], shape: &[usize], dtype: DType) -> Result<Symbol> {
        if let (&[number], []) = (elements, shape) {
            let attrs = Attrs::new().with("shape", Vec::<i64>::new()).with("value", number);
            return Ok(self.call("full", &[], attrs.with("dtype", dtype))?[0]);
        }
        let mut bytes = Vec::new();
        let exact = match dtype {
            DType::F32 => {
                let rounded: Vec<f32> = elements.iter().map(|&v| v as f32).collect();
                f32::append(&rounded, &mut bytes);
                dtype
            }
            DType::I64 => {
                let whole: Vec<i64> = elements.iter().map(|&v| v as i64).collect();
                i64::append(&whole, &mut bytes);
                dtype
            }
            _ => {
                f64::append(elements, &mut bytes);
                DType::F64
            }
        };
        let spec = TensorSpec::contiguous(exact, shape)?;
        let origin = self.call.origin.clone();
        self.tensors.push(self.call.machine.upload_at(self.stream, spec, bytes, origin)?);
        let made = Symbol(self.tensors.len() - 1);
        if exact == dtype {
            return Ok(made);
        }
        Ok(self.call("cast", &[made], Attrs::new().with("dtype", dtype))?[0])
    }
}
