//! Small programs as data, which a machine can run and the oracle can analyse.

use std::sync::Arc;

use millstream::types::origin::SourceFile;
use millstream::*;

use crate::machine::{bytes, f32_spec, floats};

/// The host's first compute stream. A case names streams by number.
pub const HOST: usize = 0;
/// The host's second compute stream.
pub const HOST1: usize = 1;
/// The host's third compute stream.
pub const HOST2: usize = 2;
/// The device's first compute stream.
pub const DEVICE: usize = 3;
/// The device's second compute stream.
pub const DEVICE1: usize = 4;
/// The device's third compute stream.
pub const DEVICE2: usize = 5;
/// The device's stream for copies from the host.
pub const IN: usize = 6;
/// The device's stream for copies to the host.
pub const OUT: usize = 7;
/// A pool of the host.
pub const POOL: usize = 8;
/// The compute stream of the device with the next index.
pub const NEIGHBOUR: usize = 9;
/// The stream of that device for copies from the host.
pub const NEIGHBOUR_IN: usize = 10;

/// The number of elements of every tensor that is no view.
const ELEMENTS: usize = 4;

/// One statement. Tensors are numbers; each is made once.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Makes a tensor with these elements.
    Upload(usize, usize, [f32; ELEMENTS]),
    /// Makes a tensor of unspecified content.
    Empty(usize, usize),
    /// `out = op(a, b)`, in a new tensor.
    Call(&'static str, usize, Option<usize>, usize, usize),
    /// `to = op(a)`, which overwrites all of `to`.
    Into(&'static str, usize, usize, usize),
    /// `a += b`.
    AddTo(usize, usize, usize),
    /// Fills a tensor with a value.
    Fill(usize, f64, usize),
    /// `view = a[from..to]`.
    Slice(usize, usize, i64, i64, usize),
    /// Runs a host function that adds 1 to each element.
    Access(usize),
    /// `out = f(f(f(f(f(f(a))))))` in a new tensor, where `f(x) = relu(x) + 2 x`: six launches of
    /// an executable on two streams of the device, each with other addresses. A device with graphs
    /// makes the calls of the first one, captures the next four, and updates a graph for the last.
    /// The executable is dropped before they have run.
    Launch(usize, usize),
    /// Records on one stream, and waits on another.
    Event(usize, usize),
    /// Releases a tensor.
    Drop(usize),
}

/// A program, and the tensors that are read at its end.
#[derive(Clone)]
pub struct Case {
    /// Its name in messages.
    pub name: &'static str,
    /// The statements, in order.
    pub steps: Vec<Step>,
    /// The tensors that are read at the end.
    pub outputs: Vec<usize>,
    /// The device besides the host.
    pub device: DeviceId,
    /// The memory of each device in bytes.
    pub memory: Option<u64>,
}

/// The state of a case on a machine.
#[derive(Default)]
pub struct Held {
    /// The tensors by number, while they live.
    pub tensors: Vec<Option<Tensor>>,
    /// For each step that was begun, whether it was emitted. The error is none if the step was
    /// not tried.
    pub emitted: Vec<Result<(), Option<Error>>>,
}

/// Returns the origin of a step, by which its failure is recognised.
pub fn origin_of(step: usize) -> Origin {
    Origin::Trace(Arc::new(SourceFile { name: "case".to_owned(), unit: "line" }), step as u32)
}

/// Returns the step of an origin.
pub fn step_of(origin: &Origin) -> usize {
    match origin {
        Origin::Trace(_, step) => *step as usize,
        other => panic!("the failure's origin {other} is no step"),
    }
}

fn stream(machine: &Machine, device: &DeviceId, number: usize) -> Result<Stream> {
    let copies = |ty| machine.stream(&StreamKey::new(device.clone(), ty, 0));
    let neighbour = || DeviceId::new(device.kind().to_owned(), device.index() + 1);
    match number {
        HOST..=HOST2 => machine.compute(&DeviceId::cpu(0), number as u32),
        DEVICE..=DEVICE2 => machine.compute(device, (number - DEVICE) as u32),
        IN => copies(StreamType::HOST2DEVICE),
        NEIGHBOUR => machine.compute(&neighbour()?, 0),
        NEIGHBOUR_IN => machine.stream(&StreamKey::new(neighbour()?, StreamType::HOST2DEVICE, 0)),
        POOL => machine
            .stream_with_mode(&StreamKey::compute(DeviceId::cpu(0), POOL as u32), StreamMode::Pool),
        _ => copies(StreamType::DEVICE2HOST),
    }
}

/// Compiles `y = relu(x) + 2 x`, a diamond over two streams of the device.
fn executable(machine: &Machine, device: &DeviceId) -> Result<Executable> {
    let recorded = machine.record(|r| {
        let x = r.input_on("x", f32_spec(&[ELEMENTS]), device)?;
        let first = r.stream(&StreamKey::compute(device.clone(), 0))?;
        let second = r.stream(&StreamKey::compute(device.clone(), 1))?;
        let positive = r.call("relu", &[x]).on(first)?[0];
        let twice = r.call("add", &[x, x]).on(second)?[0];
        let y = r.call("add", &[positive, twice]).on(first)?[0];
        r.output("y", &y)
    });
    recorded?.compile_as_is()
}

impl Step {
    /// Returns the tensors that the step needs.
    pub fn needs(&self) -> Vec<usize> {
        match *self {
            Step::Upload(..) | Step::Empty(..) | Step::Event(..) => vec![],
            Step::Call(_, a, b, ..) => std::iter::once(a).chain(b).collect(),
            Step::Into(_, a, to, _) => vec![a, to],
            Step::AddTo(a, b, _) => vec![a, b],
            Step::Fill(a, ..) | Step::Slice(a, ..) | Step::Access(a) => vec![a],
            Step::Launch(a, _) | Step::Drop(a) => vec![a],
        }
    }

    fn run(&self, machine: &Machine, device: &DeviceId, held: &mut Held) -> Result<()> {
        let s = |number| stream(machine, device, number);
        let t = |k: usize| held.tensors[k].as_ref().unwrap();
        let (made, tensor) = match *self {
            Step::Upload(out, on, values) => {
                let bytes = bytes(&values);
                (out, machine.upload(&s(on)?, f32_spec(&[ELEMENTS]), bytes)?)
            }
            Step::Empty(out, on) => {
                let bytes = f32_spec(&[ELEMENTS]).span_bytes() as u64;
                (out, machine.empty_in(&s(on)?, f32_spec(&[ELEMENTS]), bytes)?)
            }
            Step::Call(op, a, b, out, on) => {
                let inputs: Vec<&Tensor> = std::iter::once(a).chain(b).map(t).collect();
                (out, machine.call(op, &inputs).on(&s(on)?)?.remove(0))
            }
            Step::Into(op, a, to, on) => {
                machine.call(op, &[t(a)]).out(&[t(to)]).on(&s(on)?)?;
                return Ok(());
            }
            Step::AddTo(a, b, on) => {
                machine.call("add_", &[t(a), t(b)]).on(&s(on)?)?;
                return Ok(());
            }
            Step::Fill(a, value, on) => {
                let call = machine.call("fill", &[t(a)]).attr("value", value);
                call.on(&s(on)?)?;
                return Ok(());
            }
            Step::Slice(a, out, from, to, on) => {
                let call = machine.call("slice", &[t(a)]).attr("dim", 0);
                let call = call.attr("start", from).attr("end", to);
                (out, call.on(&s(on)?)?.remove(0))
            }
            Step::Access(a) => {
                t(a).access(Access::ReadWrite, |blob| {
                    let more: Vec<f32> =
                        floats(&blob.to_bytes()?).iter().map(|v| v + 1.0).collect();
                    blob.write_bytes(&bytes(&more))
                })?;
                return Ok(());
            }
            Step::Launch(a, out) => {
                let step = executable(machine, device)?;
                let (mut last, mut earlier) = (t(a).clone(), Vec::new());
                for _ in 0..6 {
                    let next = step.launch().input("x", &last).run()?.output("y")?.clone();
                    earlier.push(std::mem::replace(&mut last, next));
                }
                (out, last)
            }
            Step::Event(from, to) => {
                let event = s(from)?.record_event()?;
                return s(to)?.wait_event(&event);
            }
            Step::Drop(a) => {
                held.tensors[a] = None;
                return Ok(());
            }
        };
        held.tensors[made] = Some(tensor);
        Ok(())
    }
}

impl Case {
    /// Submits the steps that `wanted` admits and whose tensors exist. Calls `before` ahead of each
    /// step.
    pub fn submit(
        &self,
        machine: &Machine,
        held: &mut Held,
        wanted: impl Fn(usize) -> bool,
        mut before: impl FnMut(usize),
    ) {
        held.tensors.resize(self.steps.len() + 1, None);
        for (k, step) in self.steps.iter().enumerate() {
            before(k);
            let able = wanted(k) && step.needs().iter().all(|&t| held.tensors[t].is_some());
            let done = match able {
                true => with_origin(&origin_of(k), || step.run(machine, &self.device, held))
                    .map_err(Some),
                false => Err(None),
            };
            held.emitted.push(done);
        }
    }

    /// Reads an output; none if it was never made.
    pub fn read(&self, held: &Held, output: usize) -> Option<Result<Vec<f32>>> {
        let tensor = held.tensors[output].as_ref()?;
        Some(
            with_origin(&origin_of(self.steps.len() + output), || tensor.read())
                .map(|b| floats(&b)),
        )
    }
}

/// Returns the cases on a device. If the host cannot access its memory, no host function gets its
/// tensors.
pub fn all(device: &DeviceId, host_memory: bool) -> Vec<Case> {
    let x = [1.0, -2.0, 3.0, -4.0];
    let access = |tensor, on| match host_memory {
        true => Step::Access(tensor),
        false => Step::AddTo(tensor, tensor, on),
    };
    let of = |name, steps: &[Step], outputs: &[usize]| Case {
        name,
        steps: steps.to_vec(),
        outputs: outputs.to_vec(),
        device: device.clone(),
        memory: None,
    };
    vec![
        of(
            "a chain",
            &[
                Step::Upload(0, DEVICE, x),
                Step::Call("relu", 0, None, 1, DEVICE),
                Step::AddTo(1, 0, DEVICE),
                Step::Call("add", 1, Some(0), 2, DEVICE),
                Step::Upload(3, HOST, x),
                Step::Call("relu", 3, None, 4, HOST),
            ],
            &[0, 1, 2, 4],
        ),
        of(
            "a diamond over three streams, to the device and back",
            &[
                Step::Upload(0, HOST, x),
                Step::Empty(1, DEVICE),
                Step::Into("copy", 0, 1, IN),
                Step::Call("relu", 1, None, 2, DEVICE1),
                Step::Call("add", 1, Some(1), 3, DEVICE2),
                Step::Call("add", 2, Some(3), 4, DEVICE),
                Step::Empty(5, HOST),
                Step::Into("copy", 4, 5, OUT),
                Step::Call("relu", 5, None, 6, HOST1),
                Step::Fill(3, 5.0, DEVICE1),
            ],
            &[0, 2, 3, 4, 6],
        ),
        of(
            "views and changes in place",
            &[
                Step::Upload(0, DEVICE, x),
                Step::Slice(0, 1, 0, 2, DEVICE),
                Step::Slice(0, 2, 2, 4, DEVICE1),
                Step::AddTo(1, 2, DEVICE1),
                Step::Fill(2, 9.0, DEVICE),
                Step::Call("relu", 0, None, 3, DEVICE2),
                Step::Fill(0, 2.0, DEVICE1),
                Step::Call("add", 1, Some(2), 4, DEVICE),
            ],
            &[0, 1, 3, 4],
        ),
        of(
            "manual events and a host function",
            &[
                Step::Upload(0, DEVICE, x),
                Step::Call("relu", 0, None, 1, DEVICE),
                Step::Event(DEVICE, DEVICE1),
                Step::Call("add", 0, Some(0), 2, DEVICE1),
                access(2, DEVICE1),
                Step::Event(DEVICE1, HOST),
                Step::Upload(3, HOST, x),
                Step::Access(3),
                Step::Call("relu", 3, None, 4, HOST1),
                Step::Event(HOST1, DEVICE),
                Step::AddTo(1, 2, DEVICE),
            ],
            &[0, 1, 2, 4],
        ),
        of(
            "a pool between two streams",
            &[
                Step::Upload(0, POOL, x),
                Step::Upload(1, POOL, x),
                Step::Call("relu", 0, None, 2, POOL),
                Step::Call("add", 0, Some(1), 3, POOL),
                Step::AddTo(1, 0, POOL),
                Step::Call("add", 2, Some(1), 4, HOST1),
                Step::AddTo(0, 4, POOL),
                Step::Access(0),
                Step::Drop(3),
                Step::Empty(5, DEVICE),
                Step::Into("copy", 0, 5, IN),
                Step::Event(POOL, HOST1),
                Step::Fill(2, 3.0, HOST1),
                Step::AddTo(4, 2, POOL),
            ],
            &[0, 1, 2, 4, 5],
        ),
        of(
            "to another device and back",
            &[
                Step::Upload(0, DEVICE, x),
                Step::Call("relu", 0, None, 1, DEVICE),
                Step::Empty(2, NEIGHBOUR),
                Step::Into("copy", 1, 2, NEIGHBOUR_IN),
                Step::Call("add", 2, Some(2), 3, NEIGHBOUR),
                // A write after the other device's read.
                Step::Fill(1, 7.0, DEVICE),
                Step::Empty(4, DEVICE),
                Step::Into("copy", 3, 4, IN),
                Step::Call("add", 4, Some(1), 5, DEVICE1),
                Step::Event(DEVICE1, NEIGHBOUR),
                Step::AddTo(2, 3, NEIGHBOUR),
            ],
            &[0, 1, 2, 3, 5],
        ),
        of(
            "launches of an executable among calls",
            &[
                Step::Upload(0, DEVICE, x),
                Step::Call("relu", 0, None, 1, DEVICE1),
                Step::Launch(1, 2),
                Step::AddTo(1, 2, DEVICE2),
                Step::Launch(0, 3),
                Step::Drop(0),
                Step::Call("add", 2, Some(3), 4, DEVICE1),
            ],
            &[1, 2, 3, 4],
        ),
        Case {
            // Five blocks of the planner's granularity; the staging of an upload takes one on the
            // host.
            memory: Some(5 * 512),
            ..of(
                "memory placed again",
                &[
                    Step::Upload(0, DEVICE, x),
                    Step::Call("relu", 0, None, 1, DEVICE),
                    Step::Call("add", 0, Some(1), 2, DEVICE1),
                    Step::Drop(1),
                    Step::Call("relu", 2, None, 3, DEVICE2),
                    Step::Call("add", 3, Some(2), 4, DEVICE),
                    Step::Drop(2),
                    Step::Call("add", 4, Some(0), 5, DEVICE1),
                    Step::Drop(3),
                    Step::Call("relu", 5, None, 6, DEVICE2),
                    Step::Drop(4),
                    Step::Call("add", 6, Some(5), 7, DEVICE),
                ],
                &[0, 5, 6, 7],
            )
        },
    ]
}
