//! What it costs on this computer that a worker goes on after another worker's call.

use std::sync::OnceLock;

use millstream_instructions::Body;
use millstream_runtime::driver::DriverKind;
use millstream_runtime::profile::RunTimes;
use millstream_types::{DType, DeviceId, Point, Result, StreamKey, StreamType};

use crate::handle::Tensor;

use super::{Machine, MachineConfig};

/// The elements of a call: so few that the worker that waits for it still polls when it ends.
const NUMEL: usize = 1 << 12;

/// The calls of the measurement.
const CALLS: usize = 129;

/// Returns the mean time from the end of a call to the beginning of the next one, on another
/// worker, in nanoseconds. A process measures it once, in about a millisecond.
pub(super) fn handoff() -> Option<u64> {
    static MEASURED: OnceLock<Option<u64>> = OnceLock::new();
    // Without memory or threads for it the cost is not known, which is no failure of the run.
    *MEASURED.get_or_init(|| measured().ok().flatten())
}

/// Runs calls that depend on one another, in turns on the streams of two workers.
fn measured() -> Result<Option<u64>> {
    let config = MachineConfig::default().driver(DriverKind::Threaded).threads(1).host_workers(2);
    let machine = Machine::new(config)?;
    let stream =
        |index| machine.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::COMPUTE, index));
    let streams = [stream(0)?, stream(1)?];
    let x = Tensor::zeros(NUMEL, DType::F32, &streams[0])?;
    machine.synchronize()?;
    let mut recording = machine.profile(&[("x", &x)])?;
    for k in 0..CALLS {
        machine.call("add_", &[&x]).attr("other", 1.0).on(&streams[k % 2])?;
    }
    let times = recording.end(|machine| machine.finish_recording())?;
    Ok(times.and_then(|times| between_calls(&times)))
}

/// Returns the mean, not the median: threads that the system had stopped are part of what a program
/// takes.
fn between_calls(times: &RunTimes) -> Option<u64> {
    let of = |at: Point| {
        let all = &times.streams.get(at.stream.index())?.instructions;
        let found = all.binary_search_by_key(&at.seq, |one| one.seq).ok()?;
        Some((all[found].start, all[found].end))
    };
    let list = times.list.instructions.iter();
    let calls = list.filter(|one| matches!(one.body, Body::OpCall { .. }));
    let calls: Vec<(u64, u64)> = calls.filter_map(|one| of(one.body.at()?)).collect();
    let gaps = calls.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].1));
    gaps.sum::<u64>().checked_div(calls.len().saturating_sub(1) as u64)
}
