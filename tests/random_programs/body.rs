//! Random bodies of programs, made call by call on a machine or recorded as a list.

use std::sync::Arc;

use millstream::instructions::builder::EventRef;
use millstream::types::StreamId;
use millstream::types::origin::SourceFile;
use millstream::*;

use millstream_testing::machine::{bytes, f32_spec, floats};

/// The kind of a step, two operands, and a stream.
pub(crate) type Step = (u8, u8, u8, u8);

/// The elements of every tensor that is no slice.
pub(crate) const ELEMENTS: usize = 4;

/// The executor of a body.
pub(crate) trait Target {
    type Tensor: Clone + PartialEq;
    type Event;

    /// Makes a call with integer arguments. The results are the new tensors.
    fn call(
        &mut self,
        op: &str,
        inputs: &[&Self::Tensor],
        attrs: &[(&'static str, i64)],
        stream: usize,
    ) -> Vec<Self::Tensor>;
    fn len(&self, x: &Self::Tensor) -> usize;
    fn release(&mut self, x: Self::Tensor);
    fn record(&mut self, stream: usize) -> Self::Event;
    fn wait(&mut self, stream: usize, event: &Self::Event);
    fn wait_stream(&mut self, stream: usize, source: usize);
    fn barrier(&mut self);
    fn touch(&mut self, tensors: &[&Self::Tensor], stream: usize);
    /// Runs [`change`] on a tensor.
    fn access(&mut self, x: &Self::Tensor, stream: usize);
    /// Doubles a tensor within a critical section.
    fn section(&mut self, x: &Self::Tensor, stream: usize);
}

/// Adds 1 to each element; a host function that fails on some data.
fn change(blob: &mut Blob<'_>) -> anyhow::Result<()> {
    let values = floats(&blob.to_bytes()?);
    anyhow::ensure!(
        values.first().is_none_or(|v| v % 5.0 != 3.0),
        "the first element is {values:?}"
    );
    blob.write_bytes(&bytes(&values.iter().map(|v| v + 1.0).collect::<Vec<_>>()))
}

/// Added to a step's number for its second call.
pub(crate) const SECOND: usize = 100;

/// Returns the origin of step `step` of run `run`. A recorded list is run 0 at each launch.
pub(crate) fn origin_of(run: usize, step: usize) -> Origin {
    let source = SourceFile { name: "body".to_owned(), unit: "step" };
    Origin::Trace(Arc::new(source), (run * 1000 + step) as u32)
}

/// Returns the run and the step of a failure.
pub(crate) fn step_of(failure: &types::Failure) -> (usize, usize) {
    let number = |origin: &Origin| match origin.first() {
        Origin::Trace(_, number) => *number as usize,
        other => panic!("{other} is no step: {failure}"),
    };
    let own = number(&failure.origin);
    match &failure.launched {
        Some(launched) => (number(launched) / 1000, own % 1000),
        None => (own / 1000, own % 1000),
    }
}

/// Runs the steps of a body on formals. Returns the tensors that are live at its end, without
/// `formals`.
pub(crate) fn run<T: Target>(
    target: &mut T,
    formals: &[T::Tensor],
    steps: &[Step],
    streams: usize,
    run: usize,
) -> Vec<T::Tensor> {
    let mut live = formals.to_vec();
    let mut events = Vec::new();
    for (k, &(kind, a, b, s)) in steps.iter().enumerate() {
        let s = usize::from(s) % streams;
        let x = live[usize::from(a) % live.len()].clone();
        // The operands of one call have one shape.
        let y = live[usize::from(b) % live.len()].clone();
        let y = if target.len(&y) == target.len(&x) { y } else { x.clone() };
        let made = with_origin(&origin_of(run, k), || match kind % 20 {
            0 | 1 => target.call("add", &[&x, &y], &[("alpha", 3)], s),
            2 => target.call("mul", &[&x, &y], &[], s),
            3 => target.call("relu", &[&x], &[], s),
            4..=6 => {
                target.call("add_", &[&x, &y], &[], s);
                vec![]
            }
            7 if target.len(&x) == ELEMENTS => {
                target.call("slice", &[&x], &[("start", 1), ("end", 3)], s)
            }
            8 => target.call("copy", &[&x], &[], s),
            9 => {
                target.call("fill", &[&x], &[("value", i64::from(b % 9))], s);
                vec![]
            }
            10 | 11 if !formals.contains(&x) => {
                live.retain(|t| *t != x);
                target.release(x);
                vec![]
            }
            12 => {
                events.push(target.record(s));
                vec![]
            }
            13 if !events.is_empty() => {
                target.wait(s, &events[usize::from(b) % events.len()]);
                vec![]
            }
            14 if usize::from(b) % streams != s => {
                target.wait_stream(s, usize::from(b) % streams);
                vec![]
            }
            15 if b < 48 => {
                target.barrier();
                vec![]
            }
            15 => {
                target.section(&x, s);
                vec![]
            }
            16 => {
                target.touch(&[&x, &y], s);
                vec![]
            }
            17 => {
                target.access(&x, s);
                vec![]
            }
            18 if b < 32 => target.call("fail", &[&x], &[], s),
            18 | 19 => {
                let z = target.call("neg", &[&x], &[], s).remove(0);
                let second = origin_of(run, k + SECOND);
                let sum = with_origin(&second, || target.call("add", &[&z, &y], &[], s));
                target.release(z);
                sum
            }
            _ => vec![],
        });
        live.extend(made);
    }
    live.retain(|t| !formals.contains(t));
    live
}

/// Runs each step on a machine.
pub(crate) struct Eager<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) streams: Vec<Stream>,
}

