//! Calls of ops on global tensors.

use std::ops::Range;
use std::sync::Arc;

use millstream_ops::boxing::Plan;
use millstream_types::{AttrValue, Attrs, Error, Origin, Result, Sharding, TensorSpec};

use crate::handle::lowering::InnerCalls;
use crate::handle::machine::Inputs;
use crate::handle::request::{self, OpCall, Request, Results, Verb};
use crate::handle::{Stream, Tensor};

use super::boxing::{PartCalls, change, redistribute};
use super::plan::{Asked, Planned};
use super::{Views, check_mesh, coordinates, survey, wrap};

/// Makes a call with global tensors: the tape notes it, and what lies below notes the calls on this
/// rank's parts. The first result may be wanted in a sharding.
///
/// # Errors
/// The op refuses its operands or arguments, or their shardings; or a call on the parts fails.
pub(crate) fn make(
    call: OpCall<'_>,
    wanted: Option<&Arc<Sharding>>,
    is_within: bool,
    origin: &Origin,
) -> Result<Results> {
    let request = Request { verb: Verb::Op(call), is_within, origin };
    request::submit_whole(request, |request| {
        if is_within {
            let message = "a critical section takes no global tensors; use `to_local()?`";
            let op = call.name.to_owned();
            return Err(Error::Op { op, message: message.to_owned() }.at(origin));
        }
        // A layer may have replaced operands.
        let call = if let Verb::Op(call) = &request.verb { call } else { &call };
        run(call, wanted, origin).map_err(|e| e.at(origin))
    })
}

/// Makes a tensor of an op without operands, held in a given way.
///
/// # Errors
/// The op refuses its arguments, or the tensor cannot be held so.
pub(crate) fn create(
    op: &str,
    attrs: &Attrs,
    sharding: &Arc<Sharding>,
    stream: &Stream,
    origin: &Origin,
) -> Result<Tensor> {
    let machine = &stream.machine;
    let call = OpCall {
        machine,
        name: op,
        inputs: &[],
        out: None,
        attrs,
        stream,
        priority: millstream_instructions::Priority::default(),
    };
    let made = run(&call, Some(sharding), origin)?.into_iter().next();
    let made = made.ok_or_else(|| Error::Internal { message: format!("{op} made nothing") })?;
    held_as(made, sharding, stream, origin)
}

/// Returns a tensor held in a given way: the same one if it is.
pub(crate) fn held_as(
    tensor: Tensor,
    sharding: &Arc<Sharding>,
    stream: &Stream,
    origin: &Origin,
) -> Result<Tensor> {
    match tensor.global() {
        Some(global) if global.sharding != *sharding => {
            redistribute(&tensor, sharding, stream, origin)
        }
        _ => Ok(tensor),
    }
}

/// Makes a global tensor of elements that every rank has in full.
///
/// # Errors
/// The tensor cannot be held so, or the memory is used up.
pub(crate) fn upload(
    spec: TensorSpec,
    bytes: Vec<u8>,
    sharding: &Arc<Sharding>,
    stream: &Stream,
    origin: &Origin,
) -> Result<Tensor> {
    let machine = &stream.machine;
    check_mesh(machine, sharding.mesh())?;
    sharding.check(spec.dtype, spec.shape())?;
    let spec = Arc::new(spec);
    let Some(at) = coordinates(machine, sharding.mesh()) else {
        return Ok(wrap(None, spec, sharding.clone(), Views::default(), stream, origin));
    };
    let part = sharding.part(spec.shape(), &at);
    let sums = sharding.sbp().iter().zip(&at);
    // All but the first rank of an axis hold zeros of a sum; every rank holds a maximum.
    let is_zero = sums
        .clone()
        .any(|(sbp, at)| sbp.reduction() == Some(millstream_types::Reduction::Sum) && *at > 0);
    let own = if is_zero {
        let shape: Vec<i64> = part.iter().map(|range| range.len() as i64).collect();
        let zero: AttrValue = match spec.dtype.is_inexact() {
            true => (-0.0).into(),
            false => 0i64.into(),
        };
        let attrs = Attrs::new().with("value", zero).with("shape", shape).with("dtype", spec.dtype);
        machine.call("full", &[]).attrs(attrs).origin(origin.clone()).one(stream)?
    } else {
        let own = cut(&bytes, spec.shape(), &part, spec.dtype.size());
        machine.upload_at(stream, sharding.local_spec(&spec, &at)?, own, origin.clone())?
    };
    Ok(wrap(Some(own), spec, sharding.clone(), Views::default(), stream, origin))
}

/// Returns the bytes of a box of a dense, row-major tensor.
fn cut(bytes: &[u8], shape: &[usize], part: &[Range<usize>], size: usize) -> Vec<u8> {
    let Some(last) = part.iter().zip(shape).rposition(|(range, length)| range.len() != *length)
    else {
        return bytes.to_vec();
    };
    // Behind the last dimension that is cut, elements lie one after the other.
    let run: usize = shape[last + 1..].iter().product::<usize>() * size;
    let mut made = Vec::new();
    let mut rows: Vec<usize> = vec![0];
    for (dim, range) in part[..last].iter().enumerate() {
        let before = std::mem::take(&mut rows);
        for row in before {
            rows.extend(range.clone().map(|k| row * shape[dim] + k));
        }
    }
    for row in rows {
        let start = (row * shape[last] + part[last].start) * run;
        let end = (row * shape[last] + part[last].end) * run;
        made.extend_from_slice(&bytes[start..end]);
    }
    made
}

