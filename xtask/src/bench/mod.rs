//! `bench engine`: what the machine costs per instruction, on workloads that other schedulers run
//! as well.
//!
//! A row of JSON a test, with the keys of the peers' programs: `ns_per_op` is the median over the
//! rounds of the time from the first submission until all has completed, `push_ns` of the time
//! that submitting took; `extra` and `x` hold one more figure and what it is.
//!
//! Inside the clock: building each instruction, hazards, routing, running an empty kernel,
//! completion, retirement. Outside: looking up the op and the operands.

mod memory;
mod workload;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use millstream::kernels::KernelCtx;
use millstream::ops::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
use millstream::{
    Access, Attrs, DType, DeviceId, Machine, MachineConfig, Prepared, Stream, Tensor, TensorSpec,
};

pub(crate) use memory::{MemoryArgs, memory};
use workload::{STREAMS, Workload, step, workload};

/// What to measure.
#[derive(Args, Debug)]
pub(crate) struct EngineArgs {
    /// The workload: chain, indep, nodep, random, fan, stencil, lat, latidle, mem, verify, or all.
    #[arg(long, default_value = "chain")]
    test: String,
    /// Rounds; one more runs before them to warm up.
    #[arg(long, visible_alias = "reps", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Instructions in each round; of a stencil, steps.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Streams that take the instructions in turns, all on one worker.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    streams: u32,
    /// Points of the stencil.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    width: u32,
    /// Microseconds that each of the stencil's instructions computes.
    #[arg(long, default_value_t = 10.0)]
    grain: f64,
}

const READS: [&str; 4] = ["bench.write", "bench.read1", "bench.read2", "bench.read3"];
const NOTHING: &str = "bench.nothing";
const CHECKED: [&str; 4] = ["check.write", "check.read1", "check.read2", "check.read3"];
const GRAIN: [&str; 4] = ["grain.write", "grain.read1", "grain.read2", "grain.read3"];
const GATE: &str = "bench.gate";

/// An op that reads so many operands and changes the last one, if it has any.
struct Bench {
    name: &'static str,
    operands: usize,
    writes: bool,
}

const OPERANDS: &[ArgDoc] = &[ArgDoc { name: "x", doc: "any tensor; the last one is changed" }; 4];
const ID: &[ArgDoc] = &[ArgDoc { name: "id", doc: "the instruction's number" }];

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

/// The variables of the kernels that are checked are host tensors of one word.
fn word(ctx: &KernelCtx<'_>, operand: usize) -> Result<*mut u64> {
    let x = ctx.operand(operand)?;
    ensure!(x.dtype == DType::I64 && x.numel() == 1, "{x:?} is no variable");
    Ok(x.data.cast())
}

fn checked(ctx: &KernelCtx<'_>) -> Result<()> {
    let id = ctx.attrs().int("id")?.context("no id")? as u64;
    let last = ctx.operands() - 1;
    // SAFETY: operands of the call, of one word each; the last is written by nobody else meanwhile.
    let read = |k: usize| word(ctx, k).map(|at| unsafe { *at });
    let reads = (0..last).map(read).collect::<Result<Vec<u64>>>()?;
    let value = step(id, reads, read(last)?);
    let at = word(ctx, last)?;
    // SAFETY: as above.
    unsafe { *at = value };
    Ok(())
}

fn burn(for_long: Duration) {
    let start = Instant::now();
    while start.elapsed() < for_long {
        std::hint::spin_loop();
    }
}

/// A machine and what the benchmark does on it.
struct Bed {
    machine: Machine,
    streams: Vec<Stream>,
    gate: Arc<AtomicBool>,
}

