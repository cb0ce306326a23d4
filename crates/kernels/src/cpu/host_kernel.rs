//! Kernels that are functions of their context, and their prepared form.

use std::sync::Arc;

use anyhow::Result;

use super::call_layouts::CallLayouts;
use crate::context::{KernelCtx, Threads};
use crate::prepared::{KernelSpec, PreparedKernel};
use crate::registry::Kernel;

/// The kernel of an op whose calls complete before they return.
///
/// Its prepared form reads the arguments anew each time. What it saves is the machine's work for a
/// call that may complete later or communicate.
#[derive(Clone, Copy)]
pub(crate) struct HostKernel<F>(pub(crate) F);

impl<F> Kernel for HostKernel<F>
where
    F: Fn(&KernelCtx<'_>) -> Result<()> + Copy + Send + Sync + 'static,
{
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        (self.0)(ctx)
    }

    fn prepare(&self, call: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        Some(Arc::new(PreparedCall { kernel: self.0, call: CallLayouts::of(call) }))
    }
}

struct PreparedCall<F> {
    kernel: F,
    call: CallLayouts,
}

impl<F> PreparedKernel for PreparedCall<F>
where
    F: Fn(&KernelCtx<'_>) -> Result<()> + Send + Sync,
{
    unsafe fn run(&self, addresses: &[*mut u8], threads: Option<&Threads>) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.call.run(&self.kernel, addresses, threads) }
    }
}
