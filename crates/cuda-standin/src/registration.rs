//! The kernels that tests register for the stand-in's devices: the device's own, so that a call
//! that these do not support fails as on a device. Ops without one, and all ops where there is no
//! C++ compiler, launch the host's kernel of the same op, by name.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use anyhow::Result;

use millstream_kernels::cuda::{KIND, native};
use millstream_kernels::{Kernel, KernelCtx, KernelRegistry};

use crate::{HOST_KERNELS, call};

/// The host's kernel of an op, by name.
struct HostKernel(CString);

impl Kernel for HostKernel {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let native = native(ctx)?;
        let image = || Ok(HOST_KERNELS.to_bytes_with_nul().to_vec());
        let kernel = native.kernel("host kernels", &self.0, image)?;
        let Some(kernel) = kernel else { return Ok(()) };
        let mut bytes = call::encode(ctx)?;
        let mut length = bytes.len() as u64;
        let mut arguments: [*mut c_void; 2] = [(&raw mut length).cast(), bytes.as_mut_ptr().cast()];
        // SAFETY: the stand-in's kernels have these two arguments, and it copies them before the
        // launch returns. The creator of the context guarantees its operands.
        unsafe { native.launch(&kernel, [1; 3], [1; 3], 0, &mut arguments) }
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
        if !compiles || kernels.get(KIND, &op).is_none() {
            register_host_kernel(kernels, &op);
        }
    }
}

/// Registers, for devices of kind `cuda`, the host's kernel of this op.
pub fn register_host_kernel(kernels: &mut KernelRegistry, op: &str) {
    let name = CString::new(op).expect("names of ops have no zeros");
    kernels.register(KIND, op, Arc::new(HostKernel(name)));
}
