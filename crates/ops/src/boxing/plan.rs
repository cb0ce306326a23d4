//! What a call on global tensors does: on which shardings it is made, and the calls of one rank.

use std::ops::Range;

use smallvec::SmallVec;

use millstream_types::{Attrs, Error, Mesh, NdSbp, Ranges, Result, Sbp, Sharding, TensorSpec};

use crate::collective;
use crate::formula::{Calls, Emitter, Expr, Kept, Symbol};
use crate::schema::{CallSpec, Op, OutputSpec};
use crate::sharding::{Divisor, Local, local_attrs};

use super::choice::{Choice, Operand, Pinned};
use super::path::{Path, path};
use super::step::apply;

/// A call on tensors that the ranks of a mesh hold, and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The mesh.
    pub mesh: Mesh,
    /// How the call takes each operand.
    pub operands: Vec<Taken>,
    /// Its results.
    pub results: Vec<Made>,
    /// The bytes that all ranks receive for the operands.
    pub received: u64,
    /// Whether ranks do different work along an axis; otherwise all make the whole call.
    pub is_divided: bool,
    op: String,
    attrs: Attrs,
    /// The way of each axis.
    locals: SmallVec<[Local; 3]>,
}

/// How a call takes an operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The shape of the whole tensor.
    pub shape: SmallVec<[usize; 4]>,
    /// The sharding.
    pub sharding: Sharding,
    /// The way from the operand's own sharding; `None` if the call takes that.
    pub path: Option<Path>,
}

/// A result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The position of the operand that the call changes in place and returns.
    pub same: Option<usize>,
    /// The spec of the whole.
    pub spec: TensorSpec,
    /// How the ranks hold it.
    pub sharding: Sharding,
    /// The operand that the result is a view of, on one rank.
    pub view_of: Option<usize>,
    /// Whether the ranks have a copy where one rank has a view, since the base was redistributed.
    pub is_copied_view: bool,
}

