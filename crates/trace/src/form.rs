//! The file as it is written: one structure for each kind of object in it. Nothing outside this
//! crate sees these types; the JSON Schema is made from them and their comments.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::json::At;
use crate::words::{
    Attributes, DTypeName, DeviceName, Map, ModeName, Name, Names, Scalar, StreamTypeName, True,
    Values, Version,
};

/// A Millstream trace: streams, tensors, a program on them, and what it should give.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Trace", extend("oneOf" = [
    { "required": ["program"] }, { "required": ["instructions"] }
]))]
pub(crate) struct TraceForm<'a> {
    /// The version of the format: 1.
    #[serde(borrow)]
    #[schemars(required)]
    #[allow(dead_code, reason = "the version is read before the rest of the form")]
    pub(crate) millstream: Option<At<'a, Version>>,
    /// The schema that an editor may check the file against; not read.
    #[serde(borrow, rename = "$schema")]
    pub(crate) schema: Option<At<'a, String>>,
    /// The program's name.
    #[serde(borrow)]
    pub(crate) name: Option<At<'a, Name>>,
    /// Anything worth saying about the program.
    #[serde(borrow)]
    pub(crate) note: Option<At<'a, String>>,
    /// The streams, by name.
    #[serde(borrow)]
    pub(crate) streams: Option<At<'a, Map<StreamForm<'a>>>>,
    /// The tensors that are there from the start, by name.
    #[serde(borrow)]
    pub(crate) tensors: Option<At<'a, Map<TensorForm<'a>>>>,
    /// Programs that run as one instruction, by name.
    #[serde(borrow)]
    pub(crate) jobs: Option<At<'a, Map<JobForm<'a>>>>,
    /// The statements, in order.
    #[serde(borrow)]
    pub(crate) program: Option<At<'a, Vec<StatementForm<'a>>>>,
    /// Instead of a program: a list of instructions in its text form, line by line.
    #[serde(borrow)]
    pub(crate) instructions: Option<At<'a, Vec<String>>>,
    /// The tensors that are read at the end, by name, and what they should hold.
    #[serde(borrow)]
    pub(crate) outputs: Option<At<'a, Map<OutputForm<'a>>>>,
    /// How far outputs may be off where they do not say so themselves.
    #[serde(borrow)]
    pub(crate) default_tolerance: Option<At<'a, ToleranceForm<'a>>>,
}

/// A stream.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Stream")]
pub(crate) struct StreamForm<'a> {
    /// The device it belongs to; the run's device unless given.
    #[serde(borrow)]
    pub(crate) device: Option<At<'a, DeviceName>>,
    /// What it is for; compute unless given.
    #[serde(borrow, rename = "type")]
    pub(crate) ty: Option<At<'a, StreamTypeName>>,
    /// Which one of the device's streams of that type; the next free one unless given.
    #[serde(borrow)]
    pub(crate) index: Option<At<'a, u32>>,
    /// Whether it runs its instructions in the order they were given; in-order unless given.
    #[serde(borrow)]
    pub(crate) mode: Option<At<'a, ModeName>>,
    /// Anything worth saying about it.
    #[serde(borrow)]
    pub(crate) note: Option<At<'a, String>>,
}

/// A tensor that is there from the start.
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
    /// The type of its elements.
    #[serde(borrow)]
    pub(crate) dtype: Option<At<'a, DTypeName>>,
    /// The lengths of its dimensions, outermost first.
    #[serde(borrow)]
    pub(crate) shape: Option<At<'a, Vec<u64>>>,
    /// The strides of its dimensions, in elements; row-major unless given.
    #[serde(borrow)]
    pub(crate) strides: Option<At<'a, Vec<u64>>>,
    /// The place of its first element in its storage, in elements.
    #[serde(borrow)]
    pub(crate) offset: Option<At<'a, u64>>,
    /// The size of its storage in elements; as much as it reaches unless given.
    #[serde(borrow)]
    pub(crate) storage: Option<At<'a, u64>>,
    /// The device it lies on; the run's device unless given.
    #[serde(borrow)]
    pub(crate) device: Option<At<'a, DeviceName>>,
    /// The value of every element.
    #[serde(borrow)]
    pub(crate) fill: Option<At<'a, Scalar>>,
    /// The elements, nested as the shape says or flat in row-major order.
    #[serde(borrow)]
    pub(crate) values: Option<At<'a, Values>>,
    /// Seeded uniform random elements.
    #[serde(borrow)]
    pub(crate) random: Option<At<'a, RandomForm<'a>>>,
    /// Seeded normally distributed elements.
    #[serde(borrow)]
    pub(crate) normal: Option<At<'a, NormalForm<'a>>>,
    /// A safetensors file below the trace's folder that holds the elements.
    #[serde(borrow)]
    pub(crate) file: Option<At<'a, String>>,
    /// The tensor's name in that file.
    #[serde(borrow)]
    pub(crate) key: Option<At<'a, String>>,
    /// Anything worth saying about it.
    #[serde(borrow)]
    pub(crate) note: Option<At<'a, String>>,
}

