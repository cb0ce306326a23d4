//! Sums, means and maxima of bags of rows of a table, and their gradients.

use millstream_types::{DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, several, table};
use crate::formula::{Expr, along, wide, wrong};

table! {
    several("_embedding_bag",
        "the sum, mean or maximum of each bag of rows, the bag of each row, the sizes of the bags, \
         and the rows of the maxima", BAGS, BAG, 4, forward).optional_from(3);
    op("_embedding_bag_backward", "the gradient of `_embedding_bag` for the table", TABLE_GRAD,
        TABLE_ATTRS, backward).optional_from(5);
    op("_embedding_bag_dense_backward", "the gradient of `_embedding_bag` for the table",
        DENSE_GRAD, TABLE_ATTRS, backward).optional_from(4);
    op("_embedding_bag_per_sample_weights_backward",
        "the gradient of `_embedding_bag` for the weights", WEIGHTS_GRAD, WEIGHTS_ATTRS,
        weights_backward).optional_from(4);
}

const GRAD: ArgDoc = arg("grad", "[bags,width]");
const INDICES: ArgDoc = arg("indices", "the rows of all bags");
const OFFSETS: ArgDoc = arg("offsets", "the position of each bag's first row");
const BAG_OF_ROW: ArgDoc = arg("bags", "the bag of each row");
const SIZES: ArgDoc = arg("sizes", "the sizes of the bags");
const GREATEST: ArgDoc = arg("maximum_indices", "the rows of the maxima");
const WEIGHTS: ArgDoc = arg("per_sample_weights", "the shape of the indices");
const BAGS: &[ArgDoc] = &[arg("weight", "[rows,width]"), INDICES, OFFSETS, WEIGHTS];
const TABLE_GRAD: &[ArgDoc] = &[GRAD, INDICES, OFFSETS, BAG_OF_ROW, SIZES, GREATEST, WEIGHTS];
const DENSE_GRAD: &[ArgDoc] = &[GRAD, INDICES, BAG_OF_ROW, SIZES, GREATEST, WEIGHTS];
const WEIGHTS_GRAD: &[ArgDoc] =
    &[GRAD, arg("weight", "[rows,width]"), INDICES, OFFSETS, BAG_OF_ROW];
const MODE: ArgDoc = arg("mode", "0 for sums, 1 for means, 2 for maxima").int().or("0");
const FREQUENCY: ArgDoc = arg("scale_grad_by_freq", "not supported").flag().or("false");
const SPARSE: ArgDoc = arg("sparse", "").flag().ignored();
const PADDING: ArgDoc = arg("padding_idx", "the row that does not count").int().or("-1");
const LAST: ArgDoc = arg("include_last_offset", "whether the offsets have the end of the last bag")
    .flag()
    .or("false");
const BAG: &[ArgDoc] = &[FREQUENCY, MODE, SPARSE, LAST, PADDING];
const TABLE_ATTRS: &[ArgDoc] =
    &[arg("num_weights", "the rows of the table").int(), FREQUENCY, MODE, SPARSE, PADDING];
const WEIGHTS_ATTRS: &[ArgDoc] = &[MODE, PADDING];

fn mode(args: Args<'_>) -> Result<i64> {
    let mode = args.int("mode")?.unwrap_or(0);
    match mode {
        0..=2 => Ok(mode),
        _ => Err(wrong(format!("mode: expected 0, 1 or 2, got {mode}"))),
    }
}

/// Returns 1 for each row that counts, 0 for a row of padding.
fn counted<'a>(args: Args<'a>, indices: Expr<'a>) -> Result<Expr<'a>> {
    Ok(indices.ne(args.int("padding_idx")?.unwrap_or(-1)))
}

/// Multiplies rows by weights, and by 0 where they are padding.
fn weighted<'a>(args: Args<'a>, rows: Expr<'a>, counts: Expr<'a>) -> Expr<'a> {
    let weights = args.optional("per_sample_weights");
    let rows = weights.map_or(rows, |weights| rows * weights.unsqueeze(-1));
    rows.filled(counts.logical_not().unsqueeze(-1), 0i64)
}

