//! Calls of a function, by the names of values.

use std::fmt;

use millstream_instructions::{Priority, TensorRef};
use millstream_runtime::engine::Engine;
use millstream_types::text::print_attrs;
use millstream_types::{Attrs, DeviceId, Origin, Result, StreamKey, TensorSpec};

use crate::handle::Tensor;
use crate::handle::global::{self, Class};
use crate::handle::machine::Machine;

/// A tensor of a function, by a name that is the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Value {
    /// The input of this number.
    Input(u32),
    /// The tensor that the function took from elsewhere as the so-many-th.
    Outside(u32),
    /// The tensor that the function made as the so-many-th.
    Made(u32),
    /// The gradient that the function found in the so-many-th leaf.
    Gradient(u32),
}

impl Value {
    /// Whether each call is given the value.
    pub(super) const fn is_given(&self) -> bool {
        matches!(self, Value::Input(_) | Value::Gradient(_))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Input(k) => write!(f, "input {k}"),
            Value::Outside(k) => write!(f, "outside {k}"),
            Value::Made(k) => write!(f, "value {k}"),
            Value::Gradient(k) => write!(f, "gradient {k}"),
        }
    }
}

/// A stream of a function, by a name that is the same in every run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum StreamName {
    Key(StreamKey),
    /// The created stream that the function used as the so-many-th: each run may have another.
    Created(u32),
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamName::Key(key) => key.fmt(f),
            StreamName::Created(k) => write!(f, "created stream {k}"),
        }
    }
}

/// Where a value lies.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) spec: TensorSpec,
    pub(super) device: DeviceId,
    /// The machine's number of its storage.
    pub(super) storage: u64,
    /// The bytes of the storage.
    pub(super) bytes: u64,
    /// Whether tapes note the calls that depend on the tensor.
    pub(super) is_leaf: bool,
    /// The whole, if this is a part of it.
    pub(super) class: Option<Class>,
}

impl Place {
    /// Returns where a tensor lies; of a global one this rank's part.
    ///
    /// # Errors
    /// It is another machine's, or was released; the rank has no part.
    pub(super) fn of(machine: &Machine, tensor: &Tensor) -> Result<Place> {
        let part = global::part(tensor)?;
        let made = machine.owns(part)?;
        let engine = machine.shared.lock()?;
        let place = Place::of_ref(&engine, made, part.spec())?;
        let is_leaf = tensor.leaf_slot().get().is_some();
        Ok(Place { is_leaf, class: global::class(tensor), ..place })
    }

    /// Returns where a tensor lies.
    ///
    /// # Errors
    /// It was released.
    pub(super) fn of_ref(engine: &Engine, tensor: TensorRef, spec: &TensorSpec) -> Result<Place> {
        let bytes = engine.builder.storage_bytes(tensor)?;
        let device = engine.builder.device(tensor)?.clone();
        let storage = engine.builder.storage_number(tensor)?;
        Ok(Place { spec: spec.clone(), device, storage, bytes, is_leaf: false, class: None })
    }
}

/// What a function asked of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Call {
        name: String,
        inputs: Vec<Value>,
        out: Option<Vec<Value>>,
        attrs: Attrs,
        stream: StreamName,
        priority: Priority,
    },
    Empty {
        spec: TensorSpec,
        bytes: u64,
        stream: StreamName,
    },
    View {
        of: Value,
        spec: TensorSpec,
    },
    Upload {
        spec: TensorSpec,
        bytes: Vec<u8>,
        stream: StreamName,
    },
    Read {
        tensor: Value,
    },
    /// Events are numbered in the order of their records.
    RecordEvent {
        stream: StreamName,
        event: u32,
    },
    WaitEvent {
        stream: StreamName,
        event: u32,
    },
    WaitStream {
        stream: StreamName,
        source: StreamName,
    },
    Barrier {
        global: bool,
    },
    Touch {
        tensors: Vec<Value>,
        stream: StreamName,
    },
}

impl Action {
    /// Returns the values that the action uses.
    pub(super) fn uses(&self) -> Vec<Value> {
        match self {
            Action::Call { inputs, out, .. } => {
                inputs.iter().chain(out.iter().flatten()).copied().collect()
            }
            Action::View { of, .. } => vec![*of],
            Action::Touch { tensors, .. } => tensors.clone(),
            Action::Read { tensor } => vec![*tensor],
            Action::Empty { .. }
            | Action::Upload { .. }
            | Action::RecordEvent { .. }
            | Action::WaitEvent { .. }
            | Action::WaitStream { .. }
            | Action::Barrier { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Call { name, inputs, attrs, stream, .. } => {
                let inputs: Vec<String> = inputs.iter().map(Value::to_string).collect();
                write!(f, "{name}({}", inputs.join(", "))?;
                if !attrs.is_empty() {
                    let mut text = String::new();
                    print_attrs(attrs, ", ", &mut text);
                    write!(f, "; {text}")?;
                }
                write!(f, ") on {stream}")
            }
            Action::Empty { spec, stream, .. } => write!(f, "an empty {spec} on {stream}"),
            Action::View { of, spec } => write!(f, "a view {spec} of {of}"),
            Action::Upload { spec, stream, .. } => write!(f, "an upload of {spec} on {stream}"),
            Action::Read { tensor } => write!(f, "a read of {tensor}"),
            Action::RecordEvent { stream, .. } => write!(f, "the record of an event on {stream}"),
            Action::WaitEvent { stream, .. } => write!(f, "a wait for an event on {stream}"),
            Action::WaitStream { stream, source } => write!(f, "a wait of {stream} for {source}"),
            Action::Barrier { .. } => f.write_str("a barrier"),
            Action::Touch { stream, .. } => write!(f, "a touch of tensors on {stream}"),
        }
    }
}

/// A value that a function gives back, and the whole, if it is a part of one.
pub(super) type Returned = (Value, Option<Class>);

/// A tensor that a call returned.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NoteResult {
    pub(super) value: Value,
    pub(super) spec: TensorSpec,
}

/// A call of a function.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) action: Action,
    /// The tensors that it returned.
    pub(super) results: Vec<NoteResult>,
    pub(super) origin: Origin,
}