/// A tensor, equal to its own clones.
#[derive(Clone)]
pub(crate) struct Held(pub(crate) Tensor);

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.0.tensor_ref() == other.0.tensor_ref()
    }
}

impl Target for Eager<'_> {
    type Tensor = Held;
    type Event = Event;

    fn call(
        &mut self,
        op: &str,
        x: &[&Held],
        attrs: &[(&'static str, i64)],
        stream: usize,
    ) -> Vec<Held> {
        let inputs: Vec<&Tensor> = x.iter().map(|x| &x.0).collect();
        let call = self.machine.call(op, &inputs);
        let call = attrs.iter().fold(call, |call, (name, value)| call.attr(*name, *value));
        call.on(&self.streams[stream]).unwrap().into_iter().map(Held).collect()
    }

    fn len(&self, x: &Held) -> usize {
        x.0.spec().shape()[0]
    }

    fn release(&mut self, x: Held) {
        drop(x);
    }

    fn record(&mut self, stream: usize) -> Event {
        self.streams[stream].record_event().unwrap()
    }

    fn wait(&mut self, stream: usize, event: &Event) {
        self.streams[stream].wait_event(event).unwrap();
    }

    fn wait_stream(&mut self, stream: usize, source: usize) {
        self.streams[stream].wait_stream(&self.streams[source]).unwrap();
    }

    fn barrier(&mut self) {
        self.machine.barrier().unwrap();
    }

    fn touch(&mut self, tensors: &[&Held], stream: usize) {
        let tensors: Vec<&Tensor> = tensors.iter().map(|x| &x.0).collect();
        self.streams[stream].touch(&tensors).unwrap();
    }

    fn access(&mut self, x: &Held, _: usize) {
        x.0.access(Access::ReadWrite, change).unwrap();
    }

    fn section(&mut self, x: &Held, stream: usize) {
        let section = self.machine.critical_section(&[&x.0]).unwrap();
        let call = self.machine.call("add_", &[&x.0, &x.0]).within(&section);
        call.on(&self.streams[stream]).unwrap();
        section.end().unwrap();
    }
}

/// Records each step in a list.
pub(crate) struct Recording<'a> {
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) streams: Vec<StreamId>,
}

impl Target for Recording<'_> {
    type Tensor = RecordedTensor;
    type Event = EventRef;

    fn call(
        &mut self,
        op: &str,
        x: &[&RecordedTensor],
        attrs: &[(&'static str, i64)],
        stream: usize,
    ) -> Vec<RecordedTensor> {
        let inputs: Vec<RecordedTensor> = x.iter().map(|x| **x).collect();
        let call = self.recorder.call(op, &inputs);
        let call = attrs.iter().fold(call, |call, (name, value)| call.attr(*name, *value));
        call.on(self.streams[stream]).unwrap()
    }

    fn len(&self, x: &RecordedTensor) -> usize {
        self.recorder.spec(x).unwrap().shape()[0]
    }

    fn release(&mut self, x: RecordedTensor) {
        self.recorder.release(x).unwrap();
    }

    fn record(&mut self, stream: usize) -> EventRef {
        self.recorder.record_event(self.streams[stream]).unwrap()
    }

    fn wait(&mut self, stream: usize, event: &EventRef) {
        self.recorder.wait_event(self.streams[stream], event).unwrap();
    }

    fn wait_stream(&mut self, stream: usize, source: usize) {
        self.recorder.wait_stream(self.streams[stream], self.streams[source]).unwrap();
    }

    fn barrier(&mut self) {
        self.recorder.barrier(false).unwrap();
    }

    fn touch(&mut self, tensors: &[&RecordedTensor], stream: usize) {
        let tensors: Vec<RecordedTensor> = tensors.iter().map(|x| **x).collect();
        self.recorder.touch(&tensors, self.streams[stream]).unwrap();
    }

    fn access(&mut self, x: &RecordedTensor, stream: usize) {
        self.recorder.access(x, Access::ReadWrite, self.streams[stream], change).unwrap();
    }

    fn section(&mut self, x: &RecordedTensor, stream: usize) {
        self.recorder.begin_section(&[*x]).unwrap();
        self.recorder.call("add_", &[*x, *x]).on(self.streams[stream]).unwrap();
        self.recorder.end_section().unwrap();
    }
}

/// Returns the spec of a formal.
pub(crate) fn formal() -> TensorSpec {
    f32_spec(&[ELEMENTS])
}
