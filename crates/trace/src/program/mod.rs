//! A loaded trace: names are resolved, shapes and data are checked, and every part has its span.
//!
//! Long because it lists all parts of a program.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use millstream_types::{
    Attrs, DType, DeviceId, Dims, Error, Mesh, NdSbp, Origin, Sharding, StreamKey, StreamMode,
    StreamType, TensorSpec,
};

use crate::compare::Tolerance;
use crate::data::{Data, memory};
use crate::error::{Result, Site, TraceError};
use crate::et::report::Imported;
use crate::hint::Probe;
use crate::list_file::ListRank;
use crate::source::{Source, Span};

mod executable;

pub use executable::{Executable, Input, Launch, Returned, Target};

macro_rules! refs {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the index into the program's table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

refs! {
    /// An index into [`Program::streams`].
    StreamRef;
    /// An index into [`Program::values`]. A name that is defined again after a release stands for
    /// another value.
    ValueRef;
    /// An index into [`Block::events`] of the program or of an executable.
    EventRef;
    /// An index into [`Program::executables`].
    ExecutableRef;
}

/// A program, read from a native trace or imported from an execution trace.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's name, if it has one.
    pub name: Option<String>,
    /// The streams, in the order of the file.
    pub streams: Vec<Stream>,
    /// The tensors that exist before the program, in the order of the file.
    pub tensors: Vec<Tensor>,
    /// All tensors of the program. The first ones are those of [`Program::tensors`].
    pub values: Vec<Value>,
    /// The executables, in the order of the file.
    pub executables: Vec<Executable>,
    /// The statements or instructions.
    pub body: Body,
    /// The tensors to read at the end, in the order of the file.
    pub outputs: Vec<Output>,
    /// The text of the file.
    pub source: Arc<Source>,
    /// Whether a run may spread the statements over several streams: no statement, except for
    /// collectives of an imported trace, names a stream.
    pub spread: bool,
    /// Whether statements with mistakes were left out: such a program can be checked for further
    /// mistakes, but not run.
    pub is_partial: bool,
    /// The tensors that meshes hold, as the file declares them, if it is what one rank runs of a
    /// program that names ranks: [`Program::tensors`] has the rank's parts of them.
    pub wholes: Option<Vec<(ValueRef, Tensor)>>,
    /// The rank whose list it is, if it is that of a rank.
    pub rank: Option<ListRank>,
    /// The import's report, if the program is an execution trace.
    pub imported: Option<Box<Imported>>,
}

/// A declared stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The stream's name in the file.
    pub name: String,
    /// The stream's device; `None` stands for the run's device.
    pub device: Option<DeviceId>,
    /// The stream type.
    pub ty: StreamType,
    /// The index among the device's streams of this type, if the file sets it.
    pub index: Option<u32>,
    /// The order of the stream's instructions.
    pub mode: StreamMode,
    /// The span of the declaration.
    pub site: Site,
}

/// A tensor that exists before the program.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The tensor's name in the file.
    pub name: String,
    /// The tensor's dtype, shape, strides and offset.
    pub spec: TensorSpec,
    /// The size of the tensor's storage in bytes.
    pub storage_bytes: usize,
    /// The tensor's device; `None` stands for the run's device.
    pub device: Option<DeviceId>,
    /// The source of the tensor's elements.
    pub data: Data,
    /// The ranks that hold the tensor; `None` stands for all.
    pub ranks: Option<Placement>,
    /// How the ranks of a mesh hold the tensor together, if they do.
    pub held: Option<Held>,
    /// The span of the declaration.
    pub site: Site,
}

impl Tensor {
    /// Returns the bytes of the tensor's storage. Bytes outside its elements are zero.
    ///
    /// # Errors
    /// The storage does not fit in memory ([`ErrorKind::Memory`](crate::ErrorKind)), or a sidecar
    /// file has changed since the trace was loaded.
    pub fn materialize(&self) -> Result<Vec<u8>> {
        let mut storage = memory(self.storage_bytes, &self.site)?;
        self.write(&mut storage)?;
        Ok(storage)
    }

