//! Kernels by name: those of the host, in the device's place.

use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result};

use millstream_kernels::cuda::{self, call::Call as DeviceCall};
use millstream_kernels::{Kernel, KernelCtx, KernelRegistry, Operands, RawTensor};
use millstream_types::{Attrs, DType};

use crate::call::{Call, Operand};
use crate::code;
use crate::memory::Range;
use crate::state::{Answer, State};

/// A kernel with its arguments: what it is to run, and the memory that it uses.
pub(crate) struct Launch {
    pub(crate) run: Box<dyn FnOnce() -> Result<()> + Send>,
    pub(crate) ranges: Vec<Range>,
}

fn registry() -> &'static KernelRegistry {
    static KERNELS: LazyLock<KernelRegistry> = LazyLock::new(millstream_kernels::standard);
    &KERNELS
}

/// Whether the host has a kernel of this name.
pub(crate) fn is_there(name: &str) -> bool {
    registry().get("cpu", name).is_some()
}

/// The names of a source's kernels.
pub(crate) fn named(source: &str) -> Vec<String> {
    let after = source.split("extern \"C\" __global__ void ").skip(1);
    after.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())).collect()
}

/// What a kernel of ours in CUDA C does, as a call of one of the host's. A kernel whose result is
/// its first operand is the host's that works in place.
pub(crate) fn on_host(name: &str, call: &DeviceCall) -> Option<(String, Call)> {
    let (rank, count) = (call.rank as usize, call.operands as usize);
    let shape: Vec<usize> = call.shape.get(..rank)?.iter().map(|&d| d as usize).collect();
    let (op, dtype, names) = match cuda::copied(name) {
        Some(1) => ("copy", DType::U8, Vec::new()),
        Some(2) => ("copy", DType::I16, Vec::new()),
        Some(4) => ("copy", DType::I32, Vec::new()),
        Some(8) => ("copy", DType::I64, Vec::new()),
        _ => cuda::meaning(name)?,
    };
    let mut operands = Vec::new();
    for operand in call.operand.get(..count)? {
        let strides = operand.strides[..rank].iter().map(|&s| s as usize).collect();
        operands.push(Operand { address: operand.data, dtype, shape: shape.clone(), strides });
    }
    let mut attrs = Attrs::new();
    for (name, number) in names.into_iter().zip(call.numbers) {
        attrs.set(name, number);
    }
    let in_place = op != "copy" && call.operand[0] == call.operand[count.checked_sub(1)?];
    if in_place {
        operands.pop();
    }
    let op = if in_place { format!("{op}_") } else { op.to_owned() };
    Some((op, Call { operands, attrs, workspace: (0, 0) }))
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
            0 => Range { block: 0, host: operand.dtype.size() },
            bytes => range(state, operand.address, bytes)?,
        };
        addresses.push(found.host);
        ranges.push(found);
    }
    let workspace = match call.workspace {
        (_, 0) => (0, 0),
        (address, bytes) => {
            let found = range(state, address, bytes)?;
            ranges.push(found);
            (found.host, bytes as usize)
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

fn run(
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
