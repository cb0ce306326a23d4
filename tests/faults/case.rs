//! Small programs as data, so that a machine can run them and the oracle can reason about them.

use std::sync::Arc;

use millstream::types::origin::SourceFile;
use millstream::*;

/// Streams, by number: the host's, the device's, the device's two for copies, a pool of the host's,
/// and of the device's neighbour one that computes and one for copies.
pub(crate) const HOST: usize = 0;
pub(crate) const HOST1: usize = 1;
pub(crate) const HOST2: usize = 2;
pub(crate) const DEVICE: usize = 3;
pub(crate) const DEVICE1: usize = 4;
pub(crate) const DEVICE2: usize = 5;
pub(crate) const IN: usize = 6;
pub(crate) const OUT: usize = 7;
pub(crate) const POOL: usize = 8;
pub(crate) const AWAY: usize = 9;
pub(crate) const THERE: usize = 10;

/// The elements of every tensor that is no view.
const ELEMENTS: usize = 4;

/// One statement. Tensors are numbers; each is made once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Makes a tensor with these elements.
    Upload(usize, usize, [f32; ELEMENTS]),
    /// Makes a tensor of unspecified content.
    Empty(usize, usize),
    /// `out = op(a, b)`, in a new tensor.
    Call(&'static str, usize, Option<usize>, usize, usize),
    /// `to = op(a)`, which overwrites `to` whole.
    Into(&'static str, usize, usize, usize),
    /// `a += b`.
    AddTo(usize, usize, usize),
    /// Fills with a value.
    Fill(usize, f64, usize),
    /// `view = a[from..to]`.
    Slice(usize, usize, i64, i64, usize),
    /// A function of the host's adds 1 to each element.
    Access(usize),
    /// A record on one stream, and a wait for it on another.
    Event(usize, usize),
    /// Lets go of a tensor.
    Drop(usize),
}

/// A program, and the tensors that are read at its end.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
    pub(crate) outputs: Vec<usize>,
    /// The device beside the host.
    pub(crate) device: DeviceId,
    /// The memory of each device in bytes.
    pub(crate) memory: Option<u64>,
}

/// What a machine holds of a case.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) tensors: Vec<Option<Tensor>>,
    /// Of each step that was begun whether it was emitted, and if not, why.
    pub(crate) emitted: Vec<Result<(), Option<Error>>>,
}

/// The place of a step, by which a failure is known again.
pub(crate) fn place(step: usize) -> Origin {
    Origin::Trace(Arc::new(SourceFile { name: "case".to_owned(), unit: "line" }), step as u32)
}

/// The step of a place.
pub(crate) fn step_of(origin: &Origin) -> usize {
    match origin {
        Origin::Trace(_, step) => *step as usize,
        other => panic!("a failure comes from {other}, which is no step"),
    }
}

pub(crate) fn spec(elements: usize) -> TensorSpec {
    TensorSpec::contiguous(DType::F32, &[elements]).unwrap()
}

fn stream(machine: &Machine, device: &DeviceId, number: usize) -> Result<Stream> {
    let copies = |ty| machine.stream(&StreamKey::new(device.clone(), ty, 0));
    let away = || DeviceId::new(device.kind().to_owned(), device.index() + 1);
    match number {
        HOST..=HOST2 => machine.compute(&DeviceId::cpu(0), number as u32),
        DEVICE..=DEVICE2 => machine.compute(device, (number - DEVICE) as u32),
        IN => copies(StreamType::HOST2DEVICE),
        AWAY => machine.compute(&away()?, 0),
        THERE => machine.stream(&StreamKey::new(away()?, StreamType::HOST2DEVICE, 0)),
        POOL => machine
            .stream_with_mode(&StreamKey::compute(DeviceId::cpu(0), POOL as u32), StreamMode::Pool),
        _ => copies(StreamType::DEVICE2HOST),
    }
}

impl Step {
    /// The tensors that it needs.
    pub(crate) fn needs(&self) -> Vec<usize> {
        match *self {
            Step::Upload(..) | Step::Empty(..) | Step::Event(..) => vec![],
            Step::Call(_, a, b, ..) => std::iter::once(a).chain(b).collect(),
            Step::Into(_, a, to, _) => vec![a, to],
            Step::AddTo(a, b, _) => vec![a, b],
            Step::Fill(a, ..) | Step::Slice(a, ..) | Step::Access(a) | Step::Drop(a) => vec![a],
        }
    }

