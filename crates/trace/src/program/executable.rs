//! Executables that a trace declares, and their launches.

use millstream_types::{DType, DeviceId, Dims, TensorSpec};

use crate::error::Result;
use crate::source::Span;

use super::{Block, ExecutableRef, Held, Program, StreamRef, ValueRef};

/// A program with inputs and outputs that runs as one instruction each time that it is launched.
#[derive(Clone, Debug)]
pub struct Executable {
    /// The executable's name.
    pub name: String,
    /// The inputs, in the order of the file.
    pub inputs: Vec<Input>,
    /// The scalars, in the order of the file: names, and the numbers of launches that give none.
    /// Arguments of its calls name them by their positions.
    pub scalars: Vec<(String, f64)>,
    /// The executable's statements and events.
    pub block: Block,
    /// The results, in the order of the file.
    pub results: Vec<Returned>,
    /// The tensors of the trace that it is bound to, without duplicates.
    pub bound: Vec<ValueRef>,
    /// The most private memory by device, in bytes.
    pub remat: Vec<(DeviceId, u64)>,
    /// The span of the declaration.
    pub span: Span,
}

/// An input of an executable: a tensor that each launch gives.
#[derive(Clone, Debug)]
pub struct Input {
    /// The input's name.
    pub name: String,
    /// The tensor in the executable's statements.
    pub value: ValueRef,
    /// The dtype, shape and strides of the tensors that launches give.
    pub spec: TensorSpec,
    /// Their device; `None` stands for the run's device.
    pub device: Option<DeviceId>,
    /// How the ranks of a mesh hold them together, if they do.
    pub held: Option<Held>,
}

/// An output of an executable: a tensor that each launch returns.
#[derive(Clone, Debug)]
pub struct Returned {
    /// The output's name.
    pub name: String,
    /// The tensor at the end of the executable's statements.
    pub value: ValueRef,
    /// The required dtype, if the file has one.
    pub dtype: Option<DType>,
    /// The required shape, if the file has one.
    pub shape: Option<Dims>,
    /// The required device, if the file has one.
    pub device: Option<DeviceId>,
    /// The span of the declaration.
    pub span: Span,
}

impl Returned {
    /// Checks the dtype and the shape of the tensor that the statements make.
    ///
    /// # Errors
    /// The file has others.
    pub fn check(&self, program: &Program, found: &TensorSpec) -> Result<()> {
        let dtype = self.dtype.filter(|dtype| *dtype != found.dtype);
        let shape = self.shape.as_ref().filter(|shape| ***shape != *found.shape());
        let said = dtype.map(|dtype| dtype.to_string());
        let Some(said) = said.or(shape.map(|shape| format!("{shape:?}"))) else { return Ok(()) };
        let (name, found) = (&self.name, found.brief());
        let message = format!("the output '{name}' is {found}, and the trace says {said}");
        Err(program.error(self.span, message))
    }
}

/// A launch of an executable.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The executable.
    pub executable: ExecutableRef,
    /// The tensor for each of its inputs.
    pub inputs: Vec<ValueRef>,
    /// The numbers that it gives, each with the position of its scalar.
    pub scalars: Vec<(usize, f64)>,
    /// The target of each of its outputs; `None` if the output is not used.
    pub outputs: Vec<Option<Target>>,
    /// The tensors in whose memory it computes, if the file names some.
    pub workspaces: Vec<ValueRef>,
    /// The stream of the launch, if the file names one.
    pub stream: Option<StreamRef>,
}

/// The target of one output of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new value.
    New(ValueRef),
    /// An existing tensor, which the output is written to.
    Into(ValueRef),
}
