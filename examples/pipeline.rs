//! A pipeline of copy, compute and copy on three streams of a simulated device, and its timeline.
//!
//! docs/streams.md quotes this program and shows its output.

use std::sync::Arc;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::sim::{CommandKind, Completion, SimBackend, SimConfig, SimControl};
use millstream::{
    DType, DeviceId, DriverKind, Event, Machine, MachineConfig, Result, Stream, StreamKey,
    StreamType, Tensor, TensorSpec, with_stream,
};

/// The number of chunks of the data.
const CHUNKS: usize = 4;

/// The stages of each chunk, in order.
const STAGES: [&str; 3] = ["copy in", "compute", "copy out"];

/// The three streams, and the work submitted to them.
struct Pipeline {
    streams: [Stream; 3],
    /// For each chunk, an event behind each stage.
    marks: Vec<[Event; 3]>,
    results: Vec<Tensor>,
}

/// Submits the work of all chunks. The program states no order: the machine derives the waits.
fn submit(machine: &Machine, chunks: &[Tensor]) -> Result<Pipeline> {
    let device = DeviceId::sim(0);
    let copy_in = machine.stream(&StreamKey::new(device.clone(), StreamType::HOST2DEVICE, 0))?;
    let compute = machine.create_stream(&device)?;
    let copy_out = machine.stream(&StreamKey::new(device, StreamType::DEVICE2HOST, 0))?;
    let run = |op, input: &Tensor, on: &Stream| -> Result<(Tensor, Event)> {
        with_stream(on, || {
            let made = machine.call(op, &[input]).run()?.remove(0);
            Ok((made, machine.current_stream()?.record_event()?))
        })
    };
    let (mut marks, mut results) = (Vec::new(), Vec::new());
    for chunk in chunks {
        let (there, copied_in) = run("copy", chunk, &copy_in)?;
        let (positive, computed) = run("relu", &there, &compute)?;
        let (back, copied_out) = run("copy", &positive, &copy_out)?;
        marks.push([copied_in, computed, copied_out]);
        results.push(back);
    }
    Ok(Pipeline { streams: [copy_in, compute, copy_out], marks, results })
}

/// Lets every stream complete one piece of work that can run now. Records and waits take no time.
fn tick(device: &SimControl) -> Result<()> {
    let next = |control: bool| {
        let streams = device.streams();
        let heads = streams.iter().filter_map(|s| s.commands.first().map(|c| (s.id, *c)));
        let wanted = heads.filter(|(_, c)| c.runnable && (c.kind != CommandKind::Work) == control);
        wanted.map(|(id, _)| id).collect::<Vec<_>>()
    };
    for stream in next(false) {
        device.step(stream)?;
    }
    loop {
        let controls = next(true);
        if controls.is_empty() {
            return Ok(());
        }
        for stream in controls {
            device.step(stream)?;
        }
    }
}

/// Steps the device through the pipeline. Returns its timeline as text, and the results.
fn watch(
    machine: &Machine,
    device: &SimControl,
    chunks: &[Tensor],
) -> Result<(String, Vec<Tensor>)> {
    let pipeline = submit(machine, chunks)?;

    let mut timeline = String::from("tick  stream                completed\n");
    let mut chart = STAGES.map(|name| format!("{name:8} |"));
    let mut done = [[false; 3]; CHUNKS];
    // A chunk enters with every tick, and the last one leaves two ticks later.
    for now in 0..CHUNKS + 2 {
        tick(device)?;
        for (stage, line) in chart.iter_mut().enumerate() {
            let ended = |k: &usize| !done[*k][stage] && pipeline.marks[*k][stage].query();
            let Some(k) = (0..CHUNKS).find(ended) else {
                line.push_str("  ");
                continue;
            };
            done[k][stage] = true;
            let (stream, name) = (pipeline.streams[stage].key().to_string(), STAGES[stage]);
            timeline += &format!("{now:4}  {stream:20}  {name} of chunk {k}\n");
            *line += &format!(" {k}");
        }
    }
    for line in chart {
        timeline += line.trim_end();
        timeline.push('\n');
    }
    Ok((timeline, pipeline.results))
}

/// Runs the pipeline. Returns its timeline as text, and the results.
///
/// # Errors
/// None is expected.
pub(crate) fn run() -> Result<(String, Vec<f32>)> {
    // The device runs commands when they are stepped, so the timeline is always the same.
    let sim = SimBackend::new(SimConfig { completion: Completion::ByHand, ..SimConfig::default() });
    let device = sim.control();
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    devices.register(Arc::new(sim));
    let devices = Arc::new(devices);
    let config = MachineConfig::default().driver(DriverKind::Inline).devices(devices);
    let machine = Machine::new(config)?;

    let spec = TensorSpec::contiguous(DType::F32, &[2])?;
    let chunk = |k: usize| {
        let values = [k as f32 + 1.0, -1.0].map(f32::to_ne_bytes).concat();
        machine.upload(&machine.current_stream()?, spec.clone(), values)
    };
    let chunks: Vec<Tensor> = (0..CHUNKS).map(chunk).collect::<Result<_>>()?;
    let watched = watch(&machine, &device, &chunks);
    // From here on the device completes its commands in issue order, also after an error.
    device.switch(Completion::IssueOrder);
    let (timeline, tensors) = watched?;
    let mut results = Vec::new();
    for tensor in &tensors {
        let bytes = tensor.read()?;
        let elements = bytes.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]]));
        results.extend(elements);
    }
    Ok((timeline, results))
}

fn main() -> Result<()> {
    let (timeline, results) = run()?;
    print!("{timeline}");
    println!("{results:?}");
    Ok(())
}
