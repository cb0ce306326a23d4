//! The calls that one rank makes for a step of boxing.

use millstream_types::sharding::part;
use millstream_types::{Attrs, DType, Reduction, Result, Sbp};

use crate::composite::{Calls, Emitter, Symbol, ints};

use super::Step;

/// Returns whether a step leaves the tensors of all ranks as they are.
pub fn is_identity(step: &Step) -> bool {
    let ranks = step.from.mesh().shape()[step.axis];
    let extremum = |sbp: Sbp| sbp.reduction().is_some_and(|r| r != Reduction::Sum);
    let (from, to) = (step.from.sbp()[step.axis], step.to.sbp()[step.axis]);
    ranks == 1 || (from == Sbp::Broadcast && extremum(to))
}

/// Makes the calls of the rank at these coordinates for a step, on its part `x` of a tensor of this
/// shape. Returns its part afterwards: a new tensor, dense and row-major, or `x` itself if the step
/// changes nothing.
///
/// # Errors
/// A call cannot be made.
pub fn calls(
    step: &Step,
    shape: &[usize],
    at: &[usize],
    emitter: &mut dyn Emitter,
    x: Symbol,
) -> Result<Symbol> {
    let dtype = emitter.spec(x).dtype;
    let mut calls = Boxing { calls: Calls { emitter }, step, shape, at, dtype };
    if is_identity(step) {
        return Ok(x);
    }
    match (step.from.sbp()[step.axis], step.to.sbp()[step.axis]) {
        (Sbp::Partial(reduction), Sbp::Split(dim)) => calls.reduce_scatter(x, reduction, dim),
        (Sbp::Partial(reduction), _) => calls.reduce(x, reduction),
        (Sbp::Split(dim), Sbp::Split(other)) => calls.exchange(x, dim, other),
        (Sbp::Split(dim), Sbp::Broadcast) => calls.gather(x, dim),
        (Sbp::Split(dim), Sbp::Partial(_)) => calls.padded(x, dim),
        (Sbp::Broadcast, Sbp::Split(dim)) => calls.cut(x, dim),
        (Sbp::Broadcast, _) => calls.first_alone(x),
    }
}

struct Boxing<'a> {
    calls: Calls<'a>,
    step: &'a Step,
    shape: &'a [usize],
    at: &'a [usize],
    dtype: DType,
}

/// The part of a tensor that a rank of the group has, gives or gets.
struct Piece {
    /// The first position along the dimension, and the length.
    start: usize,
    length: usize,
    /// The lengths of the piece.
    shape: Vec<usize>,
}

impl Piece {
    fn numel(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Calls<'_> {
    /// Returns a new tensor of what changes no sum: negative zeros, as the sum of a negative and a
    /// positive zero is positive.
    pub(super) fn zeros(&mut self, shape: &[i64], dtype: DType) -> Result<Symbol> {
        let zero = match dtype {
            DType::Bool => Attrs::new().with("value", false),
            dtype if dtype.is_inexact() => Attrs::new().with("value", -0.0),
            _ => Attrs::new().with("value", 0i64),
        };
        self.one("full", &[], zero.with("shape", shape.to_vec()).with("dtype", dtype))
    }
}

impl Boxing<'_> {
    /// Returns the shape of this rank's part where the axis of the step splits nothing.
    fn unsplit(&self) -> Vec<usize> {
        let mut sbp: Vec<Sbp> = self.step.from.sbp().to_vec();
        sbp[self.step.axis] = Sbp::Broadcast;
        let mut lengths = self.shape.to_vec();
        for (axis, sbp) in sbp.iter().enumerate() {
            if let Sbp::Split(dim) = *sbp {
                let ranks = self.step.from.mesh().shape()[axis];
                lengths[dim] = part(lengths[dim], ranks, self.at[axis]).len();
            }
        }
        lengths
    }

    /// Returns the coordinates along the axis in order of the ranks there, as collectives have it,
    /// and the ranks.
    fn group(&self) -> (Vec<usize>, Vec<i64>) {
        let ranks = self.step.from.mesh().group(self.step.axis, self.at);
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        order.sort_by_key(|k| ranks[*k]);
        let sorted = order.iter().map(|k| i64::from(ranks[*k])).collect();
        (order, sorted)
    }

    /// Returns the pieces of a shape along a dimension, by their coordinates along the axis.
    fn pieces(&self, shape: &[usize], dim: usize) -> Vec<Piece> {
        let ranks = self.step.from.mesh().shape()[self.step.axis];
        (0..ranks)
            .map(|k| {
                let range = part(shape[dim], ranks, k);
                let mut lengths = shape.to_vec();
                lengths[dim] = range.len();
                Piece { start: range.start, length: range.len(), shape: lengths }
            })
            .collect()
    }

    /// Returns a new tensor with a range of a dimension of x.
    fn narrowed(&mut self, x: Symbol, dim: usize, piece: &Piece) -> Result<Symbol> {
        let attrs = along(dim).with("start", piece.start as i64);
        self.calls.one("narrow", &[x], attrs.with("length", piece.length as i64))
    }

    fn flat(&mut self, x: Symbol) -> Result<Symbol> {
        self.calls.reshape(x, &[-1])
    }

    fn empty(&mut self, numel: usize) -> Result<Symbol> {
        self.zeros(&[numel])
    }

    fn zeros(&mut self, shape: &[usize]) -> Result<Symbol> {
        self.calls.zeros(&ints(shape), self.dtype)
    }

