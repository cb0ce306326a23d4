//! Ops that the host computes for CUDA tensors: linear algebra, and functions that few programs
//! use. Their operands are copied to pinned memory, the host's kernel runs when the stream reaches
//! the call, and its results are copied back. The worker does not wait.
//!
//! A call is refused within a captured graph, which cannot call the host.

use std::any::Any;
use std::sync::Arc;

use anyhow::Result;

use millstream_ep::cuda::HostOperand;
use millstream_types::DType;

use super::native;
use crate::context::{KernelCtx, Operands, RawTensor, StoredTensor};
use crate::cpu::memory::byte_count;
use crate::cpu::{Written, written_by};
use crate::prepared::{KernelSpec, PlannedKernel};
use crate::registry::{Kernel, KernelRegistry};

/// The host's kernel of an op, and the operands that it writes.
struct OnHost {
    kernel: Arc<dyn Kernel>,
    written: Written,
}

/// The copies of a call's operands.
struct Copies(Vec<StoredTensor>);

impl Operands for Copies {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        self.0[index].raw()
    }
}

impl Kernel for OnHost {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let count = ctx.operands();
        let (mut operands, mut copies) = (Vec::new(), Vec::new());
        for index in 0..count {
            let x = ctx.operand(index)?;
            let is_written = match self.written {
                Written::Last(results) => index + results >= count,
                Written::After(inputs) => index >= inputs,
                Written::First => index == 0,
            };
            operands.push(HostOperand { address: x.data, bytes: byte_count(&x), is_written });
            copies.push(StoredTensor::of(&x));
        }
        let (kernel, attrs, (_, bytes)) =
            (self.kernel.clone(), ctx.attrs().clone(), ctx.workspace());
        let run = move |addresses: &[*mut u8]| {
            let mut copies = Copies(copies);
            for (copy, &data) in copies.0.iter_mut().zip(addresses) {
                copy.data = data;
            }
            let mut words = vec![0u64; bytes.div_ceil(size_of::<u64>())];
            let workspace = (words.as_mut_ptr().cast(), bytes);
            // SAFETY: each copy has the bytes of its operand, aligned for every dtype, and belongs
            // to this call, as the workspace does.
            let ctx = unsafe { KernelCtx::new(&copies, &attrs, workspace, None, &()) };
            kernel.run(&ctx)
        };
        // SAFETY: `KernelCtx::new` promises valid operands, in the stream's order.
        unsafe { native(ctx)?.call_host_on_copies(&operands, run) }
    }
}

/// The kernel of an op whose calls with complex operands the host computes.
struct ComplexOnHost {
    device: Arc<dyn Kernel>,
    host: OnHost,
    /// Whether the op copies its first operand to the second.
    copies: bool,
}

impl Kernel for ComplexOnHost {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let dtypes = (0..ctx.operands()).map(|k| Ok(ctx.operand(k)?.dtype));
        let dtypes = dtypes.collect::<Result<Vec<DType>>>()?;
        if !dtypes.iter().any(|dtype| dtype.is_complex()) {
            return self.device.run(ctx);
        }
        // Dense copies are moved as bytes, also between devices.
        if self.copies && super::copy_dense(ctx)? {
            return Ok(());
        }
        self.host.run(ctx)
    }

    fn plan(
        &self,
        call: KernelSpec<'_>,
        written: &[bool],
        native: &dyn Any,
    ) -> Option<Arc<dyn PlannedKernel>> {
        match call.operands.iter().any(|x| x.dtype.is_complex()) {
            true => None,
            false => self.device.plan(call, written, native),
        }
    }
}

/// Lets the host compute calls with complex operands of the ops that have kernels for real ones.
pub(super) fn register_complex(kernels: &mut KernelRegistry) {
    let own: Vec<&str> = host_ops();
    let ops: Vec<String> = kernels.ops(super::KIND).into_iter().map(str::to_owned).collect();
    for op in ops.iter().filter(|op| !own.contains(&op.as_str())) {
        let device = kernels.get(super::KIND, op).cloned();
        let host = kernels.get(crate::cpu::KIND, op).cloned();
        let (Some(device), Some(kernel)) = (device, host) else { continue };
        if millstream_ops::complex::is_defined(op) {
            let host = OnHost { kernel, written: written_by(op) };
            let copies = matches!(op.as_str(), "copy" | "clone");
            let kernel = ComplexOnHost { device, host, copies };
            kernels.register(super::KIND, op, Arc::new(kernel));
        }
    }
}

/// Registers the kernels of the ops that the host computes.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for (op, kernel, written) in crate::cpu::on_host() {
        kernels.register(super::KIND, op, Arc::new(OnHost { kernel, written }));
    }
}

/// Returns the names of the ops that the host computes.
pub fn host_ops() -> Vec<&'static str> {
    crate::cpu::on_host().into_iter().map(|(op, ..)| op).collect()
}
