//! The measured machine, its ops, and the handles that are looked up before the clock starts.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use millstream::kernels::{Kernel, KernelCtx, KernelSpec, PreparedKernel, Threads};
use millstream::ops::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
use millstream::types::StreamId;
use millstream::{
    Access, Attrs, Batch, DType, DeviceId, DriverKind, Executable, Machine, MachineConfig,
    Prepared, RecordedTensor, Stream, StreamKey, StreamMode, Tensor, TensorHandle, TensorSpec,
};

use super::workload::{Node, Workload, step};
use super::{EngineArgs, Peer};

pub(super) const READS: [&str; 4] = ["bench.write", "bench.read1", "bench.read2", "bench.read3"];
const NOTHING: &str = "bench.nothing";
pub(super) const CHECKED: [&str; 4] = ["check.write", "check.read1", "check.read2", "check.read3"];
pub(super) const GRAIN: [&str; 4] = ["grain.write", "grain.read1", "grain.read2", "grain.read3"];
pub(super) const GATE: &str = "bench.gate";

/// An op with `operands` operands that changes the last one if `writes` is true.
struct Bench {
    name: &'static str,
    operands: usize,
    writes: bool,
}

const OPERANDS: &[ArgDoc] = &[ArgDoc::new("x", "any tensor; the last one is changed"); 4];
const ID: &[ArgDoc] = &[ArgDoc::new("id", "the instruction's number")];

impl Op for Bench {
    fn name(&self) -> &str {
        self.name
    }

    fn summary(&self) -> &str {
        "Reads its operands and changes the last one, as far as order is concerned."
    }

    fn inputs(&self) -> &[ArgDoc] {
        &OPERANDS[..self.operands]
    }

    fn attrs(&self) -> &[ArgDoc] {
        ID
    }

    fn signature(&self, call: CallSpec<'_>) -> millstream::Result<Signature> {
        let last = call.inputs.len().wrapping_sub(1);
        let access = |k: usize| match self.writes && k == last {
            true => Access::ReadWrite,
            false => Access::Read,
        };
        Ok(Signature {
            accesses: (0..call.inputs.len()).map(access).collect(),
            outputs: self.writes.then_some(OutputSpec::Same(last)).into_iter().collect(),
            workspace: 0,
        })
    }
}

/// Returns the address of a checked kernel's operand, a host tensor of one word.
fn word(ctx: &KernelCtx<'_>, operand: usize) -> Result<*mut u64> {
    let x = ctx.operand(operand)?;
    ensure!(x.dtype == DType::I64 && x.numel() == 1, "{x:?} is no variable");
    Ok(x.data.cast())
}

fn checked(ctx: &KernelCtx<'_>) -> Result<()> {
    let id = ctx.attrs().int("id")?.context("no id")? as u64;
    let last = ctx.operands() - 1;
    // SAFETY: operands of the call, of one word each; while it runs nobody else writes the last
    // one.
    let read = |k: usize| word(ctx, k).map(|at| unsafe { *at });
    let reads = (0..last).map(read).collect::<Result<Vec<u64>>>()?;
    let value = step(id, reads, read(last)?);
    let at = word(ctx, last)?;
    // SAFETY: as above.
    unsafe { *at = value };
    Ok(())
}

/// A kernel that does nothing.
pub(super) struct Empty;

impl Kernel for Empty {
    fn run(&self, _: &KernelCtx<'_>) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, _: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        Some(Arc::new(Empty))
    }
}

impl PreparedKernel for Empty {
    unsafe fn run(&self, operands: &[*mut u8], _: Option<&Threads>) -> Result<()> {
        black_box(operands);
        Ok(())
    }
}

/// A kernel that computes for a given time.
struct Burn {
    steps: u64,
}

impl Kernel for Burn {
    fn run(&self, _: &KernelCtx<'_>) -> Result<()> {
        burn(self.steps);
        Ok(())
    }

