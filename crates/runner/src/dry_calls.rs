//! The inner calls of composite ops in a dry run.

use std::sync::Arc;

use millstream_instructions::TensorRef;
use millstream_types::{Attrs, Error, Origin, Result, StreamId, TensorSpec};
use millstream_vm::lowering::InnerCalls;

use crate::dry_run::DryRun;
use crate::executor::{Executor, OpCall};
use crate::lower::Callee;

/// The call of a composite op on a stream.
pub(crate) struct DryCalls<'a> {
    run: &'a mut DryRun,
    call: &'a OpCall<'a, Option<TensorRef>>,
    stream: StreamId,
    origin: &'a Origin,
    /// Whether the shape of an inner result depends on data.
    pub(crate) is_unknown: bool,
}

impl<'a> DryCalls<'a> {
    pub(crate) fn new(
        run: &'a mut DryRun,
        call: &'a OpCall<'a, Option<TensorRef>>,
        stream: StreamId,
        origin: &'a Origin,
    ) -> DryCalls<'a> {
        DryCalls { run, call, stream, origin, is_unknown: false }
    }
}

impl InnerCalls for DryCalls<'_> {
    type Tensor = TensorRef;

    fn spec(&self, tensor: &TensorRef) -> Result<TensorSpec> {
        self.run.builder.spec(*tensor).cloned()
    }

    fn call(&mut self, name: &str, inputs: &[&TensorRef], attrs: Attrs) -> Result<Vec<TensorRef>> {
        let op = Callee::find(self.run.builder.ops(), name)?;
        let inputs: Vec<Option<TensorRef>> = inputs.iter().map(|x| Some(**x)).collect();
        let attrs = Arc::new(attrs);
        let inner = OpCall {
            op,
            name,
            inputs: inputs.iter().collect(),
            out: None,
            attrs: &attrs,
            // Of unknown results one is enough to be seen.
            named: 1,
            ..*self.call
        };
        let made = Executor::call(self.run, &inner, &self.stream, self.origin)?;
        let known: Option<Vec<TensorRef>> = made.into_iter().collect();
        self.is_unknown = known.is_none();
        known.ok_or_else(|| Error::Internal { message: format!("{name} has results of no shape") })
    }

    fn is_same(&self, a: &TensorRef, b: &TensorRef) -> bool {
        a == b
    }

    fn release(&mut self, tensor: TensorRef) -> Result<()> {
        Executor::release(self.run, &Some(tensor), self.origin)
    }
}
