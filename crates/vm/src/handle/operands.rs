//! The stream of a call by its operands, and the check of their devices.

use std::borrow::Cow;

use millstream_runtime::scope::origin;
use millstream_types::{Error, Result};

use crate::handle::lowering;
use crate::handle::{Stream, Tensor, has_current, innermost_on};

/// Returns the stream of a call whose first operand is `first`: that of the innermost
/// [`with_stream`](crate::with_stream) scope on the tensor's device, or else the tensor's.
pub(crate) fn stream_of(first: &Tensor) -> Result<Cow<'_, Stream>> {
    let (machine, own) = (first.machine(), first.made_on());
    if has_current()
        && let Some(stream) = innermost_on(machine, &lowering::compute_device(first.device()))
    {
        return Ok(Cow::Owned(stream));
    }
    if lowering::computes_in(own.key(), first.device()) {
        return Ok(Cow::Borrowed(own));
    }
    machine.submitter(origin::caller()).compute_stream(first).map(Cow::Owned)
}

/// Refuses operands on different devices.
pub(crate) fn check_devices(op: &str, inputs: &[&Tensor]) -> Result<()> {
    let Some((first, rest)) = inputs.split_first() else { return Ok(()) };
    if rest.iter().all(|t| t.device() == first.device()) {
        return Ok(());
    }
    let device = lowering::compute_device(first.device());
    let Some(other) = rest.iter().find(|t| lowering::compute_device(t.device()) != device) else {
        return Ok(());
    };
    let message = format!(
        "expected operands on one device, got {} on {device} and {} on {}; copy one of them first, \
         as in `x.to(y.device())?`",
        first.spec().brief(),
        other.spec().brief(),
        other.device(),
    );
    Err(Error::Op { op: op.to_owned(), message })
}