    fn prepare(&self, _: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        Some(Arc::new(Burn { steps: self.steps }))
    }
}

impl PreparedKernel for Burn {
    unsafe fn run(&self, operands: &[*mut u8], _: Option<&Threads>) -> Result<()> {
        black_box(operands);
        burn(self.steps);
        Ok(())
    }
}

/// Computes `steps` multiplications, each of which depends on the one before.
fn burn(steps: u64) {
    let mut x = steps;
    for _ in 0..steps {
        x = black_box(
            x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
        );
    }
}

/// Returns the number of steps of `burn` in a microsecond on an idle processor.
fn steps_per_us() -> f64 {
    const STEPS: u64 = 1_000_000;
    let times = (0..20).map(|_| {
        let start = Instant::now();
        burn(STEPS);
        start.elapsed().as_nanos() as f64 / 1e3
    });
    STEPS as f64 / times.fold(f64::INFINITY, f64::min)
}

/// The measured machine with its streams.
pub(super) struct Fixture {
    pub(super) machine: Machine,
    pub(super) streams: Vec<Stream>,
    pub(super) gate: Arc<AtomicBool>,
}

impl Fixture {
    /// Returns a machine for calls of `names`.
    pub(super) fn new(args: &EngineArgs, names: &[&str; 4]) -> Result<Fixture> {
        Fixture::with_driver(args, names, DriverKind::Threaded)
    }

