//! Lowers ops that move elements: shuffles of channels, rotations, blocks, and selections by
//! rank or by value.

use millstream_ops::broadcast::broadcast;
use millstream_types::{AttrValue, Attrs, DType};

use super::composed::{positive, reshaped};
use super::functions::{apply, cast};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::{Arg, Recorded};

/// Lowers an op, named without the `_` of its form in place; `None` if it is none of these.
pub(super) fn rearranged(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    let made = match name {
        "pixel_shuffle" | "pixel_unshuffle" => pixels(import, name, given)?,
        "channel_shuffle" => {
            let x = given.tensor(import, "self")?;
            let shape = lengths(import, x);
            let groups = given.int("groups")?.unwrap_or(1);
            let [batch, channels, rest @ ..] = &shape[..] else {
                return Err(Refusal::Wrong(format!("channels of {shape:?}")));
            };
            let split = [&[*batch, groups, channels / groups.max(1)], rest].concat();
            let split = reshaped(import, x, &split)?;
            let swapped = Attrs::new().with("dim0", 1i64).with("dim1", 2i64);
            let swapped = one_call(import, "transpose", &[split], swapped)?;
            copied(import, swapped, &shape)?
        }
        "rot90" => rotated(import, given)?,
        "block_diag" => blocks(import, given)?,
        "masked_scatter" => masked_scatter(import, given)?,
        "masked_scatter_backward" => masked_scatter_backward(import, given)?,
        "put" => put(import, given)?,
        "isin" => is_in(import, given)?,
        "bincount" => counts(import, given, results)?,
        "kthvalue" | "median" | "nanmedian" => return ranked(import, name, given).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(made)]))
}

fn lengths(import: &Import<'_>, x: Val) -> Vec<i64> {
    import.spec(x).shape().iter().map(|&d| d as i64).collect()
}

/// Returns a row-major copy of a view, in another shape.
fn copied(import: &mut Import<'_>, x: Val, shape: &[i64]) -> Lowered<Val> {
    let row_major = Attrs::new().with("memory_format", "contiguous");
    let copy = one_call(import, "clone", &[x], row_major)?;
    one_call(import, "view", &[copy], Attrs::new().with("size", shape.to_vec()))
}

fn pixels(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let shape = lengths(import, x);
    let [outer @ .., channels, height, width] = &shape[..] else {
        return Err(Refusal::Wrong(format!("pixels of {shape:?}")));
    };
    let (c, h, w) = (*channels, *height, *width);
    let before = outer.len() as i64;
    let (split, order, result) = match name {
        "pixel_shuffle" => {
            let r = given.int("upscale_factor")?.unwrap_or(1).max(1);
            ([c / (r * r), r, r, h, w], [0, 3, 1, 4, 2], [c / (r * r), h * r, w * r])
        }
        _ => {
            let r = given.int("downscale_factor")?.unwrap_or(1).max(1);
            ([c, h / r, r, w / r, r], [0, 2, 4, 1, 3], [c * r * r, h / r, w / r])
        }
    };
    let split = reshaped(import, x, &[outer, &split].concat())?;
    let order: Vec<i64> = (0..before).chain(order.map(|dim| dim + before)).collect();
    let moved = one_call(import, "permute", &[split], Attrs::new().with("dims", order))?;
    copied(import, moved, &[outer, &result].concat())
}

fn rotated(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let &[a, b] = &given.ints("dims")?.unwrap_or_else(|| vec![0, 1])[..] else {
        return Err(Refusal::Wrong("'dims': expected two dimensions".to_owned()));
    };
    let flip = |import: &mut Import<'_>, dims: Vec<i64>| {
        one_call(import, "flip", &[x], Attrs::new().with("dims", dims))
    };
    let swapped = Attrs::new().with("dim0", a).with("dim1", b);
    match given.int("k")?.unwrap_or(1).rem_euclid(4) {
        0 => one_call(import, "clone", &[x], Attrs::new().with("memory_format", "contiguous")),
        2 => flip(import, vec![a, b]),
        turns => {
            let flipped = flip(import, vec![if turns == 1 { b } else { a }])?;
            one_call(import, "transpose", &[flipped], swapped)
        }
    }
}

