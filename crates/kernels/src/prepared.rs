//! Kernels that are bound once to the layouts and arguments of a call, and then run many times on
//! addresses alone.

use std::any::Any;
use std::sync::Arc;

use anyhow::Result;

use millstream_types::{Attrs, TensorSpec};

use crate::context::Threads;

/// A call of a kernel without the addresses of its operands.
#[derive(Clone, Copy, Debug)]
pub struct KernelSpec<'a> {
    /// The operands in the order of [`KernelCtx::operand`](crate::KernelCtx::operand): the inputs,
    /// then the fresh outputs.
    pub operands: &'a [Arc<TensorSpec>],
    /// The call's named arguments.
    pub attrs: &'a Attrs,
    /// The bytes of workspace of each run. With any, a run gets the workspace's address behind
    /// those of the operands.
    pub workspace: usize,
}

/// A kernel that is bound to the layouts and arguments of a call on the host. It completes before
/// it returns.
pub trait PreparedKernel: Send + Sync {
    /// Executes the call on operands at these addresses, in the order of [`KernelSpec::operands`],
    /// and on the workspace at the last one if the call has any, on the shared threads if there are
    /// any. Calls may run at the same time on several threads.
    ///
    /// # Errors
    /// Those of [`Kernel::run`](crate::Kernel::run): failures that depend on data.
    ///
    /// # Safety
    /// - There is one address for each operand that the kernel was prepared for: that of its first
    ///   element, offset included; and one of the workspace if the kernel was prepared for some.
    /// - The workspace is valid for its bytes, and nothing else uses it while the call runs.
    /// - Every operand's memory is valid for reads and writes over all its elements, and aligned to
    ///   its dtype.
    /// - While the call runs, nothing else writes an operand, and nothing else reads an operand
    ///   that the kernel writes. Operands of this call may overlap as they may for
    ///   [`Kernel::run`](crate::Kernel::run).
    unsafe fn run(&self, operands: &[*mut u8], threads: Option<&Threads>) -> Result<()>;
}

/// The launches of a call on a device, chosen once.
pub trait PlannedKernel: Send + Sync {
    /// Launches the call on operands at these addresses, in the order of [`KernelSpec::operands`],
    /// with that of the workspace behind them if the call has any. Returns false, and has launched
    /// nothing, if the kernel may choose otherwise for them: operands overlap, an address is
    /// aligned otherwise, or the stream belongs to another device. The call is then to be run by
    /// [`Kernel::run`](crate::Kernel::run).
    ///
    /// # Errors
    /// The device refuses a launch.
    ///
    /// # Safety
    /// Those of [`PreparedKernel::run`], until the launched work has run.
    unsafe fn launch(&self, operands: &[*mut u8], native: &dyn Any) -> Result<bool>;
}