impl Bed {
    fn new(args: &EngineArgs) -> Result<Bed> {
        let mut config = MachineConfig { host_workers: 1, ..MachineConfig::default() };
        let gate = Arc::new(AtomicBool::new(true));
        let mut add = |name, operands, writes, kernel: Arc<dyn millstream::kernels::Kernel>| {
            config.ops.register(Arc::new(Bench { name, operands, writes }));
            config.kernels.register("cpu", name, kernel);
        };
        let empty = |_: &KernelCtx<'_>| Ok(());
        let grain = Duration::from_nanos((args.grain * 1e3) as u64);
        for reads in 0..READS.len() {
            add(READS[reads], reads + 1, true, Arc::new(empty));
            add(CHECKED[reads], reads + 1, true, Arc::new(checked));
            let work = move |_: &KernelCtx<'_>| {
                burn(grain);
                Ok(())
            };
            add(GRAIN[reads], reads + 1, true, Arc::new(work));
        }
        add(NOTHING, 0, false, Arc::new(empty));
        let shut = gate.clone();
        let wait = move |_: &KernelCtx<'_>| {
            while !shut.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_micros(200));
            }
            Ok(())
        };
        add(GATE, 1, true, Arc::new(wait));
        let machine = Machine::new(config)?;
        let cpu = DeviceId::cpu(0);
        let streams =
            (0..args.streams).map(|k| machine.compute(&cpu, k)).collect::<Result<_, _>>()?;
        Ok(Bed { machine, streams, gate })
    }

    /// The workload's variables, each 1.
    fn variables(&self, load: &Workload) -> Result<Vec<Tensor>> {
        let spec = TensorSpec::contiguous(DType::I64, &[1])?;
        let one = || self.machine.upload(&self.streams[0], spec.clone(), 1i64.to_ne_bytes().into());
        Ok((0..load.variables).map(|_| one()).collect::<Result<_, _>>()?)
    }

    /// The workload's calls, looked up. Calls that are alike share one.
    fn calls(&self, load: &Workload, names: &[&str; 4]) -> Result<Vec<Prepared>> {
        let variables = self.variables(load)?;
        let mut calls: Vec<Prepared> = Vec::with_capacity(load.nodes.len());
        for (id, node) in load.nodes.iter().enumerate() {
            if id > 0 && load.nodes[id - 1] == *node {
                calls.push(calls[id - 1].clone());
                continue;
            }
            let operands = node.reads().iter().chain(&node.write);
            let operands: Vec<&Tensor> = operands.map(|&v| &variables[v as usize]).collect();
            let name = if node.write.is_some() { names[node.reads().len()] } else { NOTHING };
            calls.push(self.machine.prepare(name, &operands, Attrs::new())?);
        }
        Ok(calls)
    }

    /// Submits all calls in turns over the streams, and waits. The times per instruction.
    fn round(&self, calls: &[Prepared]) -> Result<(f64, f64)> {
        let start = Instant::now();
        match &self.streams[..] {
            [alone] => calls.iter().try_for_each(|call| call.on(alone))?,
            streams => {
                let turns = streams.iter().cycle();
                calls.iter().zip(turns).try_for_each(|(call, stream)| call.on(stream))?;
            }
        }
        let pushed = start.elapsed();
        self.machine.synchronize()?;
        let per = |time: Duration| time.as_nanos() as f64 / calls.len() as f64;
        Ok((per(start.elapsed()), per(pushed)))
    }
}

fn switches() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(Ok(0), |n| n.trim().parse().context("an unreadable count of context switches"))
}

/// The bytes that the process has in memory.
fn resident() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("no count of resident pages")?;
    let pages = text.split_whitespace().nth(1).context("no count of resident pages")?;
    // Pages of 4 KiB, as the peers' programs count them.
    Ok(pages.parse::<f64>()? * 4096.0)
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// One line of the result.
struct Row<'a> {
    test: &'a str,
    ns_per_op: f64,
    push_ns: f64,
    extra: f64,
    of_extra: &'a str,
}

fn print(args: &EngineArgs, row: &Row<'_>) {
    println!(
        "{{\"peer\":\"millstream_inorder\",\"test\":\"{}\",\"w\":1,\"n\":{},\"ns_per_op\":{:.1},\
         \"push_ns\":{:.1},\"extra\":{:.4},\"x\":\"{}\"}}",
        row.test, args.count, row.ns_per_op, row.push_ns, row.extra, row.of_extra
    );
}

/// Runs the command.
pub(crate) fn engine(args: &EngineArgs) -> Result<()> {
    // Memory first, while nothing that an earlier test gave back is still resident.
    let rest = ["stencil", "lat", "latidle", "verify"];
    match args.test.as_str() {
        "all" => ["mem"].iter().chain(STREAMS).chain(&rest).try_for_each(|test| one(args, test)),
        test => one(args, test),
    }
}

fn one(args: &EngineArgs, test: &str) -> Result<()> {
    match test {
        "verify" => verify(args),
        "lat" => latency(args, test, Duration::ZERO, args.count.min(20_000) as usize),
        "latidle" => latency(args, test, Duration::from_millis(1), 500),
        "mem" => pending_memory(args),
        "stencil" => {
            let load = workload(test, args.count.min(1_000) as usize, args.width)?;
            let (total, push, _) = stream(args, &load, &GRAIN)?;
            let name = format!("stencil_w{}_g{}", args.width, args.grain);
            let extra = args.grain * 1e3 / total;
            let of_extra = "work_ns/wall_ns per task";
            print(args, &Row { test: &name, ns_per_op: total, push_ns: push, extra, of_extra });
            Ok(())
        }
        name => {
            let load = workload(name, args.count as usize, args.width)?;
            let (total, push, extra) = stream(args, &load, &READS)?;
            let of_extra = "vol_ctx_sw/op";
            print(args, &Row { test: name, ns_per_op: total, push_ns: push, extra, of_extra });
            Ok(())
        }
    }
}