/// Returns the bag of each row: the number of offsets up to the row's position, less one.
fn bags_of_rows(starts: Expr<'_>, count: i64) -> Expr<'_> {
    let position = starts.calls.range(count, DType::I64);
    position.unsqueeze(1).ge(starts).sum(&[1], false) - 1
}

/// Returns the bag of each row, as PyTorch gives it to a gradient, or by the offsets.
fn given_bags<'a>(args: Args<'a>, indices: Expr<'a>) -> Result<Expr<'a>> {
    let count = indices.numel()?;
    match (args.optional("bags"), args.optional("offsets")) {
        (Some(bags), None) => Ok(bags),
        (Some(bags), _) if bags.numel()? == count => Ok(bags),
        _ => Ok(bags_of_rows(args.tensor("offsets"), count as i64)),
    }
}

fn forward(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let (mode, calls) = (mode(args)?, args.calls);
    let [table, indices, offsets] = args.tensors(["weight", "indices", "offsets"]);
    let &[_, width] = &table.shape()?[..] else {
        return Err(wrong("weight: expected a matrix"));
    };
    let with_end = args.flag("include_last_offset", false)?;
    let bags = offsets.numel()? as i64 - i64::from(with_end);
    let dtype = table.dtype();

    let bag = bags_of_rows(offsets.narrow(0, 0, bags), indices.numel()? as i64);
    let rows = table.index_select(0, indices).cast(wide(dtype));
    let counts = counted(args, indices)?;
    let sizes = calls.full(vec![bags], 0i64, DType::I64);
    sizes.index_add_(0, bag, counts.cast(DType::I64));
    if mode == 2 {
        let [most, at] = maxima([rows, counts, bag, indices], [bags, width])?;
        return Ok(vec![most.cast(dtype), bag, sizes, at]);
    }
    let rows = weighted(args, rows, counts);
    let mut sums = calls.full(vec![bags, width], 0i64, wide(dtype));
    sums.index_add_(0, bag, rows);
    if mode == 1 {
        sums = sums / sizes.clamp_min(1i64).unsqueeze(1);
    }
    let none = calls.full(vec![0], 0i64, DType::I64);
    Ok(vec![sums.cast(dtype), bag, sizes, none])
}

/// Returns the maxima of bags, and the rows of the table that they come from: of equal ones the
/// first. A bag without rows has zeros.
fn maxima<'a>(
    [rows, counts, bag, indices]: [Expr<'a>; 4],
    [bags, width]: [i64; 2],
) -> Result<[Expr<'a>; 2]> {
    let (calls, dtype, count) = (rows.calls, rows.dtype(), indices.numel()? as i64);
    let shape = || vec![bags, width];
    if count == 0 || width == 0 {
        return Ok([dtype, DType::I64].map(|dtype| calls.full(shape(), 0i64, dtype)));
    }
    let skipped = counts.logical_not().unsqueeze(1);
    let rows = rows.filled(skipped, f64::NEG_INFINITY);
    let zeros = calls.full(vec![count, width], 0i64, DType::I64);
    let bag_of = zeros + bag.unsqueeze(1);
    let extremum = |of: Expr<'a>, to: Expr<'a>, by: &str| {
        calls.one("scatter_reduce", &[to, bag_of, of], along(0).with("reduce", by))
    };
    let most = extremum(rows, calls.full(shape(), f64::NEG_INFINITY, dtype), "amax");

    let less = rows.ne(most.index_select(0, bag)).logical_or(skipped);
    let position = zeros + calls.range(count, DType::I64).unsqueeze(1);
    let position = position.filled(less, count);
    let first = extremum(position, calls.full(shape(), count, DType::I64), "amin");
    let empty = first.ge(count);
    let first = first.filled(empty, 0i64).reshape(&[bags * width]);
    let at = indices.index_select(0, first).reshape(&shape()).cast(DType::I64);
    Ok([most.filled(empty, 0i64), at.filled(empty, 0i64)])
}

/// Returns zeros in the shape of the table.
fn zeros<'a>(args: Args<'a>, grad: Expr<'a>) -> Result<Expr<'a>> {
    let width = grad.shape()?.last().copied().unwrap_or(0);
    let shape = vec![args.int("num_weights")?.unwrap_or(0), width];
    Ok(args.calls.full(shape, 0i64, wide(grad.dtype())))
}

fn backward(args: Args<'_>) -> Result<Expr<'_>> {
    let mode = mode(args)?;
    if args.flag("scale_grad_by_freq", false)? {
        return Err(wrong("gradients scaled by frequency"));
    }
    let [grad, indices] = args.tensors(["grad", "indices"]);
    if mode == 2 {
        return maxima_backward(args, grad);
    }
    let bag = given_bags(args, indices)?;
    let mut rows = grad.index_select(0, bag).cast(wide(grad.dtype()));
    if mode == 1 {
        let sizes = args.tensor("sizes").clamp_min(1i64);
        rows = rows / sizes.index_select(0, bag).unsqueeze(1);
    }
    let rows = weighted(args, rows, counted(args, indices)?);
    let made = zeros(args, grad)?;
    made.index_add_(0, indices, rows);
    Ok(made.cast(grad.dtype()))
}

/// Adds the gradient of each maximum to the row that it comes from.
fn maxima_backward<'a>(args: Args<'a>, grad: Expr<'a>) -> Result<Expr<'a>> {
    let [sizes, at] = args.tensors(["sizes", "maximum_indices"]);
    let empty = sizes.le(0i64).unsqueeze(1);
    let grads = grad.cast(wide(grad.dtype())).filled(empty, 0i64);
    let made = zeros(args, grad)?.scatter_add(0, at.cast(DType::I64), grads);
    Ok(made.cast(grad.dtype()))
}

/// Returns the gradient of the weights of rows: the product of each row with its bag's gradient.
fn weights_backward(args: Args<'_>) -> Result<Expr<'_>> {
    mode(args)?;
    let [grad, table, indices] = args.tensors(["grad", "weight", "indices"]);
    let picked = [(grad, given_bags(args, indices)?), (table, indices)];
    let [x, y] = picked.map(|(of, at)| of.index_select(0, at).cast(wide(grad.dtype())));
    let sums = (x * y).sum(&[1], false);
    Ok(sums.filled(counted(args, indices)?.logical_not(), 0i64).cast(grad.dtype()))
}