/// Uniform random elements from `low` to below `high`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Random")]
pub(crate) struct RandomForm<'a> {
    /// The seed.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) seed: Option<At<'a, u64>>,
    /// The least value; 0 unless given.
    #[serde(borrow)]
    pub(crate) low: Option<At<'a, f64>>,
    /// The bound that values stay below; 1 for floating-point numbers unless given, and needed for
    /// integers.
    #[serde(borrow)]
    pub(crate) high: Option<At<'a, f64>>,
}

/// Normally distributed elements.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Normal")]
pub(crate) struct NormalForm<'a> {
    /// The seed.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) seed: Option<At<'a, u64>>,
    /// The mean; 0 unless given.
    #[serde(borrow)]
    pub(crate) mean: Option<At<'a, f64>>,
    /// The standard deviation; 1 unless given.
    #[serde(borrow)]
    pub(crate) std: Option<At<'a, f64>>,
}

/// A program that runs as one instruction.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Job")]
pub(crate) struct JobForm<'a> {
    /// Its statements: op calls, release, touch, record and wait.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) program: Option<At<'a, Vec<StatementForm<'a>>>>,
    /// Anything worth saying about it.
    #[serde(borrow)]
    pub(crate) note: Option<At<'a, String>>,
}

/// A tensor that is read at the end, and what it should hold. Without an expected value it is only
/// printed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Output")]
pub(crate) struct OutputForm<'a> {
    /// The dtype it must have.
    #[serde(borrow)]
    pub(crate) dtype: Option<At<'a, DTypeName>>,
    /// The shape it must have.
    #[serde(borrow)]
    pub(crate) shape: Option<At<'a, Vec<u64>>>,
    /// The value that every element must have.
    #[serde(borrow)]
    pub(crate) fill: Option<At<'a, Scalar>>,
    /// The elements it must have, nested or flat.
    #[serde(borrow)]
    pub(crate) values: Option<At<'a, Values>>,
    /// A safetensors file below the trace's folder that holds the elements it must have.
    #[serde(borrow)]
    pub(crate) file: Option<At<'a, String>>,
    /// The tensor's name in that file.
    #[serde(borrow)]
    pub(crate) key: Option<At<'a, String>>,
    /// The error allowed, as a share of the expected value.
    #[serde(borrow)]
    pub(crate) rtol: Option<At<'a, f64>>,
    /// The error allowed whatever the expected value is.
    #[serde(borrow)]
    pub(crate) atol: Option<At<'a, f64>>,
    /// Anything worth saying about it.
    #[serde(borrow)]
    pub(crate) note: Option<At<'a, String>>,
}

/// How far a value may be off: |actual - expected| <= atol + rtol * |expected|.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tolerance")]
pub(crate) struct ToleranceForm<'a> {
    /// The error allowed, as a share of the expected value.
    #[serde(borrow)]
    pub(crate) rtol: Option<At<'a, f64>>,
    /// The error allowed whatever the expected value is.
    #[serde(borrow)]
    pub(crate) atol: Option<At<'a, f64>>,
}

