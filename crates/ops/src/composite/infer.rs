//! The signatures of composite ops: their calls are inferred, not made.

use std::sync::LazyLock;

use smallvec::SmallVec;

use millstream_types::{Access, Attrs, DType, Error, Result, TensorSpec};

use crate::registry::OpRegistry;
use crate::schema::{CallSpec, OutputSpec, Signature};

use super::Composite;
use crate::formula::{Emitter, Symbol};

/// A tensor whose elements do not exist.
struct Inferred {
    spec: TensorSpec,
    /// The operand whose storage it is in.
    of: Option<usize>,
    /// Whether the spec is a bound of the first dimension.
    is_bound: bool,
}

/// Infers calls.
struct Inference<'a> {
    ops: &'a OpRegistry,
    tensors: Vec<Inferred>,
    accesses: SmallVec<[Access; 4]>,
}

/// Returns the signature of a call of a composite, by the schemas of the ops that it calls.
pub(super) fn signature(op: &Composite, call: CallSpec<'_>) -> Result<Signature> {
    static OPS: LazyLock<OpRegistry> = LazyLock::new(crate::standard);
    let operand = |(k, spec): (usize, &TensorSpec)| Inferred {
        spec: spec.clone(),
        of: Some(k),
        is_bound: false,
    };
    let count = call.inputs.len();
    let mut inference = Inference {
        ops: &OPS,
        tensors: call.inputs.iter().enumerate().map(operand).collect(),
        accesses: SmallVec::from_elem(Access::Read, count),
    };
    let inputs: Vec<Symbol> = (0..count).map(Symbol).collect();
    let made = op.expand(&mut inference, &inputs, call.attrs)?;
    let Inference { tensors, accesses, .. } = inference;
    let output = |Symbol(k): Symbol| {
        let Inferred { spec, of, is_bound } = &tensors[k];
        match of {
            None if *is_bound => OutputSpec::Bounded(spec.clone()),
            None => OutputSpec::Fresh(spec.clone()),
            Some(_) if k < count => OutputSpec::Same(k),
            Some(of) => {
                let dtype = Some(spec.dtype).filter(|dtype| *dtype != tensors[*of].spec.dtype);
                OutputSpec::View { of: *of, layout: spec.layout.clone(), dtype }
            }
        }
    };
    let outputs = made.into_iter().map(output).collect();
    Ok(Signature { accesses, outputs, workspace: 0 })
}

impl Emitter for Inference<'_> {
    fn spec(&self, tensor: Symbol) -> &TensorSpec {
        &self.tensors[tensor.0].spec
    }

    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>> {
        if let Some(composite) = super::find(op) {
            return composite.expand(self, inputs, &attrs);
        }
        let specs: Vec<TensorSpec> = inputs.iter().map(|x| self.spec(*x).clone()).collect();
        let schema = self.ops.get(self.ops.id(op)?);
        let internal = || Error::Internal { message: format!("no schema of '{op}'") };
        let schema = schema.ok_or_else(internal)?;
        let signature = schema.check(CallSpec { inputs: &specs, attrs: &attrs })?;
        for (input, access) in inputs.iter().zip(&signature.accesses) {
            if let Some(of) = self.tensors[input.0].of.filter(|_| access.writes()) {
                self.accesses[of] = Access::ReadWrite;
            }
        }
        let mut made = Vec::new();
        for output in signature.outputs {
            let inferred = match output {
                OutputSpec::Same(k) => {
                    made.push(inputs[k]);
                    continue;
                }
                OutputSpec::Fresh(spec) => Inferred { spec, of: None, is_bound: false },
                OutputSpec::Bounded(spec) => Inferred { spec, of: None, is_bound: true },
                OutputSpec::View { of, layout, dtype } => {
                    let of = &self.tensors[inputs[of].0];
                    let spec = TensorSpec::new(dtype.unwrap_or(of.spec.dtype), layout)?;
                    Inferred { spec, of: of.of, is_bound: false }
                }
            };
            made.push(Symbol(self.tensors.len()));
            self.tensors.push(inferred);
        }
        Ok(made)
    }

    fn number(&mut self, _: f64, dtype: DType) -> Result<Symbol> {
        self.fresh(dtype, &[])
    }

    fn list(&mut self, numbers: &[f64], dtype: DType) -> Result<Symbol> {
        self.fresh(dtype, &[numbers.len()])
    }
}

impl Inference<'_> {
    fn fresh(&mut self, dtype: DType, shape: &[usize]) -> Result<Symbol> {
        let spec = TensorSpec::contiguous(dtype, shape)?;
        self.tensors.push(Inferred { spec, of: None, is_bound: false });
        Ok(Symbol(self.tensors.len() - 1))
    }
}
