//! Lowers sums and means of bags of rows of a table, and their gradient.

use millstream_types::{AttrValue, Attrs, DType};

use super::functions::{apply, cast};
use super::resampled::wide;
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::{Arg, Recorded};

/// Lowers an op; `None` if it is none of these.
pub(super) fn embedding_bag(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    match name {
        "_embedding_bag" | "_embedding_bag_forward_only" => {
            forward(import, given, results).map(Some)
        }
        "_embedding_bag_backward" | "_embedding_bag_dense_backward" => {
            Ok(Some(vec![Some(backward(import, given)?)]))
        }
        "_embedding_bag_per_sample_weights_backward" => {
            Ok(Some(vec![Some(weights_backward(import, given)?)]))
        }
        _ => Ok(None),
    }
}

fn zeros(import: &mut Import<'_>, shape: Vec<i64>, dtype: DType) -> Lowered<Val> {
    let attrs = Attrs::new().with("shape", shape).with("value", 0i64).with("dtype", dtype);
    one_call(import, "full", &[], attrs)
}

fn mode(given: &NodeArgs<'_>) -> Lowered<i64> {
    let mode = given.int("mode")?.unwrap_or(0);
    match mode {
        0 | 1 => Ok(mode),
        _ => Err(unsupported("maxima of bags")),
    }
}

/// Returns 1 for each row that counts, 0 for a row of padding.
fn counted(import: &mut Import<'_>, indices: Val, given: &NodeArgs<'_>) -> Lowered<Val> {
    let padding = Attrs::new().with("other", given.int("padding_idx")?.unwrap_or(-1));
    one_call(import, "ne", &[indices], padding)
}

/// Multiplies rows by weights, and by 0 where they are padding.
fn weighted(import: &mut Import<'_>, rows: Val, counts: Val, given: &NodeArgs<'_>) -> Lowered<Val> {
    let last = || Attrs::new().with("dim", -1i64);
    let mut rows = rows;
    if let Some((_, Arg::Tensor(_))) = given.get("per_sample_weights") {
        let weights = given.tensor(import, "per_sample_weights")?;
        let weights = one_call(import, "unsqueeze", &[weights], last())?;
        rows = apply(import, "mul", &[rows, weights])?;
    }
    let skipped = apply(import, "logical_not", &[counts])?;
    let skipped = one_call(import, "unsqueeze", &[skipped], last())?;
    one_call(import, "masked_fill", &[rows, skipped], Attrs::new().with("value", 0i64))
}

/// Returns the bag of each row: the number of offsets up to the row's position, less one.
fn bags_of_rows(import: &mut Import<'_>, starts: Val, count: i64) -> Lowered<Val> {
    let numbers = Attrs::new().with("end", count).with("dtype", DType::I64);
    let position = one_call(import, "arange", &[], numbers)?;
    let position = one_call(import, "unsqueeze", &[position], Attrs::new().with("dim", 1i64))?;
    let begun = apply(import, "ge", &[position, starts])?;
    let bag = one_call(import, "sum", &[begun], Attrs::new().with("dim", vec![1i64]))?;
    one_call(import, "sub", &[bag], Attrs::new().with("other", 1i64))
}

/// Returns the bag of each row, as PyTorch gives it to a gradient, or by the offsets.
fn given_bags(import: &mut Import<'_>, indices: Val, given: &NodeArgs<'_>) -> Lowered<Val> {
    let count = import.spec(indices).numel();
    if let Some((_, Arg::Tensor(tensor))) = given.get("offset2bag")
        && (tensor.numel() == count || given.get("offsets").is_none())
    {
        return given.tensor(import, "offset2bag");
    }
    let offsets = given.tensor(import, "offsets")?;
    bags_of_rows(import, offsets, count as i64)
}

