//! The host's kernels by name, in place of the device's.

use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result};

use millstream_kernels::{Kernel, KernelCtx, KernelRegistry, Operands, RawTensor};

use crate::call::Call;
use crate::code;
use crate::memory::Range;
use crate::state::{Answer, State};

/// A kernel with its arguments: what it is to run, and the memory that it uses.
pub(crate) struct Launch {
    pub(crate) run: Box<dyn FnOnce() -> Result<()> + Send>,
    pub(crate) ranges: Vec<Range>,
}

pub(crate) fn registry() -> &'static KernelRegistry {
    static KERNELS: LazyLock<KernelRegistry> = LazyLock::new(millstream_kernels::standard);
    &KERNELS
}

/// Whether the host has a kernel of this name.
pub(crate) fn is_there(name: &str) -> bool {
    registry().get("cpu", name).is_some()
}

/// The host's kernel `name` with a call.
pub(crate) fn launch(
    state: &mut State,
    name: &str,
    call: Call,
    mut range: impl FnMut(&mut State, u64, u64) -> Answer<Range>,
) -> Answer<Launch> {
    let kernel = registry().get("cpu", name).cloned().ok_or(code::NOT_FOUND)?;
    let mut ranges = Vec::new();
    let mut addresses = Vec::new();
    for operand in &call.operands {
        let span = operand.span();
        // An operand without elements may lie anywhere.
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
    let run = Box::new(move || run(&kernel, &call, &addresses, workspace));
    Ok(Launch { run, ranges })
}

struct Host<'a> {
    call: &'a Call,
    addresses: &'a [usize],
}

impl Operands for Host<'_> {
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
    let operands = Host { call, addresses };
    let workspace = (workspace.0 as *mut u8, workspace.1);
    // SAFETY: every operand and the workspace were found to lie within one allocation when the
    // kernel was launched, allocations with users are not freed, and who launched the kernel has
    // ordered it against all other uses of its operands.
    let ctx = unsafe { KernelCtx::new(&operands, &call.attrs, workspace, None, &()) };
    kernel.run(&ctx).context("a kernel of the host's")
}
