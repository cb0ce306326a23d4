//! Lowers reads and writes by index, searches, and selections of distinct elements.

use millstream_types::{AttrValue, Attrs, DType};

use super::complex::filled_by;
use super::composed::{positive, reshaped};
use super::functions::{apply, cast, number};
use super::special_functions::scalar;
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::{Arg, Recorded};

/// Lowers an op, named without the `_` of its form in place; `None` if it is none of these.
pub(super) fn indexed(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    let made = match name {
        "_unsafe_masked_index" => masked_index(import, given)?,
        "_unsafe_masked_index_put_accumulate" => masked_sum(import, given)?,
        "unfold_backward" => unfold_backward(import, given)?,
        "bucketize" => search(import, given, ["boundaries", "self"])?,
        "searchsorted" => search(import, given, ["sorted_sequence", "self"])?,
        "_unique2" | "_unique" | "unique_consecutive" | "unique_dim" | "unique_dim_consecutive" => {
            return distinct(import, name, given, results).map(Some);
        }
        "_chunk_cat" => joined_chunks(import, given)?,
        "embedding_renorm" => renormed_rows(import, given)?,
        "linear" if import.ops().id("linear").is_err() => linear(import, given)?,
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(made)]))
}

fn flag(given: &NodeArgs<'_>, name: &str) -> Lowered<bool> {
    Ok(given.scalar(name)? == Some(AttrValue::Bool(true)))
}

/// Returns the indices of a list, within the range of each dimension, and the absent positions.
fn clamped(import: &mut Import<'_>, x: Val, given: &NodeArgs<'_>) -> Lowered<(Vec<Val>, Vec<i64>)> {
    let Some((at, Arg::List(list))) = given.get("indices") else {
        return Err(Refusal::Wrong("'indices': expected a list".to_owned()));
    };
    let (mut indices, mut absent) = (Vec::new(), Vec::new());
    for (k, arg) in list.clone().into_iter().enumerate() {
        let Arg::Tensor(tensor) = arg else {
            absent.push(k as i64);
            continue;
        };
        let index = import.resolve(&tensor, at)?;
        let length = import.spec(x).shape().get(k).copied().unwrap_or(1) as i64;
        let attrs = Attrs::new().with("min", -length).with("max", length - 1);
        indices.push(one_call(import, "clamp", &[index], attrs)?);
    }
    while absent.last().is_some_and(|&last| last as usize + 1 == indices.len() + absent.len()) {
        absent.pop();
    }
    Ok((indices, absent))
}

fn with_absent(attrs: Attrs, absent: Vec<i64>) -> Attrs {
    if absent.is_empty() { attrs } else { attrs.with("absent", absent) }
}

/// Lowers a read by index where a mask is true.
fn masked_index(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, mask) = (given.tensor(import, "self")?, given.tensor(import, "mask")?);
    let (indices, absent) = clamped(import, x, given)?;
    let inputs: Vec<Val> = [x].into_iter().chain(indices).collect();
    let absent = absent.into_iter().map(|k| k + 1).collect();
    let read = one_call(import, "index", &inputs, with_absent(Attrs::new(), absent))?;
    let skipped = apply(import, "logical_not", &[mask])?;
    let dtype = import.spec(x).dtype;
    let made = filled_by(import, given, "fill", [read, skipped])?;
    cast(import, made, dtype)
}

/// Lowers additions by index where a mask is true.
fn masked_sum(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, mask) = (given.tensor(import, "self")?, given.tensor(import, "mask")?);
    let values = given.tensor(import, "values")?;
    let (indices, absent) = clamped(import, x, given)?;
    let skipped = apply(import, "logical_not", &[mask])?;
    let zero = Attrs::new().with("value", 0i64);
    let values = one_call(import, "masked_fill", &[values, skipped], zero)?;
    let inputs: Vec<Val> = [x, values].into_iter().chain(indices).collect();
    let attrs = with_absent(Attrs::new().with("accumulate", true), absent);
    one_call(import, "index_put", &inputs, attrs)
}

