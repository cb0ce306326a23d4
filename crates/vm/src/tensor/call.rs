//! The calls that methods make, their streams, and the check of their devices.

use std::borrow::Cow;

use millstream_instructions::Priority;
use millstream_ops::args::ABSENT;
use millstream_runtime::scope::origin::{self, with_origin};
use millstream_types::{AttrValue, Attrs, Error, Result};

use crate::handle::lowering;
use crate::handle::machine::CallBuilder;
pub(super) use crate::handle::machine::Inputs;
use crate::handle::request::{self, OpCall, Request, Verb};
use crate::handle::{Stream, Tensor, check_devices, has_current, stream_of};

use super::{Number, Operand};

/// Begins the tensors of a call.
#[inline]
pub(super) fn given(first: &Tensor) -> Inputs<'_> {
    let mut inputs = Inputs::new();
    inputs.push(first);
    inputs
}

/// Returns a number as an argument.
pub(super) fn number(number: impl Into<Number>) -> AttrValue {
    number.into().into()
}

/// Adds an operand to the tensors of a call, or to its arguments if it is a number.
pub(super) fn operand<'a>(
    operand: Operand<'a>,
    name: &'static str,
    inputs: &mut Inputs<'a>,
    attrs: &mut Attrs,
) {
    match operand {
        Operand::Tensor(tensor) => inputs.push(tensor),
        Operand::Number(number) => attrs.set(name, number),
    }
}

/// Adds optional tensors to those of a call, and lists the absent ones.
pub(crate) fn optional<'a>(
    given: &[Option<&'a Tensor>],
    inputs: &mut Inputs<'a>,
    attrs: &mut Attrs,
) {
    let before = inputs.len();
    let absent = given.iter().enumerate().filter(|(_, tensor)| tensor.is_none());
    let absent: Vec<i64> = absent.map(|(k, _)| (before + k) as i64).collect();
    if !absent.is_empty() {
        attrs.set(ABSENT, absent);
    }
    inputs.extend(given.iter().flatten().copied());
}

/// Makes a call on the stream of its first operand. Returns all results.
#[track_caller]
pub(crate) fn all(op: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Vec<Tensor>> {
    let (call, stream) = begin(op, inputs, attrs)?;
    call.on(&stream)
}

/// Begins a call on the stream of its first operand.
#[inline]
#[track_caller]
pub(super) fn begin<'a>(
    op: &'a str,
    inputs: &[&'a Tensor],
    attrs: Attrs,
) -> Result<(CallBuilder<'a>, Cow<'a, Stream>)> {
    let origin = origin::caller();
    let Some(&first) = inputs.first() else {
        let message = "expected at least one tensor, got none".to_owned();
        return Err(Error::Op { op: op.to_owned(), message }.at(&origin));
    };
    check_devices(op, inputs).map_err(|e| e.at(&origin))?;
    let stream = stream_of(first).map_err(|e| e.at(&origin))?;
    let inputs = Inputs::from_slice(inputs);
    Ok((CallBuilder::new(first.machine(), op, inputs, attrs, origin), stream))
}

/// Makes a call and returns its first result.
#[track_caller]
#[inline]
pub(crate) fn one(op: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Tensor> {
    // The devices of the operands are checked if they are not all where the stream works.
    if let [lead, ..] = inputs
        && !has_current()
        && lowering::computes_in(lead.made_on().key(), lead.device())
        && check_devices(op, inputs).is_ok()
        && !request::is_any()
        && let (machine, stream) = (lead.machine(), lead.made_on())
        && let Some(id) = machine.shared.tables.ops.find(op)
    {
        let (attrs, priority) = (&attrs, Priority::default());
        let call = OpCall { machine, name: op, inputs, out: None, attrs, stream, priority };
        return call.emit(id, None, &origin::caller())?.first(op);
    }
    let (call, stream) = begin(op, inputs, attrs)?;
    call.make_one(&stream)
}

/// Makes a call and returns its first `N` results.
#[track_caller]
pub(super) fn first_of<const N: usize>(
    op: &str,
    inputs: &[&Tensor],
    attrs: Attrs,
) -> Result<[Tensor; N]> {
    let mut results = all(op, inputs, attrs)?;
    results.truncate(N);
    results.try_into().map_err(|results: Vec<Tensor>| Error::Internal {
        message: format!("{op} has {} results, not {N}", results.len()),
    })
}

/// Makes the calls of a method that layers know by a name, as they know composites.
#[track_caller]
pub(super) fn function(
    name: &str,
    inputs: &[&Tensor],
    calls: impl FnOnce(&[&Tensor]) -> Result<Tensor>,
) -> Result<Tensor> {
    let Some(&first) = inputs.first().filter(|_| request::is_any()) else { return calls(inputs) };
    let (origin, machine) = (origin::caller(), first.machine());
    let stream = stream_of(first).map_err(|e| e.at(&origin))?;
    let (attrs, priority) = (&Attrs::new(), Priority::default());
    let call = OpCall { machine, name, inputs, out: None, attrs, stream: &stream, priority };
    request::submit(Request::new(Verb::Composite(call), &origin), |request| match request.verb {
        Verb::Composite(call) => with_origin(&origin, || calls(call.inputs)),
        _ => with_origin(&origin, || calls(inputs)),
    })
}

/// Makes a call for its effect on its operands.
#[track_caller]
pub(super) fn changed(op: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<()> {
    all(op, inputs, attrs).map(drop)
}
