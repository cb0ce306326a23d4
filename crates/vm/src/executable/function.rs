//! Functions of tensors, recorded without running them.
//!
//! While a recorder runs a function, this thread's calls on its machine are the recorder's. The
//! function gets tensors without elements. Tensors that it takes from elsewhere are bound.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use millstream_instructions::builder::EventRef;
use millstream_runtime::scope::origin::{self, with_origin};
use millstream_runtime::sync::thread_local;
use millstream_types::{Error, Origin, Result, StreamId};

use crate::handle::generator::{Generator, serial_number};
use crate::handle::global;
use crate::handle::leaf::Leaf;
use crate::handle::machine::Machine;
use crate::handle::request::{self, Layer, OpCall, Rank, Reply, Request, Results, Verb};
use crate::handle::seed::Seed;
use crate::handle::tensor::OfRecording;
use crate::handle::{Event, Stream, Tensor};

use super::gradients::Use;
use super::recorder::{RecordedTensor, Recorder};

/// A recording of a function on this thread.
#[derive(Clone)]
struct Running {
    number: u64,
    machine: u64,
    recorder: Rc<RefCell<Recorder>>,
    /// The events that the function has recorded, each with its newest record.
    events: Rc<RefCell<Vec<(Event, EventRef)>>>,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

fn replace(running: Option<Running>) -> Option<Running> {
    let layer = running.is_some().then_some(&super::layer::Recording as &dyn Layer);
    request::install(Rank::Record, layer);
    RUNNING.with(|own| own.replace(running))
}

/// Returns the recording that calls on this machine belong to.
fn running(machine: &Machine) -> Option<Running> {
    let of = machine.shared.tables.machine;
    RUNNING.with(|own| own.borrow().clone()).filter(|running| running.machine == of)
}

/// Returns the number of this thread's recording.
pub(super) fn recording() -> Option<u64> {
    with_any(|running| Some(running.number))
}

/// Draws from a generator that was made before this thread's recording, if the thread records.
pub(super) fn draw(generator: &Generator) -> Option<Seed> {
    with_any(|Running { number, recorder, .. }| {
        let mut recorder = recorder.try_borrow_mut().ok()?;
        generator.is_before(*number).then(|| recorder.draw_in(generator, *number))
    })
}

/// Notes that a function does something with a generator from elsewhere that no launch can repeat.
pub(super) fn refuse_generator(generator: &Generator, reason: &str, origin: &Origin) {
    with_any(|Running { number, recorder, .. }| {
        let mut recorder = recorder.try_borrow_mut().ok()?;
        if generator.is_before(*number) {
            let message = format!("{reason}, which no launch can repeat");
            let mistake = Error::Invalid { what: "list", message }.at(origin);
            recorder.mistake.get_or_insert(mistake);
        }
        Some(())
    });
}

/// Uses this thread's recording, of whatever machine.
fn with_any<T>(work: impl FnOnce(&Running) -> Option<T>) -> Option<T> {
    RUNNING.with(|own| own.borrow().as_ref().and_then(work))
}

impl Recorder {
    /// Records the calls of a function, without running them: its inputs have shapes and no
    /// elements. Tensors that it takes from elsewhere are [bound](Recorder::bind). What it drops is
    /// released in the list.
    ///
    /// ```
    /// # fn main() -> millstream_types::Result<()> {
    /// use millstream_types::{DType, TensorSpec};
    /// use millstream_vm::{Machine, MachineConfig, Tensor};
    ///
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let w = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?;
    /// let recorded = machine.record(|r| {
    ///     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[3, 2])?)?;
    ///     let y = r.function(&[x], |inputs| Ok(vec![inputs[0].matmul(&w)?.relu()?]))?;
    ///     r.output("y", &y[0])
    /// })?;
    /// let x = Tensor::ones((3, 2), DType::F32, &machine)?;
    /// let launched = recorded.compile()?.launch().input("x", &x).run()?;
    /// assert_eq!(launched.output("y")?.to_vec::<f32>()?, [3.0; 3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// That of the function; it reads elements, of which there are none; it does what no launch
    /// could repeat, such as a prepared call, a launch or a push; the thread records a function
    /// already.
    #[track_caller]
    pub fn function(
        &mut self,
        inputs: &[RecordedTensor],
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<RecordedTensor>> {
        /// Ends the recording, also after a panic.
        struct End;
        impl Drop for End {
            fn drop(&mut self) {
                drop(replace(None));
            }
        }
        let origin = origin::caller();
        if RUNNING.with(|own| own.borrow().is_some()) {
            let message = "this thread records a function already".to_owned();
            return Err(Error::Invalid { what: "list", message }.at(&origin));
        }
        let machine = self.machine.clone();
        let stream = machine.current_stream().map_err(|e| e.at(&origin))?;
        let number = serial_number();
        let given = inputs.iter().map(|&input| self.handle(input, number, &stream, &origin));
        let given = given.collect::<Result<Vec<_>>>().map_err(|e| e.at(&origin))?;
        let recorder = std::mem::replace(self, machine.recorder());
        let recorder = Rc::new(RefCell::new(recorder));
        let of = machine.shared.tables.machine;
        let events = Rc::default();
        drop(replace(Some(Running { number, machine: of, recorder: recorder.clone(), events })));
        let end = End;
        let results = function(&given);
        drop(end);
        recorder.borrow_mut().end_gradients(number);
        let made = results.and_then(|results| {
            let name = |tensor: &Tensor| recorder.borrow_mut().named(tensor, number);
            let named = || results.iter().map(name).collect::<Result<Vec<_>>>();
            with_origin(&origin, named)
        });
        match Rc::try_unwrap(recorder) {
            Ok(recorder) => *self = recorder.into_inner(),
            Err(_) => {
                let message = "a function's recorder is still in use".to_owned();
                return Err(Error::Internal { message }.at(&origin));
            }
        }
        match self.mistake.take() {
            Some(mistake) => Err(mistake.at(&origin)),
            None => made.map_err(|e| e.at(&origin)),
        }
    }

    /// Returns a tensor of the list as functions see it.
    fn handle(
        &self,
        tensor: RecordedTensor,
        number: u64,
        stream: &Stream,
        origin: &Origin,
    ) -> Result<Tensor> {
        let (spec, device) = (self.spec(&tensor)?, self.device(&tensor)?);
        Ok(Tensor::of_function((tensor.0, number), stream, spec, device, origin.clone()))
    }

    /// Returns a function's tensor as the list knows it. Binds one from elsewhere.
    fn named(&mut self, tensor: &Tensor, number: u64) -> Result<RecordedTensor> {
        match tensor.recorded() {
            None => self.bind(tensor),
            Some((recorded, of)) if of == number => Ok(RecordedTensor(recorded)),
            Some(_) => {
                let message = "the tensor belongs to another function that was recorded";
                Err(Error::Invalid { what: "tensor", message: message.to_owned() })
            }
        }
    }
}

/// Runs `work` outside of the recording: what it makes has elements, and is bound where it is used.
pub(super) fn suspend<T>(work: impl FnOnce() -> T) -> T {
    struct Resume(Option<Running>);
    impl Drop for Resume {
        fn drop(&mut self) {
            drop(replace(self.0.take()));
        }
    }
    let _resume = Resume(replace(None));
    work()
}

/// Notes that the function uses the gradient of a leaf.
pub(super) fn use_leaf(leaf: &Arc<Leaf>, how: Use, origin: &Origin) {
    let Some(Running { number, recorder, .. }) = with_any(|running| Some(running.clone())) else {
        return;
    };
    let class = leaf.held().as_ref().and_then(global::class);
    let stand_in = {
        let mut recorder = recorder.borrow_mut();
        let stand_in = recorder.use_leaf(leaf, how, origin);
        stand_in.and_then(|gradient| {
            let stream = recorder.machine.current_stream().ok()?;
            recorder.handle(gradient, number, &stream, origin).ok()
        })
    };
    // Outside the borrow, as a tensor ends.
    if stand_in.is_some() {
        leaf.hold(stand_in.map(|part| global::of_class(part, class.as_ref())));
    }
}

/// Notes that a tensor is one with a gradient from now on.
pub(super) fn note_leaf(tensor: &Tensor, leaf: &Arc<Leaf>) {
    if let (Some(_), Some(running)) = (tensor.recorded(), running(tensor.machine())) {
        running.recorder.borrow_mut().note_own_leaf(leaf);
    }
}

/// Releases a tensor that a function has dropped.
pub(super) fn ended(machine: &Machine, (tensor, number): OfRecording) {
    let tensor = RecordedTensor(tensor);
    let Some(running) = running(machine).filter(|running| running.number == number) else { return };
    if let Ok(mut recorder) = running.recorder.try_borrow_mut()
        && !recorder.is_formal(&tensor)
    {
        // One that an open hold of the list keeps lives until the list ends.
        let _ = with_origin(&Origin::Unknown, || recorder.release(tensor));
    }
}

/// Records a request; none if the thread records no function on this machine.
///
/// # Errors
/// That of the recorder, or a tensor belongs to another function.
pub(super) fn record(machine: &Machine, request: &Request<'_>) -> Result<Option<Reply>> {
    let Some(Running { number, recorder, events, .. }) = running(machine) else {
        return Ok(None);
    };
    let (mut recorder, mut events) = (recorder.borrow_mut(), events.borrow_mut());
    let origin = request.origin;
    let mut recording = Recording { number, recorder: &mut recorder, events: &mut events, origin };
    let reply = with_origin(origin, || recording.record(&request.verb));
    reply.map(Some).map_err(|e| e.at(origin))
}

/// The recording of a function, while a request is recorded.
struct Recording<'a> {
    number: u64,
    recorder: &'a mut Recorder,
    events: &'a mut Vec<(Event, EventRef)>,
    origin: &'a Origin,
}

impl Recording<'_> {
    fn record(&mut self, verb: &Verb<'_>) -> Result<Reply> {
        match *verb {
            Verb::Op(call) => return self.call(&call).map(Reply::Tensors),
            Verb::Empty { spec, stream, .. } => {
                let id = self.stream(stream)?;
                let made = self.recorder.empty(spec, id)?;
                return self.made(made, stream);
            }
            Verb::View { of, spec } => {
                let whole = self.recorder.named(of, self.number)?;
                let made = self.recorder.view(&whole, spec.clone())?;
                return self.made(made, of.made_on());
            }
            Verb::Barrier { global, .. } => self.recorder.barrier(global)?,
            Verb::Touch { tensors, stream } => {
                let (tensors, stream) = (self.named(tensors)?, self.stream(stream)?);
                self.recorder.touch(&tensors, stream)?;
            }
            Verb::RecordEvent { event, stream } => {
                let stream = self.stream(stream)?;
                let record = self.recorder.record_event(stream)?;
                self.events.retain(|(known, _)| !known.is_same(event));
                self.events.push((event.clone(), record));
            }
            Verb::WaitEvent { event, stream, at } => {
                self.wait_event(event, stream, at.is_some())?
            }
            Verb::WaitStream { stream, source } => {
                let (stream, source) = (self.stream(stream)?, self.stream(source)?);
                self.recorder.wait_stream(stream, source)?;
            }
            _ => {
                let message = "a request that no list records".to_owned();
                return Err(Error::Internal { message });
            }
        }
        Ok(Reply::Done)
    }

