//! The report of a run as JSON.

use std::collections::BTreeMap;

use millstream_instructions::planner::{ArenaUse, StreamUse};
use millstream_profile::{Profile, Spread, repeats};
use millstream_runner::MemoryReport;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::run::Ran;
use crate::show::values;

/// The report of a program, as it is written.
#[derive(Serialize)]
struct Report<'a> {
    trace: &'a str,
    ok: bool,
    /// The data that came neither from the trace nor from the files beside it.
    remarks: Vec<String>,
    outputs: Vec<Output>,
    instructions: BTreeMap<&'static str, u64>,
    waits: Waits,
    streams: Vec<String>,
    wall_ms: f64,
    reading_ms: f64,
    peak_bytes: u64,
    memory: Vec<Memory>,
    /// Left out if the run was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<&'a [Repeat]>,
}

/// Calls that the run repeats.
#[derive(Serialize)]
pub(crate) struct Repeat {
    calls: usize,
    rounds: usize,
    first: [u32; 2],
    from: String,
    to: String,
    depth: usize,
    around: usize,
    differing: Vec<Differing>,
}

/// A call whose arguments differ between rounds.
#[derive(Serialize)]
struct Differing {
    op: String,
    at: String,
    /// Those of the first round, and of the first one that differs.
    arguments: [String; 2],
}

/// Returns what a recorded run repeats.
pub(crate) fn repeats(profile: &Profile) -> Vec<Repeat> {
    let call = |k: u32| &profile.instructions[k as usize];
    let place = |k: u32| profile.place_of(call(k)).to_owned();
    let arguments = |k: u32| profile.arguments_of(call(k)).unwrap_or_default().to_owned();
    let differing = |[one, other]: [u32; 2]| Differing {
        op: profile.name_of(call(one)).to_owned(),
        at: place(one),
        arguments: [one, other].map(arguments),
    };
    let all = repeats::of(profile).into_iter().map(|repeat| Repeat {
        calls: repeat.calls,
        rounds: repeat.rounds,
        first: repeat.first,
        from: place(repeat.first[0]),
        to: place(repeat.first[1]),
        depth: repeat.depth,
        around: repeat.around,
        differing: repeat.differing.into_iter().map(differing).collect(),
    });
    all.collect()
}

/// The memory of a device, in bytes.
#[derive(Serialize)]
struct Memory {
    device: String,
    limit: Option<u64>,
    reserved: u64,
    reserved_peak: u64,
    #[serde(flatten)]
    share: Share,
    fragmentation: f64,
    steps: BTreeMap<&'static str, u64>,
    streams: BTreeMap<String, Share>,
}

/// The memory that a device, or one of its streams, has reserved.
#[derive(Serialize)]
struct Share {
    in_use: u64,
    peak: u64,
    cached: u64,
    pending: u64,
}

#[derive(Serialize)]
struct Output {
    name: String,
    /// Null if it could not be read, as the shape.
    dtype: Option<String>,
    shape: Option<Vec<usize>>,
    /// The elements in row-major order; left out if there are more than the options ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    elements: Option<Vec<Box<RawValue>>>,
    /// Null if nothing is expected, or if the error is not finite.
    max_abs: Option<f64>,
    max_rel: Option<f64>,
    ok: bool,
}

#[derive(Default, Serialize)]
struct Waits {
    needed: u64,
    emitted: u64,
    elided: u64,
}

/// Returns a program's report on one line. Counts and bytes are summed over ranks; a time is the
/// median of the slowest rank's in each run. Outputs of at most `elements` elements are written
/// with them.
pub(crate) fn line(ran: &Ran, elements: usize) -> anyhow::Result<String> {
    let ms = |spread: Option<Spread>| spread.map_or(0, |s| s.median) as f64 / 1e6;
    let mut all = Report {
        trace: &ran.trace,
        ok: ran.ok(),
        remarks: Vec::new(),
        outputs: Vec::new(),
        instructions: BTreeMap::new(),
        waits: Waits::default(),
        streams: Vec::new(),
        wall_ms: ms(ran.spread(|report| &report.walls)),
        reading_ms: ms(ran.spread(|report| &report.readings)),
        peak_bytes: 0,
        memory: Vec::new(),
        repeats: ran.repeats.as_deref(),
    };
    for (rank, report) in ran.ranks.iter().enumerate() {
        let remarks = report.imported.iter().flat_map(|i| i.diagnostics());
        all.remarks.extend(remarks.map(|r| ran.name(rank, &r)));
        for output in &report.outputs {
            let compared = output.comparison.as_ref().filter(|_| output.expected);
            all.outputs.push(Output {
                name: ran.name(rank, &output.name),
                dtype: output.spec.as_ref().map(|spec| spec.dtype.to_string()),
                shape: output.spec.as_ref().map(|spec| spec.shape().to_vec()),
                elements: output
                    .spec
                    .as_ref()
                    .and_then(|spec| values::as_json(&output.bytes, spec.dtype, elements)),
                max_abs: compared.map(|c| c.max_abs).filter(|e| e.is_finite()),
                max_rel: compared.map(|c| c.max_rel).filter(|e| e.is_finite()),
                ok: output.ok(),
            });
        }
        for (kind, count) in &report.instructions {
            *all.instructions.entry(kind.name()).or_default() += count;
        }
        let names = report.streams.iter().map(|s| ran.name(rank, &s.key.to_string()));
        all.streams.extend(names);
        all.waits.needed += report.waits.needed;
        all.waits.emitted += report.waits.emitted();
        all.waits.elided += report.waits.elided();
        all.peak_bytes += report.peak_bytes;
        for device in &report.memory {
            all.memory.push(memory(device, |name| ran.name(rank, name)));
        }
    }
    Ok(serde_json::to_string(&all)? + "\n")
}

fn memory(report: &MemoryReport, name: impl Fn(&str) -> String) -> Memory {
    let ArenaUse { device, limit, reserved, reserved_peak, .. } = &report.usage;
    let ArenaUse { in_use, peak, cached, pending, .. } = report.usage;
    let streams = report.usage.streams.iter().zip(&report.streams).map(|(used, key)| {
        let StreamUse { in_use, peak, cached, pending, .. } = *used;
        (key.to_string(), Share { in_use, peak, cached, pending })
    });
    Memory {
        device: name(&device.to_string()),
        limit: *limit,
        reserved: *reserved,
        reserved_peak: *reserved_peak,
        share: Share { in_use, peak, cached, pending },
        fragmentation: report.usage.fragmentation(),
        steps: report.usage.steps.named().into_iter().collect(),
        streams: streams.collect(),
    }
}
