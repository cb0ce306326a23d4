//! An allreduce beside matrix products, which do not depend on it.
//!
//! The ideal is the longer of the two alone. There are as many products as take about as long as
//! the allreduce.

use anyhow::Result;
use millstream::{DType, DeviceId, StreamKey, StreamType, Tensor};

use super::{Ranks, Row, row};
use crate::quantile;

/// The bytes of the allreduce.
const BYTES: usize = 4 << 20;

/// The rows and columns of the matrices.
const ROWS: usize = 256;

/// How often each of the two runs before, to find how many products there are.
const TRIALS: usize = 9;

/// Measures the overlap.
pub(super) fn run(ranks: &Ranks) -> Result<Row> {
    let machine = &ranks.machine;
    let ring = machine.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::CCL, 0))?;
    let compute = machine.compute(&DeviceId::cpu(0), 0)?;
    let sums = Tensor::zeros(BYTES / 4, DType::F32, &ring)?;
    let x = Tensor::ones((ROWS, ROWS), DType::F32, &compute)?;
    let reduce = || machine.call("allreduce_", &[&sums]).on(&ring).map(drop);
    let multiply = |count: usize| (0..count).try_for_each(|_| x.matmul(&x).map(drop));
    let median = |run: &dyn Fn() -> Result<()>| -> Result<f64> {
        let mut times = (0..TRIALS).map(|_| ranks.time(run)).collect::<Result<Vec<_>>>()?;
        Ok(quantile(&mut times, 0.5))
    };
    let done = |submitted: millstream::Result<()>| -> Result<()> {
        submitted?;
        Ok(machine.synchronize()?)
    };
    let (reduction, product) = (median(&|| done(reduce()))?, median(&|| done(multiply(1)))?);
    // All ranks have the same times, so the same count.
    let count = ((reduction / product).round() as usize).clamp(1, 10_000);
    let mut times = Vec::new();
    for _ in 0..ranks.rounds {
        let both = ranks.time(|| done(reduce().and_then(|()| multiply(count))))?;
        let ideal = ranks.time(|| done(reduce()))?;
        let ideal = ideal.max(ranks.time(|| done(multiply(count)))?);
        times.push((both, ideal));
    }
    let what = format!("allreduce_ beside {count} products of {ROWS} × {ROWS}");
    Ok(row(("overlap", what, BYTES as u64), ranks.ranks(), &times, None))
}
