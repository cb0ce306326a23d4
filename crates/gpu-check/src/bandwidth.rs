//! Measures elementwise ops, a reduction and softmax on a GiB, against the device's own copy.

use std::time::Instant;

use anyhow::Result;

use millstream::ep::cuda::CompletionMode;
use millstream::{Attrs, DType, Stream, Tensor, TensorSpec};

use super::Setting;
use super::fixture::Fixture;
use super::section::{LACKS, Section, median};

/// The least share of the copy's bandwidth.
const TARGET: f64 = 0.85;

/// Rows of 1024 floats, on a GPU and on the stand-in.
const ROWS: [usize; 2] = [1 << 18, 4];

const COLUMNS: usize = 1024;

/// The number of calls in a round.
const CALLS: usize = 10;

const ROUNDS: usize = 3;

/// An op, the number of its tensors that it reads, and how often it moves the bytes of a tensor in
/// total.
const OPS: &[(&str, usize, f64)] =
    &[("relu", 1, 2.0), ("add", 2, 3.0), ("sum", 1, 1.0), ("_softmax", 1, 2.0)];

pub(super) fn measure(setting: &Setting, section: &mut Section) -> Result<()> {
    let rows = ROWS[usize::from(!setting.real || setting.quick)];
    let fixture = Fixture::new(setting.device, CompletionMode::default(), |_| ())?;
    let stream = fixture.compute(0)?;
    let spec = TensorSpec::contiguous(DType::F32, &[rows, COLUMNS])?;
    let bytes = spec.span_bytes() as f64;
    let tensor = || fixture.machine.empty(&stream, spec.clone());
    let (x, y) = (tensor()?, tensor()?);
    let copied = 2.0 * bytes / seconds(&fixture, "copy", &[&x], Some(&y), &stream)?;
    section.measure(
        setting.real,
        "the device's own copy",
        (copied / 1e9, "GB/s"),
        None,
        format!("of {bytes} bytes, read and written; median of {ROUNDS} times {CALLS}"),
    );
    for &(op, inputs, moves) in OPS {
        let what = format!("{op} on {bytes} bytes");
        if section.is_over(|| format!("{op} and what follows it")) {
            break;
        }
        match seconds(&fixture, op, &[&x, &y][..inputs], None, &stream) {
            Ok(took) => {
                let share = moves * bytes / took / copied;
                section.passed += 1;
                section.measure(
                    setting.real,
                    what,
                    (share, ""),
                    Some(TARGET),
                    "of the copy's bandwidth",
                );
            }
            Err(error) => {
                let why = format!("{error:#}");
                if !LACKS.iter().any(|lacks| why.contains(lacks)) {
                    section.failed.push(format!("{what}: {why}"));
                }
                section.unmeasured(what, why);
                fixture.machine.clear_failures();
            }
        }
    }
    Ok(())
}

/// Returns the seconds of a call.
fn seconds(
    fixture: &Fixture,
    op: &str,
    inputs: &[&Tensor],
    into: Option<&Tensor>,
    stream: &Stream,
) -> Result<f64> {
    let mut attrs = Attrs::new();
    if op == "_softmax" {
        attrs.set("dim", -1i64);
        attrs.set("half_to_float", false);
    }
    let mut times = Vec::new();
    for _ in 0..=ROUNDS {
        let start = Instant::now();
        for _ in 0..CALLS {
            let call = fixture.machine.call(op, inputs).attrs(attrs.clone());
            match into {
                Some(to) => call.out(&[to]).on(stream)?,
                None => call.on(stream)?,
            };
        }
        fixture.machine.synchronize()?;
        times.push(start.elapsed().as_secs_f64() / CALLS as f64);
    }
    // The first round warms up.
    Ok(median(&mut times[1..]))
}
