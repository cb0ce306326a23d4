//! The raw form of a native trace: one structure for each kind of object in the file.
//!
//! These types are private to the crate. The JSON Schema is generated from them, and their doc
//! comments are the descriptions in the schema.
//!
//! Long because it lists all forms of objects.

use std::borrow::Cow;

use millstream_types::{DType, DeviceId, Dims, StreamMode, StreamType};

use crate::error::Result;
use crate::field::{Fields, Form};
use crate::json::{At, Raw};
use crate::program::Placement;
use crate::schema_types::{
    Attributes, Bytes, Float, Map, Name, Names, NestedRanks, OpName, Scalar, True, Values, Version,
};

/// A field that may be absent.
type Opt<'a, T> = Option<At<'a, T>>;

/// Defines forms, each with its name in the JSON Schema and in errors. The name of a field in the
/// file follows that of the field, if it is another one. What is `Raw` is read later.
macro_rules! forms {
    ($($(#[$doc:meta])* $form:ident $title:literal $what:literal {
        $($(#[$field_doc:meta])* $field:ident $($name:literal)?: $ty:ty,)*
    })*) => {$(
        #[derive(schemars::JsonSchema)]
        $(#[$doc])*
        #[schemars(rename = $title)]
        #[schemars(deny_unknown_fields)]
        #[allow(dead_code, reason = "some fields are for the readers of a file alone")]
        pub(crate) struct $form<'a> {
            $($(#[$field_doc])* $(#[schemars(rename = $name)])?
            pub(crate) $field: $ty,)*
        }

        impl<'a> crate::field::Form<'a> for $form<'a> {
            const NAME: &'static str = $what;

            fn of(fields: &crate::field::Fields<'_, 'a>) -> crate::error::Result<Self> {
                fields.check($what, &[$(crate::raw_form::forms!(@ $field $($name)?)),*])?;
                $(let $field = fields.take(crate::raw_form::forms!(@ $field $($name)?), $what)?;)*
                Ok($form { $($field,)* })
            }
        }
    )*};
    (@ $field:ident) => { stringify!($field) };
    (@ $field:ident $name:literal) => { $name };
}
pub(crate) use forms;

forms! {
    /// A Millstream trace: streams, tensors, a program that uses them, and its expected outputs.
    #[schemars(extend("oneOf" = [
        { "required": ["program"] }, { "required": ["instructions"] }
    ]))]
    TraceForm "Trace" "a trace" {
        /// The version of the format: 1, or 2 for traces with meshes.
        millstream: Raw<'a, Version>,
        /// The JSON Schema for editors; the loader ignores it.
        schema "$schema": Opt<'a, Cow<'a, str>>,
        /// The program's name.
        name: Option<Raw<'a, Name>>,
        /// A comment on the program.
        note: Opt<'a, Cow<'a, str>>,
        /// The streams, by name.
        streams: Option<Raw<'a, Map<StreamForm<'a>>>>,
        /// The grids of ranks that hold global tensors, by name.
        meshes: Option<Raw<'a, Map<MeshForm<'a>>>>,
        /// The tensors that exist before the program, by name.
        tensors: Option<Raw<'a, Map<TensorForm<'a>>>>,
        /// Programs with inputs and outputs that run as one instruction, by name.
        executables: Option<Raw<'a, Map<ExecutableForm<'a>>>>,
        /// The statements, in order.
        program: Option<Raw<'a, Vec<StatementForm<'a>>>>,
        /// A list of instructions in its text form, line by line, in place of a program.
        instructions: Option<Raw<'a, Vec<String>>>,
        /// The tensors to read at the end, by name, with their expected elements.
        outputs: Option<Raw<'a, Map<OutputForm<'a>>>>,
        /// The tolerance of outputs without a tolerance of their own.
        default_tolerance: Opt<'a, ToleranceForm<'a>>,
    }
    /// A stream.
    StreamForm "Stream" "a stream" {
        /// The stream's device; the default is the run's device.
        device: Opt<'a, DeviceId>,
        /// The stream type; the default is compute.
        ty "type": Opt<'a, StreamType>,
        /// The index among the device's streams of this type; the default is the next free index.
        index: Opt<'a, u32>,
        /// The order in which the stream runs its instructions; the default is in-order.
        mode: Opt<'a, StreamMode>,
        /// A comment on the stream.
        note: Opt<'a, Cow<'a, str>>,
    }
    /// A grid of ranks with one to three axes, in which each rank occurs once.
    MeshForm "Mesh" "a mesh" {
        /// The ranks, in lists that are nested as deep as the mesh has axes.
        ranks: Raw<'a, NestedRanks>,
        /// The names of the axes; the default is their numbers.
        axes: Option<Raw<'a, Names>>,
        /// A comment on the mesh.
        note: Opt<'a, Cow<'a, str>>,
    }
    /// A tensor that exists before the program.
    #[schemars(extend("oneOf" = [
        { "required": ["fill", "dtype", "shape"] },
        { "required": ["values", "dtype"] },
        { "required": ["random", "dtype", "shape"] },
        { "required": ["normal", "dtype", "shape"] },
        { "required": ["file", "key"] }
    ]))]
    TensorForm "Tensor" "a tensor" {
        /// The dtype of the elements.
        dtype: Opt<'a, DType>,
        /// The lengths of the dimensions, outermost first.
        shape: Opt<'a, Dims>,
        /// The strides of the dimensions, in elements; the default is row-major.
        strides: Opt<'a, Dims>,
        /// The offset of the first element in the storage, in elements; the default is 0.
        offset: Opt<'a, usize>,
        /// The size of the storage in elements; the default is the least size that holds the
        /// tensor.
        storage: Opt<'a, usize>,
        /// The device whose memory holds the tensor; the default is the run's device.
        device: Opt<'a, DeviceId>,
        /// The ranks that hold the tensor, ascending; the default is all.
        ranks: Opt<'a, Placement>,
        /// The mesh whose ranks hold the tensor together; the elements are those of the whole.
        mesh: Option<Raw<'a, Name>>,
        /// For each axis of the mesh: S0, S1, … for parts of a dimension, B for all elements, P,
        /// Pmax or Pmin for tensors that are reduced.
        sbp: Option<Raw<'a, Names>>,
        /// The value of every element.
        fill: Option<Raw<'a, Scalar>>,
        /// The elements, nested like the shape or flat in row-major order.
        values: Option<Raw<'a, Values>>,
        /// Seeded uniform random elements.
        random: Opt<'a, RandomForm<'a>>,
        /// Seeded normally distributed elements.
        normal: Opt<'a, NormalForm<'a>>,
        /// The safetensors file with the elements, below the trace's folder.
        file: Opt<'a, Cow<'a, str>>,
        /// The tensor's name in the safetensors file.
        key: Opt<'a, Cow<'a, str>>,
        /// A comment on the tensor.
        note: Opt<'a, Cow<'a, str>>,
    }
    /// Uniform random elements from `low` to below `high`.
    RandomForm "Random" "random elements" {
        /// The seed.
        seed: At<'a, u64>,
        /// The inclusive lower bound; the default is 0.
        low: Option<Raw<'a, f64>>,
        /// The exclusive upper bound; the default is 1 for floating-point numbers and 2 for
        /// booleans; integers require it.
        high: Option<Raw<'a, f64>>,
    }
    /// Normally distributed elements.
    NormalForm "Normal" "normally distributed elements" {
        /// The seed.
        seed: At<'a, u64>,
        /// The mean; the default is 0.
        mean: Opt<'a, f64>,
        /// The standard deviation; the default is 1.
        std: Opt<'a, f64>,
    }
    /// A tensor to read at the end, with its expected elements. Without expected elements it is
    /// only printed.
    OutputForm "Output" "an output" {
        /// The required dtype.
        dtype: Opt<'a, DType>,
        /// The required shape.
        shape: Opt<'a, Dims>,
        /// The expected value of every element.
        fill: Option<Raw<'a, Scalar>>,
        /// The expected elements, nested or flat.
        values: Option<Raw<'a, Values>>,
        /// The safetensors file with the expected elements, below the trace's folder.
        file: Opt<'a, Cow<'a, str>>,
        /// The tensor's name in the safetensors file.
        key: Opt<'a, Cow<'a, str>>,
        /// The relative tolerance: the allowed error as a fraction of the expected value.
        rtol: Opt<'a, f64>,
        /// The absolute tolerance: the allowed error independent of the expected value.
        atol: Opt<'a, f64>,
        /// A comment on the output.
        note: Opt<'a, Cow<'a, str>>,
    }
    /// The tolerance of a comparison: |actual - expected| <= atol + rtol * |expected|.
    ToleranceForm "Tolerance" "a tolerance" {
        /// The relative tolerance: the allowed error as a fraction of the expected value.
        rtol: Opt<'a, f64>,
        /// The absolute tolerance: the allowed error independent of the expected value.
        atol: Opt<'a, f64>,
    }
    /// Two streams.
    FromToForm "FromTo" "a stream_wait" {
        /// The stream to wait for.
        from: Raw<'a, Name>,
        /// The stream that waits.
        to: Raw<'a, Name>,
    }
    /// A program with inputs and outputs that runs as one instruction each time that it is
    /// launched.
    ExecutableForm "Executable" "an executable" {
        /// The inputs, by name: tensors that each launch gives.
        inputs: Option<Raw<'a, Map<InputForm<'a>>>>,
        /// The scalars, by name: numbers that launches give, with their values where one gives
        /// none. An argument `"$NAME"` of a call is the number of the launch.
        scalars: Option<Raw<'a, Map<Float>>>,
        /// The statements: all but read, synchronize and launch.
        program: Raw<'a, Vec<StatementForm<'a>>>,
        /// The outputs, by name: tensors that exist after the last statement, which each launch
        /// returns.
        outputs: Option<Raw<'a, Map<ReturnedForm<'a>>>>,
        /// The most private memory by device, as in `"512MiB"`: tensors are computed again where
        /// they do not fit.
        remat: Option<Raw<'a, Map<Bytes>>>,
        /// A comment on the executable.
        note: Opt<'a, Cow<'a, str>>,
    }
    /// An input of an executable. Each launch gives a tensor of this description.
    InputForm "Input" "an input" {
        /// The dtype of the elements.
        dtype: At<'a, DType>,
        /// The lengths of the dimensions, outermost first.
        shape: At<'a, Dims>,
        /// The strides of the dimensions, in elements; the default is row-major.
        strides: Opt<'a, Dims>,
        /// The device whose memory holds the tensor; the default is the run's device.
        device: Opt<'a, DeviceId>,
        /// The mesh whose ranks hold the tensor together, the same for all inputs.
        mesh: Option<Raw<'a, Name>>,
        /// How they hold it, for each axis of the mesh.
        sbp: Option<Raw<'a, Names>>,
        /// A comment on the input.
        note: Opt<'a, Cow<'a, str>>,
    }
    /// An output of an executable. Its statements determine dtype, shape and device; those that are
    /// given are checked.
    ReturnedForm "Returned" "an output" {
        /// The required dtype.
        dtype: Opt<'a, DType>,
        /// The required shape.
        shape: Opt<'a, Dims>,
        /// The required device.
        device: Opt<'a, DeviceId>,
        /// A comment on the output.
        note: Opt<'a, Cow<'a, str>>,
    }
}