/// Makes the calls of this rank.
fn run(call: &OpCall<'_>, wanted: Option<&Arc<Sharding>>, origin: &Origin) -> Result<Results> {
    let OpCall { machine, name, inputs, out, attrs, stream, .. } = *call;
    let of_target = out.and_then(|out| Some(&out.first()?.global()?.sharding));
    let asked = Asked { machine, op: name, attrs, inputs, wanted: of_target.or(wanted) };
    let made = planned(call, &asked, origin)?;
    let Some(out) = out else { return Ok(made) };
    if made.len() != out.len() {
        let message = format!("expected {} target(s), got {}", made.len(), out.len());
        return Err(Error::Op { op: name.to_owned(), message });
    }
    for (target, result) in out.iter().zip(made) {
        let none = Attrs::new();
        let inputs = &[*target, &result];
        let copy = OpCall { name: "copy_", inputs, out: None, attrs: &none, stream, ..*call };
        run(&copy, None, origin)?;
    }
    Ok(out.iter().map(|&target| target.clone()).collect())
}

/// Notes a change in place.
///
/// # Errors
/// Tensors would miss it which are views on one rank.
pub(super) fn note_change(op: &str, tensor: &Tensor) -> Result<()> {
    let Some(global) = tensor.global() else { return Ok(()) };
    if !global.views.is_divided() {
        global.views.change();
        return Ok(());
    }
    let message = format!(
        "{} shares memory with a view on one rank, and not on a mesh, where the base was \
         redistributed for the view; redistribute the base before both, or drop the other",
        tensor.spec().brief()
    );
    Err(Error::Op { op: op.to_owned(), message })
}

/// Makes the calls of a plan.
fn planned(call: &OpCall<'_>, asked: &Asked<'_>, origin: &Origin) -> Result<Results> {
    let planned = asked.plan()?;
    let Planned { plan, op, at, direct, results, changed } = &*planned;
    changed.iter().try_for_each(|input| note_change(call.name, asked.inputs[*input]))?;
    let own = match (at, direct) {
        (None, _) => Results::new(),
        (Some(_), Some(attrs)) => {
            let parts: Option<Inputs<'_>> =
                asked.inputs.iter().map(|input| input.global()?.local.as_ref()).collect();
            let inputs = &parts.ok_or_else(missing)?;
            OpCall { inputs, out: None, attrs, ..*call }.submit(*op, None, origin)?
        }
        (Some(at), None) => by_parts(call, asked, plan, at, origin)?,
    };
    let mut own = own.into_iter();
    let mut made = Results::new();
    for (result, (spec, sharding)) in plan.results.iter().zip(results) {
        let part = own.next();
        if let Some(same) = result.same {
            made.push(asked.inputs[same].clone());
            continue;
        }
        let base = result.view_of.and_then(|of| asked.inputs[of].global());
        let views = match base {
            Some(_) if result.is_copied_view => Views::copy(),
            Some(base) => base.views.view(),
            None => Views::default(),
        };
        let (spec, sharding) = (spec.clone(), sharding.clone());
        let view = wrap(part, spec, sharding, views, call.stream, origin);
        if let Some(base) = base.filter(|_| result.is_copied_view) {
            base.views.note(&view);
        }
        made.push(view);
    }
    if survey::is_on() && !asked.inputs.is_empty() {
        survey::made(call.name, asked.attrs, asked.inputs, &made, plan, origin);
    }
    Ok(made)
}

/// Makes all calls of a plan on the parts of this rank.
fn by_parts(
    call: &OpCall<'_>,
    asked: &Asked<'_>,
    plan: &Plan,
    at: &[usize],
    origin: &Origin,
) -> Result<Results> {
    let OpCall { machine, stream, priority, .. } = *call;
    let parts: Option<Vec<Tensor>> =
        asked.inputs.iter().map(|input| input.global()?.local.clone()).collect();
    let changed = plan.operands.iter().zip(asked.inputs).filter(|(taken, _)| taken.path.is_some());
    let changed: Vec<String> = changed
        .filter_map(|(taken, input)| Some(change(&input.global()?.sharding, &taken.sharding)))
        .collect();
    let named = || machine.range(format!("boxing for {}: {}", call.name, changed.join(", ")));
    let _range = (!changed.is_empty()).then(named);
    let place = Some((&plan.mesh, at));
    let mut calls = PartCalls { machine, stream, origin, priority, place };
    let parts = parts.ok_or_else(missing)?;
    let made = calls.expanded(&parts, |emitter, given| plan.calls(at, emitter, given))?;
    Ok(Results::from_vec(made))
}

fn missing() -> Error {
    Error::Internal { message: "a rank of the mesh has no part".to_owned() }
}