/// Lowers the gradient of `unfold`: each window is added to its elements.
fn unfold_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let grad = given.tensor(import, "grad_in")?;
    let shape = given.ints("input_sizes")?.unwrap_or_default();
    let (size, step) = (given.int("size")?.unwrap_or(1), given.int("step")?.unwrap_or(1));
    let dtype = import.spec(grad).dtype;
    if shape.is_empty() {
        return reshaped(import, grad, &[]);
    }
    let dim = positive(given.int("dim")?.unwrap_or(0), shape.len());
    let zeros = Attrs::new().with("shape", shape.clone()).with("value", 0i64).with("dtype", dtype);
    let zeros = one_call(import, "full", &[], zeros)?;
    let windows = import.spec(grad).shape().get(dim as usize).copied().unwrap_or(0) as i64;
    let numbers = |end: i64| Attrs::new().with("end", end).with("dtype", DType::I64);
    let starts = one_call(import, "arange", &[], numbers(windows))?;
    let starts = one_call(import, "mul", &[starts], Attrs::new().with("other", step))?;
    let starts = one_call(import, "unsqueeze", &[starts], Attrs::new().with("dim", 1i64))?;
    let within = one_call(import, "arange", &[], numbers(size))?;
    let index = apply(import, "add", &[starts, within])?;
    let index = reshaped(import, index, &[-1])?;
    // The dimension of a window's elements moves behind that of the windows.
    let rank = shape.len() as i64 + 1;
    let mut order: Vec<i64> = (0..rank - 1).collect();
    order.insert(dim as usize + 1, rank - 1);
    let moved = one_call(import, "permute", &[grad], Attrs::new().with("dims", order))?;
    let mut merged = shape;
    merged[dim as usize] = windows * size;
    let moved = reshaped(import, moved, &merged)?;
    one_call(import, "index_add", &[zeros, index, moved], Attrs::new().with("dim", dim))
}

/// Lowers a search in a sorted sequence for numbers or tensors.
fn search(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    [sorted, values]: [&str; 2],
) -> Lowered<Val> {
    let mut sequence = given.tensor(import, sorted)?;
    if let Some((_, Arg::Tensor(_))) = given.get("sorter") {
        let sorter = given.tensor(import, "sorter")?;
        let last = Attrs::new().with("dim", -1i64);
        sequence = one_call(import, "gather", &[sequence, sorter], last)?;
    }
    let x = match given.get(values) {
        Some((_, Arg::Tensor(_))) => given.tensor(import, values)?,
        _ => {
            let dtype = import.spec(sequence).dtype;
            scalar(import, given, values, dtype)?
        }
    };
    let right = flag(given, "right")?
        || matches!(given.get("side"), Some((_, Arg::Str(side))) if side == "right");
    let attrs = Attrs::new().with("right", right).with("out_int32", flag(given, "out_int32")?);
    one_call(import, "searchsorted", &[sequence, x], attrs)
}

/// Lowers selections of distinct elements.
fn distinct(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut x = given.tensor(import, "self")?;
    let wanted = |k: usize, name: &str| -> Lowered<bool> {
        // PyTorch returns both of slices, whether they are requested or not.
        let sliced = given.get("dim").is_some();
        Ok(results.get(k).is_some() && (sliced || flag(given, name)?))
    };
    let (inverse, counts) = (wanted(1, "return_inverse")?, wanted(2, "return_counts")?);
    let mut attrs = Attrs::new()
        .with("consecutive", name.contains("consecutive"))
        .with("return_inverse", inverse)
        .with("return_counts", counts);
    let dim = given.int("dim")?;
    let rank = import.spec(x).shape().len();
    let order = dim.map(|dim| positive(dim, rank)).map(|dim| {
        let mut order: Vec<i64> = (0..rank as i64).filter(|&k| k != dim).collect();
        order.insert(0, dim);
        (dim, order)
    });
    if let Some((dim, order)) = &order {
        x = one_call(import, "permute", &[x], Attrs::new().with("dims", order.clone()))?;
        import.move_bounded_dim(*dim as usize);
        attrs.set("dim", 0i64);
    }
    let mut made = import.call("unique", &[x], attrs)?;
    if let Some((dim, _)) = order {
        let mut back: Vec<i64> = (1..rank as i64).collect();
        back.insert(dim as usize, 0);
        let turned = one_call(import, "permute", &[made[0]], Attrs::new().with("dims", back))?;
        let dense = Attrs::new().with("memory_format", "contiguous");
        made[0] = one_call(import, "clone", &[turned], dense)?;
    }
    made.truncate(results.len());
    Ok(made.into_iter().map(Some).collect())
}