/// Defines each kind of statement and the table of them: the form, its name in the schema, and the
/// field that tells it from all others.
macro_rules! statements {
    ($($(#[$doc:meta])* $form:ident $title:literal $kind:literal {
        $($(#[$field_doc:meta])* $field:ident $name:literal: $ty:ty,)*
    })*) => {
        /// The field that tells each kind of statement.
        pub(crate) const KINDS: &[&str] = &[$($kind),*];

        $(
            $(#[$doc])*
            #[derive(Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            #[schemars(rename = $title)]
            pub(crate) struct $form<'a> {
                $($(#[$field_doc])* #[serde(borrow, rename = $name)]
                pub(crate) $field: Option<At<'a, $ty>>,)*
                /// Anything worth saying about it.
                #[serde(borrow)]
                pub(crate) note: Option<At<'a, String>>,
            }
        )*

        /// One statement of a program.
        #[derive(JsonSchema)]
        #[serde(untagged)]
        #[schemars(rename = "Statement")]
        #[allow(clippy::enum_variant_names, reason = "each variant is named as its form")]
        #[allow(dead_code, reason = "stands for the choice of forms in the schema")]
        pub(crate) enum StatementForm<'a> {
            $($(#[$doc])* $form($form<'a>),)*
        }
    };
}

statements! {
    /// Calls an op.
    OpForm "Op" "op" {
        /// The op's name.
        #[schemars(required)] op "op": Name,
        /// The tensors it takes, in order.
        input "in": Names,
        /// Names for the tensors it gives, in order.
        out "out": Names,
        /// Instead of `out`: the tensors that the results are written to.
        into "into": Names,
        /// The stream it runs on; the run chooses unless given.
        stream "stream": Name,
        /// How urgent it is among the calls of a pool; 0 unless given, the highest go first.
        priority "priority": i32,
        /// Its arguments that are not tensors, by name.
        attrs "attrs": Attributes,
    }
    /// Ends tensors. Their names are free again.
    ReleaseForm "Release" "release" {
        /// The tensors.
        #[schemars(required)] release "release": Names,
    }
    /// Records an event on a stream.
    RecordForm "Record" "record" {
        /// The event's name; recording it again moves it.
        #[schemars(required)] record "record": Name,
        /// The stream whose work so far the event stands for.
        #[schemars(required)] stream "stream": Name,
    }
    /// Makes a stream wait for an event.
    WaitForm "Wait" "wait" {
        /// The event, as it was last recorded before this statement.
        #[schemars(required)] wait "wait": Name,
        /// The stream that waits.
        #[schemars(required)] stream "stream": Name,
    }
    /// Makes a stream wait for all that another has been given so far.
    StreamWaitForm "StreamWait" "stream_wait" {
        /// The streams.
        #[schemars(required)] stream_wait "stream_wait": FromToForm<'a>,
    }
    /// Makes the host wait for a tensor and read it.
    ReadForm "Read" "read" {
        /// The tensor.
        #[schemars(required)] read "read": Name,
    }
    /// Uses tensors on a stream as if it read them, and does nothing with them.
    TouchForm "Touch" "touch" {
        /// The tensors.
        #[schemars(required)] touch "touch": Names,
        /// The stream; the run chooses unless given.
        stream "stream": Name,
    }
    /// Orders all earlier statements, on all streams, before all later ones.
    BarrierForm "Barrier" "barrier" {
        /// Always true.
        #[schemars(required)] barrier "barrier": True,
    }
    /// A barrier at which all ranks meet.
    GlobalSyncForm "GlobalSync" "global_sync" {
        /// Always true.
        #[schemars(required)] global_sync "global_sync": True,
    }
    /// Makes the host wait for a stream.
    SynchronizeForm "Synchronize" "synchronize" {
        /// The stream.
        #[schemars(required)] synchronize "synchronize": Name,
    }
    /// Holds tensors for the statements of its body; nothing else uses them meanwhile.
    CriticalSectionForm "CriticalSection" "critical_section" {
        /// The tensors.
        #[schemars(required)] critical_section "critical_section": Names,
        /// The statements.
        #[schemars(required)] body "body": Vec<StatementForm<'a>>,
    }
    /// Runs a job as one instruction.
    RunJobForm "RunJob" "job" {
        /// The job's name.
        #[schemars(required)] job "job": Name,
        /// The stream that launches it; the run chooses unless given.
        stream "stream": Name,
    }
}

/// Two streams.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FromTo")]
pub(crate) struct FromToForm<'a> {
    /// The stream that is waited for.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) from: Option<At<'a, Name>>,
    /// The stream that waits.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) to: Option<At<'a, Name>>,
}
