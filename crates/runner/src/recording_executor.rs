//! The executor that records a list to be compiled.

use millstream_comm::Communicator;
use millstream_instructions::builder::EventRef;
use millstream_ops::random::{OFFSET, SEED};
use millstream_stream_policy::PolicyTable;
use millstream_types::{
    Attrs, DeviceId, Error, Origin, Result, StreamId, StreamKey, StreamMode, StreamType, TensorSpec,
};
use millstream_vm::lowering::runs_on_host;
use millstream_vm::{Generator, GeneratorState, RecordedTensor, Recorder, with_origin};

use crate::executor::{Executor, LaunchCall, OpCall};

/// Records the steps of a program or of an executable.
///
/// A read or a synchronization of the program only makes the host wait. A launch has no host in it,
/// so they are left out.
pub(crate) struct RecordingExecutor<'a> {
    pub(crate) recorder: Recorder,
    policies: &'a PolicyTable,
    communicator: &'a dyn Communicator,
    /// The keys of the streams, by id.
    keys: Vec<StreamKey>,
    /// The draws of the program's random calls; none if their seeds are fixed.
    draws: Option<Draws>,
}

/// The own random numbers of an imported program: the import gives each draw the seed of the
/// program and the next offset.
struct Draws {
    /// None before the first draw.
    generator: Option<Generator>,
    /// How many draws were recorded.
    made: u64,
}

/// The offset of the first draw of an imported program.
const FIRST_OFFSET: u64 = 1;

impl<'a> RecordingExecutor<'a> {
    pub(crate) const fn new(
        recorder: Recorder,
        policies: &'a PolicyTable,
        communicator: &'a dyn Communicator,
    ) -> RecordingExecutor<'a> {
        RecordingExecutor { recorder, policies, communicator, keys: Vec::new(), draws: None }
    }

    /// Records random calls as draws of a generator: the first launch draws the numbers of the
    /// program, and each later launch goes on from there.
    pub(crate) fn draw(&mut self) {
        self.draws = Some(Draws { generator: None, made: 0 });
    }

    /// Ends the recording of a program with so many draws, of which other ranks may make some.
    pub(crate) fn end_draws(&mut self, all: usize) {
        if let Some(Draws { generator: Some(generator), made }) = &self.draws {
            self.recorder.skip_draws(generator, (all as u64).saturating_sub(*made));
        }
    }

    /// Returns the generator of a random call whose numbers are the program's own.
    fn generator_of(&mut self, attrs: &Attrs) -> Result<Option<Generator>> {
        let Some(Draws { generator, made }) = &mut self.draws else { return Ok(None) };
        let (Some(seed), Some(offset)) = (attrs.int(SEED)?, attrs.int(OFFSET)?) else {
            return Ok(None);
        };
        let generator = generator.get_or_insert_with(|| {
            let generator = Generator::new(seed as u64);
            generator.set_state(GeneratorState { seed: seed as u64, offset: FIRST_OFFSET });
            generator
        });
        let number = u64::try_from(offset).ok().and_then(|offset| offset.checked_sub(FIRST_OFFSET));
        let Some(skipped) = number.and_then(|number| number.checked_sub(*made)) else {
            return Ok(None);
        };
        self.recorder.skip_draws(generator, skipped);
        *made += skipped + 1;
        Ok(Some(generator.clone()))
    }
}

