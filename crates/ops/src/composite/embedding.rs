//! Sums, means and maxima of bags of rows of a table, and their gradients.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::{along, wide};
use super::{Calls, Composite, Given, Symbol, op, several, table, wrong};

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

fn mode(given: &Given<'_>) -> Result<i64> {
    let mode = given.int("mode")?.unwrap_or(0);
    match mode {
        0..=2 => Ok(mode),
        _ => Err(wrong(format!("mode: expected 0, 1 or 2, got {mode}"))),
    }
}

/// Returns 1 for each row that counts, 0 for a row of padding.
fn counted(calls: &mut Calls<'_>, indices: Symbol, given: &Given<'_>) -> Result<Symbol> {
    let padding = Attrs::new().with("other", given.int("padding_idx")?.unwrap_or(-1));
    calls.one("ne", &[indices], padding)
}

/// Multiplies rows by weights, and by 0 where they are padding.
fn weighted(
    calls: &mut Calls<'_>,
    rows: Symbol,
    counts: Symbol,
    given: &Given<'_>,
) -> Result<Symbol> {
    let last = || along(-1);
    let mut rows = rows;
    if let Some(weights) = given.optional("per_sample_weights") {
        let weights = calls.one("unsqueeze", &[weights], last())?;
        rows = calls.apply("mul", &[rows, weights])?;
    }
    let skipped = calls.apply("logical_not", &[counts])?;
    let skipped = calls.one("unsqueeze", &[skipped], last())?;
    calls.filled(rows, skipped, 0i64)
}

/// Returns the bag of each row: the number of offsets up to the row's position, less one.
fn bags_of_rows(calls: &mut Calls<'_>, starts: Symbol, count: i64) -> Result<Symbol> {
    let position = calls.range(count, DType::I64)?;
    let position = calls.unsqueeze(position, 1)?;
    let begun = calls.apply("ge", &[position, starts])?;
    let bag = calls.one("sum", &[begun], Attrs::new().with("dim", vec![1i64]))?;
    calls.by("sub", bag, 1i64)
}

/// Returns the bag of each row, as PyTorch gives it to a gradient, or by the offsets.
fn given_bags(calls: &mut Calls<'_>, indices: Symbol, given: &Given<'_>) -> Result<Symbol> {
    let count = calls.spec(indices).numel();
    match (given.optional("bags"), given.optional("offsets")) {
        (Some(bags), None) => Ok(bags),
        (Some(bags), _) if calls.spec(bags).numel() == count => Ok(bags),
        _ => bags_of_rows(calls, given.tensor("offsets")?, count as i64),
    }
}

fn forward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let mode = mode(given)?;
    let table = given.tensor("weight")?;
    let (indices, offsets) = (given.tensor("indices")?, given.tensor("offsets")?);
    let &[_, width] = calls.spec(table).shape() else {
        return Err(wrong("weight: expected a matrix"));
    };
    let count = calls.spec(indices).numel() as i64;
    let with_end = given.flag("include_last_offset", false)?;
    let bags = calls.spec(offsets).numel() as i64 - i64::from(with_end);
    let dtype = calls.dtype(table);
    let dim = || along(0);

    let part = dim().with("start", 0i64).with("length", bags);
    let starts = calls.one("narrow", &[offsets], part)?;
    let bag = bags_of_rows(calls, starts, count)?;
    let rows = calls.one("index_select", &[table, indices], dim())?;
    let rows = calls.cast(rows, wide(dtype))?;
    let counts = counted(calls, indices, given)?;
    let sizes = calls.full(vec![bags], 0i64, DType::I64)?;
    let ones = calls.cast(counts, DType::I64)?;
    calls.call("index_add_", &[sizes, bag, ones], dim())?;
    if mode == 2 {
        let [most, at] = maxima(calls, [rows, counts, bag, indices], [bags, width as i64])?;
        return Ok(vec![calls.cast(most, dtype)?, bag, sizes, at]);
    }
    let rows = weighted(calls, rows, counts, given)?;
    let mut sums = calls.full(vec![bags, width as i64], 0i64, wide(dtype))?;
    calls.call("index_add_", &[sums, bag, rows], dim())?;
    if mode == 1 {
        let least = calls.one("clamp_min", &[sizes], Attrs::new().with("min", 1i64))?;
        let least = calls.unsqueeze(least, 1)?;
        sums = calls.apply("div", &[sums, least])?;
    }
    let none = calls.full(vec![0], 0i64, DType::I64)?;
    Ok(vec![calls.cast(sums, dtype)?, bag, sizes, none])
}

