//! A loaded trace: names resolved, shapes and data checked, each thing with its place.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millstream_types::{
    Attrs, DType, DeviceId, Dims, Origin, StreamKey, StreamMode, StreamType, TensorSpec,
};

use crate::compare::Tolerance;
use crate::data::{Data, memory};
use crate::error::{Result, Site, TraceError};
use crate::et::report::Imported;
use crate::source::{Place, Source};

macro_rules! refs {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The index into the program's table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

refs! {
    /// One of [`Program::streams`].
    StreamRef;
    /// One of [`Program::values`]. A name that is given again after a release is another value.
    ValueRef;
    /// One of the events of the program, or of the job that names it.
    EventRef;
    /// One of [`Program::jobs`].
    JobRef;
}

/// A program read from a native trace.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's name, if it says one.
    pub name: Option<String>,
    /// The streams, in the order of the file.
    pub streams: Vec<Stream>,
    /// The tensors that are there from the start, in the order of the file.
    pub tensors: Vec<Tensor>,
    /// Every tensor that a name ever stands for. The first are those of [`Program::tensors`].
    pub values: Vec<Value>,
    /// The jobs, in the order of the file.
    pub jobs: Vec<Job>,
    /// What runs.
    pub body: Body,
    /// What is read at the end, in the order of the file.
    pub outputs: Vec<Output>,
    /// The file.
    pub source: Arc<Source>,
    /// Whether statements without a stream are spread over several: if none names a stream itself,
    /// collectives apart.
    pub spread: bool,
    /// What became of the nodes, if the program is an imported trace.
    pub imported: Option<Box<Imported>>,
}

/// A declared stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its name in the file.
    pub name: String,
    /// Its device; the run's device if none.
    pub device: Option<DeviceId>,
    /// What it is for.
    pub ty: StreamType,
    /// Which one of the device's streams of that type, if the file says so.
    pub index: Option<u32>,
    /// The order of its instructions.
    pub mode: StreamMode,
    /// Where it is declared.
    pub site: Site,
}

/// A tensor that is there from the start.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name in the file.
    pub name: String,
    /// Its dtype, shape, strides and offset.
    pub spec: TensorSpec,
    /// The size of its storage in bytes.
    pub storage_bytes: usize,
    /// Its device; the run's device if none.
    pub device: Option<DeviceId>,
    /// Where its elements come from.
    pub data: Data,
    /// Where it is declared.
    pub site: Site,
}

impl Tensor {
    /// The bytes of its storage. What its elements leave out is zero.
    ///
    /// # Errors
    /// The storage does not fit in memory ([`ErrorKind::Memory`](crate::ErrorKind)), or a sidecar
    /// file has changed since the trace was loaded.
    pub fn materialize(&self) -> Result<Vec<u8>> {
        let mut storage = memory(self.storage_bytes, &self.site)?;
        self.write(&mut storage)?;
        Ok(storage)
    }

    /// Writes its elements to a storage that its layout lies within. Bytes between the elements
    /// stay as they are.
    ///
    /// # Errors
    /// A storage that is too small; a sidecar file that has changed since the trace was loaded.
    pub fn write(&self, storage: &mut [u8]) -> Result<()> {
        self.data.write(&self.spec, storage, &self.site)
    }
}

/// Something that a name stands for while it lives.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name.
    pub name: String,
    /// Where it is given.
    pub place: Place,
    /// What it was when the program was recorded, if only running it can tell; the run has to find
    /// the same dtype and shape.
    pub recorded: Option<TensorSpec>,
}

/// What a program runs.
#[derive(Clone, Debug)]
pub enum Body {
    /// Statements at the level of ops.
    Statements(Block),
    /// A list of instructions in its text form, not parsed here.
    Instructions(Vec<Line>),
}

/// Statements and the events that they name.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The statements, in order.
    pub statements: Vec<Statement>,
    /// The names of the events.
    pub events: Vec<String>,
}

/// One line of a list of instructions.
#[derive(Clone, Debug)]
pub struct Line {
    /// The text.
    pub text: String,
    /// Where it stands. Its first byte is the quotation mark.
    pub place: Place,
}

/// A program that runs as one instruction.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its statements and events.
    pub block: Block,
    /// The tensors of the trace that it uses, each once.
    pub uses: Vec<ValueRef>,
    /// Where it is declared.
    pub place: Place,
}