    /// Writes the tensor's elements to a storage. Leaves the bytes between the elements unchanged.
    ///
    /// # Errors
    /// The storage is smaller than the layout's span, or a sidecar file has changed since the trace
    /// was loaded.
    pub fn write(&self, storage: &mut [u8]) -> Result<()> {
        self.data.write(&self.spec, storage, &self.site)
    }
}

/// A tensor of the program, from its definition to its release.
#[derive(Clone, Debug)]
pub struct Value {
    /// The tensor's name.
    pub name: String,
    /// The span of the definition.
    pub span: Span,
    /// The recorded spec of a result whose shape depends on data. The run must produce the same
    /// dtype and shape.
    pub recorded: Option<TensorSpec>,
}

/// The statements or instructions of a program.
#[derive(Clone, Debug)]
pub enum Body {
    /// Statements at the level of ops.
    Statements(Block),
    /// A list of instructions in its text form; the loader does not parse it.
    Instructions(Vec<Line>),
}

/// Statements with their events.
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
    /// The span of the line, including the quotation marks.
    pub span: Span,
}

/// A statement with its span.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The span of the statement.
    pub span: Span,
    /// The action.
    pub action: Action,
}

impl Statement {
    /// Returns statements, each section before the statements in it.
    pub fn each(statements: &[Statement]) -> impl Iterator<Item = &Statement> {
        let mut open = vec![statements.iter()];
        std::iter::from_fn(move || {
            while open.last()?.as_slice().is_empty() {
                open.pop();
            }
            let statement = open.last_mut()?.next()?;
            if let Action::CriticalSection { body, .. } = &statement.action {
                open.push(body.iter());
            }
            Some(statement)
        })
    }

    /// Visits statements, each section before the statements in it.
    pub fn each_mut(statements: &mut [Statement], visit: &mut dyn FnMut(&mut Statement)) {
        for statement in statements {
            visit(statement);
            if let Action::CriticalSection { body, .. } = &mut statement.action {
                Statement::each_mut(body, visit);
            }
        }
    }
}

/// The action of a statement.
#[derive(Clone, Debug)]
pub enum Action {
    /// Calls an op.
    Call(Box<Call>),
    /// Releases tensors.
    Release(Vec<ValueRef>),
    /// Records an event on a stream. Recording the event again moves it.
    Record {
        /// The event.
        event: EventRef,
        /// The stream.
        stream: StreamRef,
    },
    /// Makes a stream wait for an event as last recorded.
    Wait {
        /// The event.
        event: EventRef,
        /// The stream.
        stream: StreamRef,
    },
    /// Makes a stream wait for another.
    StreamWait {
        /// The stream to wait for.
        from: StreamRef,
        /// The stream that waits.
        to: StreamRef,
    },
    /// Makes the host wait for a tensor and read it.
    Read(ValueRef),
    /// Uses tensors as reads do, without reading them.
    Touch {
        /// The tensors.
        tensors: Vec<ValueRef>,
        /// The stream, if the file names one.
        stream: Option<StreamRef>,
    },
    /// Orders all earlier statements before all later ones.
    Barrier,
    /// A barrier that waits for all ranks.
    GlobalSync,
    /// Makes the host wait for a stream.
    Synchronize(StreamRef),
    /// Holds tensors exclusively for the statements of its body.
    CriticalSection {
        /// The tensors.
        tensors: Vec<ValueRef>,
        /// The statements.
        body: Vec<Statement>,
    },
    /// Launches an executable.
    Launch(Box<Launch>),
}

