//! A kernel of a device called on operands in the host's memory: they are copied there, and back.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use millstream::ep::cuda::{CudaBackend, CudaConfig, Native};
use millstream::ep::{Backend, Device, Memory, Progress, Stream, Work, WorkResult};
use millstream_cuda_standin::compiles;
use millstream_kernels::cuda::Unsupported;
use millstream_kernels::{KernelCtx, KernelRegistry, Operands, RawTensor};

/// Runs an op's kernel for the device, or the host's where that does not serve, and says so.
pub(crate) fn run(kernels: &KernelRegistry, op: &str, ctx: &KernelCtx<'_>) -> Result<()> {
    let host = kernels.get("cpu", op).expect("a kernel");
    let Some(kernel) = kernels.get("cuda", op).filter(|_| compiles()) else {
        println!("{op}: by the host");
        return host.run(ctx);
    };
    let mut rig = Rig::new()?;
    let result = rig.call(ctx, &|ctx| kernel.run(ctx));
    match result {
        Err(error) if error.is::<Unsupported>() => {
            println!("{op}: by the host: {error}");
            host.run(ctx)
        }
        result => result,
    }
}

/// A stretch of the host's memory, and its copy on the device.
struct Block {
    host: Range<usize>,
    device: Box<dyn Memory>,
}

struct Rig {
    device: Arc<dyn Device>,
    stream: Box<dyn Stream>,
}

impl Rig {
    fn new() -> Result<Rig> {
        static ALONE: Mutex<Option<Arc<dyn Device>>> = Mutex::new(None);
        let mut device = ALONE.lock().expect("no test has panicked here");
        let device = match &*device {
            Some(device) => device.clone(),
            None => device.insert(CudaBackend::new(CudaConfig::default()).open(0)?).clone(),
        };
        let stream = device.create_stream(Arc::new(|| ()))?;
        Ok(Rig { device, stream })
    }

    /// Copies what the operands lie in, runs the kernel, and copies all back.
    fn call(
        &mut self,
        ctx: &KernelCtx<'_>,
        kernel: &dyn Fn(&KernelCtx<'_>) -> Result<()>,
    ) -> Result<()> {
        let operands: Vec<RawTensor<'_>> =
            (0..ctx.operands()).map(|k| ctx.operand(k)).collect::<Result<_>>()?;
        let mut blocks: Vec<Block> = Vec::new();
        for host in stretches(&operands) {
            blocks.push(Block { device: self.device.allocate(host.len())?, host });
        }
        let (_, bytes) = ctx.workspace();
        let workspace = self.device.allocate(bytes.max(1))?;
        let there = |x: &RawTensor<'_>| {
            let at = x.data.addr();
            let block = blocks.iter().find(|block| block.host.contains(&at));
            let base = block.map(|b| b.device.base().as_ptr().wrapping_add(at - b.host.start));
            base.unwrap_or(std::ptr::null_mut())
        };
        let moved: Vec<RawTensor<'_>> =
            operands.iter().map(|x| RawTensor { data: there(x), ..*x }).collect();
        let mut outcome = Ok(());
        let mut run = |native: &dyn Any| {
            let stream: &Native = native.downcast_ref().context("no stream of the device's")?;
            for block in &blocks {
                let (host, device) = (block.host.start as *const u8, block.device.base().as_ptr());
                // SAFETY: both are so many bytes long; the call ends when the stream has run all.
                unsafe { stream.copy(device, host, block.host.len()) }?;
            }
            let moved: &All<'_> = &All(&moved);
            let scratch = (workspace.base().as_ptr(), bytes);
            // SAFETY: the operands are copies of valid ones, used by this call alone.
            let ctx = unsafe { KernelCtx::new(moved, ctx.attrs(), scratch, None, native) };
            outcome = kernel(&ctx);
            for block in &blocks {
                let (host, device) = (block.host.start as *mut u8, block.device.base().as_ptr());
                // SAFETY: as above.
                unsafe { stream.copy(host, device, block.host.len()) }?;
            }
            Ok(())
        };
        let mut result = match self.stream.submit(&mut Once(&mut run))? {
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

/// The stretches of memory that operands lie in; those that overlap are one.
fn stretches(operands: &[RawTensor<'_>]) -> Vec<Range<usize>> {
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

/// The bytes from the first to the end of the last element; the start is aligned as any element is.
fn bytes(x: &RawTensor<'_>) -> Range<usize> {
    let last: usize = x.shape.iter().zip(x.strides).map(|(&d, &s)| (d - 1) * s).sum();
    let start = x.data.addr();
    start / 8 * 8..start + (last + 1) * x.dtype.size()
}

struct All<'a>(&'a [RawTensor<'a>]);

impl Operands for All<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        self.0[index]
    }
}

/// Work that is handed over as it is submitted.
struct Once<'a>(&'a mut dyn FnMut(&dyn Any) -> Result<()>);

// SAFETY: the device runs it on the thread that submits it.
unsafe impl Send for Once<'_> {}

impl Work for Once<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        (self.0)(native)
    }

    fn detach(&mut self) -> Box<dyn Work> {
        panic!("the device launches as it is told")
    }
}
