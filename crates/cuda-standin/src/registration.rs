//! The kernels that tests register for the stand-in's devices. Each runs the device's own kernel.
//! If that does not support the call, or there is no C++ compiler, it launches the host's kernel of
//! the same op, by name.

use std::any::Any;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use anyhow::Result;

use millstream_kernels::cuda::{KIND, Unsupported, native};
use millstream_kernels::{Kernel, KernelCtx, KernelRegistry, KernelSpec, PlannedKernel};

use crate::{HOST_KERNELS, call};

struct KernelWithFallback {
    name: CString,
    /// The device's own kernel of the op.
    own: Option<Arc<dyn Kernel>>,
}

impl Kernel for KernelWithFallback {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        match self.own.as_ref().map(|own| own.run(ctx)) {
            Some(Err(error)) if error.is::<Unsupported>() => {}
            Some(result) => return result,
            None => {}
        }
        let native = native(ctx)?;
        let image = || Ok(HOST_KERNELS.to_owned());
        let kernel = native.kernel("host kernels", &self.name, image)?;
        let mut bytes = call::encode(ctx)?;
        let mut length = bytes.len() as u64;
        let mut arguments: [*mut c_void; 2] = [(&raw mut length).cast(), bytes.as_mut_ptr().cast()];
        // SAFETY: the stand-in's kernels have these two arguments, and it copies them before the
        // launch returns. The creator of the context guarantees its operands.
        unsafe { native.launch(&kernel, [1; 3], [1; 3], 0, &mut arguments) }
    }

    fn plan(
        &self,
        call: KernelSpec<'_>,
        written: &[bool],
        native: &dyn Any,
    ) -> Option<Arc<dyn PlannedKernel>> {
        self.own.as_ref()?.plan(call, written, native)
    }
}

/// Registers, for devices of kind `cuda`, a kernel for every op with a host kernel. A real driver
/// refuses the module of the host kernels.
pub fn register(kernels: &mut KernelRegistry) {
    let compiles = crate::compiles();
    if !compiles {
        println!("no C++ compiler: the host's kernels run instead of the device's");
    }
    let ops: Vec<String> = kernels.ops("cpu").into_iter().map(str::to_owned).collect();
    // The kernels of collectives are calls of NCCL alone.
    for op in ops.into_iter().filter(|op| !millstream_ops::collective::is(op)) {
        let name = CString::new(op.as_str()).expect("names of ops have no zeros");
        let own = kernels.get(KIND, &op).filter(|_| compiles).cloned();
        kernels.register(KIND, &op, Arc::new(KernelWithFallback { name, own }));
    }
}