fn forward(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mode = mode(given)?;
    let table = given.tensor(import, "weight")?;
    let (indices, offsets) = (given.tensor(import, "indices")?, given.tensor(import, "offsets")?);
    let &[_, width] = import.spec(table).shape() else {
        return Err(Refusal::Wrong("'weight': expected a matrix".to_owned()));
    };
    let count = import.spec(indices).numel() as i64;
    let with_end = given.scalar("include_last_offset")? == Some(AttrValue::Bool(true));
    let bags = import.spec(offsets).numel() as i64 - i64::from(with_end);
    let dtype = import.spec(table).dtype;
    let dim = || Attrs::new().with("dim", 0i64);

    let part = dim().with("start", 0i64).with("length", bags);
    let starts = one_call(import, "narrow", &[offsets], part)?;
    let bag = bags_of_rows(import, starts, count)?;
    let rows = one_call(import, "index_select", &[table, indices], dim())?;
    let rows = cast(import, rows, wide(dtype))?;
    let counts = counted(import, indices, given)?;
    let rows = weighted(import, rows, counts, given)?;
    let mut sums = zeros(import, vec![bags, width as i64], wide(dtype))?;
    import.call("index_add_", &[sums, bag, rows], dim())?;
    let sizes = zeros(import, vec![bags], DType::I64)?;
    let ones = cast(import, counts, DType::I64)?;
    import.call("index_add_", &[sizes, bag, ones], dim())?;
    if mode == 1 {
        let least = one_call(import, "clamp_min", &[sizes], Attrs::new().with("min", 1i64))?;
        let least = one_call(import, "unsqueeze", &[least], Attrs::new().with("dim", 1i64))?;
        sums = apply(import, "div", &[sums, least])?;
    }
    let mut made = vec![Some(cast(import, sums, dtype)?)];
    for (k, val) in [(1, bag), (2, sizes), (3, sizes)] {
        let Some(recorded) = results.get(k).and_then(Option::as_ref) else { continue };
        // PyTorch leaves results empty that its gradient does not read.
        let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
        let fits = import.spec(val).shape() == &*recorded.shape;
        let val = if fits && k < 3 { val } else { zeros(import, shape, DType::I64)? };
        made.push(Some(cast(import, val, recorded.dtype)?));
    }
    Ok(made)
}

fn backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let mode = mode(given)?;
    if given.scalar("scale_grad_by_freq")? == Some(AttrValue::Bool(true)) {
        return Err(unsupported("gradients scaled by frequency"));
    }
    let (grad, indices) = (given.tensor(import, "grad")?, given.tensor(import, "indices")?);
    let bag = given_bags(import, indices, given)?;
    let dtype = import.spec(grad).dtype;
    let dim = || Attrs::new().with("dim", 0i64);
    let rows = one_call(import, "index_select", &[grad, bag], dim())?;
    let mut rows = cast(import, rows, wide(dtype))?;
    if mode == 1 {
        let sizes = given.tensor(import, "bag_size")?;
        let least = one_call(import, "clamp_min", &[sizes], Attrs::new().with("min", 1i64))?;
        let least = one_call(import, "index_select", &[least, bag], dim())?;
        let least = one_call(import, "unsqueeze", &[least], Attrs::new().with("dim", 1i64))?;
        rows = apply(import, "div", &[rows, least])?;
    }
    let counts = counted(import, indices, given)?;
    let rows = weighted(import, rows, counts, given)?;
    let width = import.spec(grad).shape().last().copied().unwrap_or(0) as i64;
    let table = vec![given.int("num_weights")?.unwrap_or(0), width];
    let made = zeros(import, table, wide(dtype))?;
    import.call("index_add_", &[made, indices, rows], dim())?;
    cast(import, made, dtype)
}

/// Lowers the gradient of the weights of rows: the product of each row with its bag's gradient.
fn weights_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    mode(given)?;
    let (grad, table) = (given.tensor(import, "grad")?, given.tensor(import, "weight")?);
    let indices = given.tensor(import, "indices")?;
    let bag = given_bags(import, indices, given)?;
    let dtype = import.spec(grad).dtype;
    let dim = || Attrs::new().with("dim", 0i64);
    let mut product = None;
    for (of, at) in [(grad, bag), (table, indices)] {
        let rows = one_call(import, "index_select", &[of, at], dim())?;
        let rows = cast(import, rows, wide(dtype))?;
        product = Some(match product {
            None => rows,
            Some(before) => apply(import, "mul", &[before, rows])?,
        });
    }
    let product = product.ok_or_else(|| unsupported("no rows"))?;
    let sums = one_call(import, "sum", &[product], Attrs::new().with("dim", vec![1i64]))?;
    let counts = counted(import, indices, given)?;
    let skipped = apply(import, "logical_not", &[counts])?;
    let zero = Attrs::new().with("value", 0i64);
    let sums = one_call(import, "masked_fill", &[sums, skipped], zero)?;
    cast(import, sums, dtype)
}
