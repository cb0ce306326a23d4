//! The raw form of a native trace: one structure for each kind of object in the file.
//!
//! These types are private to the crate. The JSON Schema is generated from them, and their doc
//! comments are the descriptions in the schema.
//!
//! Long because it lists all forms of objects.

mod executable;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::json::Raw;
use crate::schema_types::{
    Attributes, DTypeName, DeviceName, Float, Map, ModeName, Name, Names, NestedRanks, OpName,
    Scalar, StreamTypeName, True, Values, Version,
};

pub(crate) use executable::{ExecutableForm, InputForm, ReturnedForm};

/// A Millstream trace: streams, tensors, a program that uses them, and its expected outputs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Trace", extend("oneOf" = [
    { "required": ["program"] }, { "required": ["instructions"] }
]))]
pub(crate) struct TraceForm<'a> {
    /// The version of the format: 1, or 2 for traces with meshes.
    #[serde(borrow)]
    #[schemars(required)]
    #[allow(dead_code, reason = "`check_version` reads it before the rest of the form")]
    pub(crate) millstream: Option<Raw<'a, Version>>,
    /// The JSON Schema for editors; the loader ignores it.
    #[serde(borrow, rename = "$schema")]
    pub(crate) schema: Option<Raw<'a, String>>,
    /// The program's name.
    #[serde(borrow)]
    pub(crate) name: Option<Raw<'a, Name>>,
    /// A comment on the program.
    #[serde(borrow)]
    pub(crate) note: Option<Raw<'a, String>>,
    /// The streams, by name.
    #[serde(borrow)]
    pub(crate) streams: Option<Raw<'a, Map<StreamForm<'a>>>>,
    /// The grids of ranks that hold global tensors, by name.
    #[serde(borrow)]
    pub(crate) meshes: Option<Raw<'a, Map<MeshForm<'a>>>>,
    /// The tensors that exist before the program, by name.
    #[serde(borrow)]
    pub(crate) tensors: Option<Raw<'a, Map<TensorForm<'a>>>>,
    /// Programs with inputs and outputs that run as one instruction, by name.
    #[serde(borrow)]
    pub(crate) executables: Option<Raw<'a, Map<ExecutableForm<'a>>>>,
    /// The statements, in order.
    #[serde(borrow)]
    pub(crate) program: Option<Raw<'a, Vec<StatementForm<'a>>>>,
    /// A list of instructions in its text form, line by line, in place of a program.
    #[serde(borrow)]
    pub(crate) instructions: Option<Raw<'a, Vec<String>>>,
    /// The tensors to read at the end, by name, with their expected elements.
    #[serde(borrow)]
    pub(crate) outputs: Option<Raw<'a, Map<OutputForm<'a>>>>,
    /// The tolerance of outputs without a tolerance of their own.
    #[serde(borrow)]
    pub(crate) default_tolerance: Option<Raw<'a, ToleranceForm<'a>>>,
}

/// A stream.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Stream")]
pub(crate) struct StreamForm<'a> {
    /// The stream's device; the default is the run's device.
    #[serde(borrow)]
    pub(crate) device: Option<Raw<'a, DeviceName>>,
    /// The stream type; the default is compute.
    #[serde(borrow, rename = "type")]
    pub(crate) ty: Option<Raw<'a, StreamTypeName>>,
    /// The index among the device's streams of this type; the default is the next free index.
    #[serde(borrow)]
    pub(crate) index: Option<Raw<'a, u32>>,
    /// The order in which the stream runs its instructions; the default is in-order.
    #[serde(borrow)]
    pub(crate) mode: Option<Raw<'a, ModeName>>,
    /// A comment on the stream.
    #[serde(borrow)]
    pub(crate) note: Option<Raw<'a, String>>,
}

/// A grid of ranks with one to three axes, in which each rank occurs once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Mesh")]
pub(crate) struct MeshForm<'a> {
    /// The ranks, in lists that are nested as deep as the mesh has axes.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) ranks: Option<Raw<'a, NestedRanks>>,
    /// The names of the axes; the default is their numbers.
    #[serde(borrow)]
    pub(crate) axes: Option<Raw<'a, Names>>,
    /// A comment on the mesh.
    #[serde(borrow)]
    pub(crate) note: Option<Raw<'a, String>>,
}

