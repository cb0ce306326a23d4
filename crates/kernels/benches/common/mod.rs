//! Calls of kernels on memory of their own, for benchmarks.

use std::sync::Arc;

use millstream_kernels::{KernelCtx, KernelSpec, Operands, PreparedKernel, RawTensor, standard};
use millstream_ops::{CallSpec, OutputSpec};
use millstream_types::{Attrs, TensorSpec};

/// A call on operands in memory of their own.
pub(crate) struct Call {
    op: &'static str,
    attrs: Attrs,
    /// The specs of all operands.
    pub(crate) specs: Vec<TensorSpec>,
    /// The memory of the operands.
    pub(crate) memory: Vec<Vec<u64>>,
    workspace: Vec<u64>,
    requested: usize,
}

impl Call {
    /// Creates a call of an op on these inputs, of zeros.
    #[must_use]
    pub(crate) fn new(op: &'static str, inputs: Vec<TensorSpec>, attrs: Attrs) -> Call {
        let mut specs = inputs;
        let ops = millstream_ops::standard();
        let schema = ops.get(ops.id(op).unwrap()).unwrap();
        let signature = schema.check(CallSpec { inputs: &specs, attrs: &attrs }).unwrap();
        for output in signature.outputs {
            if let OutputSpec::Fresh(spec) = output {
                specs.push(spec);
            }
        }
        let memory = specs.iter().map(|spec| vec![0; spec.span_bytes().div_ceil(8)]).collect();
        let requested = signature.workspace;
        let workspace = vec![0; requested.div_ceil(8)];
        Call { op, attrs, specs, memory, workspace, requested }
    }

    fn addresses(&mut self) -> Vec<*mut u8> {
        self.memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect()
    }

    /// Returns a function that runs the call as the machine does.
    pub(crate) fn run(&mut self) -> impl FnMut() + '_ {
        let kernel = standard().get("cpu", self.op).unwrap().clone();
        let addresses = self.addresses();
        let workspace = (self.workspace.as_mut_ptr().cast::<u8>(), self.workspace.len() * 8);
        let operands = Given { specs: &self.specs, addresses };
        let attrs = &self.attrs;
        move || {
            // SAFETY: the operands are memory of this call, and nothing else uses them.
            let ctx = unsafe { KernelCtx::new(&operands, attrs, workspace, None, &()) };
            kernel.run(&ctx).unwrap();
        }
    }

    /// Returns a function that runs the call's prepared form, if it has one.
    pub(crate) fn prepared(&mut self) -> Option<impl FnMut() + '_> {
        let kernel = standard().get("cpu", self.op).unwrap().clone();
        let mut addresses = self.addresses();
        if self.requested > 0 {
            addresses.push(self.workspace.as_mut_ptr().cast());
        }
        let operands: Vec<_> = self.specs.iter().cloned().map(Arc::new).collect();
        let spec =
            KernelSpec { operands: &operands, attrs: &self.attrs, workspace: self.requested };
        let prepared: Arc<dyn PreparedKernel> = kernel.prepare(spec)?;
        // SAFETY: the operands are memory of this call, and nothing else uses them.
        Some(move || unsafe { prepared.run(&addresses, None) }.unwrap())
    }
}

struct Given<'a> {
    specs: &'a [TensorSpec],
    addresses: Vec<*mut u8>,
}

impl Operands for Given<'_> {
    fn len(&self) -> usize {
        self.specs.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        let (spec, data) = (&self.specs[index], self.addresses[index]);
        let layout = &spec.layout;
        RawTensor { data, dtype: spec.dtype, shape: layout.shape(), strides: layout.strides() }
    }
}
