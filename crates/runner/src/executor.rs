//! The interface between a lowered program and what executes it: a machine, which may only check,
//! or the recorder of an executable.

use std::sync::Arc;

use millstream_trace::ExecutableRef;
use millstream_types::{
    Attrs, DeviceId, Origin, Result, ScalarValue, StreamKey, StreamMode, TensorSpec,
};

/// A call of an op on an executor's tensors.
pub(crate) struct OpCall<'a, T> {
    pub(crate) name: &'a str,
    pub(crate) inputs: Vec<&'a T>,
    /// The existing tensors that take the results.
    pub(crate) out: Option<Vec<&'a T>>,
    pub(crate) attrs: &'a Arc<Attrs>,
    pub(crate) priority: i32,
    /// Whether the call may have to run on the host, on copies of its operands.
    pub(crate) is_collective: bool,
}

/// A launch of one of the program's executables, on an executor's tensors.
pub(crate) struct LaunchCall<'a, T> {
    pub(crate) executable: ExecutableRef,
    /// The tensors for the inputs, by name.
    pub(crate) inputs: Vec<(&'a str, &'a T)>,
    /// The tensors of the trace that the executable uses, by name.
    pub(crate) bound: Vec<(&'a str, &'a T)>,
    /// The numbers for scalars, by name.
    pub(crate) scalars: Vec<(&'a str, ScalarValue)>,
    /// The existing tensors that take outputs, by the output's name.
    pub(crate) into: Vec<(&'a str, &'a T)>,
    /// The tensors in whose memory it computes.
    pub(crate) workspaces: Vec<&'a T>,
}

/// Executes the steps of a lowered program. Errors carry no place: the step has its own.
pub(crate) trait Executor {
    type Tensor: Clone;
    type Event: Clone;
    type Stream: Clone;

    /// Whether the statements of an executable are executed in the place of its launch. Outputs are
    /// then assigned to the tensors that take them.
    const INLINES_LAUNCHES: bool = false;

    /// Returns the stream of a key. It exists in this mode from then on.
    fn stream(&mut self, key: &StreamKey, mode: StreamMode) -> Result<Self::Stream>;

    /// Makes a call. Returns at least as many results as have names, if the op has as many.
    fn call(
        &mut self,
        call: &OpCall<'_, Self::Tensor>,
        stream: &Self::Stream,
        origin: &Origin,
    ) -> Result<Vec<Self::Tensor>>;

    /// Returns a tensor of a recorded shape in the place of one whose shape only a run tells, if
    /// the executor makes such.
    fn stand_in(&mut self, _: &str, _: &TensorSpec, _: &Self::Stream) -> Result<Option<Self::Tensor>> {
        Ok(None)
    }

    /// Returns the device whose memory a tensor lies in, if it was not released.
    fn device<'t>(&'t self, tensor: &'t Self::Tensor) -> Option<&'t DeviceId>;

    /// Returns the spec of a tensor, if it was not released.
    fn spec(&self, tensor: &Self::Tensor) -> Option<TensorSpec>;

    /// Returns whether both are one tensor.
    fn is_same(&self, a: &Self::Tensor, b: &Self::Tensor) -> bool;

    /// Releases a tensor.
    fn release(&mut self, tensor: &Self::Tensor, origin: &Origin) -> Result<()>;

    /// Records an event behind everything that the stream was given.
    fn record(&mut self, stream: &Self::Stream, origin: &Origin) -> Result<Self::Event>;

    /// Orders a stream behind an event.
    fn wait(&mut self, stream: &Self::Stream, event: &Self::Event, origin: &Origin) -> Result<()>;

    /// Orders `to` behind everything that `from` was given.
    fn stream_wait(
        &mut self,
        from: &Self::Stream,
        to: &Self::Stream,
        origin: &Origin,
    ) -> Result<()>;

    /// Uses tensors as reads do, without reading them.
    fn touch(
        &mut self,
        tensors: &[&Self::Tensor],
        stream: &Self::Stream,
        origin: &Origin,
    ) -> Result<()>;

    /// Reads a tensor on the host. Returns its elements in row-major order, if it has any here.
    fn read(&mut self, tensor: &Self::Tensor, origin: &Origin) -> Result<Option<Vec<u8>>>;

    /// Orders everything before behind everything after, on all ranks if `global`.
    fn barrier(&mut self, global: bool, origin: &Origin) -> Result<()>;

    /// Makes the host wait for a stream.
    fn synchronize(&mut self, stream: &Self::Stream, origin: &Origin) -> Result<()>;

    /// Begins an exclusive hold of tensors.
    fn begin_section(&mut self, tensors: &[&Self::Tensor], origin: &Origin) -> Result<()>;

    /// Ends the innermost hold.
    fn end_section(&mut self, origin: &Origin) -> Result<()>;

    /// Launches an executable, on a stream if the program names one. Returns its outputs.
    fn launch(
        &mut self,
        call: &LaunchCall<'_, Self::Tensor>,
        stream: Option<&Self::Stream>,
        origin: &Origin,
    ) -> Result<Vec<Self::Tensor>>;

    /// Copies the elements of a tensor to another one of its description.
    fn assign(&mut self, from: &Self::Tensor, to: &Self::Tensor, origin: &Origin) -> Result<()>;
}
