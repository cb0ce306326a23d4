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
    /// The bytes of workspace of a call.
    workspace: usize,
}

impl CallLayouts {
    pub(crate) fn of(call: KernelSpec<'_>) -> CallLayouts {
        let KernelSpec { operands, attrs, workspace } = call;
        CallLayouts { specs: operands.into(), attrs: attrs.clone(), workspace }
    }

    /// Checks the number of addresses.
    pub(crate) fn check(&self, addresses: &[*mut u8]) -> Result<()> {
        let expected = self.specs.len() + usize::from(self.workspace > 0);
        let given = addresses.len();
        ensure!(given == expected, "expected {expected} addresses, got {given}");
        Ok(())
    }

    /// Runs the call by [`Kernel::run`].
    ///
    /// # Safety
    /// That of [`PreparedKernel::run`](crate::PreparedKernel::run).
    pub(crate) unsafe fn run(
        &self,
        kernel: &dyn Kernel,
        addresses: &[*mut u8],
        threads: Option<&Threads>,
    ) -> Result<()> {
        self.check(addresses)?;
        let (addresses, memory) = addresses.split_at(self.specs.len());
        let memory = memory.first().copied().unwrap_or(std::ptr::null_mut());
        let located = Located { specs: &self.specs, addresses };
        let workspace = (memory, self.workspace);
        // SAFETY: guaranteed by the caller.
        let ctx = unsafe { KernelCtx::new(&located, &self.attrs, workspace, threads, &()) };
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