    fn run(
        &self,
        machine: &Machine,
        device: &DeviceId,
        held: &mut Held,
        at: &Origin,
    ) -> Result<()> {
        let s = |number| stream(machine, device, number);
        let t = |k: usize| held.tensors[k].as_ref().unwrap();
        let (made, tensor) = match *self {
            Step::Upload(out, on, values) => {
                let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
                (out, machine.upload_from(&s(on)?, spec(ELEMENTS), bytes, at.clone())?)
            }
            Step::Empty(out, on) => {
                let bytes = spec(ELEMENTS).span_bytes() as u64;
                (out, machine.empty_in(&s(on)?, spec(ELEMENTS), bytes, at.clone())?)
            }
            Step::Call(op, a, b, out, on) => {
                let inputs: Vec<&Tensor> = std::iter::once(a).chain(b).map(t).collect();
                (out, machine.call(op, &inputs).from(at.clone()).on(&s(on)?)?.remove(0))
            }
            Step::Into(op, a, to, on) => {
                machine.call(op, &[t(a)]).from(at.clone()).into(&[t(to)]).on(&s(on)?)?;
                return Ok(());
            }
            Step::AddTo(a, b, on) => {
                machine.call("add_", &[t(a), t(b)]).from(at.clone()).on(&s(on)?)?;
                return Ok(());
            }
            Step::Fill(a, value, on) => {
                let call = machine.call("fill", &[t(a)]).attr("value", value);
                call.from(at.clone()).on(&s(on)?)?;
                return Ok(());
            }
            Step::Slice(a, out, from, to, on) => {
                let call = machine.call("slice", &[t(a)]).attr("dim", 0);
                let call = call.attr("start", from).attr("end", to).from(at.clone());
                (out, call.on(&s(on)?)?.remove(0))
            }
            Step::Access(a) => {
                t(a).access_from(Access::ReadWrite, at.clone(), |blob| {
                    let more = floats(&blob.to_bytes()?).iter().map(|v| v + 1.0).collect();
                    blob.write_bytes(&bytes(more))
                })?;
                return Ok(());
            }
            Step::Event(from, to) => {
                let event = machine.record_from(&s(from)?, at.clone())?;
                return s(to)?.wait_event_from(&event, at.clone());
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

pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn bytes(values: Vec<f32>) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

impl Case {
    /// Submits the steps that `wanted` admits and whose tensors are there. Calls `before` each.
    pub(crate) fn submit(
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
                true => step.run(machine, &self.device, held, &place(k)).map_err(Some),
                false => Err(None),
            };
            held.emitted.push(done);
        }
    }

    /// Reads an output; none if it was never made.
    pub(crate) fn read(&self, held: &Held, output: usize) -> Option<Result<Vec<f32>>> {
        let tensor = held.tensors[output].as_ref()?;
        Some(tensor.read_from(place(self.steps.len() + output)).map(|b| floats(&b)))
    }
}

/// The cases on a device. If the host cannot follow its addresses, no function of the host's is given
/// its tensors.
pub(crate) fn all(device: &DeviceId, host_memory: bool) -> Vec<Case> {
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
            "events by hand and a function of the host's",
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
                Step::Empty(2, AWAY),
                Step::Into("copy", 1, 2, THERE),
                Step::Call("add", 2, Some(2), 3, AWAY),
                // After the other device has read it.
                Step::Fill(1, 7.0, DEVICE),
                Step::Empty(4, DEVICE),
                Step::Into("copy", 3, 4, IN),
                Step::Call("add", 4, Some(1), 5, DEVICE1),
                Step::Event(DEVICE1, AWAY),
                Step::AddTo(2, 3, AWAY),
            ],
            &[0, 1, 2, 3, 5],
        ),
        Case {
            // Five blocks of the planner's grain; upload's staging takes one on the host.
            memory: Some(5 * 512),
            ..of(
                "memory given out again",
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
