//! Runs a kernel of the device on operands in host memory: copies them to the device, and back.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::slice::from_raw_parts;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use millstream::ep::cuda::NativeStream;
use millstream::ep::{Device, Memory, Progress, Stream, Work, WorkResult};
use millstream::kernels::{Kernel, KernelCtx, KernelRegistry, KernelSpec, Operands, RawTensor};
use millstream::types::{Layout, TensorSpec};

/// Runs an op's kernel for the device, by its plan if it has one, and in its context. Both leave
/// the same bytes.
///
/// # Errors
/// There is no such kernel, it does not support the call, or it fails.
pub fn run(
    kernels: &KernelRegistry,
    device: &Arc<dyn Device>,
    op: &str,
    ctx: &KernelCtx<'_>,
) -> Result<()> {
    let kind = device.kernel_kind();
    let kernel = kernels.get(kind, op).with_context(|| format!("{op} has no kernel on {kind}"))?;
    let mut rig = Rig { device: device.clone(), stream: device.create_stream(Arc::new(|| ()))? };
    let before = content(ctx)?;
    let planned = rig.launch_planned(&**kernel, ctx)?.then(|| content(ctx)).transpose()?;
    restore(ctx, &before)?;
    let result = rig.call(ctx, &|ctx| kernel.run(ctx));
    if let Some(planned) = planned {
        let what = format!("{op} {}", ctx.attrs());
        ensure!(result.is_ok(), "{what}: planned, and in its context: {result:?}");
        ensure!(content(ctx)? == planned, "{what}: other bytes if planned");
    }
    result
}

/// A range of host memory, and its copy on the device.
struct Block {
    host: Range<usize>,
    device: Box<dyn Memory>,
}

struct Rig {
    device: Arc<dyn Device>,
    stream: Box<dyn Stream>,
}

impl Rig {
    /// Launches a call by its plan. Returns false if it has none, or one for other addresses; then
    /// nothing is launched.
    fn launch_planned(&mut self, kernel: &dyn Kernel, ctx: &KernelCtx<'_>) -> Result<bool> {
        let launched = Cell::new(false);
        self.call(ctx, &|ctx| {
            let (native, (memory, workspace)) = (ctx.native(), ctx.workspace());
            let operands = operands(ctx)?;
            let spec = |x: &RawTensor<'_>| {
                let layout = Layout::strided(x.shape, x.strides, 0)?;
                Ok(Arc::new(TensorSpec::new(x.dtype, layout)?))
            };
            let specs = operands.iter().map(spec).collect::<Result<Vec<_>>>()?;
            let call = KernelSpec { operands: &specs, attrs: ctx.attrs(), workspace };
            // Which operands a call writes is its op's to say: here, any.
            let written = vec![true; operands.len()];
            let Some(plan) = kernel.plan(call, &written, native) else { return Ok(()) };
            let addresses = operands.iter().map(|x| x.data);
            let addresses: Vec<*mut u8> =
                addresses.chain((workspace > 0).then_some(memory)).collect();
            // SAFETY: the context's operands, as for any call.
            launched.set(unsafe { plan.launch(&addresses, native)? });
            Ok(())
        })?;
        Ok(launched.get())
    }

    /// Copies the memory of the operands, runs the kernel, and copies the memory back.
    fn call(
        &mut self,
        ctx: &KernelCtx<'_>,
        kernel: &dyn Fn(&KernelCtx<'_>) -> Result<()>,
    ) -> Result<()> {
        let operands = operands(ctx)?;
        let mut blocks: Vec<Block> = Vec::new();
        for host in merged_ranges(&operands) {
            blocks.push(Block { device: self.device.allocate(host.len())?, host });
        }
        let (_, bytes) = ctx.workspace();
        let workspace = self.device.allocate(bytes.max(1))?;
        let device_address = |x: &RawTensor<'_>| {
            let address = x.data.addr();
            let block = blocks.iter().find(|block| block.host.contains(&address));
            let base = block.map(|b| b.device.base().as_ptr().wrapping_add(address - b.host.start));
            base.unwrap_or(std::ptr::null_mut())
        };
        let copies: Vec<RawTensor<'_>> =
            operands.iter().map(|x| RawTensor { data: device_address(x), ..*x }).collect();
        let mut outcome = Ok(());
        let mut run = |native: &dyn Any| {
            let stream: &NativeStream = native.downcast_ref().context("no stream of the device")?;
            for block in &blocks {
                let (host, device) = (block.host.start as *const u8, block.device.base().as_ptr());
                // SAFETY: both have the length; the call returns when the stream has run the copy.
                unsafe { stream.copy(device, host, block.host.len()) }?;
            }
            let copies: &DeviceOperands<'_> = &DeviceOperands(&copies);
            let scratch = (workspace.base().as_ptr(), bytes);
            // SAFETY: the operands are copies of valid ones, and only this call uses them.
            let ctx = unsafe { KernelCtx::new(copies, ctx.attrs(), scratch, None, native) };
            outcome = kernel(&ctx);
            for block in &blocks {
                let (host, device) = (block.host.start as *mut u8, block.device.base().as_ptr());
                // SAFETY: as above.
                unsafe { stream.copy(host, device, block.host.len()) }?;
            }
            Ok(())
        };
        let mut result = match self.stream.submit(&mut BorrowedWork(&mut run))? {
            Progress::Done(result) => Some(result),
            Progress::Pending(_) => None,
        };
        while result.is_none() {
            self.stream.poll(&mut |_, done| result = Some(done))?;
            std::thread::yield_now();
        }
        outcome.and(result.unwrap_or(Ok(())))
    }
}

