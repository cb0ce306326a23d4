//! The calls of a redistribution.

use std::sync::Arc;

use millstream_ops::boxing::{self, Path, Step};
use millstream_ops::collective;
use millstream_types::{Attrs, Error, Origin, Result, Sharding, StreamKey, StreamType, TensorSpec};

use crate::handle::machine::Machine;
use crate::handle::request::{self, Rank, Request, Verb};
use crate::handle::{Stream, Tensor};
use crate::lowering::InnerCalls;

use super::{check_mesh, coordinates, wrap};

/// Makes the calls of a redistribution on this rank: collectives on a stream of their own for each
/// axis, the others beside the tensor.
struct Boxing<'a> {
    machine: &'a Machine,
    stream: &'a Stream,
    origin: &'a Origin,
    axis: usize,
}

impl InnerCalls for Boxing<'_> {
    type Tensor = Tensor;

    fn spec(&self, tensor: &Tensor) -> Result<TensorSpec> {
        Ok(tensor.spec().clone())
    }

    fn call(&mut self, op: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Vec<Tensor>> {
        let call = self.machine.call(op, inputs).attrs(attrs).origin(self.origin.clone());
        if !collective::is(op) {
            return call.on(self.stream);
        }
        call.collective_on(&ring(self.machine, self.stream, self.axis)?)
    }

    fn is_same(&self, a: &Tensor, b: &Tensor) -> bool {
        a.is_same(b)
    }

    fn release(&mut self, _: Tensor) -> Result<()> {
        Ok(())
    }
}

/// Returns the stream of the collectives along an axis, so that those of different axes run side by
/// side.
fn ring(machine: &Machine, beside: &Stream, axis: usize) -> Result<Stream> {
    let device = beside.key().device.clone();
    machine.stream(&StreamKey::new(device, StreamType::CCL, axis as u32))
}

/// Makes the calls of a path on this rank's part of a tensor. The result is new unless the path
/// changes nothing on this rank.
pub(super) fn follow(
    path: &Path,
    part: &Tensor,
    shape: &[usize],
    at: &[usize],
    stream: &Stream,
    origin: &Origin,
) -> Result<Tensor> {
    let mut part = part.clone();
    for step in &path.steps {
        if boxing::is_identity(step) {
            continue;
        }
        let machine = part.machine().clone();
        let mut calls = Boxing { machine: &machine, stream, origin, axis: step.axis };
        let made = calls.expanded(&[part], |calls, given| {
            boxing::calls(step, shape, at, calls, given[0]).map(|made| vec![made])
        })?;
        part = only(made)?;
    }
    Ok(part)
}

fn only(mut made: Vec<Tensor>) -> Result<Tensor> {
    made.pop().ok_or_else(|| Error::Internal { message: "a step made no tensor".to_owned() })
}

/// Returns the path between two shardings of a tensor.
///
/// # Errors
/// The tensor cannot be held so.
pub(crate) fn path(spec: &TensorSpec, from: &Sharding, to: &Sharding) -> Result<Path> {
    to.check(spec.dtype, spec.shape())?;
    boxing::path(spec.dtype, spec.shape(), from, to).ok_or_else(|| Error::Invalid {
        what: "sharding",
        message: format!("{} held as {from} cannot become {to}", spec.brief()),
    })
}

/// Returns a tensor as the ranks of a mesh hold it afterwards: a new one.
///
/// # Errors
/// It cannot be held so, or a call cannot be made.
pub(crate) fn redistribute(
    tensor: &Tensor,
    to: &Arc<Sharding>,
    stream: &Stream,
    origin: &Origin,
) -> Result<Tensor> {
    let machine = tensor.machine();
    check_mesh(machine, to.mesh())?;
    let Some(global) = tensor.global() else {
        return Err(Error::Internal { message: "a tensor of one rank".to_owned() });
    };
    let spec = Arc::new(TensorSpec::contiguous(tensor.dtype(), tensor.shape())?);
    let own = if global.sharding.mesh() == to.mesh() {
        let path = path(&spec, &global.sharding, to)?;
        match (&global.local, coordinates(machine, to.mesh())) {
            (Some(part), Some(at)) => {
                let made = follow(&path, part, spec.shape(), &at, stream, origin)?;
                Some(if made.is_same(part) { copied(part, stream, origin)? } else { made })
            }
            _ => None,
        }
    } else {
        across(tensor, &spec, to, stream, origin)?
    };
    Ok(wrap(own, spec, to.clone(), false, stream, origin))
}

