//! Calls of ops on global tensors.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_ops::sharding::{Divisor, Local};
use millstream_types::{AttrValue, Attrs, Error, Origin, Result, Sbp, Sharding, TensorSpec};

use crate::handle::machine::CallBuilder;
use crate::handle::request::{self, OpCall, Rank, Request, Results, Verb};
use crate::handle::{Stream, Tensor};

use super::boxing::{follow, redistribute};
use super::plan::{Asked, Plan};
use super::{check_mesh, coordinates, wrap};

/// Returns whether any of these tensors is global.
#[inline]
pub(crate) fn is_any(tensors: &[&Tensor]) -> bool {
    tensors.iter().any(|tensor| tensor.global().is_some())
}

/// Makes a call with global operands: the tape notes it, and what lies below notes the calls on
/// this rank's parts.
///
/// # Errors
/// The op refuses its operands or arguments, or their shardings; or a call on the parts fails.
#[cold]
pub(crate) fn make(call: OpCall<'_>, is_within: bool, origin: &Origin) -> Result<Results> {
    let request = Request { verb: Verb::Op(call), is_within, origin };
    request::submit_to(Rank::Gradient, request, |_| {
        let _own = request::suspend(&[Rank::Gradient]);
        if is_within {
            let message = "a critical section takes no global tensors; use `to_local()?`";
            let op = call.name.to_owned();
            return Err(Error::Op { op, message: message.to_owned() }.at(origin));
        }
        run(&call, origin).map_err(|e| e.at(origin))
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
    let asked = Asked { machine, op, attrs, inputs: &[], wanted: Some(sharding) };
    let call = OpCall {
        machine,
        name: op,
        inputs: &[],
        out: None,
        attrs,
        stream,
        priority: millstream_instructions::Priority::default(),
    };
    let made = planned(&call, &asked, origin)?.into_iter().next();
    let made = made.ok_or_else(|| Error::Internal { message: format!("{op} made nothing") })?;
    held_as(made, sharding, stream, origin)
}

/// Returns a tensor held in a given way: the same one if it is.
fn held_as(
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
        return Ok(wrap(None, spec, sharding.clone(), false, stream, origin));
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
    Ok(wrap(Some(own), spec, sharding.clone(), false, stream, origin))
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
fn run(call: &OpCall<'_>, origin: &Origin) -> Result<Results> {
    let OpCall { machine, name, inputs, out, attrs, stream, .. } = *call;
    let wanted = out.and_then(|out| Some(&out.first()?.global()?.sharding));
    let asked = Asked { machine, op: name, attrs, inputs, wanted };
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
        run(&copy, origin)?;
    }
    Ok(out.iter().map(|&target| target.clone()).collect())
}

/// Makes the calls of a plan.
fn planned(call: &OpCall<'_>, asked: &Asked<'_>, origin: &Origin) -> Result<Results> {
    let plan = asked.plan()?;
    let OpCall { machine, stream, .. } = *call;
    let at = coordinates(machine, &plan.mesh);
    let parts = match &at {
        None => None,
        Some(at) => {
            let mut parts: SmallVec<[Tensor; 4]> = SmallVec::new();
            for (input, path) in asked.inputs.iter().zip(&plan.paths) {
                let Some(part) = input.global().and_then(|global| global.local.as_ref()) else {
                    return Err(Error::Internal { message: "a part is missing".to_owned() });
                };
                parts.push(match path {
                    None => part.clone(),
                    Some((path, _)) => {
                        let from = input.global().map(|global| global.sharding.to_string());
                        let from = from.unwrap_or_default();
                        let to = plan_sharding(path);
                        let _cause = machine.range(format!("boxing {}: {from} → {to}", call.name));
                        follow(path, part, input.shape(), at, stream, origin)?
                    }
                });
            }
            Some(Parts { call, plan: &plan, at, origin }.call(&parts)?)
        }
    };
    let mut made = Results::new();
    for (k, result) in plan.results.iter().enumerate() {
        let own = parts.as_ref().map(|parts| parts[k].clone());
        if let Some(same) = result.same {
            made.push(asked.inputs[same].clone());
            continue;
        }
        if let (Some(own), Some(at)) = (&own, &at) {
            let expected = result.sharding.local_shape(result.spec.shape(), at);
            if own.shape() != &expected[..] {
                let message = format!(
                    "{} returned a part of shape {:?} of {}, held as {}; expected {expected:?}",
                    call.name,
                    own.shape(),
                    result.spec.brief(),
                    result.sharding
                );
                return Err(Error::Internal { message });
            }
        }
        let (spec, sharding) = (result.spec.clone(), result.sharding.clone());
        made.push(wrap(own, spec, sharding, result.is_copied_view, stream, origin));
    }
    Ok(made)
}

/// Returns the sharding that a path ends with, in words.
fn plan_sharding(path: &millstream_ops::boxing::Path) -> String {
    path.steps.last().map(|step| step.to.to_string()).unwrap_or_default()
}

/// The calls of this rank on its parts.
struct Parts<'a> {
    call: &'a OpCall<'a>,
    plan: &'a Plan,
    at: &'a [usize],
    origin: &'a Origin,
}

impl Parts<'_> {
    fn make(&self, op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Result<Vec<Tensor>> {
        let OpCall { machine, stream, priority, .. } = *self.call;
        let inputs = inputs.iter().copied().collect();
        let builder = CallBuilder::new(machine, op, inputs, Attrs::new(), self.origin.clone());
        builder.attrs(attrs).priority(priority.0).on(stream)
    }

    fn one(&self, op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Result<Tensor> {
        let made = self.make(op, inputs, attrs)?.into_iter().next();
        made.ok_or_else(|| Error::Internal { message: format!("{op} made nothing") })
    }

    /// Makes the call, or the calls that stand for it.
    fn call(&self, parts: &[Tensor]) -> Result<Vec<Tensor>> {
        let (op, attrs) = (self.call.name, self.call.attrs);
        let inputs: Vec<&Tensor> = parts.iter().collect();
        let mean = self.plan.locals.iter().find_map(|local| match local {
            Local::MeanOf { op, attrs, count } => Some((*op, attrs, *count)),
            _ => None,
        });
        let rows = self.plan.locals.iter().find_map(|local| match local {
            Local::Rows { indices, table } => Some((*indices, *table)),
            _ => None,
        });
        match (mean, rows) {
            (Some((op, attrs, count)), _) => self.mean(op, attrs, count, &inputs),
            (None, Some((indices, table))) => self.rows(&inputs, indices, table),
            (None, None) => {
                let attrs = self.attrs(attrs);
                let made = self.make(op, &inputs, &attrs);
                // Where the parts' strides allow no view, as lengths of 1 are ambiguous, a copy's
                // do.
                let is_view = self.plan.results.iter().all(|made| made.is_view);
                match made {
                    Err(_) if is_view && !self.plan.results.is_empty() => {
                        let copy = self.one("copy", &inputs, &Attrs::new())?;
                        self.make(op, &[&copy], &attrs)
                    }
                    made => made,
                }
            }
        }
    }

    /// Returns the arguments of the call on the parts.
    fn attrs(&self, attrs: &Attrs) -> Attrs {
        let mut own = attrs.clone();
        let Some(result) = self.plan.results.first() else { return own };
        let lengths = result.sharding.local_shape(result.spec.shape(), self.at);
        for local in &self.plan.locals {
            if let Local::Shape(name) = local {
                own.set(*name, lengths.iter().map(|length| *length as i64).collect::<Vec<i64>>());
            }
        }
        own
    }

    /// Sums, and divides the sums by a number of all ranks.
    fn mean(
        &self,
        op: &str,
        attrs: &Attrs,
        count: Divisor,
        inputs: &[&Tensor],
    ) -> Result<Vec<Tensor>> {
        let mut made = self.make(op, inputs, attrs)?;
        match count {
            Divisor::Count(count) => {
                let divisor = Attrs::new().with("other", count);
                made[0] = self.one("div", &[&made[0]], &divisor)?;
            }
            Divisor::Result(by) => {
                let result = &self.plan.results[by];
                let sums = result.sharding.sbp().iter().zip(self.plan.results[0].sharding.sbp());
                let partial = sums.map(|(own, sum)| match (own, sum) {
                    (Sbp::Broadcast, Sbp::Partial(reduction)) => Sbp::Partial(*reduction),
                    (own, _) => *own,
                });
                let partial = Arc::new(Sharding::new(&self.plan.mesh, partial)?);
                let stream = self.call.stream;
                let global = |local: &Tensor| {
                    let (local, spec) = (Some(local.clone()), result.spec.clone());
                    wrap(local, spec, partial.clone(), false, stream, self.origin)
                };
                let total =
                    redistribute(&global(&made[by]), &result.sharding, stream, self.origin)?;
                let total = total.global().and_then(|global| global.local.clone());
                made[by] = total
                    .ok_or_else(|| Error::Internal { message: "a part is missing".to_owned() })?;
                made[0] = self.one("div", &[&made[0], &made[by]], &Attrs::new())?;
            }
        }
        Ok(made)
    }

    /// Looks up rows of a table of which this rank has a part: other rows are zeros.
    fn rows(&self, inputs: &[&Tensor], indices: usize, table: usize) -> Result<Vec<Tensor>> {
        let (global, sharding) = match &self.plan.paths[table] {
            Some((_, sharding)) => (self.call.inputs[table].shape(), sharding.clone()),
            None => {
                let of = self.call.inputs[table];
                let sharding = of.global().map(|global| global.sharding.clone());
                let missing = || Error::Internal { message: "a part is missing".to_owned() };
                (of.shape(), sharding.ok_or_else(missing)?)
            }
        };
        let own = sharding.part(global, self.at)[0].clone();
        if own.is_empty() {
            // No row is here, so all results are zeros.
            let result = &self.plan.results[0];
            let lengths = result.sharding.local_shape(result.spec.shape(), self.at);
            let lengths: Vec<i64> = lengths.iter().map(|length| *length as i64).collect();
            let zeros = Attrs::new().with("shape", lengths).with("value", 0.0);
            return self.make("full", &[], &zeros.with("dtype", result.spec.dtype));
        }
        let by = |number: usize| Attrs::new().with("other", number as i64);
        let own_row = self.one("sub", &[inputs[indices]], &by(own.start))?;
        let below = self.one("lt", &[&own_row], &by(0))?;
        let above = self.one("ge", &[&own_row], &by(own.len()))?;
        let others = self.one("logical_or", &[&below, &above], &Attrs::new())?;
        let zero = Attrs::new().with("value", 0i64);
        let row = self.one("masked_fill", &[&own_row, &others], &zero)?;
        let mut given = inputs.to_vec();
        given[indices] = &row;
        let found = self.one(self.call.name, &given, &self.attrs(self.call.attrs))?;
        let mask = self.one("unsqueeze", &[&others], &Attrs::new().with("dim", -1i64))?;
        let zero = Attrs::new().with("value", 0.0);
        self.make("masked_fill", &[&found, &mask], &zero)
    }
}
