//! The machine as the caller of a composite's inner calls.

use std::sync::Arc;

use millstream_ops::composite;
use millstream_types::{Attrs, DType, Element, Error, Result, Sharding, TensorSpec};
use smallvec::SmallVec;

use crate::handle::global;
use crate::handle::lowering::InnerCalls;
use crate::handle::request::{self, Request, Results, Verb};
use crate::handle::{Stream, Tensor};

use super::call::CallBuilder;

/// The call of a composite op on a stream.
struct Calling<'a, 'b> {
    call: &'a CallBuilder<'b>,
    stream: &'a Stream,
    /// How the first result is wanted.
    wanted: Option<&'a Arc<Sharding>>,
}

impl CallBuilder<'_> {
    /// Makes the calls of the composite op of this name, whose first result may be wanted in a
    /// sharding.
    #[cold]
    pub(super) fn expand(
        &self,
        stream: &Stream,
        wanted: Option<&Arc<Sharding>>,
    ) -> Result<Results> {
        let at = |e: Error| e.without_place().clone().at(&self.origin);
        let Some(op) = composite::find(self.name) else {
            return self.machine.op(self.name).map(|_| Results::new()).map_err(at);
        };
        self.machine.own_stream(stream).map_err(at)?;
        let verb = Verb::Composite(self.described(stream));
        let call = Request { verb, is_within: self.section.is_some(), origin: &self.origin };
        request::submit(call, |call| match call.verb {
            Verb::Composite(call) => self.expand_on(op, call.inputs, stream, wanted),
            _ => self.expand_on(op, &self.inputs, stream, wanted),
        })
    }

    /// Makes the calls on these operands.
    fn expand_on(
        &self,
        op: &composite::Composite,
        inputs: &[&Tensor],
        stream: &Stream,
        wanted: Option<&Arc<Sharding>>,
    ) -> Result<Results> {
        let at = |e: Error| e.without_place().clone().at(&self.origin);
        let owned = |tensors: &[&Tensor]| tensors.iter().map(|&tensor| tensor.clone()).collect();
        let inputs: Vec<Tensor> = owned(inputs);
        let out: Option<Vec<Tensor>> = self.out.as_deref().map(owned);
        let mut calling = Calling { call: self, stream, wanted };
        let made = calling.composite(op, &inputs, &self.attrs, out.as_deref());
        made.map(SmallVec::from_vec).map_err(at)
    }
}

impl Calling<'_, '_> {
    /// Returns how tensors that are made for the operands are held, if a mesh holds these or the
    /// result.
    fn beside(&self) -> Option<Arc<Sharding>> {
        let given = self.call.inputs.iter().find_map(|input| Some(&input.global()?.sharding));
        Some(Arc::new(Sharding::broadcast(given.or(self.wanted)?.mesh())))
    }
}

impl InnerCalls for Calling<'_, '_> {
    type Tensor = Tensor;

    fn spec(&self, tensor: &Tensor) -> Result<TensorSpec> {
        Ok(tensor.spec().clone())
    }

    fn call(&mut self, op: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Vec<Tensor>> {
        let CallBuilder { machine, priority, section, origin, .. } = self.call;
        if inputs.is_empty()
            && let Some(sharding) = self.beside()
        {
            return global::create(op, &attrs, &sharding, self.stream, origin).map(|x| vec![x]);
        }
        let inputs = inputs.iter().copied().collect();
        let mut call = CallBuilder::new(machine, op, inputs, attrs, origin.clone());
        (call.priority, call.section) = (*priority, *section);
        call.make(self.stream).map(SmallVec::into_vec)
    }

    fn upload(&mut self, elements: &[f64], dtype: DType) -> Result<Option<Tensor>> {
        if self.call.machine.known(None).is_err() {
            return Ok(None);
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
        let spec = TensorSpec::contiguous(exact, &[elements.len()])?;
        let origin = self.call.origin.clone();
        let made = match self.beside() {
            Some(sharding) => global::upload(spec, bytes, &sharding, self.stream, &origin)?,
            None => self.call.machine.upload_at(self.stream, spec, bytes, origin)?,
        };
        if exact == dtype {
            return Ok(Some(made));
        }
        let cast = self.call("cast", &[&made], Attrs::new().with("dtype", dtype))?;
        Ok(cast.into_iter().next())
    }

    fn is_same(&self, a: &Tensor, b: &Tensor) -> bool {
        a.is_same(b)
    }

    fn release(&mut self, _: Tensor) -> Result<()> {
        // Its handle was the last one.
        Ok(())
    }
}