/// Redistributes a tensor as the program does: the tape notes it as a copy, whose gradient is that
/// of the copy in whatever way it is held.
///
/// # Errors
/// As [`redistribute`].
pub(crate) fn redistributed(
    tensor: &Tensor,
    to: &Arc<Sharding>,
    stream: &Stream,
    origin: &Origin,
) -> Result<Tensor> {
    let copy = Request::new(Verb::Copy { of: tensor }, origin);
    request::submit_to(Rank::Gradient, copy, |_| {
        let _own = request::suspend(&[Rank::Gradient]);
        redistribute(tensor, to, stream, origin)
    })
}

fn copied(part: &Tensor, stream: &Stream, origin: &Origin) -> Result<Tensor> {
    part.machine().call("copy", &[part]).origin(origin.clone()).one(stream)
}

/// Returns the part of this rank of a tensor that moves to another mesh, by messages.
fn across(
    tensor: &Tensor,
    spec: &TensorSpec,
    to: &Arc<Sharding>,
    stream: &Stream,
    origin: &Origin,
) -> Result<Option<Tensor>> {
    let machine = tensor.machine();
    let Some(global) = tensor.global() else { return Ok(None) };
    to.check(spec.dtype, spec.shape())?;
    // Partial tensors are reduced before, and made partial after.
    let without = |sharding: &Sharding| {
        let whole = sharding.sbp().iter().map(|sbp| match sbp.reduction() {
            Some(_) => millstream_types::Sbp::Broadcast,
            None => *sbp,
        });
        Sharding::new(sharding.mesh(), whole)
    };
    let (from, target) = (without(&global.sharding)?, without(to)?);
    let mut part = global.local.clone();
    if let (Some(own), Some(at)) = (&part, coordinates(machine, from.mesh())) {
        let reduced = path(spec, &global.sharding, &from)?;
        part = Some(follow(&reduced, own, spec.shape(), &at, stream, origin)?);
    }
    let transfers = boxing::transfers(spec.shape(), &from, &target).unwrap_or_default();
    let rank = machine.communicator().rank() as u32;
    let starts = |sharding: &Sharding| {
        let at = coordinates(machine, sharding.mesh())?;
        Some(sharding.part(spec.shape(), &at))
    };
    let (held, needed) = (starts(&from), starts(&target));
    let call = |op: &str, inputs: &[&Tensor], attrs: Attrs| {
        let made = machine.call(op, inputs).attrs(attrs).origin(origin.clone()).on(stream)?;
        only(made)
    };
    let ring = ring(machine, stream, 0)?;
    let message = |op: &str, buffer: &Tensor, attrs: Attrs| {
        let call = machine.call(op, &[buffer]).attrs(attrs).origin(origin.clone());
        call.collective_on(&ring)
    };
    // The box of a transfer within a part, as a view.
    let boxed = |part: &Tensor, ranges: &[std::ops::Range<usize>], transfer: &boxing::Transfer| {
        let mut view = part.clone();
        for (dim, (own, range)) in ranges.iter().zip(&transfer.range).enumerate() {
            if own == range {
                continue;
            }
            let attrs = Attrs::new().with("dim", dim as i64);
            let attrs = attrs.with("start", (range.start - own.start) as i64);
            view = call("narrow", &[&view], attrs.with("length", range.len() as i64))?;
        }
        Ok::<_, Error>(view)
    };
    for transfer in transfers.iter().filter(|t| t.from == rank && t.to != rank) {
        let (Some(part), Some(held)) = (&part, &held) else { continue };
        let view = boxed(part, held, transfer)?;
        let dense = call("copy", &[&view], Attrs::new())?;
        message("send", &dense, Attrs::new().with("to", i64::from(transfer.to)))?;
    }
    let Some(needed) = needed else { return Ok(None) };
    let lengths: Vec<usize> = needed.iter().map(ExactSizeIterator::len).collect();
    let result = machine.empty(stream, TensorSpec::contiguous(spec.dtype, &lengths)?)?;
    for transfer in transfers.iter().filter(|t| t.to == rank) {
        let place = boxed(&result, &needed, transfer)?;
        let received = if transfer.from == rank {
            let (Some(part), Some(held)) = (&part, &held) else { continue };
            boxed(part, held, transfer)?
        } else {
            let lengths: Vec<usize> = transfer.range.iter().map(ExactSizeIterator::len).collect();
            let buffer = machine.empty(stream, TensorSpec::contiguous(spec.dtype, &lengths)?)?;
            message("recv_", &buffer, Attrs::new().with("from", i64::from(transfer.from)))?;
            buffer
        };
        call("copy_", &[&place, &received], Attrs::new())?;
    }
    let Some(at) = coordinates(machine, to.mesh()) else { return Ok(None) };
    let last = path(spec, &target, to)?;
    follow(&last, &result, spec.shape(), &at, stream, origin).map(Some)
}

