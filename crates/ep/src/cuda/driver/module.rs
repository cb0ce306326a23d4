//! The driver's modules and their kernels.

use std::ffi::CStr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUmodule};

use super::{Context, DriverResult, check};

/// A module of kernels.
pub(in crate::cuda) struct Module {
    raw: CUmodule,
    context: Arc<Context>,
}

/// A kernel of a module. It keeps the module loaded.
pub(in crate::cuda) struct Function {
    raw: CUfunction,
    _module: Arc<Module>,
}

// SAFETY: a module may be used from any thread; the driver synchronizes its calls.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}
// SAFETY: as above, for a module's kernel.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Module {
    /// Loads an image: a binary of device code, or PTX, which ends with a zero.
    pub(in crate::cuda) fn load(context: Arc<Context>, image: &[u8]) -> DriverResult<Module> {
        context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the compiler's output: PTX ends with a zero, and a binary says how long it is.
        let code = unsafe { sys::cuModuleLoadData(&raw mut raw, image.as_ptr().cast()) };
        check("cuModuleLoadData", code)?;
        Ok(Module { raw, context })
    }

    /// Returns the kernel of this name.
    pub(in crate::cuda) fn function(self: &Arc<Module>, name: &CStr) -> DriverResult<Function> {
        self.context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is alive, and the name ends with a zero.
        let code = unsafe { sys::cuModuleGetFunction(&raw mut raw, self.raw, name.as_ptr()) };
        check("cuModuleGetFunction", code)?;
        Ok(Function { raw, _module: self.clone() })
    }
}

impl Function {
    pub(super) fn raw(&self) -> CUfunction {
        self.raw
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded by this value and unloaded once. Its kernels keep this value alive.
        let destroy = || check("cuModuleUnload", unsafe { sys::cuModuleUnload(self.raw) });
        self.context.destroy(destroy);
    }
}