    /// Returns a machine with a given driver for calls of `names`.
    pub(super) fn with_driver(
        args: &EngineArgs,
        names: &[&str; 4],
        driver: DriverKind,
    ) -> Result<Fixture> {
        let workers = args.workers as usize;
        let mut config = MachineConfig::default().host_workers(workers).driver(driver);
        let gate = Arc::new(AtomicBool::new(true));
        let mut add = |name, operands, writes, kernel: Arc<dyn millstream::kernels::Kernel>| {
            config.ops.register(Arc::new(Bench { name, operands, writes }));
            config.kernels.register("cpu", name, kernel);
        };
        let grain = match names == &GRAIN {
            true => (args.grain * steps_per_us()) as u64,
            false => 0,
        };
        for reads in 0..READS.len() {
            add(READS[reads], reads + 1, true, Arc::new(Empty));
            add(CHECKED[reads], reads + 1, true, Arc::new(checked));
            add(GRAIN[reads], reads + 1, true, Arc::new(Burn { steps: grain }));
        }
        add(NOTHING, 0, false, Arc::new(Empty));
        let shut = gate.clone();
        let wait = move |_: &KernelCtx<'_>| {
            while !shut.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_micros(200));
            }
            Ok(())
        };
        add(GATE, 1, true, Arc::new(wait));
        let machine = Machine::new(config)?;
        let mode = match args.peer {
            Peer::Inorder => StreamMode::InOrder,
            Peer::Pool | Peer::All | Peer::Functions | Peer::Operators | Peer::Bulk => {
                StreamMode::Pool
            }
        };
        let stream = |k| machine.stream_with_mode(&StreamKey::compute(DeviceId::cpu(0), k), mode);
        let streams = (0..args.streams).map(stream).collect::<Result<_, _>>()?;
        Ok(Fixture { machine, streams, gate })
    }

    /// Compiles the workload: each instruction is a call on one of `streams` streams of the list,
    /// in turns, or a stencil's point on the stream of its share.
    pub(super) fn compile(
        &self,
        load: &Workload,
        names: &[&str; 4],
        streams: u32,
    ) -> Result<Executable> {
        let variables = self.variables(load)?;
        let mut list = self.machine.recorder();
        let stream = |k| list.stream(&StreamKey::compute(DeviceId::cpu(0), k));
        let on: Vec<StreamId> = (0..streams).map(stream).collect::<Result<_, _>>()?;
        let bound: Vec<RecordedTensor> =
            variables.iter().map(|x| list.bind(x)).collect::<Result<_, _>>()?;
        for (k, node) in load.nodes.iter().enumerate() {
            let operands: Vec<RecordedTensor> =
                node.operands().map(|v| bound[v as usize]).collect();
            let name = if node.write.is_some() { names[node.reads().len()] } else { NOTHING };
            let at = match load.width {
                0 => k % on.len(),
                width => k % width * on.len() / width,
            };
            let call = list.call(name, &operands).attr("id", k as i64);
            call.on(on[at])?;
        }
        Ok(list.finish()?.compile()?)
    }

    /// Makes the workload's variables, each with the value 1.
    pub(super) fn variables(&self, load: &Workload) -> Result<Vec<Tensor>> {
        let spec = TensorSpec::contiguous(DType::I64, &[1])?;
        let one = || self.machine.upload(&self.streams[0], spec.clone(), 1i64.to_ne_bytes().into());
        Ok((0..load.variables).map(|_| one()).collect::<Result<_, _>>()?)
    }

    /// Looks up everything that the workload needs: its ops and its variables.
    pub(super) fn look_up(&self, load: &Workload, names: &[&str; 4]) -> Result<Handles> {
        let variables = self.variables(load)?;
        let mut calls = Vec::new();
        for (reads, name) in names.iter().enumerate() {
            let used = load.nodes.iter().find(|n| n.write.is_some() && n.reads().len() == reads);
            let Some(node) = used else { continue };
            let operands: Vec<&Tensor> = node.operands().map(|v| &variables[v as usize]).collect();
            calls.resize_with(reads, || None);
            calls.push(Some(self.machine.prepare(name, &operands, Attrs::new())?));
        }
        let nothing = self.machine.prepare(NOTHING, &[], Attrs::new())?;
        let handles = variables.iter().map(Tensor::handle).collect();
        Ok(Handles { calls, nothing, handles, _variables: variables })
    }

    /// Submits all calls and waits. Returns the time and the time of submitting, per instruction.
    pub(super) fn round(&self, load: &Workload, on: &Handles) -> Result<(f64, f64)> {
        let start = Instant::now();
        let mut batch = self.machine.batch();
        match &self.streams[..] {
            [alone] => load.nodes.iter().try_for_each(|node| on.call(&mut batch, node, alone))?,
            streams if load.width > 0 => {
                let turns = (0..load.width).map(|x| &streams[x * streams.len() / load.width]);
                let mut turns = load.nodes.iter().zip(turns.cycle());
                turns.try_for_each(|(node, stream)| on.call(&mut batch, node, stream))?;
            }
            streams => {
                let mut turns = load.nodes.iter().zip(streams.iter().cycle());
                turns.try_for_each(|(node, stream)| on.call(&mut batch, node, stream))?;
            }
        }
        drop(batch);
        let pushed = start.elapsed();
        self.machine.synchronize()?;
        let per = |time: Duration| time.as_nanos() as f64 / load.nodes.len() as f64;
        Ok((per(start.elapsed()), per(pushed)))
    }
}

/// The handles that are looked up before the clock starts.
pub(super) struct Handles {
    /// The calls that write, by the number of variables that they read.
    calls: Vec<Option<Prepared>>,
    /// The call without operands.
    nothing: Prepared,
    handles: Vec<TensorHandle>,
    _variables: Vec<Tensor>,
}

impl Handles {
    #[inline]
    fn call(&self, batch: &mut Batch<'_>, node: &Node, stream: &Stream) -> millstream::Result<()> {
        let Some(write) = node.write else { return batch.call(&self.nothing, stream) };
        let mut operands = [self.handles[write as usize]; 4];
        for (operand, read) in operands.iter_mut().zip(node.reads()) {
            *operand = self.handles[*read as usize];
        }
        let count = node.reads().len();
        operands[count] = self.handles[write as usize];
        match self.calls.get(count) {
            Some(Some(call)) => batch.call_with(call, &operands[..=count], stream),
            _ => unreachable!("calls of every kind in the workload are looked up"),
        }
    }
}