fn blocks(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let Some((at, Arg::List(list))) = given.get("tensors") else {
        return Err(Refusal::Wrong("'tensors': expected a list".to_owned()));
    };
    let mut parts = Vec::new();
    for arg in list.clone() {
        let Arg::Tensor(tensor) = arg else { return Err(unsupported("an absent block")) };
        let x = import.resolve(&tensor, at)?;
        let shape = match lengths(import, x)[..] {
            [] => [1, 1],
            [columns] => [1, columns],
            [rows, columns] => [rows, columns],
            ref other => return Err(Refusal::Wrong(format!("a block of {other:?}"))),
        };
        parts.push((reshaped(import, x, &shape)?, shape));
    }
    let each = parts.iter().map(|(x, _)| (import.spec(*x).dtype, 2));
    let dtype = millstream_ops::promotion::common_dtype(each.collect::<Vec<_>>(), None)?;
    let sum = |k: usize| parts.iter().map(|(_, shape)| shape[k]).sum::<i64>();
    let zeros =
        Attrs::new().with("shape", vec![sum(0), sum(1)]).with("value", 0i64).with("dtype", dtype);
    let made = one_call(import, "full", &[], zeros)?;
    let mut corner = [0, 0];
    for (x, shape) in parts {
        let mut block = made;
        for k in 0..2 {
            let part = Attrs::new()
                .with("dim", k as i64)
                .with("start", corner[k])
                .with("length", shape[k]);
            block = one_call(import, "narrow", &[block], part)?;
            corner[k] += shape[k];
        }
        import.call("copy_", &[block, x], Attrs::new())?;
    }
    Ok(made)
}

/// Lowers `masked_scatter`: the k-th selected element becomes element k of the source.
fn masked_scatter(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, mask) = (given.tensor(import, "self")?, given.tensor(import, "mask")?);
    let source = given.tensor(import, "source")?;
    let shape = broadcast(import.spec(x).shape(), import.spec(mask).shape())?;
    let shape: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    let size = || Attrs::new().with("size", shape.clone());
    let x = one_call(import, "expand", &[x], size())?;
    if import.spec(source).numel() == 0 {
        return apply(import, "clone", &[x]);
    }
    let mask = one_call(import, "expand", &[mask], size())?;
    let number = numbers_of_selected(import, mask, import.spec(source).numel())?;
    let number = reshaped(import, number, &shape)?;
    let source = reshaped(import, source, &[-1])?;
    let chosen = apply(import, "index", &[source, number])?;
    apply(import, "where", &[mask, chosen, x])
}

/// Returns for each element of a mask the number of selected ones before it, below a bound.
fn numbers_of_selected(import: &mut Import<'_>, mask: Val, bound: usize) -> Lowered<Val> {
    let flat = reshaped(import, mask, &[-1])?;
    let count = Attrs::new().with("dim", 0i64).with("dtype", DType::I64);
    let count = one_call(import, "cumsum", &[flat], count)?;
    let number = one_call(import, "sub", &[count], Attrs::new().with("other", 1i64))?;
    let bounds = Attrs::new().with("min", 0i64).with("max", bound as i64 - 1);
    one_call(import, "clamp", &[number], bounds)
}

/// Lowers the gradient of `masked_scatter` for its source.
fn masked_scatter_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (grad, mask) = (given.tensor(import, "grad_output")?, given.tensor(import, "mask")?);
    let sizes = given.ints("sizes")?.unwrap_or_default();
    let count: i64 = sizes.iter().product();
    let zeros = Attrs::new()
        .with("shape", vec![count])
        .with("value", 0i64)
        .with("dtype", import.spec(grad).dtype);
    let made = one_call(import, "full", &[], zeros)?;
    if count > 0 && import.spec(grad).numel() > 0 {
        let size = Attrs::new().with("size", lengths(import, grad));
        let mask = one_call(import, "expand", &[mask], size)?;
        let number = numbers_of_selected(import, mask, count as usize)?;
        let unselected = apply(import, "logical_not", &[mask])?;
        let zero = Attrs::new().with("value", 0i64);
        let values = one_call(import, "masked_fill", &[grad, unselected], zero)?;
        let values = reshaped(import, values, &[-1])?;
        let dim = Attrs::new().with("dim", 0i64);
        import.call("index_add_", &[made, number, values], dim)?;
    }
    one_call(import, "view", &[made], Attrs::new().with("size", sizes))
}

fn put(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, index) = (given.tensor(import, "self")?, given.tensor(import, "index")?);
    let source = given.tensor(import, "source")?;
    let shape = lengths(import, x);
    let flat = copied(import, x, &[import.spec(x).numel() as i64])?;
    let index = reshaped(import, index, &[-1])?;
    let source = reshaped(import, source, &[-1])?;
    let accumulate = given.scalar("accumulate")? == Some(AttrValue::Bool(true));
    let attrs = Attrs::new().with("accumulate", accumulate);
    import.call("index_put_", &[flat, source, index], attrs)?;
    one_call(import, "view", &[flat], Attrs::new().with("size", shape))
}