impl Executor for RecordingExecutor<'_> {
    type Tensor = RecordedTensor;
    type Event = EventRef;
    type Stream = StreamId;

    const INLINES_LAUNCHES: bool = true;

    fn stream(&mut self, key: &StreamKey, mode: StreamMode) -> Result<StreamId> {
        let stream = self.recorder.stream_with_mode(key, mode)?;
        self.keys.resize(self.keys.len().max(stream.index() + 1), key.clone());
        self.keys[stream.index()] = key.clone();
        Ok(stream)
    }

    fn call(
        &mut self,
        call: &OpCall<'_, RecordedTensor>,
        stream: &StreamId,
        origin: &Origin,
    ) -> Result<Vec<RecordedTensor>> {
        let device = &self.keys[stream.index()].device;
        if call.is_collective && runs_on_host(self.policies, self.communicator, device) {
            let message = format!(
                "the collectives of {device} run on the host, on copies; they cannot stand in an \
                 executable"
            );
            return Err(Error::Op { op: call.name.to_owned(), message });
        }
        let inputs: Vec<RecordedTensor> = call.inputs.iter().map(|t| **t).collect();
        let out: Option<Vec<RecordedTensor>> =
            call.out.as_ref().map(|targets| targets.iter().map(|t| **t).collect());
        let generator = self.generator_of(call.attrs)?;
        let recorded = self.recorder.call(call.name, &inputs).attrs(Attrs::clone(call.attrs));
        let recorded = recorded.priority(call.priority).origin(origin.clone());
        let recorded = match &generator {
            Some(generator) => recorded.draw(generator),
            None => recorded,
        };
        match &out {
            Some(out) => recorded.out(out).on(*stream),
            None => recorded.on(*stream),
        }
    }

    fn device<'t>(&'t self, tensor: &'t RecordedTensor) -> Option<&'t DeviceId> {
        self.recorder.device(tensor).ok()
    }

    fn spec(&self, tensor: &RecordedTensor) -> Option<TensorSpec> {
        self.recorder.spec(tensor).ok().cloned()
    }

    fn is_same(&self, a: &RecordedTensor, b: &RecordedTensor) -> bool {
        a == b
    }

    fn release(&mut self, tensor: &RecordedTensor, origin: &Origin) -> Result<()> {
        // The launch holds its formals; the list only stops using one.
        if self.recorder.is_formal(tensor) {
            return Ok(());
        }
        with_origin(origin, || self.recorder.release(*tensor))
    }

    fn record(&mut self, stream: &StreamId, origin: &Origin) -> Result<EventRef> {
        with_origin(origin, || self.recorder.record_event(*stream))
    }

    fn wait(&mut self, stream: &StreamId, event: &EventRef, origin: &Origin) -> Result<()> {
        with_origin(origin, || self.recorder.wait_event(*stream, event))
    }

    fn stream_wait(&mut self, from: &StreamId, to: &StreamId, origin: &Origin) -> Result<()> {
        with_origin(origin, || self.recorder.wait_stream(*to, *from))
    }

    fn touch(
        &mut self,
        tensors: &[&RecordedTensor],
        stream: &StreamId,
        origin: &Origin,
    ) -> Result<()> {
        let tensors: Vec<RecordedTensor> = tensors.iter().map(|t| **t).collect();
        with_origin(origin, || self.recorder.touch(&tensors, *stream))
    }

    fn read(&mut self, _: &RecordedTensor, _: &Origin) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn barrier(&mut self, global: bool, origin: &Origin) -> Result<()> {
        with_origin(origin, || self.recorder.barrier(global))
    }

    fn synchronize(&mut self, _: &StreamId, _: &Origin) -> Result<()> {
        Ok(())
    }

    fn begin_section(&mut self, tensors: &[&RecordedTensor], origin: &Origin) -> Result<()> {
        let tensors: Vec<RecordedTensor> = tensors.iter().map(|t| **t).collect();
        with_origin(origin, || self.recorder.begin_section(&tensors))
    }

    fn end_section(&mut self, origin: &Origin) -> Result<()> {
        with_origin(origin, || self.recorder.end_section())
    }

    fn launch(
        &mut self,
        _: &LaunchCall<'_, RecordedTensor>,
        _: Option<&StreamId>,
        _: &Origin,
    ) -> Result<Vec<RecordedTensor>> {
        Err(Error::Internal { message: "a launch is recorded by its statements".to_owned() })
    }

    fn assign(
        &mut self,
        from: &RecordedTensor,
        to: &RecordedTensor,
        origin: &Origin,
    ) -> Result<()> {
        let device = self.recorder.device(to)?.clone();
        let stream = self.recorder.stream(&StreamKey::new(device, StreamType::COMPUTE, 0))?;
        self.recorder.call("copy", &[*from]).out(&[*to]).origin(origin.clone()).on(stream)?;
        Ok(())
    }
}