/// A tensor that exists before the program.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tensor", extend("oneOf" = [
    { "required": ["fill", "dtype", "shape"] },
    { "required": ["values", "dtype"] },
    { "required": ["random", "dtype", "shape"] },
    { "required": ["normal", "dtype", "shape"] },
    { "required": ["file", "key"] }
]))]
pub(crate) struct TensorForm<'a> {
    /// The dtype of the elements.
    #[serde(borrow)]
    pub(crate) dtype: Option<Raw<'a, DTypeName>>,
    /// The lengths of the dimensions, outermost first.
    #[serde(borrow)]
    pub(crate) shape: Option<Raw<'a, Vec<u64>>>,
    /// The strides of the dimensions, in elements; the default is row-major.
    #[serde(borrow)]
    pub(crate) strides: Option<Raw<'a, Vec<u64>>>,
    /// The offset of the first element in the storage, in elements; the default is 0.
    #[serde(borrow)]
    pub(crate) offset: Option<Raw<'a, u64>>,
    /// The size of the storage in elements; the default is the least size that holds the tensor.
    #[serde(borrow)]
    pub(crate) storage: Option<Raw<'a, u64>>,
    /// The device whose memory holds the tensor; the default is the run's device.
    #[serde(borrow)]
    pub(crate) device: Option<Raw<'a, DeviceName>>,
    /// The ranks that hold the tensor, ascending; the default is all.
    #[serde(borrow)]
    pub(crate) ranks: Option<Raw<'a, Vec<u32>>>,
    /// The mesh whose ranks hold the tensor together; the elements are those of the whole.
    #[serde(borrow)]
    pub(crate) mesh: Option<Raw<'a, Name>>,
    /// For each axis of the mesh: S0, S1, … for parts of a dimension, B for all elements, P, Pmax
    /// or Pmin for tensors that are reduced.
    #[serde(borrow)]
    pub(crate) sbp: Option<Raw<'a, Names>>,
    /// The value of every element.
    #[serde(borrow)]
    pub(crate) fill: Option<Raw<'a, Scalar>>,
    /// The elements, nested like the shape or flat in row-major order.
    #[serde(borrow)]
    pub(crate) values: Option<Raw<'a, Values>>,
    /// Seeded uniform random elements.
    #[serde(borrow)]
    pub(crate) random: Option<Raw<'a, RandomForm<'a>>>,
    /// Seeded normally distributed elements.
    #[serde(borrow)]
    pub(crate) normal: Option<Raw<'a, NormalForm<'a>>>,
    /// The safetensors file with the elements, below the trace's folder.
    #[serde(borrow)]
    pub(crate) file: Option<Raw<'a, String>>,
    /// The tensor's name in the safetensors file.
    #[serde(borrow)]
    pub(crate) key: Option<Raw<'a, String>>,
    /// A comment on the tensor.
    #[serde(borrow)]
    pub(crate) note: Option<Raw<'a, String>>,
}

/// Uniform random elements from `low` to below `high`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Random")]
pub(crate) struct RandomForm<'a> {
    /// The seed.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) seed: Option<Raw<'a, u64>>,
    /// The inclusive lower bound; the default is 0.
    #[serde(borrow)]
    pub(crate) low: Option<Raw<'a, f64>>,
    /// The exclusive upper bound; the default is 1 for floating-point numbers and 2 for booleans;
    /// integers require it.
    #[serde(borrow)]
    pub(crate) high: Option<Raw<'a, f64>>,
}

/// Normally distributed elements.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Normal")]
pub(crate) struct NormalForm<'a> {
    /// The seed.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) seed: Option<Raw<'a, u64>>,
    /// The mean; the default is 0.
    #[serde(borrow)]
    pub(crate) mean: Option<Raw<'a, f64>>,
    /// The standard deviation; the default is 1.
    #[serde(borrow)]
    pub(crate) std: Option<Raw<'a, f64>>,
}

