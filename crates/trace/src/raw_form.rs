//! The raw form of a native trace: one structure for each kind of object in the file.
//!
//! These types are private to the crate. The JSON Schema is generated from them, and their doc
//! comments are the descriptions in the schema.
//!
//! Long because it lists all forms of objects.

use crate::schema_types::{
    Attributes, Bytes, DTypeName, DeviceName, Float, Map, ModeName, Name, Names, NestedRanks,
    OpName, Scalar, StreamTypeName, True, Values, Version,
};

/// The form of an object.
pub(crate) trait Form<'a>: serde::Deserialize<'a> {
    /// The names of the fields.
    const FIELDS: &'static [&'static str];
}

/// Defines forms, each with its name in the JSON Schema. The name of a field in the file follows
/// that of the field, if it is another one.
macro_rules! forms {
    ($($(#[$doc:meta])* $form:ident $title:literal {
        $($(#[$field_doc:meta])* $field:ident $($name:literal)?: $ty:ty,)*
    })*) => {$(
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        $(#[$doc])*
        #[serde(deny_unknown_fields)]
        #[schemars(rename = $title)]
        #[allow(dead_code, reason = "some fields are for the readers of a file alone")]
        pub(crate) struct $form<'a> {
            $($(#[$field_doc])* #[serde(borrow $(, rename = $name)?)]
            pub(crate) $field: Option<crate::json::Raw<'a, $ty>>,)*
        }

        impl<'a> crate::raw_form::Form<'a> for $form<'a> {
            const FIELDS: &'static [&'static str] =
                &[$(crate::raw_form::forms!(@ $field $($name)?)),*];
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
    TraceForm "Trace" {
        /// The version of the format: 1, or 2 for traces with meshes.
        #[schemars(required)] millstream: Version,
        /// The JSON Schema for editors; the loader ignores it.
        schema "$schema": String,
        /// The program's name.
        name: Name,
        /// A comment on the program.
        note: String,
        /// The streams, by name.
        streams: Map<StreamForm<'a>>,
        /// The grids of ranks that hold global tensors, by name.
        meshes: Map<MeshForm<'a>>,
        /// The tensors that exist before the program, by name.
        tensors: Map<TensorForm<'a>>,
        /// Programs with inputs and outputs that run as one instruction, by name.
        executables: Map<ExecutableForm<'a>>,
        /// The statements, in order.
        program: Vec<StatementForm<'a>>,
        /// A list of instructions in its text form, line by line, in place of a program.
        instructions: Vec<String>,
        /// The tensors to read at the end, by name, with their expected elements.
        outputs: Map<OutputForm<'a>>,
        /// The tolerance of outputs without a tolerance of their own.
        default_tolerance: ToleranceForm<'a>,
    }
    /// A stream.
    StreamForm "Stream" {
        /// The stream's device; the default is the run's device.
        device: DeviceName,
        /// The stream type; the default is compute.
        ty "type": StreamTypeName,
        /// The index among the device's streams of this type; the default is the next free index.
        index: u32,
        /// The order in which the stream runs its instructions; the default is in-order.
        mode: ModeName,
        /// A comment on the stream.
        note: String,
    }
    /// A grid of ranks with one to three axes, in which each rank occurs once.
    MeshForm "Mesh" {
        /// The ranks, in lists that are nested as deep as the mesh has axes.
        #[schemars(required)] ranks: NestedRanks,
        /// The names of the axes; the default is their numbers.
        axes: Names,
        /// A comment on the mesh.
        note: String,
    }
    /// A tensor that exists before the program.
    #[schemars(extend("oneOf" = [
        { "required": ["fill", "dtype", "shape"] },
        { "required": ["values", "dtype"] },
        { "required": ["random", "dtype", "shape"] },
        { "required": ["normal", "dtype", "shape"] },
        { "required": ["file", "key"] }
    ]))]
    TensorForm "Tensor" {
        /// The dtype of the elements.
        dtype: DTypeName,
        /// The lengths of the dimensions, outermost first.
        shape: Vec<u64>,
        /// The strides of the dimensions, in elements; the default is row-major.
        strides: Vec<u64>,
        /// The offset of the first element in the storage, in elements; the default is 0.
        offset: u64,
        /// The size of the storage in elements; the default is the least size that holds the
        /// tensor.
        storage: u64,
        /// The device whose memory holds the tensor; the default is the run's device.
        device: DeviceName,
        /// The ranks that hold the tensor, ascending; the default is all.
        ranks: Vec<u32>,
        /// The mesh whose ranks hold the tensor together; the elements are those of the whole.
        mesh: Name,
        /// For each axis of the mesh: S0, S1, … for parts of a dimension, B for all elements, P,
        /// Pmax or Pmin for tensors that are reduced.
        sbp: Names,
        /// The value of every element.
        fill: Scalar,
        /// The elements, nested like the shape or flat in row-major order.
        values: Values,
        /// Seeded uniform random elements.
        random: RandomForm<'a>,
        /// Seeded normally distributed elements.
        normal: NormalForm<'a>,
        /// The safetensors file with the elements, below the trace's folder.
        file: String,
        /// The tensor's name in the safetensors file.
        key: String,
        /// A comment on the tensor.
        note: String,
    }
    /// Uniform random elements from `low` to below `high`.
    RandomForm "Random" {
        /// The seed.
        #[schemars(required)] seed: u64,
        /// The inclusive lower bound; the default is 0.
        low: f64,
        /// The exclusive upper bound; the default is 1 for floating-point numbers and 2 for
        /// booleans; integers require it.
        high: f64,
    }
    /// Normally distributed elements.
    NormalForm "Normal" {
        /// The seed.
        #[schemars(required)] seed: u64,
        /// The mean; the default is 0.
        mean: f64,
        /// The standard deviation; the default is 1.
        std: f64,
    }
    /// A tensor to read at the end, with its expected elements. Without expected elements it is
    /// only printed.
    OutputForm "Output" {
        /// The required dtype.
        dtype: DTypeName,
        /// The required shape.
        shape: Vec<u64>,
        /// The expected value of every element.
        fill: Scalar,
        /// The expected elements, nested or flat.
        values: Values,
        /// The safetensors file with the expected elements, below the trace's folder.
        file: String,
        /// The tensor's name in the safetensors file.
        key: String,
        /// The relative tolerance: the allowed error as a fraction of the expected value.
        rtol: f64,
        /// The absolute tolerance: the allowed error independent of the expected value.
        atol: f64,
        /// A comment on the output.
        note: String,
    }
    /// The tolerance of a comparison: |actual - expected| <= atol + rtol * |expected|.
    ToleranceForm "Tolerance" {
        /// The relative tolerance: the allowed error as a fraction of the expected value.
        rtol: f64,
        /// The absolute tolerance: the allowed error independent of the expected value.
        atol: f64,
    }
    /// Two streams.
    FromToForm "FromTo" {
        /// The stream to wait for.
        #[schemars(required)] from: Name,
        /// The stream that waits.
        #[schemars(required)] to: Name,
    }
    /// A program with inputs and outputs that runs as one instruction each time that it is
    /// launched.
    ExecutableForm "Executable" {
        /// The inputs, by name: tensors that each launch gives.
        inputs: Map<InputForm<'a>>,
        /// The scalars, by name: numbers that launches give, with their values where one gives
        /// none. An argument `"$NAME"` of a call is the number of the launch.
        scalars: Map<Float>,
        /// The statements: all but read, synchronize and launch.
        #[schemars(required)] program: Vec<StatementForm<'a>>,
        /// The outputs, by name: tensors that exist after the last statement, which each launch
        /// returns.
        outputs: Map<ReturnedForm<'a>>,
        /// The most private memory by device, as in `"512MiB"`: tensors are computed again where
        /// they do not fit.
        remat: Map<Bytes>,
        /// A comment on the executable.
        note: String,
    }
    /// An input of an executable. Each launch gives a tensor of this description.
    InputForm "Input" {
        /// The dtype of the elements.
        #[schemars(required)] dtype: DTypeName,
        /// The lengths of the dimensions, outermost first.
        #[schemars(required)] shape: Vec<u64>,
        /// The strides of the dimensions, in elements; the default is row-major.
        strides: Vec<u64>,
        /// The device whose memory holds the tensor; the default is the run's device.
        device: DeviceName,
        /// The mesh whose ranks hold the tensor together, the same for all inputs.
        mesh: Name,
        /// How they hold it, for each axis of the mesh.
        sbp: Names,
        /// A comment on the input.
        note: String,
    }
    /// An output of an executable. Its statements determine dtype, shape and device; those that are
    /// given are checked.
    ReturnedForm "Returned" {
        /// The required dtype.
        dtype: DTypeName,
        /// The required shape.
        shape: Vec<u64>,
        /// The required device.
        device: DeviceName,
        /// A comment on the output.
        note: String,
    }
}

/// Defines the form of each kind of statement with its name in the JSON Schema and the field that
/// identifies the kind, and the table of these fields.
macro_rules! statements {
    ($($(#[$doc:meta])* $form:ident $title:literal $kind:literal {
        $($(#[$field_doc:meta])* $field:ident $($name:literal)?: $ty:ty,)*
    })*) => {
        /// The field that identifies each kind of statement.
        pub(crate) const KINDS: &[&str] = &[$($kind),*];

        forms! {$(
            $(#[$doc])* $form $title {
                $($(#[$field_doc])* $field $($name)?: $ty,)*
                /// A comment on the statement.
                note: String,
            }
        )*}

        /// One statement of a program.
        #[derive(schemars::JsonSchema)]
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
        #[schemars(required)] op: OpName,
        /// The input tensors, in order.
        input "in": Names,
        /// The names of the output tensors, in order.
        out: Names,
        /// Existing tensors that the results are written to, in place of `out`.
        into: Names,
        /// The stream of the call; the run chooses one by default.
        stream: Name,
        /// The priority among the calls of a pool; calls with higher priority run first, and the
        /// default is 0.
        priority: i32,
        /// The ranks that make the call, ascending; the default is all.
        ranks: Vec<u32>,
        /// The mesh of a call without operands; its result is held there.
        mesh: Name,
        /// How the first result of a call on a mesh is to be held, for each axis.
        sbp: Names,
        /// The arguments that are not tensors, by name.
        attrs: Attributes,
    }
    /// Makes a tensor of a mesh that holds another one's elements in another way.
    RedistributeForm "Redistribute" "redistribute" {
        /// The tensor.
        #[schemars(required)] redistribute: Name,
        /// The name of the new tensor.
        #[schemars(required)] out: Name,
        /// The mesh; the default is that of the tensor.
        mesh: Name,
        /// How it is held, for each axis of the mesh.
        #[schemars(required)] sbp: Names,
    }
    /// Releases tensors. Their names can be used again.
    ReleaseForm "Release" "release" {
        /// The tensors.
        #[schemars(required)] release: Names,
    }
    /// Records an event on a stream.
    RecordForm "Record" "record" {
        /// The event's name; recording the event again moves it.
        #[schemars(required)] record: Name,
        /// The stream; the event covers all work that the stream has so far.
        #[schemars(required)] stream: Name,
    }
    /// Makes a stream wait for an event.
    WaitForm "Wait" "wait" {
        /// The event, as last recorded before this statement.
        #[schemars(required)] wait: Name,
        /// The stream that waits.
        #[schemars(required)] stream: Name,
    }
    /// Makes a stream wait for all work that another stream has so far.
    StreamWaitForm "StreamWait" "stream_wait" {
        /// The streams.
        #[schemars(required)] stream_wait: FromToForm<'a>,
    }
    /// Makes the host wait for a tensor and read it.
    ReadForm "Read" "read" {
        /// The tensor.
        #[schemars(required)] read: Name,
    }
    /// Uses tensors on a stream as reads do, without reading them.
    TouchForm "Touch" "touch" {
        /// The tensors.
        #[schemars(required)] touch: Names,
        /// The stream; the run chooses one by default.
        stream: Name,
    }
    /// Orders all earlier statements, on all streams, before all later ones.
    BarrierForm "Barrier" "barrier" {
        /// Always true.
        #[schemars(required)] barrier: True,
    }
    /// A barrier that waits for all ranks.
    GlobalSyncForm "GlobalSync" "global_sync" {
        /// Always true.
        #[schemars(required)] global_sync: True,
    }
    /// Makes the host wait for a stream.
    SynchronizeForm "Synchronize" "synchronize" {
        /// The stream.
        #[schemars(required)] synchronize: Name,
    }
    /// Holds tensors exclusively for the statements of its body.
    CriticalSectionForm "CriticalSection" "critical_section" {
        /// The tensors.
        #[schemars(required)] critical_section: Names,
        /// The statements.
        #[schemars(required)] body: Vec<StatementForm<'a>>,
    }
    /// Launches an executable, as one instruction.
    LaunchForm "Launch" "launch" {
        /// The executable's name.
        #[schemars(required)] launch: Name,
        /// The tensor for each input, by the input's name.
        input "in": Map<Name>,
        /// The number for each scalar, by the scalar's name.
        scalars: Map<Float>,
        /// New names for outputs, by the output's name. An output without a name is not used.
        out: Map<Name>,
        /// Existing tensors that outputs are written to, by the output's name, in place of `out`.
        into: Map<Name>,
        /// The tensors in whose memory the executable computes, in place of memory of its own: one
        /// of u8 for each device. Their content is lost.
        workspace: Names,
        /// The stream of the launch, of type lazy-job; the run chooses one by default.
        stream: Name,
    }
}