impl Plan {
    /// Plans a call. `wanted` is the sharding of the first result that the program requests; the
    /// plan does not include the way there. A `pinned` choice is that of a whole program.
    ///
    /// # Errors
    /// The op refuses its operands or arguments; the size of a result depends on data; the op is a
    /// collective; the call writes an operand that is held in a way that it cannot write.
    pub fn of(
        op: &dyn Op,
        attrs: &Attrs,
        mesh: &Mesh,
        operands: &[Operand<'_>],
        wanted: Option<&Sharding>,
        pinned: Option<&Pinned>,
    ) -> Result<Plan> {
        let refused =
            |message: &str| Error::Op { op: op.name().to_owned(), message: message.to_owned() };
        if collective::is(op.name()) {
            return Err(refused(
                "a collective takes each rank's own tensors: call it on parts, or redistribute \
                 the tensor",
            ));
        }
        let mut specs: SmallVec<[TensorSpec; 4]> =
            operands.iter().map(|operand| operand.spec.clone()).collect();
        let call = CallSpec { inputs: &specs, attrs };
        let signature = op.check(call)?;
        if signature.outputs.iter().any(|output| matches!(output, OutputSpec::Bounded(_))) {
            return Err(refused(
                "the size of its result depends on data, which global tensors do not have; call \
                 it on parts, or on the full tensor",
            ));
        }
        let choice = Choice::of(op, call, &signature, mesh, operands, wanted, pinned)?;
        let Choice { operands: targets, results, ways, received } = choice;
        let mut taken = Vec::new();
        for (k, sharding) in targets.into_iter().enumerate() {
            let Operand { spec, sharding: own } = operands[k];
            let path = match *own == sharding {
                true => None,
                false => Some(between(spec, own, &sharding)?),
            };
            if path.is_some() {
                // Redistributed parts are dense and row-major.
                specs[k] = TensorSpec::contiguous(spec.dtype, spec.shape())?;
            }
            taken.push(Taken { shape: spec.shape().into(), sharding, path });
        }
        let views = signature.outputs.iter().map(|output| match output {
            OutputSpec::View { of, .. } => Some(*of),
            OutputSpec::Fresh(_) | OutputSpec::Bounded(_) | OutputSpec::Same(_) => None,
        });
        let views: SmallVec<[Option<usize>; 2]> = views.collect();
        let signature = op.check(CallSpec { inputs: &specs, attrs })?;
        let results = signature.outputs.iter().zip(results).zip(views);
        let results = results.map(|((output, sharding), view_of)| {
            let (same, spec) = match output {
                OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => (None, spec.clone()),
                OutputSpec::Same(of) => (Some(*of), specs[*of].clone()),
                OutputSpec::View { of, layout, dtype } => {
                    let dtype = dtype.unwrap_or(specs[*of].dtype);
                    (None, TensorSpec::new(dtype, layout.clone())?)
                }
            };
            let is_copied_view = view_of.is_some_and(|of| taken[of].path.is_some());
            Ok(Made { same, spec, sharding, view_of, is_copied_view })
        });
        let results = results.collect::<Result<Vec<Made>>>()?;
        let is_divided = ways.iter().any(Option::is_some);
        let locals = ways.into_iter().map(|way| way.map(|way| way.local).unwrap_or_default());
        let mut plan = Plan {
            mesh: mesh.clone(),
            operands: taken,
            results,
            received,
            is_divided,
            op: op.name().to_owned(),
            attrs: attrs.clone(),
            locals: locals.collect(),
        };
        plan.reduce_divisors()?;
        Ok(plan)
    }

    /// Makes results that others are divided by whole: each rank needs all of their sum.
    fn reduce_divisors(&mut self) -> Result<()> {
        let Some(by) = self.locals.iter().find_map(|local| match local {
            Local::MeanOf { count: Divisor::Result(by), .. } => Some(*by),
            _ => None,
        }) else {
            return Ok(());
        };
        let reduced: NdSbp = self.results[by]
            .sharding
            .sbp()
            .iter()
            .map(|sbp| if sbp.reduction().is_some() { Sbp::Broadcast } else { *sbp })
            .collect();
        self.results[by].sharding = Sharding::new(&self.mesh, reduced)?;
        Ok(())
    }

    /// Makes the calls of the rank at these coordinates on its parts of the operands, and returns
    /// its parts of the results.
    ///
    /// # Errors
    /// A call cannot be made, or returns a part of another shape than the plan expects.
    pub fn calls(
        &self,
        at: &[usize],
        emitter: &mut dyn Emitter,
        parts: &[Symbol],
    ) -> Result<Vec<Symbol>> {
        let kept = Kept::new(emitter);
        let parts: Vec<Expr<'_>> = parts.iter().map(|part| kept.calls().of(*part)).collect();
        let made = self.made(at, kept.calls(), &parts);
        let made = made.map(|all| all.into_iter().map(|x| x.symbol).collect());
        kept.end(made)
    }

    fn made<'a>(
        &self,
        at: &[usize],
        calls: Calls<'a>,
        parts: &[Expr<'a>],
    ) -> Result<Vec<Expr<'a>>> {
        let mut given: SmallVec<[Expr<'a>; 4]> = SmallVec::new();
        for (part, taken) in parts.iter().zip(&self.operands) {
            let mut steps = taken.path.iter().flat_map(|path| &path.steps);
            given.push(steps.try_fold(*part, |x, step| apply(step, &taken.shape, at, x))?);
        }
        let made = self.own_calls(at, calls, &given)?;
        for (x, result) in made.iter().zip(&self.results) {
            let (own, expected) = (x.spec()?, self.part(result, at));
            if own.shape().iter().ne(expected.iter().map(Range::len).collect::<Vec<_>>().iter()) {
                let message = format!(
                    "{} returned the part {} of {}, held as {}; expected {expected:?}",
                    self.op,
                    own.brief(),
                    result.spec.brief(),
                    result.sharding
                );
                return Err(Error::Internal { message });
            }
        }
        Ok(made)
    }

    /// Returns the arguments of the call that the rank at these coordinates makes on its parts, if
    /// that call is all that it does.
    pub fn direct(&self, at: &[usize]) -> Option<Attrs> {
        let stays = self.operands.iter().all(|taken| taken.path.is_none());
        let is_one = self.locals.iter().all(|local| {
            !matches!(local, Local::MeanOf { .. } | Local::Op { .. } | Local::Rows { .. })
        });
        (stays && is_one).then(|| self.local_attrs(at))
    }

    fn part(&self, result: &Made, at: &[usize]) -> Ranges {
        result.sharding.part(result.spec.shape(), at)
    }

    /// Returns the arguments of the call on the parts.
    fn local_attrs(&self, at: &[usize]) -> Attrs {
        let locals: SmallVec<[&Local; 3]> = self.locals.iter().collect();
        match self.results.first() {
            None => self.attrs.clone(),
            Some(first) => {
                local_attrs(&locals, &self.attrs, &self.part(first, at), first.spec.shape())
            }
        }
    }

    /// Makes the call, or the calls that stand for it.
    fn own_calls<'a>(
        &self,
        at: &[usize],
        calls: Calls<'a>,
        parts: &[Expr<'a>],
    ) -> Result<Vec<Expr<'a>>> {
        let attrs = self.local_attrs(at);
        for local in &self.locals {
            match local {
                Local::MeanOf { op, count, .. } => {
                    let mut made = calls.call(op, parts, attrs);
                    match *count {
                        _ if made.is_empty() => {}
                        Divisor::Count(count) => made[0] = made[0] / count,
                        Divisor::Result(by) => {
                            made[by] = self.total(at, made[by], by)?;
                            made[0] = made[0] / made[by];
                        }
                    }
                    return Ok(made);
                }
                Local::Rows { indices, table } => {
                    return Ok(vec![self.rows(at, parts, *indices, *table, attrs)]);
                }
                _ => {}
            }
        }
        Ok(calls.call(&self.op, parts, attrs))
    }

