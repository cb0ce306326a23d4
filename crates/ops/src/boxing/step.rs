//! The calls that one rank makes for a step of boxing.

use millstream_types::sharding::part;
use millstream_types::{Attrs, DType, Reduction, Result, Sbp};

use crate::formula::{Calls, Emitter, Expr, Kept, Symbol, along, ints};

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
    let kept = Kept::new(emitter);
    let made = apply(step, shape, at, kept.calls().of(x)).map(|x| x.symbol);
    kept.end(made)
}

/// As [`calls`], on a tensor of an expansion.
pub(super) fn apply<'a>(
    step: &Step,
    shape: &[usize],
    at: &[usize],
    x: Expr<'a>,
) -> Result<Expr<'a>> {
    if is_identity(step) {
        return Ok(x);
    }
    let boxing = Boxing { step, shape, at, x };
    match (step.from.sbp()[step.axis], step.to.sbp()[step.axis]) {
        (Sbp::Partial(reduction), Sbp::Split(dim)) => boxing.reduce_scatter(reduction, dim),
        (Sbp::Partial(reduction), _) => Ok(boxing.reduce(reduction)),
        (Sbp::Split(dim), Sbp::Split(other)) => boxing.exchange(dim, other),
        (Sbp::Split(dim), Sbp::Broadcast) => Ok(boxing.gather(dim)),
        (Sbp::Split(dim), Sbp::Partial(_)) => Ok(boxing.padded(dim)),
        (Sbp::Broadcast, Sbp::Split(dim)) => Ok(boxing.cut(dim)),
        // On the first rank of the group x itself, zeros on the others.
        (Sbp::Broadcast, _) if at[step.axis] == 0 => Ok(x),
        (Sbp::Broadcast, _) => Ok(zeros(x.calls, x.shape()?, x.dtype())),
    }
}

/// A step of a rank on its part of a tensor.
struct Boxing<'s, 'a> {
    step: &'s Step,
    /// The lengths of the whole tensor.
    shape: &'s [usize],
    at: &'s [usize],
    x: Expr<'a>,
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

    /// Returns a view of the piece.
    fn of<'a>(&self, x: Expr<'a>, dim: usize) -> Expr<'a> {
        x.narrow(dim as i64, self.start as i64, self.length as i64)
    }
}

/// Returns a new tensor that changes no sum: negative zeros, since a negative and a positive zero
/// add up to a positive one.
pub(super) fn zeros(calls: Calls<'_>, shape: Vec<i64>, dtype: DType) -> Expr<'_> {
    match dtype {
        DType::Bool => calls.full(shape, false, dtype),
        dtype if dtype.is_inexact() => calls.full(shape, -0.0, dtype),
        _ => calls.full(shape, 0i64, dtype),
    }
}

fn flat(x: Expr<'_>) -> Expr<'_> {
    x.reshape(&[-1])
}

/// Returns the numbers of elements of pieces, in order of the ranks.
fn splits(pieces: &[Piece], order: &[usize]) -> Vec<i64> {
    order.iter().map(|k| pieces[*k].numel() as i64).collect()
}

/// Returns the tensor whose pieces along a dimension are one after the other in `packed`, in order
/// of the ranks: the inverse of [`Boxing::packed`].
fn unpacked<'a>(
    packed: Expr<'a>,
    shape: &[usize],
    pieces: &[Piece],
    dim: usize,
    order: &[usize],
) -> Expr<'a> {
    if is_outermost(shape, dim) && order.is_sorted() {
        return packed.reshape(&ints(shape));
    }
    let mut parts = vec![packed; order.len()];
    let mut start = 0;
    for k in order {
        let piece = Piece { start, length: pieces[*k].numel(), shape: Vec::new() };
        parts[*k] = piece.of(packed, 0).reshape(&ints(&pieces[*k].shape));
        start += piece.length;
    }
    packed.calls.one("cat", &parts, along(dim as i64))
}

impl<'a> Boxing<'_, 'a> {
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

    /// Returns this rank's piece of the unsplit part.
    fn own(&self, dim: usize) -> Piece {
        self.pieces(&self.unsplit(), dim).swap_remove(self.at[self.step.axis])
    }

    fn zeros(&self, shape: &[usize]) -> Expr<'a> {
        zeros(self.x.calls, ints(shape), self.x.dtype())
    }

    /// Returns the pieces of x along a dimension, one after the other in order of the ranks, as a
    /// tensor with one dimension, and their lengths.
    fn packed(&self, dim: usize, order: &[usize]) -> Result<(Expr<'a>, Vec<i64>)> {
        let spec = self.x.spec()?;
        let pieces = self.pieces(spec.shape(), dim);
        let lengths = splits(&pieces, order);
        if is_outermost(spec.shape(), dim) && order.is_sorted() {
            return Ok((flat(self.x.dense()), lengths));
        }
        let parts: Vec<Expr<'a>> = order.iter().map(|k| flat(pieces[*k].of(self.x, dim))).collect();
        Ok((self.x.calls.one("cat", &parts, along(0)), lengths))
    }

    fn gather(&self, dim: usize) -> Expr<'a> {
        let (order, group) = self.group();
        let shape = self.unsplit();
        let pieces = self.pieces(&shape, dim);
        let out = self.zeros(&[shape.iter().product()]);
        let attrs = Attrs::new().with("splits", splits(&pieces, &order)).with("group", group);
        self.x.calls.call("allgather_", &[out, flat(self.x.dense())], attrs);
        unpacked(out, &shape, &pieces, dim, &order)
    }

    fn reduce(&self, reduction: Reduction) -> Expr<'a> {
        let own = self.x.apply("copy", []);
        let attrs = Attrs::new().with("op", reduction.name()).with("group", self.group().1);
        self.x.calls.call("allreduce_", &[own], attrs);
        own
    }

    fn reduce_scatter(&self, reduction: Reduction, dim: usize) -> Result<Expr<'a>> {
        let (order, group) = self.group();
        let own = self.own(dim);
        let (packed, splits) = self.packed(dim, &order)?;
        let out = self.zeros(&[own.numel()]);
        let attrs = Attrs::new().with("op", reduction.name()).with("splits", splits);
        self.x.calls.call("reduce_scatter_", &[out, packed], attrs.with("group", group));
        Ok(out.reshape(&ints(&own.shape)))
    }

    fn exchange(&self, dim: usize, other: usize) -> Result<Expr<'a>> {
        let (order, group) = self.group();
        let (packed, sent) = self.packed(other, &order)?;
        let own = self.own(other);
        let pieces = self.pieces(&own.shape, dim);
        let out = self.zeros(&[own.numel()]);
        let attrs = Attrs::new().with("output_splits", splits(&pieces, &order));
        let attrs = attrs.with("input_splits", sent).with("group", group);
        self.x.calls.call("alltoall_", &[out, packed], attrs);
        Ok(unpacked(out, &own.shape, &pieces, dim, &order))
    }

    fn cut(&self, dim: usize) -> Expr<'a> {
        self.own(dim).of(self.x, dim).apply("copy", [])
    }

    /// Returns a tensor of the whole shape with x at its place, and zeros elsewhere.
    fn padded(&self, dim: usize) -> Expr<'a> {
        let whole = self.zeros(&self.unsplit());
        self.own(dim).of(whole, dim).copy_(self.x);
        whole
    }
}

/// Returns whether the pieces along a dimension of a dense tensor lie one after the other.
fn is_outermost(shape: &[usize], dim: usize) -> bool {
    shape[..dim].iter().all(|length| *length == 1)
}
