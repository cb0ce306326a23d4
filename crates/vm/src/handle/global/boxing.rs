//! The calls of a redistribution.

use std::sync::Arc;

use millstream_instructions::Priority;
use millstream_ops::boxing::{self, Path, Step, between};
use millstream_ops::collective;
use millstream_types::{
    Attrs, Error, Mesh, Origin, Result, Sbp, Sharding, StreamKey, StreamType, TensorSpec,
};

use crate::handle::lowering::InnerCalls;
use crate::handle::machine::Machine;
use crate::handle::request::{self, Request, Verb};
use crate::handle::{Stream, Tensor};

use super::{Views, check_mesh, coordinates, survey, wrap};

/// Makes calls on the parts of this rank: collectives on a stream of their own for each axis of a
/// mesh, so that those of different axes run side by side, and the others on a given stream.
pub(super) struct PartCalls<'a> {
    pub(super) machine: &'a Machine,
    pub(super) stream: &'a Stream,
    pub(super) origin: &'a Origin,
    pub(super) priority: Priority,
    /// The mesh and the coordinates of this rank.
    pub(super) place: Option<(&'a Mesh, &'a [usize])>,
}

impl InnerCalls for PartCalls<'_> {
    type Tensor = Tensor;

    fn spec(&self, tensor: &Tensor) -> Result<TensorSpec> {
        Ok(tensor.spec().clone())
    }

    fn call(&mut self, op: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Vec<Tensor>> {
        let call = self.machine.call(op, inputs).origin(self.origin.clone());
        if collective::is(op) {
            let ring = self.ring(&attrs)?;
            return call.attrs(attrs).collective_on(&ring);
        }
        call.attrs(attrs).priority(self.priority.0).on(self.stream)
    }

    fn is_same(&self, a: &Tensor, b: &Tensor) -> bool {
        a.is_same(b)
    }

    fn release(&mut self, _: Tensor) -> Result<()> {
        // Its handle was the last one.
        Ok(())
    }
}

impl PartCalls<'_> {
    /// Returns the stream of a collective: that of the axis whose ranks take part.
    fn ring(&self, attrs: &Attrs) -> Result<Stream> {
        let group = attrs.ints("group")?.unwrap_or_default();
        let axis = self.place.and_then(|(mesh, at)| {
            (0..mesh.rank()).find(|axis| ranks_along(mesh, *axis, at) == group)
        });
        ring(self.machine, self.stream, axis.unwrap_or(0))
    }
}

/// Returns a change of a sharding as profiles name it.
pub(super) fn change(from: &Sharding, to: &Sharding) -> String {
    format!("{from} → {to}")
}

/// Returns the ranks along an axis, ascending, as collectives name them.
fn ranks_along(mesh: &Mesh, axis: usize, at: &[usize]) -> Vec<i64> {
    let mut group: Vec<i64> = mesh.group(axis, at).into_iter().map(i64::from).collect();
    group.sort_unstable();
    group
}

/// Returns the stream of the collectives along an axis.
fn ring(machine: &Machine, beside: &Stream, axis: usize) -> Result<Stream> {
    let device = beside.key().device.clone();
    machine.stream(&StreamKey::new(device, StreamType::CCL, axis as u32))
}

/// Makes the calls of a path on this rank's part of a tensor of this shape. The result is the part
/// itself if the path changes nothing on this rank.
fn follow(
    path: &Path,
    part: &Tensor,
    shape: &[usize],
    at: &[usize],
    stream: &Stream,
    origin: &Origin,
) -> Result<Tensor> {
    let Some(first) = path.steps.first() else { return Ok(part.clone()) };
    let (machine, priority) = (part.machine(), Priority::default());
    let place = Some((first.from.mesh(), at));
    let mut calls = PartCalls { machine, stream, origin, priority, place };
    let made = calls.expanded(std::slice::from_ref(part), |emitter, given| {
        let mut part = given[0];
        for step in &path.steps {
            part = boxing::calls(step, shape, at, emitter, part)?;
        }
        Ok(vec![part])
    })?;
    only(made)
}