    /// Reduces a result by which another is divided.
    fn total<'a>(&self, at: &[usize], part: Expr<'a>, by: usize) -> Result<Expr<'a>> {
        let (whole, first) = (&self.results[by], &self.results[0].sharding);
        let partial =
            whole.sharding.sbp().iter().zip(first.sbp()).map(|(own, of_sum)| match (own, of_sum) {
                (Sbp::Broadcast, Sbp::Partial(reduction)) => Sbp::Partial(*reduction),
                (own, _) => *own,
            });
        let partial = Sharding::new(&self.mesh, partial)?;
        let path = between(&whole.spec, &partial, &whole.sharding)?;
        path.steps.iter().try_fold(part, |x, step| apply(step, whole.spec.shape(), at, x))
    }

    /// Looks up rows of a table of which this rank has a part; rows of others are zeros.
    fn rows<'a>(
        &self,
        at: &[usize],
        parts: &[Expr<'a>],
        indices: usize,
        table: usize,
        attrs: Attrs,
    ) -> Expr<'a> {
        let of_table = &self.operands[table];
        let own = of_table.sharding.part(&of_table.shape, at)[0].clone();
        let row = parts[indices] - own.start as i64;
        let others = row.lt(0).logical_or(row.ge(own.len() as i64));
        let mut given = parts.to_vec();
        given[indices] = row.filled(others, 0);
        let found = row.calls.one(&self.op, &given, attrs);
        found.filled(others.unsqueeze(-1), 0.0)
    }
}

/// Returns the path between two shardings of a tensor.
///
/// # Errors
/// The tensor cannot be held so.
pub fn between(spec: &TensorSpec, from: &Sharding, to: &Sharding) -> Result<Path> {
    to.check(spec.dtype, spec.shape())?;
    path(spec.dtype, spec.shape(), from, to).ok_or_else(|| Error::Invalid {
        what: "sharding",
        message: format!("{} held as {from} cannot become {to}", spec.brief()),
    })
}
