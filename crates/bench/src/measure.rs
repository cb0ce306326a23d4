//! The tests of `bench engine`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use millstream::{Attrs, DType, DeviceId, Machine, MachineConfig, Tensor, TensorSpec};

use super::fixture::{CHECKED, Fixture, GATE, GRAIN, READS};
use super::workload::{STREAMS, Workload, workload};
use super::{EngineArgs, Row, functions, quantile};

/// Runs one test.
pub(super) fn run(args: &EngineArgs, test: &str) -> Result<Vec<Row>> {
    match test {
        "verify" => verify(args).map(|row| vec![row]),
        name if args.peer.is_engine() => {
            ensure!(STREAMS.contains(&name), "{name}: the engine runs {}", STREAMS.join(", "));
            let load = workload(name, args.count as usize, args.width)?;
            let (ns_per_op, push_ns) = functions::stream(args, &load)?;
            Ok(vec![row(args, test, ns_per_op, push_ns, 0.0, "")])
        }
        "lat" => latency(args, test, Duration::ZERO, args.count.min(20_000) as usize),
        "latidle" => latency(args, test, Duration::from_millis(1), 500),
        "mem" => pending_memory(args),
        "idle" => idle(args),
        "flat" => flat(args),
        "endless" => endless(args),
        "stencil" => stencil(args),
        "profile" => profile(args),
        name => {
            let load = workload(name, args.count as usize, args.width)?;
            let (ns_per_op, push_ns, extra) = stream(args, &load, &READS)?;
            Ok(vec![row(args, test, ns_per_op, push_ns, extra, "vol_ctx_sw/op")])
        }
    }
}

fn row(args: &EngineArgs, test: &str, ns_per_op: f64, push_ns: f64, extra: f64, x: &str) -> Row {
    let round = |figure: f64, digits: f64| (figure * digits).round() / digits;
    Row {
        peer: args.peer.name().to_owned(),
        test: test.to_owned(),
        w: args.workers,
        n: args.count,
        ns_per_op: round(ns_per_op, 10.0),
        push_ns: round(push_ns, 10.0),
        extra: round(extra, 1e4),
        x: x.to_owned(),
    }
}

fn switches() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(Ok(0), |n| n.trim().parse().context("the count of context switches is no number"))
}

/// Returns the process's resident memory in bytes.
fn resident() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("no count of resident pages")?;
    let pages = text.split_whitespace().nth(1).context("no count of resident pages")?;
    // Pages of 4 KiB, as the peers' programs count them.
    Ok(pages.parse::<f64>()? * 4096.0)
}

/// Returns the medians of the times per instruction, and the context switches per instruction.
fn stream(args: &EngineArgs, load: &Workload, names: &[&str; 4]) -> Result<(f64, f64, f64)> {
    let fixture = Fixture::new(args, names)?;
    let on = fixture.look_up(load, names)?;
    let (mut totals, mut pushes, mut extra) = (Vec::new(), Vec::new(), 0.0);
    for round in 0..=args.rounds {
        let before = switches()?;
        let (total, push) = fixture.round(load, &on)?;
        extra = (switches()? - before) as f64 / load.nodes.len() as f64;
        if round > 0 {
            totals.push(total);
            pushes.push(push);
        }
    }
    Ok((quantile(&mut totals, 0.5), quantile(&mut pushes, 0.5), extra))
}

/// Measures calls with fresh results, and the same while their times are recorded, in alternating
/// rounds. `extra` is the median of the second by that of the first.
fn profile(args: &EngineArgs) -> Result<Vec<Row>> {
    let machine = Machine::new(MachineConfig::default().host_workers(args.workers as usize))?;
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    let spec = TensorSpec::contiguous(DType::F32, &[16])?;
    let x = machine.call("full", &[]).attrs(full_of(&spec)).on(&stream)?.remove(0);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..2 * (args.rounds + 1) {
        let is_on = round % 2 == 1;
        machine.synchronize()?;
        let profiling = if is_on { Some(machine.profile_times()?) } else { None };
        let start = Instant::now();
        for _ in 0..args.count {
            machine.call("add", &[&x, &x]).on(&stream)?;
        }
        machine.synchronize()?;
        let took = start.elapsed().as_nanos() as f64 / f64::from(args.count);
        drop(profiling);
        if round >= 2 {
            times[usize::from(is_on)].push(took);
        }
    }
    let [off, on] = times.map(|mut times| quantile(&mut times, 0.5));
    Ok(vec![row(args, "profile", on, off, on / off, "on/off")])
}