/// Defines the form of each kind of statement with its name in the JSON Schema and the field that
/// identifies the kind, and the table of these fields.
macro_rules! statements {
    ($($(#[$doc:meta])* $form:ident $title:literal $what:literal $kind:literal {
        $($(#[$field_doc:meta])* $field:ident $($name:literal)?: $ty:ty,)*
    })*) => {
        /// The field that identifies each kind of statement.
        pub(crate) const KINDS: &[&str] = &[$($kind),*];

        forms! {$(
            $(#[$doc])* $form $title $what {
                $($(#[$field_doc])* $field $($name)?: $ty,)*
                /// A comment on the statement.
                note: Opt<'a, Cow<'a, str>>,
            }
        )*}

        /// One statement of a program.
        #[derive(schemars::JsonSchema)]
        #[schemars(untagged, rename = "Statement")]
        #[allow(clippy::enum_variant_names, reason = "each variant has the name of its form")]
        #[allow(clippy::large_enum_variant, reason = "one statement is read at a time")]
        #[allow(dead_code, reason = "a barrier has no fields to read")]
        pub(crate) enum StatementForm<'a> {
            $($(#[$doc])* $form($form<'a>),)*
        }

        impl<'a> StatementForm<'a> {
            /// Reads the fields of a statement of this kind; none if there is no such kind.
            pub(crate) fn of(kind: &str, fields: &Fields<'_, 'a>) -> Result<Option<Self>> {
                Ok(match kind {
                    $($kind => Some(StatementForm::$form(Form::of(fields)?)),)*
                    _ => None,
                })
            }
        }
    };
}

statements! {
    /// Calls an op.
    OpForm "Op" "an op call" "op" {
        /// The op's name.
        op: Raw<'a, OpName>,
        /// The input tensors, in order.
        input "in": Option<Raw<'a, Names>>,
        /// The names of the output tensors, in order.
        out: Option<Raw<'a, Names>>,
        /// Existing tensors that the results are written to, in place of `out`.
        into: Option<Raw<'a, Names>>,
        /// The stream of the call; the run chooses one by default.
        stream: Option<Raw<'a, Name>>,
        /// The priority among the calls of a pool; calls with higher priority run first, and the
        /// default is 0.
        priority: Opt<'a, i32>,
        /// The ranks that make the call, ascending; the default is all.
        ranks: Opt<'a, Placement>,
        /// The mesh of a call without operands; its result is held there.
        mesh: Option<Raw<'a, Name>>,
        /// How the first result of a call on a mesh is to be held, for each axis.
        sbp: Option<Raw<'a, Names>>,
        /// The arguments that are not tensors, by name.
        attrs: Option<Raw<'a, Attributes>>,
    }
    /// Makes a tensor of a mesh that holds another one's elements in another way.
    RedistributeForm "Redistribute" "a redistribute" "redistribute" {
        /// The tensor.
        redistribute: Raw<'a, Name>,
        /// The name of the new tensor.
        out: Raw<'a, Name>,
        /// The mesh; the default is that of the tensor.
        mesh: Option<Raw<'a, Name>>,
        /// How it is held, for each axis of the mesh.
        sbp: Raw<'a, Names>,
    }
    /// Releases tensors. Their names can be used again.
    ReleaseForm "Release" "a release" "release" {
        /// The tensors.
        release: Raw<'a, Names>,
    }
    /// Records an event on a stream.
    RecordForm "Record" "a record" "record" {
        /// The event's name; recording the event again moves it.
        record: Raw<'a, Name>,
        /// The stream; the event covers all work that the stream has so far.
        stream: Raw<'a, Name>,
    }
    /// Makes a stream wait for an event.
    WaitForm "Wait" "a wait" "wait" {
        /// The event, as last recorded before this statement.
        wait: Raw<'a, Name>,
        /// The stream that waits.
        stream: Raw<'a, Name>,
    }
    /// Makes a stream wait for all work that another stream has so far.
    StreamWaitForm "StreamWait" "a stream_wait" "stream_wait" {
        /// The streams.
        stream_wait: At<'a, FromToForm<'a>>,
    }
    /// Makes the host wait for a tensor and read it.
    ReadForm "Read" "a read" "read" {
        /// The tensor.
        read: Raw<'a, Name>,
    }
    /// Uses tensors on a stream as reads do, without reading them.
    TouchForm "Touch" "a touch" "touch" {
        /// The tensors.
        touch: Raw<'a, Names>,
        /// The stream; the run chooses one by default.
        stream: Option<Raw<'a, Name>>,
    }
    /// Orders all earlier statements, on all streams, before all later ones.
    BarrierForm "Barrier" "a barrier" "barrier" {
        /// Always true.
        barrier: At<'a, True>,
    }
    /// A barrier that waits for all ranks.
    GlobalSyncForm "GlobalSync" "a global_sync" "global_sync" {
        /// Always true.
        global_sync: At<'a, True>,
    }
    /// Makes the host wait for a stream.
    SynchronizeForm "Synchronize" "a synchronize" "synchronize" {
        /// The stream.
        synchronize: Raw<'a, Name>,
    }
    /// Holds tensors exclusively for the statements of its body.
    CriticalSectionForm "CriticalSection" "a critical section" "critical_section" {
        /// The tensors.
        critical_section: Raw<'a, Names>,
        /// The statements.
        body: Raw<'a, Vec<StatementForm<'a>>>,
    }
    /// Launches an executable, as one instruction.
    LaunchForm "Launch" "a launch" "launch" {
        /// The executable's name.
        launch: Raw<'a, Name>,
        /// The tensor for each input, by the input's name.
        input "in": Option<Raw<'a, Map<Name>>>,
        /// The number for each scalar, by the scalar's name.
        scalars: Option<Raw<'a, Map<Float>>>,
        /// New names for outputs, by the output's name. An output without a name is not used.
        out: Option<Raw<'a, Map<Name>>>,
        /// Existing tensors that outputs are written to, by the output's name, in place of `out`.
        into: Option<Raw<'a, Map<Name>>>,
        /// The tensors in whose memory the executable computes, in place of memory of its own: one
        /// of u8 for each device. Their content is lost.
        workspace: Option<Raw<'a, Names>>,
        /// The stream of the launch, of type lazy-job; the run chooses one by default.
        stream: Option<Raw<'a, Name>>,
    }
}
