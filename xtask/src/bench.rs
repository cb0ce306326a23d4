//! `bench engine`: what the machine costs per instruction, on workloads that other schedulers run
//! as well.
//!
//! A row of JSON a run, with the keys of the peers' programs: `ns_per_op` is the median over the
//! repeats of the time from the first submission until all has completed, `push_ns` of the time
//! that submitting took, `extra` the voluntary context switches per instruction.
//!
//! Inside the clock: building each instruction, hazards, routing, running an empty kernel,
//! completion, retirement. Outside: looking up the op and the operands.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use millstream::ops::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
use millstream::{
    Access, Attrs, DType, DeviceId, Machine, MachineConfig, Prepared, Stream, TensorSpec,
};

/// What to measure.
#[derive(Args, Debug)]
pub(crate) struct EngineArgs {
    /// The workload: chain (each instruction writes the one variable).
    #[arg(long, default_value = "chain")]
    test: String,
    /// Repeats; one more runs before them to warm up.
    #[arg(long, default_value_t = 7)]
    reps: usize,
    /// Instructions in each repeat.
    #[arg(long, default_value_t = 100_000)]
    count: usize,
}

/// An op that changes its one operand and does nothing.
struct Nothing;

impl Op for Nothing {
    fn name(&self) -> &str {
        "bench.nothing"
    }

    fn summary(&self) -> &str {
        "Claims to write a tensor and does nothing."
    }

    fn inputs(&self) -> &[ArgDoc] {
        &[ArgDoc { name: "x", doc: "any tensor" }]
    }

    fn signature(&self, _: CallSpec<'_>) -> millstream::Result<Signature> {
        Ok(Signature {
            accesses: [Access::Write].into_iter().collect(),
            outputs: [OutputSpec::Same(0)].into_iter().collect(),
            workspace: 0,
        })
    }
}

/// One instruction's call and the stream it goes to.
struct Workload {
    machine: Machine,
    stream: Stream,
    calls: Vec<Prepared>,
}

fn workload(test: &str) -> Result<Workload> {
    if test != "chain" {
        bail!("unknown workload '{test}': expected chain");
    }
    let mut config = MachineConfig::default();
    config.ops.register(Arc::new(Nothing));
    let nothing = |_: &millstream::kernels::KernelCtx<'_>| Ok(());
    config.kernels.register("cpu", "bench.nothing", Arc::new(nothing));
    let machine = Machine::new(config)?;
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    let x = machine.empty(&stream, TensorSpec::contiguous(DType::I64, &[1])?)?;
    let calls = vec![machine.prepare("bench.nothing", &[&x], Attrs::new())?];
    Ok(Workload { machine, stream, calls })
}

fn switches() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(Ok(0), |n| n.trim().parse().context("an unreadable count of context switches"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs the command.
pub(crate) fn engine(args: &EngineArgs) -> Result<()> {
    let load = workload(&args.test)?;
    let (mut totals, mut pushes, mut extra) = (Vec::new(), Vec::new(), 0.0);
    for rep in 0..=args.reps {
        let before = switches()?;
        let start = Instant::now();
        for call in load.calls.iter().cycle().take(args.count) {
            call.on(&load.stream)?;
        }
        let pushed = start.elapsed();
        load.machine.synchronize()?;
        let total = start.elapsed();
        extra = (switches()? - before) as f64 / args.count as f64;
        if rep > 0 {
            totals.push(total.as_nanos() as f64 / args.count as f64);
            pushes.push(pushed.as_nanos() as f64 / args.count as f64);
        }
    }
    println!(
        "{{\"peer\":\"millstream_inorder\",\"test\":\"{}\",\"w\":1,\"n\":{},\"ns_per_op\":{:.1},\
         \"push_ns\":{:.1},\"extra\":{:.4},\"x\":\"vol_ctx_sw/op\"}}",
        args.test,
        args.count,
        median(totals),
        median(pushes),
        extra
    );
    Ok(())
}
