//! What stands beside the times of a run: the rates that the computer reaches, PyTorch's times.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use millstream_profile::summary::{bare_name, ops_where};
use millstream_profile::work::Rates;
use millstream_timelines::{Options, read};
use millstream_types::{DType, Result};
use millstream_vm::{DriverKind, Machine, MachineConfig, Tensor};

use crate::profile::trace_beside;

/// A product that takes longer is the last one that is measured.
const LONG: Duration = Duration::from_millis(10);

/// The elements of the copied tensor, which no cache holds: 64 MiB of f32.
const COPIED: usize = 16 << 20;

/// Measures the rates of products and of copies, by the kernels of a run and with as many threads.
pub(super) fn rates(config: &MachineConfig) -> Result<Rates> {
    let machine = Machine::new(config.clone().driver(DriverKind::Inline).watchdog(None))?;
    let best = |work: &dyn Fn() -> Result<Tensor>| -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let start = Instant::now();
            work()?.synchronize()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(best)
    };
    let mut gflop_s: f64 = 0.0;
    for size in [64, 128, 256, 512, 1024] {
        let x = Tensor::full((size, size), 0.5f32, &machine)?;
        let seconds = best(&|| x.matmul(&x))?;
        gflop_s = gflop_s.max(2.0 * (size as f64).powi(3) / seconds / 1e9);
        if seconds > LONG.as_secs_f64() {
            break;
        }
    }
    let x = Tensor::zeros(COPIED, DType::F32, &machine)?;
    let seconds = best(&|| x.copy())?;
    Ok(Rates { gflop_s, gb_s: 8.0 * COPIED as f64 / seconds / 1e9 })
}

/// Returns the time of PyTorch's calls of each op by the timeline that the recorder wrote beside a
/// trace. That of a CUDA program holds times of launches, which are not compared.
pub(super) fn recorded(trace: &Path) -> BTreeMap<String, u64> {
    let timeline = trace.with_file_name("timeline.json.gz");
    let options = Options { trace: trace_beside(&timeline), ..Options::default() };
    let Ok(read) = read(&timeline, &options) else { return BTreeMap::new() };
    let profile = read.profile;
    if !ops_where(&profile, |stream| !stream.thread).is_empty() {
        return BTreeMap::new();
    }
    let mut all = BTreeMap::new();
    for op in ops_where(&profile, |stream| stream.thread) {
        let name = match bare_name(&op.name) {
            "mm" | "bmm" | "mv" | "dot" => "matmul",
            name => name,
        };
        *all.entry(name.to_owned()).or_default() += op.total;
    }
    all
}
