//! Kernels of the ops in `millstream_ops::collective`, by NCCL.
//!
//! A kernel starts its call with the communicator and returns. NCCL's thread launches the call on
//! the stream of the operands, once it has met those of the other ranks; then the request
//! completes, and with it the kernel. The stream gets its next command after that.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use millstream_comm::{Collective, DeviceCall, Elements};
use millstream_ep::cuda::nccl::NcclMemory;
use millstream_types::DType;

use super::native;
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::collective::{KERNELS, Planner, planned};
use crate::cpu::memory::byte_count;
use crate::registry::{Kernel, KernelRegistry};

struct CollectiveKernel {
    op: &'static str,
    plan: Planner,
}

/// Registers the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for &(op, plan) in KERNELS {
        kernels.register(super::KIND, op, Arc::new(CollectiveKernel { op, plan }));
    }
}

/// Returns the memory of an operand.
fn memory(x: &RawTensor<'_>) -> Result<(Elements, NcclMemory)> {
    ensure!(x.is_contiguous(), "NCCL moves dense tensors, got {x:?}: make it contiguous first");
    let elements = Elements { dtype: x.dtype, numel: x.numel() };
    // SAFETY: `KernelCtx::new` promises a valid operand. The call's completion token is held until
    // the collective is on the operand's stream; its later commands, and those that wait for it,
    // are ordered behind it.
    Ok((elements, unsafe { NcclMemory::new(x.data, byte_count(x)) }))
}

impl Kernel for CollectiveKernel {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let ranks = ctx.ranks()?;
        let nccl = ranks.communicator.nccl().with_context(|| {
            let kind = ranks.communicator.kind();
            format!(
                "a collective on the device needs NCCL, and the ranks communicate by {kind:?}: \
                 make it with CallBuilder::collective_on, or connect the ranks by NcclCommunicator"
            )
        })?;
        ensure!(ctx.may_defer_completion(), "a captured graph cannot contain a collective");
        let native = native(ctx)?;
        let (slot, plan) = planned(self.op, self.plan, ctx)?;
        let of = |operands: &[usize]| -> Result<Vec<(Elements, NcclMemory)>> {
            operands.iter().map(|&k| memory(&ctx.operand(k)?)).collect()
        };
        let (given, mut taken) = (of(&plan.given)?, of(&plan.taken)?);
        let mut scratch = native.scratch();
        if plan.collective == Collective::Barrier {
            let byte = scratch.take(1)?;
            // SAFETY: the stream keeps its scratch memory, whose uses are in its order.
            let byte = unsafe { NcclMemory::new(byte, 1) };
            taken.push((Elements { dtype: DType::U8, numel: 1 }, byte));
        }
        let token = ctx.take_completion_token()?;
        let request = nccl.start_on_device(DeviceCall {
            slot,
            collective: plan.collective,
            op: self.op,
            given,
            taken,
            origin: ranks.origin.clone(),
            stream: native.for_collectives(),
        });
        request.then(move |outcome| token.complete(outcome.map(drop).map_err(Into::into)));
        Ok(())
    }
}