/// A call of an op.
#[derive(Clone, Debug)]
pub struct Call {
    /// The op's name; the loader of native traces does not look it up.
    pub op: String,
    /// The span of the name.
    pub op_span: Span,
    /// The input tensors.
    pub inputs: Vec<ValueRef>,
    /// The targets of the results.
    pub results: Results,
    /// The arguments that are not tensors.
    pub attrs: Attrs,
    /// The stream, if the file names one.
    pub stream: Option<StreamRef>,
    /// The priority among the calls of a pool; calls with higher priority run first.
    pub priority: i32,
    /// The ranks that make the call; `None` stands for all.
    pub ranks: Option<Placement>,
    /// How the ranks of a mesh are to hold the first result, if the file says so.
    pub held: Option<Held>,
}

impl Call {
    /// Returns a call that makes new tensors, without arguments, on the stream that the run
    /// chooses.
    pub(crate) fn new(
        op: &str,
        op_span: Span,
        inputs: Vec<ValueRef>,
        results: Vec<ValueRef>,
    ) -> Call {
        let (op, results, attrs) = (op.to_owned(), Results::New(results), Attrs::new());
        let (stream, priority, ranks, held) = (None, 0, None, None);
        Call { op, op_span, inputs, results, attrs, stream, priority, ranks, held }
    }
}

/// The op of a statement that redistributes a tensor of a mesh; no registry has it.
pub const REDISTRIBUTE: &str = "redistribute";

/// How the ranks of a mesh hold a tensor.
#[derive(Clone, Debug)]
pub struct Held {
    /// The mesh, with its name in the file; `None` stands for that of the operands.
    pub mesh: Option<(String, Mesh)>,
    /// A value for each axis.
    pub sbp: NdSbp,
    /// The span of these values.
    pub span: Span,
}

impl Held {
    /// Returns the sharding.
    ///
    /// # Errors
    /// It names no mesh, or other axes than the mesh has.
    pub fn sharding(&self) -> millstream_types::Result<Sharding> {
        let message = "a tensor with an 'sbp' needs a 'mesh'";
        let none = || Error::Invalid { what: "sharding", message: message.to_owned() };
        let (_, mesh) = self.mesh.as_ref().ok_or_else(none)?;
        Sharding::new(mesh, self.sbp.iter().copied())
    }
}

/// The ranks of a call or a tensor, each of which has a whole tensor.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The ranks, ascending; at least one.
    pub ranks: Vec<u32>,
    /// The span of the list.
    pub span: Span,
}

/// The targets of a call's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Results {
    /// New values, in order. Results past the end of the list have no name.
    New(Vec<ValueRef>),
    /// Existing tensors, in order.
    Into(Vec<ValueRef>),
}

impl Results {
    /// Returns the new values.
    pub fn new_values(&self) -> &[ValueRef] {
        match self {
            Results::New(values) => values,
            Results::Into(_) => &[],
        }
    }

    /// Returns the existing tensors that take results.
    pub fn targets(&self) -> &[ValueRef] {
        match self {
            Results::New(_) => &[],
            Results::Into(targets) => targets,
        }
    }
}

impl Action {
    /// Visits the values of an action; of a section, those of its statements as well.
    pub(crate) fn values_mut(&mut self, visit: &mut dyn FnMut(&mut ValueRef)) {
        match self {
            Action::Call(call) => {
                let (Results::New(list) | Results::Into(list)) = &mut call.results;
                call.inputs.iter_mut().chain(list).for_each(visit);
            }
            Action::Release(values) | Action::Touch { tensors: values, .. } => {
                values.iter_mut().for_each(visit);
            }
            Action::Read(value) => visit(value),
            Action::CriticalSection { tensors, body } => {
                tensors.iter_mut().for_each(&mut *visit);
                body.iter_mut().for_each(|statement| statement.action.values_mut(visit));
            }
            Action::Launch(launch) => {
                let Launch { inputs, outputs, workspaces, .. } = &mut **launch;
                let targets = outputs.iter_mut().flatten().map(|target| match target {
                    Target::New(value) | Target::Into(value) => value,
                });
                inputs.iter_mut().chain(workspaces).chain(targets).for_each(visit);
            }
            Action::Record { .. }
            | Action::Wait { .. }
            | Action::StreamWait { .. }
            | Action::Barrier
            | Action::GlobalSync
            | Action::Synchronize(_) => {}
        }
    }
}