fn is_in(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let tensor = |name: &str| matches!(given.get(name), Some((_, Arg::Tensor(_))));
    let scalar = |name: &str| -> Lowered<Attrs> {
        let value = given.scalar(name)?;
        let value = value.ok_or_else(|| Refusal::Wrong(format!("'{name}': expected a number")))?;
        Ok(Attrs::new().with("other", value))
    };
    let found = if tensor("elements") && tensor("test_elements") {
        let x = given.tensor(import, "elements")?;
        let tests = given.tensor(import, "test_elements")?;
        let x = one_call(import, "unsqueeze", &[x], Attrs::new().with("dim", -1i64))?;
        let tests = reshaped(import, tests, &[-1])?;
        let same = apply(import, "eq", &[x, tests])?;
        one_call(import, "any", &[same], Attrs::new().with("dim", vec![-1i64]))?
    } else if tensor("elements") {
        let x = given.tensor(import, "elements")?;
        one_call(import, "eq", &[x], scalar("test_element")?)?
    } else {
        let tests = given.tensor(import, "test_elements")?;
        let same = one_call(import, "eq", &[tests], scalar("element")?)?;
        apply(import, "any", &[same])?
    };
    match given.scalar("invert")? {
        Some(AttrValue::Bool(true)) => apply(import, "logical_not", &[found]),
        _ => Ok(found),
    }
}

/// Lowers `bincount`. The number of bins, which depends on data, is that of the recording; a
/// number beyond it fails the call.
fn counts(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let result = results.first().and_then(Option::as_ref);
    let bins = result.and_then(|result| result.shape.first().copied());
    let bins = bins.ok_or_else(|| Refusal::Wrong("expected one result".to_owned()))? as i64;
    let (weights, dtype) = match given.get("weights") {
        Some(_) => {
            let weights = given.tensor(import, "weights")?;
            let dtype = import.spec(weights).dtype;
            let dtype = if dtype == DType::F32 { dtype } else { DType::F64 };
            (cast(import, weights, dtype)?, dtype)
        }
        None => {
            let ones = Attrs::new()
                .with("shape", lengths(import, x))
                .with("value", 1i64)
                .with("dtype", DType::I64);
            (one_call(import, "full", &[], ones)?, DType::I64)
        }
    };
    let zeros = Attrs::new().with("shape", vec![bins]).with("value", 0i64).with("dtype", dtype);
    let made = one_call(import, "full", &[], zeros)?;
    let index = cast(import, x, DType::I64)?;
    import.call("index_add_", &[made, index, weights], Attrs::new().with("dim", 0i64))?;
    Ok(made)
}

/// Lowers `kthvalue`, `median` and `nanmedian` to a sort. NaN is the greatest element.
fn ranked(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Made> {
    let mut x = given.tensor(import, "self")?;
    let whole = name != "kthvalue" && given.get("dim").is_none();
    if whole {
        x = reshaped(import, x, &[-1])?;
    }
    let shape = lengths(import, x);
    let dim = positive(given.int("dim")?.unwrap_or(-1), shape.len());
    let length = usize::try_from(dim).ok().and_then(|dim| shape.get(dim)).copied().unwrap_or(1);
    if length == 0 {
        return Err(unsupported(format!("'{name}' of no elements")));
    }
    let along = || Attrs::new().with("dim", dim);
    let sorted = import.call("sort", &[x], along().with("stable", true))?;
    let &[values, order] = &sorted[..] else { return Err(unsupported("sort returns no pair")) };
    let is_float = import.spec(x).dtype.is_float();
    // The position of the result in each sorted line.
    let at = if name == "kthvalue" || !is_float {
        let k =
            if name == "kthvalue" { given.int("k")?.unwrap_or(1) - 1 } else { (length - 1) / 2 };
        let mut of_lines = shape.clone();
        if let Some(length) = of_lines.get_mut(dim as usize) {
            *length = 1;
        }
        let attrs = Attrs::new().with("shape", of_lines).with("value", k);
        one_call(import, "full", &[], attrs.with("dtype", DType::I64))?
    } else {
        let none = apply(import, "isnan", &[values])?;
        let number = apply(import, "logical_not", &[none])?;
        let count = Attrs::new().with("dim", vec![dim]).with("keepdim", true);
        let count = one_call(import, "sum", &[number], count)?;
        let less = one_call(import, "sub", &[count], Attrs::new().with("other", 1i64))?;
        let less = one_call(import, "clamp_min", &[less], Attrs::new().with("min", 0i64))?;
        let floor = Attrs::new().with("other", 2i64).with("rounding_mode", "floor");
        let middle = one_call(import, "div", &[less], floor)?;
        match name {
            "nanmedian" => middle,
            // A line with NaN has its first NaN as the median.
            _ => {
                let full = one_call(import, "eq", &[count], Attrs::new().with("other", length))?;
                apply(import, "where", &[full, middle, count])?
            }
        }
    };
    let mut made = Vec::new();
    for of in [values, order] {
        let mut one = one_call(import, "gather", &[of, at], along())?;
        let keep = given.scalar("keepdim")? == Some(AttrValue::Bool(true));
        if !shape.is_empty() && (!keep || whole) {
            let without = one_call(import, "squeeze", &[one], along())?;
            one = apply(import, "clone", &[without])?;
        }
        made.push(Some(one));
    }
    made.truncate(if whole { 1 } else { 2 });
    Ok(made)
}