fn full_of(spec: &TensorSpec) -> Attrs {
    let shape: Vec<i64> = spec.shape().iter().map(|&n| n as i64).collect();
    Attrs::new().with("shape", shape).with("value", 1.0)
}

/// Measures one instruction from its submission to its completion, repeatedly, after a pause.
fn latency(args: &EngineArgs, test: &str, pause: Duration, count: usize) -> Result<Vec<Row>> {
    let fixture = Fixture::new(args, &READS)?;
    let load = workload("chain", 1, 1)?;
    let on = fixture.look_up(&load, &READS)?;
    let warm_up = if pause.is_zero() { 500 } else { 0 };
    let mut times = Vec::with_capacity(count);
    for k in 0..count + warm_up {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let (total, _) = fixture.round(&load, &on)?;
        if k >= warm_up {
            times.push(total);
        }
    }
    let extra = quantile(&mut times, 0.99);
    let ns_per_op = quantile(&mut times, 0.5);
    Ok(vec![row(args, test, ns_per_op, 0.0, extra, "p99")])
}

/// Measures memory per queued instruction: the first one blocks its stream while all others are
/// submitted.
fn pending_memory(args: &EngineArgs) -> Result<Vec<Row>> {
    let fixture = Fixture::new(args, &READS)?;
    let load = workload("chain", args.count as usize, 1)?;
    let x = fixture.variables(&load)?.remove(0);
    let call = fixture.machine.prepare(READS[0], &[&x], Attrs::new())?;
    let gate = fixture.machine.prepare(GATE, &[&x], Attrs::new())?;
    let stream = &fixture.streams[0];
    call.on(stream)?;
    fixture.machine.synchronize()?;
    fixture.gate.store(false, Ordering::Release);
    gate.on(stream)?;
    let before = resident()?;
    let start = Instant::now();
    let mut batch = fixture.machine.batch();
    let given = load.nodes.iter().try_for_each(|_| batch.call(&call, stream));
    drop(batch);
    let push_ns = start.elapsed().as_nanos() as f64 / f64::from(args.count);
    let after = resident()?;
    fixture.gate.store(true, Ordering::Release);
    given?;
    fixture.machine.synchronize()?;
    let extra = (after - before) / f64::from(args.count);
    Ok(vec![row(args, "mem", 0.0, push_ns, extra, "bytes/op")])
}

/// Runs each workload with kernels that compute, and compares the variables.
fn verify(args: &EngineArgs) -> Result<Row> {
    let mut bad = 0;
    for name in ["chain", "indep", "random", "fan", "stencil"] {
        let load = workload(name, if name == "stencil" { 500 } else { 9_000 }, args.width)?;
        let expected = load.expected();
        for _ in 0..3 {
            if args.peer.is_engine() {
                bad += functions::wrong(args, &load)?;
                continue;
            }
            let fixture = Fixture::new(args, &CHECKED)?;
            let variables = fixture.variables(&load)?;
            for (id, node) in load.nodes.iter().enumerate() {
                let operands: Vec<&Tensor> =
                    node.operands().map(|v| &variables[v as usize]).collect();
                let attrs = Attrs::new().with("id", id as i64);
                let call =
                    fixture.machine.prepare(CHECKED[node.reads().len()], &operands, attrs)?;
                call.on(&fixture.streams[id % fixture.streams.len()])?;
            }
            for (variable, expected) in variables.iter().zip(&expected) {
                let bytes = variable.read()?;
                let bytes = bytes.try_into().ok().context("a variable is one word")?;
                bad += u32::from(u64::from_ne_bytes(bytes) != *expected);
            }
        }
    }
    Ok(row(args, "verify", 0.0, 0.0, f64::from(bad), "wrong variables"))
}