    /// Returns the pieces of x along a dimension, one after the other in order of the ranks, as a
    /// tensor with one dimension, and their lengths.
    fn packed(&mut self, x: Symbol, dim: usize, order: &[usize]) -> Result<(Symbol, Vec<i64>)> {
        let shape = self.calls.spec(x).shape().to_vec();
        let pieces = self.pieces(&shape, dim);
        let lengths = order.iter().map(|k| pieces[*k].numel() as i64).collect();
        if is_outermost(&shape, dim) && order.is_sorted() {
            let dense = self.dense(x)?;
            return Ok((self.flat(dense)?, lengths));
        }
        let mut parts = Vec::new();
        for k in order {
            let part = self.narrowed(x, dim, &pieces[*k])?;
            parts.push(self.flat(part)?);
        }
        Ok((self.calls.one("cat", &parts, along(0))?, lengths))
    }

    /// Returns the tensor whose pieces along a dimension are one after the other in `packed`, in
    /// order of the ranks: the inverse of [`Boxing::packed`].
    fn unpacked(
        &mut self,
        packed: Symbol,
        shape: &[usize],
        dim: usize,
        order: &[usize],
    ) -> Result<Symbol> {
        if is_outermost(shape, dim) && order.is_sorted() {
            return self.calls.reshape(packed, &ints(shape));
        }
        let pieces = self.pieces(shape, dim);
        let mut parts = vec![packed; order.len()];
        let mut start = 0;
        for k in order {
            let piece = Piece { start, length: pieces[*k].numel(), shape: Vec::new() };
            let flat = self.narrowed(packed, 0, &piece)?;
            parts[*k] = self.calls.reshape(flat, &ints(&pieces[*k].shape))?;
            start += piece.length;
        }
        self.calls.one("cat", &parts, along(dim))
    }

    /// Returns x, or a dense copy.
    fn dense(&mut self, x: Symbol) -> Result<Symbol> {
        match self.calls.spec(x).layout.is_contiguous() {
            true => Ok(x),
            false => self.calls.apply("copy", &[x]),
        }
    }

    fn gather(&mut self, x: Symbol, dim: usize) -> Result<Symbol> {
        let (order, group) = self.group();
        let shape = self.unsplit();
        let pieces = self.pieces(&shape, dim);
        let splits: Vec<i64> = order.iter().map(|k| pieces[*k].numel() as i64).collect();
        let out = self.empty(shape.iter().product())?;
        let own = self.dense(x)?;
        let own = self.flat(own)?;
        let attrs = Attrs::new().with("splits", splits).with("group", group);
        self.calls.call("allgather_", &[out, own], attrs)?;
        self.unpacked(out, &shape, dim, &order)
    }

    fn reduce(&mut self, x: Symbol, reduction: Reduction) -> Result<Symbol> {
        let (_, group) = self.group();
        let own = self.calls.apply("copy", &[x])?;
        let attrs = Attrs::new().with("op", reduction.name()).with("group", group);
        self.calls.call("allreduce_", &[own], attrs)?;
        Ok(own)
    }

    fn reduce_scatter(&mut self, x: Symbol, reduction: Reduction, dim: usize) -> Result<Symbol> {
        let (order, group) = self.group();
        let own = self.pieces(&self.unsplit(), dim).swap_remove(self.at[self.step.axis]);
        let (packed, splits) = self.packed(x, dim, &order)?;
        let out = self.empty(own.numel())?;
        let attrs = Attrs::new().with("op", reduction.name()).with("splits", splits);
        self.calls.call("reduce_scatter_", &[out, packed], attrs.with("group", group))?;
        self.calls.reshape(out, &ints(&own.shape))
    }

    fn exchange(&mut self, x: Symbol, dim: usize, other: usize) -> Result<Symbol> {
        let (order, group) = self.group();
        let (packed, sent) = self.packed(x, other, &order)?;
        let shape = self.unsplit();
        let own = self.pieces(&shape, other).swap_remove(self.at[self.step.axis]);
        let received = self.pieces(&own.shape, dim);
        let received: Vec<i64> = order.iter().map(|k| received[*k].numel() as i64).collect();
        let out = self.empty(own.numel())?;
        let attrs = Attrs::new().with("output_splits", received).with("input_splits", sent);
        self.calls.call("alltoall_", &[out, packed], attrs.with("group", group))?;
        self.unpacked(out, &own.shape, dim, &order)
    }

    fn cut(&mut self, x: Symbol, dim: usize) -> Result<Symbol> {
        let own = self.pieces(&self.unsplit(), dim).swap_remove(self.at[self.step.axis]);
        let part = self.narrowed(x, dim, &own)?;
        self.calls.apply("copy", &[part])
    }

    /// Returns a tensor of the whole shape with x at its place, and zeros elsewhere.
    fn padded(&mut self, x: Symbol, dim: usize) -> Result<Symbol> {
        let shape = self.unsplit();
        let own = self.pieces(&shape, dim).swap_remove(self.at[self.step.axis]);
        let whole = self.zeros(&shape)?;
        let place = self.narrowed(whole, dim, &own)?;
        self.calls.call("copy_", &[place, x], Attrs::new())?;
        Ok(whole)
    }

    /// Returns x on the first rank of the group, zeros on the others.
    fn first_alone(&mut self, x: Symbol) -> Result<Symbol> {
        match self.at[self.step.axis] {
            0 => Ok(x),
            _ => {
                let shape = self.calls.spec(x).shape().to_vec();
                self.zeros(&shape)
            }
        }
    }
}

/// Returns whether the pieces along a dimension of a dense tensor lie one after the other.
fn is_outermost(shape: &[usize], dim: usize) -> bool {
    shape[..dim].iter().all(|length| *length == 1)
}

fn along(dim: usize) -> Attrs {
    Attrs::new().with("dim", dim as i64)
}
