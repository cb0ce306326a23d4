//! The layouts and arguments that a kernel was prepared for.

use std::sync::Arc;

use anyhow::{Result, ensure};
use millstream_types::{Attrs, TensorSpec};

use crate::context::{KernelCtx, Operands, RawTensor, Threads};
use crate::prepared::KernelSpec;
use crate::registry::Kernel;

/// A call without addresses, owned. With addresses it can be run as any other call.
pub(crate) struct CallLayouts {
    specs: Box<[Arc<TensorSpec>]>,
    attrs: Attrs,
}

impl CallLayouts {
    pub(crate) fn of(call: KernelSpec<'_>) -> CallLayouts {
        CallLayouts { specs: call.operands.into(), attrs: call.attrs.clone() }
    }

    /// Checks the number of operands.
    pub(crate) fn check(&self, operands: &[*mut u8]) -> Result<()> {
        let expected = self.specs.len();
        ensure!(operands.len() == expected, "expected {expected} operands, got {}", operands.len());
        Ok(())
    }

    /// Runs the call by [`Kernel::run`].
    ///
    /// # Safety
    /// That of [`PreparedKernel::run`](crate::PreparedKernel::run). The kernel uses no workspace.
    pub(crate) unsafe fn run(
        &self,
        kernel: &dyn Kernel,
        operands: &[*mut u8],
        threads: Option<&Threads>,
    ) -> Result<()> {
        self.check(operands)?;
        let located = Located { specs: &self.specs, addresses: operands };
        let no_workspace = (std::ptr::null_mut(), 0);
        // SAFETY: guaranteed by the caller.
        let ctx = unsafe { KernelCtx::new(&located, &self.attrs, no_workspace, threads, &()) };
        kernel.run(&ctx)
    }
}

/// Operands at their addresses.
struct Located<'a> {
    specs: &'a [Arc<TensorSpec>],
    addresses: &'a [*mut u8],
}

impl Operands for Located<'_> {
    fn len(&self) -> usize {
        self.specs.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        RawTensor { data: self.addresses[index], ..unlocated(&self.specs[index]) }
    }
}

/// Returns an operand without an address.
pub(crate) fn unlocated(spec: &TensorSpec) -> RawTensor<'_> {
    let (data, layout) = (std::ptr::null_mut(), &spec.layout);
    RawTensor { data, dtype: spec.dtype, shape: layout.shape(), strides: layout.strides() }
}