    fn stream(&mut self, stream: &Stream) -> Result<StreamId> {
        self.recorder.stream(&stream.key)
    }

    fn named(&mut self, tensors: &[&Tensor]) -> Result<Vec<RecordedTensor>> {
        tensors.iter().map(|tensor| self.recorder.named(tensor, self.number)).collect()
    }

    fn made(&self, tensor: RecordedTensor, stream: &Stream) -> Result<Reply> {
        let tensor = self.recorder.handle(tensor, self.number, stream, self.origin)?;
        Ok(Reply::Tensors(Results::from_iter([tensor])))
    }

    fn call(&mut self, made: &OpCall<'_>) -> Result<Results> {
        let inputs = self.named(made.inputs)?;
        let out = made.out.map(|out| self.named(out)).transpose()?;
        let id = self.stream(made.stream)?;
        let mut call = self.recorder.call(made.name, &inputs);
        if let Some(out) = &out {
            call = call.out(out);
        }
        let call = call.attrs(made.attrs.clone()).priority(made.priority.0);
        let results = call.origin(self.origin.clone()).on(id)?;
        let known = |result: &RecordedTensor| {
            let given = inputs.iter().zip(made.inputs);
            let targets = out.iter().flatten().zip(made.out.into_iter().flatten());
            given.chain(targets).find(|(name, _)| *name == result).map(|(_, tensor)| *tensor)
        };
        let handle = |result: RecordedTensor| match known(&result) {
            Some(tensor) => Ok(tensor.clone()),
            None => self.recorder.handle(result, self.number, made.stream, self.origin),
        };
        results.into_iter().map(handle).collect()
    }

    /// Orders a stream behind the record of an event that the function itself has recorded.
    /// `is_recorded` tells whether the program has recorded it.
    fn wait_event(&mut self, event: &Event, stream: &Stream, is_recorded: bool) -> Result<()> {
        match self.events.iter().find(|(known, _)| known.is_same(event)) {
            Some((_, record)) => {
                let stream = self.recorder.stream(&stream.key)?;
                self.recorder.wait_event(stream, record)
            }
            None if is_recorded => {
                let message = "a recorded function waits for an event from outside, which no \
                               launch can wait for; a launch itself comes after what its tensors \
                               need"
                    .to_owned();
                Err(Error::Invalid { what: "list", message })
            }
            // As a wait for an event without a record: for nothing.
            None => Ok(()),
        }
    }
}