/// Reduces partial tensors of one sharding together: one collective for each step, however many
/// tensors there are. The parts are replaced by new tensors of the sharding `to`, which is whole
/// where theirs is partial and the same elsewhere.
///
/// # Errors
/// A call cannot be made.
pub(crate) fn reduce_together(tensors: &[Tensor], to: &Arc<Sharding>) -> Result<Vec<Tensor>> {
    let Some(first) = tensors.first() else { return Ok(Vec::new()) };
    let (machine, origin) = (first.machine(), millstream_runtime::scope::origin::caller());
    let stream = crate::handle::stream_of(first)?.into_owned();
    let parts: Option<Vec<&Tensor>> =
        tensors.iter().map(|tensor| tensor.global()?.local.as_ref()).collect();
    let from = first.global().map(|global| global.sharding.clone());
    let (Some(from), at) = (from, coordinates(machine, to.mesh())) else {
        return Ok(tensors.to_vec());
    };
    let mut own = None;
    if let (Some(parts), Some(at)) = (parts, at) {
        let mut copies = Vec::new();
        for part in parts {
            copies.push(copied(part, &stream, &origin)?);
        }
        for (axis, sbp) in from.sbp().iter().enumerate() {
            let Some(reduction) = sbp.reduction() else { continue };
            let mut group: Vec<i64> =
                to.mesh().group(axis, &at).into_iter().map(i64::from).collect();
            group.sort_unstable();
            let attrs = Attrs::new().with("op", reduction.name()).with("group", group);
            let inputs: Vec<&Tensor> = copies.iter().collect();
            let call = machine.call("allreduce_", &inputs).attrs(attrs).origin(origin.clone());
            call.collective_on(&ring(machine, &stream, axis)?)?;
        }
        own = Some(copies);
    }
    let mut own = own.map(Vec::into_iter);
    tensors
        .iter()
        .map(|tensor| {
            let local = own.as_mut().and_then(Iterator::next);
            let spec = Arc::new(TensorSpec::contiguous(tensor.dtype(), tensor.shape())?);
            Ok(wrap(local, spec, to.clone(), false, &stream, &origin))
        })
        .collect()
}

/// Returns whether the steps of a path are reductions to whole tensors alone.
pub(crate) fn is_reduction(path: &Path) -> bool {
    let whole = |step: &Step| {
        step.from.sbp()[step.axis].reduction().is_some()
            && step.to.sbp()[step.axis] == millstream_types::Sbp::Broadcast
    };
    path.steps.iter().all(whole)
}