/// A tensor to read at the end, with its expected elements. Without expected elements it is only
/// printed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Output")]
pub(crate) struct OutputForm<'a> {
    /// The required dtype.
    #[serde(borrow)]
    pub(crate) dtype: Option<Raw<'a, DTypeName>>,
    /// The required shape.
    #[serde(borrow)]
    pub(crate) shape: Option<Raw<'a, Vec<u64>>>,
    /// The expected value of every element.
    #[serde(borrow)]
    pub(crate) fill: Option<Raw<'a, Scalar>>,
    /// The expected elements, nested or flat.
    #[serde(borrow)]
    pub(crate) values: Option<Raw<'a, Values>>,
    /// The safetensors file with the expected elements, below the trace's folder.
    #[serde(borrow)]
    pub(crate) file: Option<Raw<'a, String>>,
    /// The tensor's name in the safetensors file.
    #[serde(borrow)]
    pub(crate) key: Option<Raw<'a, String>>,
    /// The relative tolerance: the allowed error as a fraction of the expected value.
    #[serde(borrow)]
    pub(crate) rtol: Option<Raw<'a, f64>>,
    /// The absolute tolerance: the allowed error independent of the expected value.
    #[serde(borrow)]
    pub(crate) atol: Option<Raw<'a, f64>>,
    /// A comment on the output.
    #[serde(borrow)]
    pub(crate) note: Option<Raw<'a, String>>,
}

/// The tolerance of a comparison: |actual - expected| <= atol + rtol * |expected|.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tolerance")]
pub(crate) struct ToleranceForm<'a> {
    /// The relative tolerance: the allowed error as a fraction of the expected value.
    #[serde(borrow)]
    pub(crate) rtol: Option<Raw<'a, f64>>,
    /// The absolute tolerance: the allowed error independent of the expected value.
    #[serde(borrow)]
    pub(crate) atol: Option<Raw<'a, f64>>,
}