/// A tensor to read at the end, with its expectation.
#[derive(Clone, Debug)]
pub struct Output {
    /// The output's name.
    pub name: String,
    /// The tensor. In a trace of instructions it may be `None`: the list may define the name.
    pub value: Option<ValueRef>,
    /// The required dtype, if the file has one.
    pub dtype: Option<DType>,
    /// The required shape, if the file has one.
    pub shape: Option<Dims>,
    /// The expected elements, if the file has them.
    pub expected: Option<Data>,
    /// The expected facts, if the file has them in place of the elements.
    pub probe: Option<Probe>,
    /// The tolerance of the comparison.
    pub tolerance: Tolerance,
    /// The span of the declaration.
    pub site: Site,
}

impl Program {
    /// Returns a program of a file that declares nothing.
    pub(crate) fn new(source: &Arc<Source>, body: Body) -> Program {
        Program {
            name: None,
            streams: Vec::new(),
            tensors: Vec::new(),
            values: Vec::new(),
            executables: Vec::new(),
            body,
            outputs: Vec::new(),
            source: source.clone(),
            spread: false,
            is_partial: false,
            wholes: None,
            rank: None,
            imported: None,
        }
    }

    /// Returns a value.
    pub fn value(&self, value: ValueRef) -> &Value {
        &self.values[value.index()]
    }

    /// Returns the tensor of the file that a value stands for, if the value exists before the
    /// program.
    pub fn tensor(&self, value: ValueRef) -> Option<&Tensor> {
        self.tensors.get(value.index())
    }

    /// Returns the files that hold elements of tensors and outputs.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let tensors = self.tensors.iter().map(|tensor| &tensor.data);
        let expected = self.outputs.iter().filter_map(|output| output.expected.as_ref());
        tensors.chain(expected).filter_map(|data| match data {
            Data::File(sidecar) => Some(sidecar.path()),
            Data::Part(part) => part.file(),
            Data::Fill(_)
            | Data::Values(_)
            | Data::Listed(_)
            | Data::Random { .. }
            | Data::Hint(_) => None,
        })
    }

    /// Returns an error at a span of this file, in the form of a loading error.
    pub fn error(&self, span: Span, message: impl Into<String>) -> TraceError {
        TraceError::at(&self.source, span, message)
    }

    /// Returns the origin of instructions from a span of this file.
    pub fn origin(&self, span: Span) -> Origin {
        let file = self.source.file();
        Origin::Trace(Arc::new(file), span.line)
    }

    /// Returns all statements, of the program and of its executables.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        let own = match &self.body {
            Body::Statements(block) => &block.statements[..],
            Body::Instructions(_) => &[],
        };
        let of_executables = self.executables.iter().map(|e| &e.block.statements[..]);
        std::iter::once(own).chain(of_executables).flat_map(Statement::each)
    }

    /// Returns whether any statement, of the program or of an executable, names a stream.
    pub fn names_streams(&self) -> bool {
        self.statements().any(|statement| match &statement.action {
            Action::Call(call) => call.stream.is_some(),
            Action::Touch { stream, .. } => stream.is_some(),
            Action::Launch(launch) => launch.stream.is_some(),
            Action::Record { .. }
            | Action::Wait { .. }
            | Action::StreamWait { .. }
            | Action::Synchronize(_) => true,
            Action::CriticalSection { .. }
            | Action::Release(_)
            | Action::Read(_)
            | Action::Barrier
            | Action::GlobalSync => false,
        })
    }

    /// Returns the key of each stream, in the order of [`Program::streams`], for a run on the
    /// device `default`. A stream without an index gets the lowest free index of its device and
    /// type.
    ///
    /// # Errors
    /// Two streams have the same key.
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