/// Measures a stencil whose instructions compute for a given time.
fn stencil(args: &EngineArgs) -> Result<Vec<Row>> {
    let load = workload("stencil", args.count.min(1_000) as usize, args.width)?;
    let (total, push, _) = stream(args, &load, &GRAIN)?;
    let name = format!("stencil_w{}_g{}", args.width, args.grain);
    let extra = args.grain * 1e3 / total;
    Ok(vec![row(args, &name, total, push, extra, "work_ns/wall_ns per task")])
}

/// Measures costs that must not grow with more instructions, more streams, or more live tensors.
fn flat(args: &EngineArgs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |name: String, load: &Workload, args: &EngineArgs| -> Result<()> {
        let (total, push, _) = stream(args, load, &READS)?;
        rows.push(row(args, &name, total, push, 0.0, ""));
        Ok(())
    };
    for count in [100_000, 1_000_000, 10_000_000] {
        let args = EngineArgs { rounds: args.rounds.min(3), count, ..args.clone() };
        add(format!("flat_n{count}"), &workload("random", count as usize, 1)?, &args)?;
    }
    for streams in [1, 4, 16, 64] {
        let args = EngineArgs { streams, ..args.clone() };
        add(format!("flat_streams{streams}"), &workload("indep", args.count as usize, 1)?, &args)?;
    }
    for (live, touched) in [(1_000, 1_000), (1_000_000, 1_000), (1_000_000, 1_000_000)] {
        let load = Workload::touching(args.count as usize, live, touched);
        add(format!("flat_live{live}_touched{touched}"), &load, args)?;
    }
    Ok(rows)
}

/// Measures the processor time of a machine that is idle for five seconds, on eight streams that
/// were used before.
fn idle(args: &EngineArgs) -> Result<Vec<Row>> {
    let args = EngineArgs { streams: 8, ..args.clone() };
    let fixture = Fixture::new(&args, &READS)?;
    let load = workload("indep", 1_000, 1)?;
    let on = fixture.look_up(&load, &READS)?;
    fixture.round(&load, &on)?;
    let (start, before) = (Instant::now(), processor_time()?);
    std::thread::sleep(Duration::from_secs(5));
    let share = (processor_time()? - before) / start.elapsed().as_secs_f64();
    Ok(vec![row(&args, "idle", 0.0, 0.0, share * 100.0, "% of one core")])
}

/// Returns the processor time of the process in seconds.
fn processor_time() -> Result<f64> {
    let mut total = 0.0;
    for task in std::fs::read_dir("/proc/self/task").context("no list of threads")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let ran = text.split_whitespace().next().context("no processor time")?;
        total += ran.parse::<f64>()? / 1e9;
    }
    Ok(total)
}

/// Makes, computes and releases tensors, ten million times unless `--count` asks for more, on a
/// machine with the default configuration. Gives the time, and the growth of the process since the
/// first hundred thousand.
fn endless(args: &EngineArgs) -> Result<Vec<Row>> {
    const FIRST: u32 = 100_000;
    let count = args.count.max(10_000_000);
    let machine = Machine::new(MachineConfig::default())?;
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    let spec = TensorSpec::contiguous(DType::F32, &[256])?;
    let x = machine.upload(&stream, spec, vec![0; 1024])?;
    let (mut start, mut before, mut most) = (Instant::now(), 0.0, 0.0f64);
    for k in 0..count {
        drop(machine.call("relu", &[&x]).on(&stream)?);
        if k == FIRST {
            (start, before) = (Instant::now(), resident()?);
        } else if k % FIRST == 0 {
            most = most.max(resident()? - before);
        }
    }
    let ns_per_op = start.elapsed().as_nanos() as f64 / f64::from(count - FIRST);
    machine.synchronize()?;
    let args = EngineArgs { count, ..args.clone() };
    Ok(vec![row(&args, "endless", ns_per_op, ns_per_op, most / 1048576.0, "MiB more at most")])
}
