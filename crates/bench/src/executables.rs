//! `bench replay --executables N`: executables that are made, launched once and dropped.
//!
//! Each prints a row for every tenth of them: the medians of the time to record, prove and compile
//! one, of its launch, and of its drop, and the resident memory of the process. None may grow with
//! the number of executables before. Each has two calls on two workers, private memory, an input
//! and an output; it is dropped while it runs.

use std::time::Instant;

use anyhow::Result;
use millstream::types::StreamId;
use millstream::{DType, DeviceId, Executable, Machine, MachineConfig, StreamKey, TensorSpec};
use serde::Serialize;

use super::measure::resident;
use super::quantile;

/// A tenth of the executables.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Tenth {
    test: &'static str,
    /// How many executables the machine has made so far.
    made: u64,
    make_ns: f64,
    launch_ns: f64,
    drop_ns: f64,
    resident_mib: f64,
}

/// Compiles `y` = relu(x) + x on two streams.
fn compiled(machine: &Machine, spec: &TensorSpec) -> Result<Executable> {
    let recorded = machine.record(|r| {
        let x = r.input("x", spec.clone())?;
        let [a, b]: [millstream::Result<StreamId>; 2] =
            [0, 1].map(|k| r.stream(&StreamKey::compute(DeviceId::cpu(0), k)));
        let t = r.call("relu", &[x]).on(a?)?[0];
        let y = r.call("add", &[t, x]).on(b?)?[0];
        r.output("y", &y)
    });
    Ok(recorded?.compile()?)
}

/// How many executables may run at the same time, so that the resident memory does not depend on
/// how far the program has run ahead.
const AHEAD: u64 = 64;

/// Makes, launches and drops so many executables. Calls `each` with every tenth.
pub(super) fn executables(count: u64, mut each: impl FnMut(Tenth) -> Result<()>) -> Result<()> {
    let machine = Machine::new(MachineConfig::default().host_workers(2))?;
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    let spec = TensorSpec::contiguous(DType::F32, &[256])?;
    let x = machine.upload(&stream, spec.clone(), vec![0; 1024])?;
    let tenth = count.div_ceil(10).max(1);
    let ns = |start: Instant| start.elapsed().as_nanos() as f64;
    // The times of a tenth, in memory that is touched before the first one.
    let mut times = [(); 3].map(|()| vec![0.0; tenth as usize]);
    let mut made = 0;
    while made < count {
        let of_this = tenth.min(count - made);
        times.iter_mut().for_each(Vec::clear);
        let [make, launch, drops] = &mut times;
        for k in 0..of_this {
            if k % AHEAD == 0 {
                machine.synchronize()?;
            }
            let start = Instant::now();
            let step = compiled(&machine, &spec)?;
            make.push(ns(start));
            let start = Instant::now();
            let launched = step.launch().input("x", &x).run()?;
            launch.push(ns(start));
            let start = Instant::now();
            drop((step, launched));
            drops.push(ns(start));
        }
        made += of_this;
        machine.synchronize()?;
        let [make_ns, launch_ns, drop_ns] = [make, launch, drops].map(|times| quantile(times, 0.5));
        let resident_mib = resident()? / f64::from(1 << 20);
        each(Tenth { test: "executables", made, make_ns, launch_ns, drop_ns, resident_mib })?;
    }
    Ok(())
}
