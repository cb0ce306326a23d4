//! Appends calls of ops; the schemas of the ops infer the results.

use std::sync::Arc;

use millstream_ops::random::SEED;
use millstream_ops::{CallSpec, Op, OutputSpec};
use millstream_types::{Access, Attrs, Dims, Error, TensorSpec};

use super::{Import, Lazy, Lowered, Refusal, Val, unsupported};
use crate::program::{Action, Call, Results, StreamRef, ValueRef};

impl Import<'_> {
    /// Appends a call, or the calls of a composite. The results are new tensors, views, or tensors
    /// changed in place.
    pub(crate) fn call(&mut self, op: &str, inputs: &[Val], attrs: Attrs) -> Lowered<Vec<Val>> {
        match self.ops().composite(op) {
            Some(composite) => Ok(composite.expand(self, inputs, &attrs)?),
            None => self.emit(op, inputs, attrs, None, None),
        }
    }

    /// Appends a call that writes its results to existing tensors.
    pub(crate) fn call_into(
        &mut self,
        op: &str,
        inputs: &[Val],
        attrs: Attrs,
        targets: &[Val],
    ) -> Lowered<()> {
        self.emit(op, inputs, attrs, Some(targets), None).map(drop)
    }

    /// Appends a call on a given stream.
    pub(crate) fn call_on(
        &mut self,
        stream: StreamRef,
        op: &str,
        inputs: &[Val],
        attrs: Attrs,
    ) -> Lowered<Vec<Val>> {
        self.emit(op, inputs, attrs, None, Some(stream))
    }

    /// Returns the schema of an op or of a composite.
    pub(crate) fn schema(&self, op: &str) -> Lowered<Arc<dyn Op>> {
        if let Some(id) = self.ops().find(op) {
            let known = self.ops().get(id).cloned();
            return known.ok_or_else(|| unsupported(format!("the op '{op}' is not registered")));
        }
        if let Some(composite) = self.ops().composite(op) {
            return Ok(Arc::new(*composite));
        }
        match self.ops().id(op) {
            Err(Error::Unknown { help, .. }) => {
                Err(Refusal::Unsupported { message: format!("there is no op '{op}'"), help })
            }
            other => Err(Refusal::Wrong(format!("{other:?}"))),
        }
    }

    /// Infers accesses and results of a call.
    pub(crate) fn infer(
        &self,
        op: &str,
        inputs: &[Val],
        attrs: &Attrs,
    ) -> Lowered<millstream_ops::Signature> {
        let specs: Vec<TensorSpec> = inputs.iter().map(|v| self.spec(*v).clone()).collect();
        Ok(self.schema(op)?.check(CallSpec { inputs: &specs, attrs })?)
    }

    pub(super) fn emit(
        &mut self,
        op: &str,
        inputs: &[Val],
        attrs: Attrs,
        into: Option<&[Val]>,
        stream: Option<StreamRef>,
    ) -> Lowered<Vec<Val>> {
        let signature = self.infer(op, inputs, &attrs)?;
        if inputs.iter().chain(into.unwrap_or_default()).any(|v| self.lazy(*v) != Lazy::NONE) {
            // A view of the parts needs elements that are evaluated.
            let is_view = |o: &OutputSpec| matches!(o, OutputSpec::View { dtype: None, .. });
            match (signature.outputs.iter().all(is_view), into, stream) {
                (true, ..) => {}
                (false, None, None) => {
                    return self.emit_evaluated(op, inputs, attrs, &signature.accesses);
                }
                _ => {
                    let message = "a view that PyTorch conjugates or negates when it is read";
                    return Err(unsupported(format!("'{op}' of {message}")));
                }
            }
        }
        for &val in inputs.iter().chain(into.unwrap_or_default()) {
            self.record_use(val);
        }
        let mut unknown = None;
        let targets = into.unwrap_or_default().iter().map(|&t| (t, Access::Write));
        let operands = inputs.iter().copied().zip(signature.accesses.iter().copied());
        let operands: Vec<(Val, Access)> = operands.chain(targets).collect();
        // A view reads no elements.
        if !signature.outputs.iter().all(|o| matches!(o, OutputSpec::View { .. })) {
            unknown = self.track_known(op, &attrs, &operands)?;
        }
        let index = self.statements.len();
        for (input, access) in inputs.iter().zip(&signature.accesses) {
            if access.writes() {
                self.storage_mut(*input).last_write = index;
            }
        }
        for target in into.unwrap_or_default() {
            self.storage_mut(*target).last_write = index;
        }
        let mut results = Vec::new();
        if let Some(targets) = into {
            results.extend_from_slice(targets);
        } else {
            for (k, output) in signature.outputs.iter().enumerate() {
                let name = self.next_name();
                results.push(match output {
                    OutputSpec::Fresh(spec) => {
                        let val = self.define_storage(name, spec.clone(), None);
                        self.storage_mut(val).last_write = index;
                        val
                    }
                    OutputSpec::View { of, layout, dtype } => {
                        let of = &self.tensors[inputs[*of].0];
                        let (storage, lazy) = (of.storage, of.lazy);
                        let spec = TensorSpec::new(dtype.unwrap_or(of.spec.dtype), layout.clone())?;
                        let bytes = self.storages[storage.0].bytes;
                        if spec.span_bytes() > bytes && !self.grow(storage, spec.span_bytes()) {
                            return Err(Refusal::Wrong(format!(
                                "{spec} reaches past a storage of {bytes} bytes"
                            )));
                        }
                        let val = self.define(name, storage, spec);
                        self.tensors[val.0].lazy = lazy;
                        val
                    }
                    OutputSpec::Same(input) => inputs[*input],
                    OutputSpec::Bounded(bound) => self.bounded(name, bound, k)?,
                });
            }
        }
        self.track_precision(&operands, &results);
        self.track_drawn(attrs.get(SEED).is_some(), &operands, &results);
        if let Some(cause) = unknown {
            let made: Vec<Val> =
                results.iter().copied().filter(|val| !inputs.contains(val)).collect();
            made.into_iter().for_each(|val| self.forget_elements(val, &cause));
        }
        let refs = |vals: &[Val]| vals.iter().map(|v| ValueRef(v.0 as u32)).collect();
        let in_place = signature.outputs.iter().all(|o| matches!(o, OutputSpec::Same(_)));
        let named = if in_place { Vec::new() } else { refs(&results) };
        let mut call = Call { attrs, stream, ..Call::new(op, self.span, refs(inputs), named) };
        if let Some(targets) = into {
            call.results = Results::Into(refs(targets));
        }
        self.push(Action::Call(Box::new(call)));
        Ok(results)
    }

    /// Exchanges the dimensions of the recorded result, for a node that transposes a result whose
    /// shape depends on data.
    pub(crate) fn transpose_bounded_shape(&mut self) {
        self.shapes.iter_mut().for_each(|shape| shape.reverse());
    }

    /// Moves a dimension of the first recorded result to the front, for a node that moves it back
    /// in a result whose shape depends on data.
    pub(crate) fn move_bounded_dim(&mut self, dim: usize) {
        if let Some(shape) = self.shapes.first_mut().filter(|shape| dim < shape.len()) {
            let length = shape.remove(dim);
            shape.insert(0, length);
        }
    }

    /// Defines a result whose shape depends on data. It has the recorded shape, which the run
    /// checks.
    pub(super) fn bounded(
        &mut self,
        name: String,
        bound: &TensorSpec,
        result: usize,
    ) -> Lowered<Val> {
        let shape = match self.is_single {
            true => Some(bound.shape().into()),
            false => self.shapes.get(result).cloned(),
        };
        let fits = |shape: &Dims| {
            shape.len() == bound.shape().len()
                && shape[0] <= bound.shape()[0]
                && shape[1..] == bound.shape()[1..]
        };
        let Some(shape) = shape.filter(fits) else {
            return Err(Refusal::Wrong(format!(
                "result {result} is at most {}, which the trace contradicts",
                bound.brief()
            )));
        };
        let spec = TensorSpec::contiguous(bound.dtype, &shape)?;
        let val = self.define_storage(name, spec, None);
        self.tensors[val.0].recorded = true;
        Ok(val)
    }

    /// Appends a read, which makes the host wait for a tensor.
    pub(crate) fn read(&mut self, val: Val) -> Lowered<()> {
        self.check_known(val, 0)?;
        self.record_use(val);
        self.push(Action::Read(ValueRef(val.0 as u32)));
        Ok(())
    }
}