/// The medians of the times per instruction, and context switches per instruction.
fn stream(args: &EngineArgs, load: &Workload, names: &[&str; 4]) -> Result<(f64, f64, f64)> {
    let bed = Bed::new(args)?;
    let calls = bed.calls(load, names)?;
    let (mut totals, mut pushes, mut extra) = (Vec::new(), Vec::new(), 0.0);
    for round in 0..=args.rounds {
        let before = switches()?;
        let (total, push) = bed.round(&calls)?;
        extra = (switches()? - before) as f64 / calls.len() as f64;
        if round > 0 {
            totals.push(total);
            pushes.push(push);
        }
    }
    Ok((quantile(&mut totals, 0.5), quantile(&mut pushes, 0.5), extra))
}

/// One instruction is given and waited for, again and again, after a pause.
fn latency(args: &EngineArgs, test: &str, pause: Duration, count: usize) -> Result<()> {
    let bed = Bed::new(args)?;
    let calls = bed.calls(&workload("chain", 1, 1)?, &READS)?;
    let warm_up = if pause.is_zero() { 500 } else { 0 };
    let mut times = Vec::with_capacity(count);
    for k in 0..count + warm_up {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let (total, _) = bed.round(&calls)?;
        if k >= warm_up {
            times.push(total);
        }
    }
    let extra = quantile(&mut times, 0.99);
    let ns_per_op = quantile(&mut times, 0.5);
    print(args, &Row { test, ns_per_op, push_ns: 0.0, extra, of_extra: "p99" });
    Ok(())
}

/// The first instruction holds its stream while all others are given.
fn pending_memory(args: &EngineArgs) -> Result<()> {
    let bed = Bed::new(args)?;
    let load = workload("chain", args.count as usize, 1)?;
    let x = bed.variables(&load)?.remove(0);
    let call = bed.machine.prepare(READS[0], &[&x], Attrs::new())?;
    let gate = bed.machine.prepare(GATE, &[&x], Attrs::new())?;
    let stream = &bed.streams[0];
    call.on(stream)?;
    bed.machine.synchronize()?;
    bed.gate.store(false, Ordering::Release);
    gate.on(stream)?;
    let before = resident()?;
    let given = load.nodes.iter().try_for_each(|_| call.on(stream));
    let after = resident()?;
    bed.gate.store(true, Ordering::Release);
    given?;
    bed.machine.synchronize()?;
    let extra = (after - before) / f64::from(args.count);
    let row = Row { test: "mem", ns_per_op: 0.0, push_ns: 0.0, extra, of_extra: "bytes/op" };
    print(args, &row);
    Ok(())
}

/// Runs each workload with kernels that compute, and compares the variables.
fn verify(args: &EngineArgs) -> Result<()> {
    let mut bad = 0;
    for name in ["chain", "indep", "random", "fan", "stencil"] {
        let load = workload(name, if name == "stencil" { 500 } else { 9_000 }, args.width)?;
        let expected = load.expected();
        for _ in 0..3 {
            let bed = Bed::new(args)?;
            let variables = bed.variables(&load)?;
            for (id, node) in load.nodes.iter().enumerate() {
                let operands = node.reads().iter().chain(&node.write);
                let operands: Vec<&Tensor> = operands.map(|&v| &variables[v as usize]).collect();
                let attrs = Attrs::new().with("id", id as i64);
                let call = bed.machine.prepare(CHECKED[node.reads().len()], &operands, attrs)?;
                call.on(&bed.streams[id % bed.streams.len()])?;
            }
            for (variable, expected) in variables.iter().zip(&expected) {
                let bytes = variable.read()?;
                let bytes = bytes.try_into().ok().context("a variable is one word")?;
                bad += u32::from(u64::from_ne_bytes(bytes) != *expected);
            }
        }
    }
    println!("{{\"peer\":\"millstream_inorder\",\"test\":\"verify\",\"w\":1,\"bad\":{bad}}}");
    if bad > 0 { bail!("{bad} variables are not what they should be") } else { Ok(()) }
}
