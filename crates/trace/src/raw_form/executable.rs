//! The raw form of executables.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::json::Raw;
use crate::schema_types::{Bytes, DTypeName, DeviceName, Float, Map, Name, Names};

use super::StatementForm;

/// A program with inputs and outputs that runs as one instruction each time that it is launched.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Executable")]
pub(crate) struct ExecutableForm<'a> {
    /// The inputs, by name: tensors that each launch gives.
    #[serde(borrow)]
    pub(crate) inputs: Option<Raw<'a, Map<InputForm<'a>>>>,
    /// The scalars, by name: numbers that launches give, with their values where one gives none.
    /// An argument `"$NAME"` of a call is the number of the launch.
    #[serde(borrow)]
    pub(crate) scalars: Option<Raw<'a, Map<Float>>>,
    /// The statements: all but read, synchronize and launch.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) program: Option<Raw<'a, Vec<StatementForm<'a>>>>,
    /// The outputs, by name: tensors that exist after the last statement, which each launch
    /// returns.
    #[serde(borrow)]
    pub(crate) outputs: Option<Raw<'a, Map<ReturnedForm<'a>>>>,
    /// The most private memory by device, as in `"512MiB"`: tensors are computed again where they
    /// do not fit.
    #[serde(borrow)]
    pub(crate) remat: Option<Raw<'a, Map<Bytes>>>,
    /// A comment on the executable.
    #[serde(borrow)]
    pub(crate) note: Option<Raw<'a, String>>,
}

/// An input of an executable. Each launch gives a tensor of this description.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Input")]
pub(crate) struct InputForm<'a> {
    /// The dtype of the elements.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) dtype: Option<Raw<'a, DTypeName>>,
    /// The lengths of the dimensions, outermost first.
    #[serde(borrow)]
    #[schemars(required)]
    pub(crate) shape: Option<Raw<'a, Vec<u64>>>,
    /// The strides of the dimensions, in elements; the default is row-major.
    #[serde(borrow)]
    pub(crate) strides: Option<Raw<'a, Vec<u64>>>,
    /// The device whose memory holds the tensor; the default is the run's device.
    #[serde(borrow)]
    pub(crate) device: Option<Raw<'a, DeviceName>>,
    /// The mesh whose ranks hold the tensor together, the same for all inputs.
    #[serde(borrow)]
    pub(crate) mesh: Option<Raw<'a, Name>>,
    /// How they hold it, for each axis of the mesh.
    #[serde(borrow)]
    pub(crate) sbp: Option<Raw<'a, Names>>,
    /// A comment on the input.
    #[serde(borrow)]
    pub(crate) note: Option<Raw<'a, String>>,
}

/// An output of an executable. Its statements determine dtype, shape and device; those that are
/// given are checked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Returned")]
pub(crate) struct ReturnedForm<'a> {
    /// The required dtype.
    #[serde(borrow)]
    pub(crate) dtype: Option<Raw<'a, DTypeName>>,
    /// The required shape.
    #[serde(borrow)]
    pub(crate) shape: Option<Raw<'a, Vec<u64>>>,
    /// The required device.
    #[serde(borrow)]
    pub(crate) device: Option<Raw<'a, DeviceName>>,
    /// A comment on the output.
    #[serde(borrow)]
    pub(crate) note: Option<Raw<'a, String>>,
}