/// Returns the maxima of bags, and the rows of the table that they come from: of equal ones the
/// first. A bag without rows has zeros.
fn maxima(
    calls: &mut Calls<'_>,
    [rows, counts, bag, indices]: [Symbol; 4],
    [bags, width]: [i64; 2],
) -> Result<[Symbol; 2]> {
    let (dtype, count) = (calls.dtype(rows), calls.spec(indices).numel() as i64);
    if count == 0 || width == 0 {
        let shape = || vec![bags, width];
        return Ok([calls.full(shape(), 0i64, dtype)?, calls.full(shape(), 0i64, DType::I64)?]);
    }
    let reduce = |by: &'static str| along(0).with("reduce", by);
    let skipped = calls.apply("logical_not", &[counts])?;
    let skipped = calls.unsqueeze(skipped, 1)?;
    let rows = calls.filled(rows, skipped, f64::NEG_INFINITY)?;
    let zeros = calls.full(vec![count, width], 0i64, DType::I64)?;
    let column = calls.unsqueeze(bag, 1)?;
    let bag_of = calls.apply("add", &[zeros, column])?;
    let least = calls.full(vec![bags, width], f64::NEG_INFINITY, dtype)?;
    let most = calls.one("scatter_reduce", &[least, bag_of, rows], reduce("amax"))?;

    let of_row = calls.one("index_select", &[most, bag], along(0))?;
    let less = calls.apply("ne", &[rows, of_row])?;
    let less = calls.apply("logical_or", &[less, skipped])?;
    let position = calls.range(count, DType::I64)?;
    let position = calls.unsqueeze(position, 1)?;
    let position = calls.apply("add", &[zeros, position])?;
    let position = calls.filled(position, less, count)?;
    let end = calls.full(vec![bags, width], count, DType::I64)?;
    let first = calls.one("scatter_reduce", &[end, bag_of, position], reduce("amin"))?;
    let empty = calls.by("ge", first, count)?;
    let first = calls.filled(first, empty, 0i64)?;
    let first = calls.reshape(first, &[bags * width])?;
    let at = calls.one("index_select", &[indices, first], along(0))?;
    let at = calls.reshape(at, &[bags, width])?;
    let at = calls.cast(at, DType::I64)?;
    Ok([calls.filled(most, empty, 0i64)?, calls.filled(at, empty, 0i64)?])
}

fn backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let mode = mode(given)?;
    if given.flag("scale_grad_by_freq", false)? {
        return Err(wrong("gradients scaled by frequency"));
    }
    let (grad, indices) = (given.tensor("grad")?, given.tensor("indices")?);
    if mode == 2 {
        return maxima_backward(calls, given, grad);
    }
    let bag = given_bags(calls, indices, given)?;
    let dtype = calls.dtype(grad);
    let dim = || along(0);
    let rows = calls.one("index_select", &[grad, bag], dim())?;
    let mut rows = calls.cast(rows, wide(dtype))?;
    if mode == 1 {
        let sizes = given.tensor("sizes")?;
        let least = calls.one("clamp_min", &[sizes], Attrs::new().with("min", 1i64))?;
        let least = calls.one("index_select", &[least, bag], dim())?;
        let least = calls.unsqueeze(least, 1)?;
        rows = calls.apply("div", &[rows, least])?;
    }
    let counts = counted(calls, indices, given)?;
    let rows = weighted(calls, rows, counts, given)?;
    let width = calls.spec(grad).shape().last().copied().unwrap_or(0) as i64;
    let table = vec![given.int("num_weights")?.unwrap_or(0), width];
    let made = calls.full(table, 0i64, wide(dtype))?;
    calls.call("index_add_", &[made, indices, rows], dim())?;
    calls.cast(made, dtype)
}

/// Adds the gradient of each maximum to the row that it comes from.
fn maxima_backward(calls: &mut Calls<'_>, given: &Given<'_>, grad: Symbol) -> Result<Symbol> {
    let (sizes, at) = (given.tensor("sizes")?, given.tensor("maximum_indices")?);
    let dtype = calls.dtype(grad);
    let empty = calls.by("le", sizes, 0i64)?;
    let empty = calls.unsqueeze(empty, 1)?;
    let grads = calls.cast(grad, wide(dtype))?;
    let grads = calls.filled(grads, empty, 0i64)?;
    let width = calls.spec(grad).shape().last().copied().unwrap_or(0) as i64;
    let table = vec![given.int("num_weights")?.unwrap_or(0), width];
    let zeros = calls.full(table, 0i64, wide(dtype))?;
    let at = calls.cast(at, DType::I64)?;
    let made = calls.one("scatter_add", &[zeros, at, grads], along(0))?;
    calls.cast(made, dtype)
}

/// Returns the gradient of the weights of rows: the product of each row with its bag's gradient.
fn weights_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    mode(given)?;
    let (grad, table) = (given.tensor("grad")?, given.tensor("weight")?);
    let indices = given.tensor("indices")?;
    let bag = given_bags(calls, indices, given)?;
    let dtype = calls.dtype(grad);
    let dim = || along(0);
    let mut product = None;
    for (of, at) in [(grad, bag), (table, indices)] {
        let rows = calls.one("index_select", &[of, at], dim())?;
        let rows = calls.cast(rows, wide(dtype))?;
        product = Some(match product {
            None => rows,
            Some(before) => calls.apply("mul", &[before, rows])?,
        });
    }
    let product = product.ok_or_else(|| wrong("no rows"))?;
    let sums = calls.one("sum", &[product], Attrs::new().with("dim", vec![1i64]))?;
    let counts = counted(calls, indices, given)?;
    let skipped = calls.apply("logical_not", &[counts])?;
    let zero = Attrs::new().with("value", 0i64);
    let sums = calls.one("masked_fill", &[sums, skipped], zero)?;
    calls.cast(sums, dtype)
}
