//! What a program's statements act on: a machine, a list to be stored, or a rehearsal of either.

use millstream_trace::JobRef;
use millstream_types::{Attrs, Error, Origin, Result, StreamKey, StreamMode, TensorSpec};

/// A call of an op, as a statement makes it.
pub(crate) struct OpCall<'a, T> {
    pub(crate) op: &'a str,
    pub(crate) inputs: Vec<&'a T>,
    pub(crate) into: Option<Vec<&'a T>>,
    pub(crate) attrs: &'a Attrs,
    pub(crate) priority: i32,
    /// How many results are given names.
    pub(crate) named: usize,
}

/// What statements act on. Every error carries no place: the statement knows its own.
pub(crate) trait Stage {
    type Tensor: Clone;
    type Event: Clone;
    type Stream: Clone;

    fn stream(&mut self, key: &StreamKey, mode: StreamMode) -> Result<Self::Stream>;

    /// The results: at least as many as are named, if the op gives as many.
    fn call(
        &mut self,
        call: &OpCall<'_, Self::Tensor>,
        stream: &Self::Stream,
        origin: &Origin,
    ) -> Result<Vec<Self::Tensor>>;

    /// A tensor's dtype and shape, as far as they are known.
    fn spec(&self, tensor: &Self::Tensor) -> Option<TensorSpec>;

    fn release(&mut self, tensor: &Self::Tensor, origin: &Origin) -> Result<()>;

    fn record(&mut self, stream: &Self::Stream, origin: &Origin) -> Result<Self::Event>;

    fn wait(&mut self, stream: &Self::Stream, event: &Self::Event, origin: &Origin) -> Result<()>;

    /// Makes `to` wait for all of `from` so far.
    fn stream_wait(
        &mut self,
        from: &Self::Stream,
        to: &Self::Stream,
        origin: &Origin,
    ) -> Result<()>;

    fn touch(
        &mut self,
        tensors: &[&Self::Tensor],
        stream: &Self::Stream,
        origin: &Origin,
    ) -> Result<()>;

    fn read(&mut self, _: &Self::Tensor, _: &Origin) -> Result<()> {
        unfit("read")
    }

    fn barrier(&mut self, _global: bool, _: &Origin) -> Result<()> {
        unfit("barrier")
    }

    fn synchronize(&mut self, _: &Self::Stream, _: &Origin) -> Result<()> {
        unfit("synchronize")
    }

    fn begin_section(&mut self, _: &[&Self::Tensor], _: &Origin) -> Result<()> {
        unfit("critical_section")
    }

    fn end_section(&mut self, _: &Origin) -> Result<()> {
        unfit("critical_section")
    }

    fn job(&mut self, _: JobRef, _: Option<&Self::Stream>, _: &Origin) -> Result<()> {
        unfit("job")
    }
}

/// The loader refuses these in jobs.
fn unfit(what: &'static str) -> Result<()> {
    Err(Error::Invalid { what, message: "it cannot stand in a job".to_owned() })
}