/// Defines the form of each kind of statement with its name in the JSON Schema and the field that
/// identifies the kind, and the table of these fields.
macro_rules! statements {
    ($($(#[$doc:meta])* $form:ident $title:literal $kind:literal {
        $($(#[$field_doc:meta])* $field:ident $name:literal: $ty:ty,)*
    })*) => {
        /// The field that identifies each kind of statement.
        pub(crate) const KINDS: &[&str] = &[$($kind),*];

        $(
            $(#[$doc])*
            #[derive(Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            #[schemars(rename = $title)]
            pub(crate) struct $form<'a> {
                $($(#[$field_doc])* #[serde(borrow, rename = $name)]
                pub(crate) $field: Option<Raw<'a, $ty>>,)*
                /// A comment on the statement.
                #[serde(borrow)]
                pub(crate) note: Option<Raw<'a, String>>,
            }
        )*

        /// One statement of a program.
        #[derive(JsonSchema)]
        #[serde(untagged)]
        #[schemars(rename = "Statement")]
        #[allow(clippy::enum_variant_names, reason = "each variant has the name of its form")]
        #[allow(dead_code, reason = "represents the choice of forms in the JSON Schema")]
        pub(crate) enum StatementForm<'a> {
            $($(#[$doc])* $form($form<'a>),)*
        }
    };
}

statements! {
    /// Calls an op.
    OpForm "Op" "op" {
        /// The op's name.
        #[schemars(required)] op "op": OpName,
        /// The input tensors, in order.
        input "in": Names,
        /// The names of the output tensors, in order.
        out "out": Names,
        /// Existing tensors that the results are written to, in place of `out`.
        into "into": Names,
        /// The stream of the call; the run chooses one by default.
        stream "stream": Name,
        /// The priority among the calls of a pool; calls with higher priority run first, and the
        /// default is 0.
        priority "priority": i32,
        /// The ranks that make the call, ascending; the default is all.
        ranks "ranks": Vec<u32>,
        /// The mesh of a call without operands; its result is held there.
        mesh "mesh": Name,
        /// How the first result of a call on a mesh is to be held, for each axis.
        sbp "sbp": Names,
        /// The arguments that are not tensors, by name.
        attrs "attrs": Attributes,
    }
    /// Makes a tensor of a mesh that holds another one's elements in another way.
    RedistributeForm "Redistribute" "redistribute" {
        /// The tensor.
        #[schemars(required)] redistribute "redistribute": Name,
        /// The name of the new tensor.
        #[schemars(required)] out "out": Name,
        /// The mesh; the default is that of the tensor.
        mesh "mesh": Name,
        /// How it is held, for each axis of the mesh.
        #[schemars(required)] sbp "sbp": Names,
    }
    /// Releases tensors. Their names can be used again.
    ReleaseForm "Release" "release" {
        /// The tensors.
        #[schemars(required)] release "release": Names,
    }
    /// Records an event on a stream.
    RecordForm "Record" "record" {
        /// The event's name; recording the event again moves it.
        #[schemars(required)] record "record": Name,
        /// The stream; the event covers all work that the stream has so far.
        #[schemars(required)] stream "stream": Name,
    }
    /// Makes a stream wait for an event.
    WaitForm "Wait" "wait" {
        /// The event, as last recorded before this statement.
        #[schemars(required)] wait "wait": Name,
        /// The stream that waits.
        #[schemars(required)] stream "stream": Name,
    }
    /// Makes a stream wait for all work that another stream has so far.
    StreamWaitForm "StreamWait" "stream_wait" {
        /// The streams.
        #[schemars(required)] stream_wait "stream_wait": FromToForm<'a>,
    }
    /// Makes the host wait for a tensor and read it.
    ReadForm "Read" "read" {
        /// The tensor.
        #[schemars(required)] read "read": Name,
    }
    /// Uses tensors on a stream as reads do, without reading them.
    TouchForm "Touch" "touch" {
        /// The tensors.
        #[schemars(required)] touch "touch": Names,
        /// The stream; the run chooses one by default.
        stream "stream": Name,
    }
    /// Orders all earlier statements, on all streams, before all later ones.
    BarrierForm "Barrier" "barrier" {
        /// Always true.
        #[schemars(required)] barrier "barrier": True,
    }
    /// A barrier that waits for all ranks.
    GlobalSyncForm "GlobalSync" "global_sync" {
        /// Always true.
        #[schemars(required)] global_sync "global_sync": True,
    }
    /// Makes the host wait for a stream.
    SynchronizeForm "Synchronize" "synchronize" {
        /// The stream.
        #[schemars(required)] synchronize "synchronize": Name,
    }
    /// Holds tensors exclusively for the statements of its body.
    CriticalSectionForm "CriticalSection" "critical_section" {
        /// The tensors.
        #[schemars(required)] critical_section "critical_section": Names,
        /// The statements.
        #[schemars(required)] body "body": Vec<StatementForm<'a>>,
    }
    /// Launches an executable, as one instruction.
    LaunchForm "Launch" "launch" {
        /// The executable's name.
        #[schemars(required)] launch "launch": Name,
        /// The tensor for each input, by the input's name.
        input "in": Map<Name>,
        /// The number for each scalar, by the scalar's name.
        scalars "scalars": Map<Float>,
        /// New names for outputs, by the output's name. An output without a name is not used.
        out "out": Map<Name>,
        /// Existing tensors that outputs are written to, by the output's name, in place of `out`.
        into "into": Map<Name>,
        /// The tensors in whose memory the executable computes, in place of memory of its own: one
        /// of u8 for each device. Their content is lost.
        workspace "workspace": Names,
        /// The stream of the launch, of type lazy-job; the run chooses one by default.
        stream "stream": Name,
    }
}

/// Two streams.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FromTo")]
pub(crate) struct FromToForm<'a> {
    /// The stream to wait for.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) from: Option<Raw<'a, Name>>,
    /// The stream that waits.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) to: Option<Raw<'a, Name>>,
}