/// Lowers `_chunk_cat`: each tensor is padded with zeros to equal chunks, and those of one number
/// are joined.
fn joined_chunks(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let Some((at, Arg::List(list))) = given.get("tensors") else {
        return Err(Refusal::Wrong("'tensors': expected a list".to_owned()));
    };
    let chunks = given.int("num_chunks")?.unwrap_or(1).max(1);
    let mut parts = Vec::new();
    let mut joined = 0;
    for arg in list.clone() {
        let Arg::Tensor(tensor) = arg else {
            return Err(Refusal::Wrong("'tensors': expected tensors".to_owned()));
        };
        let x = import.resolve(&tensor, at)?;
        let shape: Vec<i64> = import.spec(x).shape().iter().map(|&d| d as i64).collect();
        let dim = positive(given.int("dim")?.unwrap_or(0), shape.len());
        let missing = (chunks - shape[dim as usize] % chunks) % chunks;
        let mut pad = vec![0i64; 2 * (shape.len() - dim as usize)];
        if let Some(last) = pad.last_mut() {
            *last = missing;
        }
        let whole = one_call(import, "constant_pad_nd", &[x], Attrs::new().with("pad", pad))?;
        let rest = shape[dim as usize + 1..].iter().product::<i64>();
        let width = (shape[dim as usize] + missing) / chunks * rest;
        let mut size = shape[..dim as usize].to_vec();
        size.extend([chunks, width]);
        parts.push(reshaped(import, whole, &size)?);
        joined = dim + 1;
    }
    one_call(import, "cat", &parts, Attrs::new().with("dim", joined))
}

/// Lowers `embedding_renorm_`: rows that an index names, and whose norm is greater than a bound,
/// are scaled to it.
fn renormed_rows(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (table, indices) = (given.tensor(import, "self")?, given.tensor(import, "indices")?);
    let (most, order) = (number(given, "max_norm", 1.0)?, number(given, "norm_type", 2.0)?);
    let dtype = import.spec(table).dtype;
    let rows = import.spec(table).shape().first().copied().unwrap_or(0) as i64;
    let attrs = Attrs::new().with("ord", order).with("dim", vec![1i64]).with("keepdim", true);
    let norms = one_call(import, "linalg_vector_norm", &[table], attrs)?;
    let greater = one_call(import, "gt", &[norms], Attrs::new().with("other", most))?;
    let named = Attrs::new().with("shape", vec![rows]).with("value", 0i64);
    let named = one_call(import, "full", &[], named.with("dtype", DType::Bool))?;
    let flat = reshaped(import, indices, &[-1])?;
    let flat = cast(import, flat, DType::I64)?;
    let yes = one_call(
        import,
        "full",
        &[],
        Attrs::new()
            .with("shape", Vec::<i64>::new())
            .with("value", true)
            .with("dtype", DType::Bool),
    )?;
    import.call("index_put_", &[named, yes, flat], Attrs::new())?;
    let named = one_call(import, "unsqueeze", &[named], Attrs::new().with("dim", 1i64))?;
    let scaled = apply(import, "logical_and", &[greater, named])?;
    let kept = apply(import, "logical_not", &[scaled])?;
    let factor = one_call(import, "add", &[norms], Attrs::new().with("other", 1e-7))?;
    let factor = apply(import, "reciprocal", &[factor])?;
    let factor = one_call(import, "mul", &[factor], Attrs::new().with("other", most))?;
    let one = Attrs::new().with("value", 1i64);
    let factor = one_call(import, "masked_fill", &[factor, kept], one)?;
    let made = apply(import, "mul", &[table, factor])?;
    cast(import, made, dtype)
}

/// Lowers `linear` with `out`.
fn linear(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, weight) = (given.tensor(import, "input")?, given.tensor(import, "weight")?);
    if import.spec(weight).shape().len() != 2 {
        return Err(unsupported("weights that are no matrix"));
    }
    let turned = Attrs::new().with("dim0", 0i64).with("dim1", 1i64);
    let weight = one_call(import, "transpose", &[weight], turned)?;
    let product = apply(import, "matmul", &[x, weight])?;
    match given.get("bias") {
        Some((_, Arg::Tensor(_))) => {
            let bias = given.tensor(import, "bias")?;
            apply(import, "add", &[product, bias])
        }
        _ => Ok(product),
    }
}
