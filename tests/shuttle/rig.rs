//! Exploration of a program's schedules, and fixtures of the programs.

use std::env::var;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::{DType, DeviceId, TensorSpec};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

use crate::{DriverKind, Machine, MachineConfig, Stream, Tensor};

/// Longer than any schedule takes: no time-out expires.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) const CPU: DeviceId = DeviceId::cpu(0);

/// The number of schedules of a program, and that where all cases are tried, unless
/// `MILLSTREAM_SCHEDULES` says otherwise. The rarest of the mistakes in `tests/traps` shows within
/// 5,000 and not within 1,000: the traps and `cargo xtask ci --long` run that many and more.
const SCHEDULES: [usize; 2] = [500, 1_000];

/// How often a PCT schedule changes priorities, at most.
const CHANGES: usize = 4;

/// Runs `program` under many schedules.
#[track_caller]
pub(crate) fn explore(program: impl Fn() + Send + Sync + 'static) {
    if let Ok(schedule) = var("MILLSTREAM_REPLAY") {
        return shuttle::replay(program, &schedule);
    }
    let all = var("MILLSTREAM_TESTS").is_ok_and(|tests| tests == "all");
    let wanted = var("MILLSTREAM_SCHEDULES").ok().and_then(|n| n.parse().ok());
    let count = wanted.unwrap_or(SCHEDULES[usize::from(all)]);
    let mut config = Config::new();
    // Kernels and the builder run on these stacks.
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    let program = Arc::new(program);
    let own = program.clone();
    let random = RandomScheduler::new_from_seed(1, count - count / 2);
    Runner::new(random, config.clone()).run(move || own());
    Runner::new(PctScheduler::new_from_seed(1, CHANGES, count / 2), config).run(move || program());
}

/// Returns the configuration of a machine of up to three host workers.
pub(crate) fn config() -> MachineConfig {
    MachineConfig::default()
        .driver(DriverKind::Threaded)
        .host_workers(3)
        .threads(1)
        .annotations(false)
}

pub(crate) fn machine() -> Machine {
    Machine::new(config()).unwrap()
}

pub(crate) fn cpu(machine: &Machine, index: u32) -> Stream {
    machine.compute(&CPU, index).unwrap()
}

pub(crate) fn spec(len: usize) -> TensorSpec {
    TensorSpec::contiguous(DType::I64, &[len]).unwrap()
}

pub(crate) fn upload(machine: &Machine, stream: &Stream, value: i64) -> Tensor {
    machine.upload(stream, spec(1), value.to_ne_bytes().to_vec()).unwrap()
}

pub(crate) fn call(machine: &Machine, op: &str, inputs: &[&Tensor], on: &Stream) -> Tensor {
    machine.call(op, inputs).on(on).unwrap().remove(0)
}

pub(crate) fn number(bytes: Vec<u8>) -> i64 {
    i64::from_ne_bytes(bytes.try_into().unwrap())
}

pub(crate) fn read(tensor: &Tensor) -> i64 {
    number(tensor.read().unwrap())
}
