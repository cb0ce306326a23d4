//! A type of stream that Millstream does not have: `background`, for kernels on a worker of their
//! own, so that long work does not delay the host's other streams.
//!
//! One policy states all facts about the type: its name, the work that it accepts, its worker. The
//! type is then used like the built-in ones: through the API, in a trace, in the list of
//! instructions that the trace becomes, and in the verifier, which is given the list's text alone.

use std::sync::Arc;

use anyhow::{Result, ensure};
use millstream::instructions::text::{parse_list, print_list};
use millstream::stream_policy::{StreamPolicy, WorkerGroup};
use millstream::types::{WorkKind, WorkSet};
use millstream::{DType, DeviceId, Machine, MachineConfig, StreamKey, StreamType, TensorSpec};
use millstream_runner::{RunOptions, RunReport};
use millstream_trace::{LoadOptions, load_bytes};

/// The name is checked when this is compiled.
const BACKGROUND: StreamType = StreamType::new("background");

/// The policy of `background` streams.
struct Background;

impl StreamPolicy for Background {
    fn stream_type(&self) -> StreamType {
        BACKGROUND
    }

    fn serves(&self, device: &DeviceId) -> bool {
        device.kind() == "cpu"
    }

    /// Kernels alone: copies between devices, barriers and regions have streams of their own.
    fn accepts(&self) -> WorkSet {
        WorkSet::of(&[WorkKind::Compute])
    }

    fn worker_group(&self, _: &StreamKey) -> WorkerGroup {
        WorkerGroup::Dedicated(BACKGROUND)
    }
}

/// A trace with a stream of the type.
const TRACE: &str = r#"{
  "millstream": 1,
  "name": "background",
  "streams": { "main": {}, "side": { "type": "background" } },
  "tensors": { "x": { "dtype": "f32", "values": [1, -2, 3] } },
  "program": [
    { "op": "relu", "in": "x", "out": "y", "stream": "side" },
    { "op": "add", "in": ["x", "y"], "out": "z", "stream": "main" }
  ],
  "outputs": { "z": { "dtype": "f32", "values": [2, -2, 6] } }
}"#;

/// Calls an op on a `background` stream. Returns the result and the number of workers.
///
/// # Errors
/// None is expected.
pub(crate) fn call() -> Result<(Vec<f32>, usize)> {
    let policies: Vec<Arc<dyn StreamPolicy>> = vec![Arc::new(Background)];
    let machine = Machine::new(MachineConfig::default().policies(policies))?;
    let main = machine.compute(&DeviceId::cpu(0), 0)?;
    let side = machine.stream(&StreamKey::new(DeviceId::cpu(0), BACKGROUND, 0))?;
    let data = [1.0f32, -2.0, 3.0].map(f32::to_ne_bytes).concat();
    let x = machine.upload(&main, TensorSpec::contiguous(DType::F32, &[3])?, data)?;
    let y = machine.call("relu", &[&x]).on(&side)?.remove(0);
    let bytes = y.read()?;
    let y = bytes.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect();
    Ok((y, machine.worker_threads()?))
}

/// Runs a trace of this text where `background` streams are known.
///
/// # Errors
/// The trace is wrong.
pub(crate) fn run(text: &str) -> Result<RunReport> {
    let program = load_bytes("background.json", text.as_bytes(), None, &LoadOptions::default())?;
    let policies: Vec<Arc<dyn StreamPolicy>> = vec![Arc::new(Background)];
    let options = RunOptions::default().machine(|config| config.policies(policies)).emit(true);
    Ok(millstream_runner::run(Arc::new(program), &options)?)
}

/// Runs the trace, and returns the report and the text of the list that was run.
///
/// # Errors
/// None is expected.
pub(crate) fn from_trace() -> Result<(RunReport, String)> {
    let report = run(TRACE)?;
    let list = report.list.as_ref().map(print_list).unwrap_or_default();
    Ok((report, list))
}

/// Verifies a list of which only the text is known.
///
/// # Errors
/// The list is not proven.
pub(crate) fn verify(text: &str) -> Result<()> {
    let verdict = millstream_verify::verify(&parse_list(text)?);
    ensure!(verdict.proven(), "{:?}", verdict.violations);
    Ok(())
}

fn main() -> Result<()> {
    let (result, workers) = call()?;
    println!("relu on a background stream: {result:?}; workers: {workers}");
    let (report, list) = from_trace()?;
    println!("the trace is {}", if report.ok() { "right" } else { "wrong" });
    print!("{list}");
    verify(&list)?;
    println!("proven");
    Ok(())
}