fn only(mut made: Vec<Tensor>) -> Result<Tensor> {
    made.pop().ok_or_else(|| Error::Internal { message: "a call made no tensor".to_owned() })
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
    survey::redistributes(tensor, to);
    let spec = Arc::new(TensorSpec::contiguous(tensor.dtype(), tensor.shape())?);
    let _range = machine.range(format!("boxing: {}", change(&global.sharding, to)));
    let own = if global.sharding.mesh() == to.mesh() {
        let path = between(&spec, &global.sharding, to)?;
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
    Ok(wrap(own, spec, to.clone(), Views::default(), stream, origin))
}

/// Redistributes a tensor as the program does: the tape notes it as a copy, whose gradient is held
/// as the tensor is; that of a partial one is whole.
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
    request::submit_whole(copy, |_| redistribute(tensor, to, stream, origin))
}

fn copied(part: &Tensor, stream: &Stream, origin: &Origin) -> Result<Tensor> {
    part.machine().call("copy", &[part]).origin(origin.clone()).one(stream)
}

/// Returns the part of this rank of a tensor that moves to another mesh, by messages. It is reduced
/// before.
fn across(
    tensor: &Tensor,
    spec: &TensorSpec,
    to: &Sharding,
    stream: &Stream,
    origin: &Origin,
) -> Result<Option<Tensor>> {
    let machine = tensor.machine();
    let Some(global) = tensor.global() else { return Ok(None) };
    to.check(spec.dtype, spec.shape())?;
    let (from, target) = (boxing::reduced(&global.sharding)?, boxing::reduced(to)?);
    let mut part = Vec::new();
    if let (Some(own), Some(at)) = (&global.local, coordinates(machine, from.mesh())) {
        let reduced = between(spec, &global.sharding, &from)?;
        part.push(follow(&reduced, own, spec.shape(), &at, stream, origin)?);
    }
    let (rank, priority) = (machine.communicator().rank() as u32, Priority::default());
    let mut calls = PartCalls { machine, stream, origin, priority, place: None };
    let made = calls.expanded(&part, |emitter, given| {
        let (dtype, shape, own) = (spec.dtype, spec.shape(), given.first().copied());
        let made = boxing::exchange(emitter, rank, dtype, shape, &from, &target, own)?;
        Ok(made.into_iter().collect())
    })?;
    let (Some(made), Some(at)) = (made.first(), coordinates(machine, to.mesh())) else {
        return Ok(None);
    };
    let last = between(spec, &target, to)?;
    follow(&last, made, spec.shape(), &at, stream, origin).map(Some)
}

/// Reduces partial tensors of one sharding together: one collective for each step, however many
/// tensors there are. The parts are replaced by new tensors of the sharding `to`, which is theirs,
/// but whole along axes where theirs is partial.
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
        let (count, what) = (tensors.len(), change(&from, to));
        let _range = machine.range(match count {
            1 => format!("boxing of a gradient: {what}"),
            _ => format!("boxing of {count} gradients: {what}"),
        });
        let mut copies = Vec::new();
        for part in parts {
            copies.push(copied(part, &stream, &origin)?);
        }
        for (axis, sbp) in from.sbp().iter().enumerate() {
            let Some(reduction) = sbp.reduction() else { continue };
            // A leaf may be a sum along an axis itself, and so is its gradient.
            if to.sbp()[axis] == *sbp {
                continue;
            }
            let group = ranks_along(to.mesh(), axis, &at);
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
            Ok(wrap(local, spec, to.clone(), Views::default(), &stream, &origin))
        })
        .collect()
}

/// Returns whether the steps of a path are reductions to whole tensors alone.
pub(crate) fn is_reduction(path: &Path) -> bool {
    let whole = |step: &Step| {
        step.from.sbp()[step.axis].reduction().is_some()
            && step.to.sbp()[step.axis] == Sbp::Broadcast
    };
    path.steps.iter().all(whole)
}