fn operands<'a>(ctx: &KernelCtx<'a>) -> Result<Vec<RawTensor<'a>>> {
    (0..ctx.operands()).map(|k| ctx.operand(k)).collect()
}

/// Returns the content of the operands' memory.
fn content(ctx: &KernelCtx<'_>) -> Result<Vec<Vec<u8>>> {
    let ranges = merged_ranges(&operands(ctx)?);
    // SAFETY: the context promises that the operands' memory is valid; nothing writes it now.
    let bytes = |x: Range<usize>| unsafe { from_raw_parts(x.start as *const u8, x.len()) }.to_vec();
    Ok(ranges.into_iter().map(bytes).collect())
}

/// Restores the content of the operands' memory.
fn restore(ctx: &KernelCtx<'_>, content: &[Vec<u8>]) -> Result<()> {
    for (range, bytes) in merged_ranges(&operands(ctx)?).into_iter().zip(content) {
        // SAFETY: as in `content`; nothing else uses the memory now.
        unsafe { (range.start as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(())
}

/// Returns the memory ranges of the operands, with overlapping ones merged.
fn merged_ranges(operands: &[RawTensor<'_>]) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = operands.iter().filter(|x| x.numel() > 0).map(bytes).collect();
    all.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the bytes from the first to the end of the last element, with the start aligned to 8.
fn bytes(x: &RawTensor<'_>) -> Range<usize> {
    let last: usize = x.shape.iter().zip(x.strides).map(|(&d, &s)| (d - 1) * s).sum();
    let start = x.data.addr();
    start / 8 * 8..start + (last + 1) * x.dtype.size()
}

struct DeviceOperands<'a>(&'a [RawTensor<'a>]);

impl Operands for DeviceOperands<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        self.0[index]
    }
}

/// Work that runs inside `submit`.
struct BorrowedWork<'a>(&'a mut dyn FnMut(&dyn Any) -> Result<()>);

// SAFETY: the device runs the work on the thread that submits it.
unsafe impl Send for BorrowedWork<'_> {}

impl Work for BorrowedWork<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        (self.0)(native)
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedWork)
    }
}

/// What replaces borrowed work on a device that runs it after `submit`: an error.
struct DetachedWork;

impl Work for DetachedWork {
    fn run(&mut self, _native: &dyn Any) -> Result<()> {
        bail!("the check's work is borrowed: it can run inside submit alone")
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(DetachedWork)
    }
}
