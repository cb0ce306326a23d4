//! The host's kernels by name, for ops without a kernel for the device.

use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result};

use millstream_kernels::{Kernel, KernelCtx, KernelRegistry, Operands, RawTensor};

use crate::call::Call;
use crate::code;
use crate::memory::Range;
use crate::state::{DriverResult, State};
use crate::stream::Run;

/// A kernel's launch: the function to run, and the memory that it uses.
pub(crate) struct Launch {
    pub(crate) run: Run,
    pub(crate) ranges: Vec<Range>,
}

pub(crate) fn registry() -> &'static KernelRegistry {
    static KERNELS: LazyLock<KernelRegistry> = LazyLock::new(millstream_kernels::standard);
    &KERNELS
}

/// Returns whether the host has a kernel of this name.
pub(crate) fn exists(name: &str) -> bool {
    registry().get("cpu", name).is_some()
}

/// Prepares the launch of the host's kernel `name`. `range` checks and resolves an address range.
pub(crate) fn launch(
    state: &mut State,
    name: &str,
    call: Call,
    mut range: impl FnMut(&mut State, u64, u64) -> DriverResult<Range>,
) -> DriverResult<Launch> {
    let kernel = registry().get("cpu", name).cloned().ok_or(code::NOT_FOUND)?;
    let mut ranges = Vec::new();
    let mut addresses = Vec::new();
    for operand in &call.operands {
        let span = operand.span();
        // An operand without elements may have any address.
        let found = match span {
            0 => Range::unowned(operand.dtype.size()),
            bytes => range(state, operand.address, bytes)?,
        };
        addresses.push(found.host);
        ranges.push(found);
    }
    let workspace = match call.workspace {
        (_, 0) => (0, 0),
        (address, bytes) => {
            let found = range(state, address, bytes)?;
            let host = found.host;
            ranges.push(found);
            (host, bytes as usize)
        }
    };
    let run = Arc::new(move || run(&kernel, &call, &addresses, workspace));
    Ok(Launch { run, ranges })
}

/// The operands of a call, by their addresses on the host.
struct HostOperands<'a> {
    call: &'a Call,
    addresses: &'a [usize],
}

impl Operands for HostOperands<'_> {
    fn len(&self) -> usize {
        self.call.operands.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        let operand = &self.call.operands[index];
        RawTensor {
            data: self.addresses[index] as *mut u8,
            dtype: operand.dtype,
            shape: &operand.shape,
            strides: &operand.strides,
        }
    }
}

pub(crate) fn run(
    kernel: &Arc<dyn Kernel>,
    call: &Call,
    addresses: &[usize],
    workspace: (usize, usize),
) -> Result<()> {
    let operands = HostOperands { call, addresses };
    let workspace = (workspace.0 as *mut u8, workspace.1);
    // SAFETY: the launch checked that every operand and the workspace are within one allocation;
    // allocations with users are not freed; and the caller of the launch guarantees that it is
    // ordered against all other uses of the operands.
    let ctx = unsafe { KernelCtx::new(&operands, &call.attrs, workspace, None, &()) };
    kernel.run(&ctx).context("a kernel of the host")
}