/// A statement and where it stands.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Where it stands.
    pub place: Place,
    /// What it does.
    pub action: Action,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Calls an op.
    Call(Box<Call>),
    /// Ends tensors.
    Release(Vec<ValueRef>),
    /// Records an event on a stream. Recording it again moves it.
    Record {
        /// The event.
        event: EventRef,
        /// The stream.
        stream: StreamRef,
    },
    /// Makes a stream wait for an event as it was last recorded.
    Wait {
        /// The event.
        event: EventRef,
        /// The stream.
        stream: StreamRef,
    },
    /// Makes a stream wait for another.
    StreamWait {
        /// The stream that is waited for.
        from: StreamRef,
        /// The stream that waits.
        to: StreamRef,
    },
    /// Makes the host wait for a tensor and read it.
    Read(ValueRef),
    /// Uses tensors as if they were read.
    Touch {
        /// The tensors.
        tensors: Vec<ValueRef>,
        /// The stream, if the file says one.
        stream: Option<StreamRef>,
    },
    /// Orders all earlier statements before all later ones.
    Barrier,
    /// A barrier at which all ranks meet.
    GlobalSync,
    /// Makes the host wait for a stream.
    Synchronize(StreamRef),
    /// Holds tensors for the statements of its body.
    CriticalSection {
        /// The tensors.
        tensors: Vec<ValueRef>,
        /// The statements.
        body: Vec<Statement>,
    },
    /// Runs a job as one instruction.
    Job {
        /// The job.
        job: JobRef,
        /// The stream that launches it, if the file says one.
        stream: Option<StreamRef>,
    },
}

/// A call of an op.
#[derive(Clone, Debug)]
pub struct Call {
    /// The op's name, not looked up here.
    pub op: String,
    /// Where the name stands.
    pub op_place: Place,
    /// The tensors given.
    pub inputs: Vec<ValueRef>,
    /// Where the results go.
    pub results: Results,
    /// The arguments.
    pub attrs: Attrs,
    /// The stream, if the file says one.
    pub stream: Option<StreamRef>,
    /// How urgent it is, on a pool.
    pub priority: i32,
}

/// Where the results of a call go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Results {
    /// To new values, in order. Results past the end of the list are not named.
    New(Vec<ValueRef>),
    /// To tensors that exist, in order.
    Into(Vec<ValueRef>),
}

/// A tensor that is read at the end.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// The tensor. In a trace of instructions it may be none: only the list knows the name.
    pub value: Option<ValueRef>,
    /// The dtype it must have, if that is said.
    pub dtype: Option<DType>,
    /// The shape it must have, if that is said.
    pub shape: Option<Dims>,
    /// The elements it must have, if that is said.
    pub expected: Option<Data>,
    /// How far it may be off.
    pub tolerance: Tolerance,
    /// Where it is declared.
    pub site: Site,
}

impl Program {
    /// The value's name.
    pub fn value(&self, value: ValueRef) -> &Value {
        &self.values[value.index()]
    }

    /// The tensor of the file that a value is, if it is one.
    pub fn tensor(&self, value: ValueRef) -> Option<&Tensor> {
        self.tensors.get(value.index())
    }

    /// An error at a place of this file, in the form of those that loading gives.
    pub fn error(&self, place: Place, message: impl Into<String>) -> TraceError {
        TraceError::at(&self.source, place, message)
    }

    /// A place of this file as other crates name it.
    pub fn origin(&self, place: Place) -> Origin {
        let file = self.source.file();
        Origin::Trace(Arc::new(file), place.line)
    }

    /// Whether any statement, those of jobs included, says the stream that it runs on.
    pub fn names_streams(&self) -> bool {
        fn any(statements: &[Statement]) -> bool {
            statements.iter().any(|s| match &s.action {
                Action::Call(call) => call.stream.is_some(),
                Action::Touch { stream, .. } | Action::Job { stream, .. } => stream.is_some(),
                Action::Record { .. }
                | Action::Wait { .. }
                | Action::StreamWait { .. }
                | Action::Synchronize(_) => true,
                Action::CriticalSection { body, .. } => any(body),
                Action::Release(_) | Action::Read(_) | Action::Barrier | Action::GlobalSync => {
                    false
                }
            })
        }
        matches!(&self.body, Body::Statements(block) if any(&block.statements))
            || self.jobs.iter().any(|job| any(&job.block.statements))
    }

    /// The key of each stream, in the order of [`Program::streams`], for a run on this device. A
    /// stream without an index gets the least that is free for its device and type.
    ///
    /// # Errors
    /// Two streams that turn out to be the same one.
    pub fn stream_keys(&self, default: &DeviceId) -> Result<Vec<StreamKey>> {
        let device = |s: &Stream| s.device.clone().unwrap_or_else(|| default.clone());
        let mut taken = HashSet::new();
        for stream in &self.streams {
            if let Some(index) = stream.index {
                let key = StreamKey::new(device(stream), stream.ty, index);
                if !taken.insert(key.clone()) {
                    return Err(stream.site.error(format!("two streams are {key}")));
                }
            }
        }
        let mut next = HashMap::new();
        let keys = self.streams.iter().map(|stream| {
            let device = device(stream);
            if let Some(index) = stream.index {
                return StreamKey::new(device, stream.ty, index);
            }
            let next: &mut u32 = next.entry((device.clone(), stream.ty)).or_default();
            loop {
                let key = StreamKey::new(device.clone(), stream.ty, *next);
                *next += 1;
                if !taken.contains(&key) {
                    return key;
                }
            }
        });
        Ok(keys.collect())
    }
}
