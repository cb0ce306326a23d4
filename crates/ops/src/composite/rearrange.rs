//! Composites that move elements.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::{along, ints, positive};
use super::{Calls, Composite, Given, Symbol, op, table, wrong};

table! {
    op("pixel_shuffle", "channels moved into blocks of pixels", PIXELS, UP, |calls, given| {
        pixels(calls, given, "upscale_factor")
    });
    op("pixel_unshuffle", "blocks of pixels moved into channels", PIXELS, DOWN, |calls, given| {
        pixels(calls, given, "downscale_factor")
    });
    op("channel_shuffle", "the channels of several groups in turn", CHANNELS, GROUPS, channels);
    op("rot90", "x turned by right angles in a plane", X, ROT90, rotated);
    op("block_diag", "a matrix with the tensors as its blocks", BLOCKS, &[], blocks).of_list(0);
    op("diag_embed", "zeros whose diagonals have the elements of x", DIAGONALS, DIAG_EMBED,
        diag_embed);
    op("unfold_backward", "the gradient of `unfold`", GRAD, UNFOLD, unfold_backward);
    op("_chunk_cat", "the chunks of each number of all tensors, concatenated", TENSORS, CHUNKS,
        joined_chunks).of_list(0);
}

const X: &[ArgDoc] = &[arg("x", "two dimensions or more")];
const PIXELS: &[ArgDoc] = &[arg("x", "[...,c,h,w]")];
const UP: &[ArgDoc] = &[arg("upscale_factor", "the length of a block").int()];
const DOWN: &[ArgDoc] = &[arg("downscale_factor", "the length of a block").int()];
const CHANNELS: &[ArgDoc] = &[arg("x", "[n,c,...]")];
const GROUPS: &[ArgDoc] = &[arg("groups", "the number of groups, a divisor of c").int()];
const ROT90: &[ArgDoc] = &[
    arg("k", "the number of right angles").int().or("1"),
    arg("dims", "the plane").ints().or("0 and 1"),
];
const BLOCKS: &[ArgDoc] = &[arg("tensors", "matrices, or fewer dimensions")];
const DIAGONALS: &[ArgDoc] = &[arg("x", "one dimension or more")];
const DIAG_EMBED: &[ArgDoc] = &[
    arg("offset", "the number of the diagonal, above the main one").int().or("0"),
    arg("dim1", "the first dimension of the matrices").int().or("-2"),
    arg("dim2", "the second dimension of the matrices").int().or("-1"),
];
const GRAD: &[ArgDoc] = &[arg("grad", "the shape of the windows")];
const UNFOLD: &[ArgDoc] = &[
    arg("input_sizes", "the shape of the operand of `unfold`").ints(),
    arg("dim", "as for `unfold`").int(),
    arg("size", "as for `unfold`").int(),
    arg("step", "as for `unfold`").int(),
];
const TENSORS: &[ArgDoc] = &[arg("tensors", "equal shapes before the dimension")];
const CHUNKS: &[ArgDoc] =
    &[arg("dim", "the dimension of the chunks").int(), arg("num_chunks", "their number").int()];

fn pixels(calls: &mut Calls<'_>, given: &Given<'_>, factor: &str) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let shape = calls.shape(x);
    let [outer @ .., channels, height, width] = &shape[..] else {
        return Err(wrong(format!("pixels of {shape:?}")));
    };
    let (c, h, w) = (*channels, *height, *width);
    let r = given.int(factor)?.unwrap_or(1).max(1);
    let before = outer.len() as i64;
    let (split, order, result) = match factor {
        "upscale_factor" => {
            ([c / (r * r), r, r, h, w], [0, 3, 1, 4, 2], [c / (r * r), h * r, w * r])
        }
        _ => ([c, h / r, r, w / r, r], [0, 2, 4, 1, 3], [c * r * r, h / r, w / r]),
    };
    let split = calls.reshape(x, &[outer, &split].concat())?;
    let order: Vec<i64> = (0..before).chain(order.map(|dim| dim + before)).collect();
    let moved = calls.one("permute", &[split], Attrs::new().with("dims", order))?;
    calls.copied(moved, &[outer, &result].concat())
}

fn channels(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let shape = calls.shape(x);
    let groups = given.int("groups")?.unwrap_or(1);
    let [batch, channels, rest @ ..] = &shape[..] else {
        return Err(wrong(format!("channels of {shape:?}")));
    };
    let split = [&[*batch, groups, channels / groups.max(1)], rest].concat();
    let split = calls.reshape(x, &split)?;
    let swapped = calls.transpose(split, 1, 2)?;
    calls.copied(swapped, &shape)
}

fn rotated(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let &[a, b] = &given.ints("dims")?.unwrap_or_else(|| vec![0, 1])[..] else {
        return Err(wrong("dims: expected two dimensions"));
    };
    let flip = |calls: &mut Calls<'_>, dims: Vec<i64>| {
        calls.one("flip", &[x], Attrs::new().with("dims", dims))
    };
    match given.int("k")?.unwrap_or(1).rem_euclid(4) {
        0 => calls.contiguous(x),
        2 => flip(calls, vec![a, b]),
        turns => {
            let flipped = flip(calls, vec![if turns == 1 { b } else { a }])?;
            calls.transpose(flipped, a, b)
        }
    }
}

fn blocks(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let mut parts = Vec::new();
    for &x in given.tensors() {
        let shape = match calls.shape(x)[..] {
            [] => [1, 1],
            [columns] => [1, columns],
            [rows, columns] => [rows, columns],
            ref other => return Err(wrong(format!("a block of {other:?}"))),
        };
        parts.push((calls.reshape(x, &shape)?, shape));
    }
    let each = parts.iter().map(|(x, _)| (calls.dtype(*x), 2));
    let dtype = crate::promotion::common_dtype(each.collect::<Vec<_>>(), None)?;
    let sum = |k: usize| parts.iter().map(|(_, shape)| shape[k]).sum::<i64>();
    let made = calls.full(vec![sum(0), sum(1)], 0i64, dtype)?;
    let mut corner = [0, 0];
    for (x, shape) in parts {
        let mut block = made;
        for k in 0..2 {
            block = calls.narrow(block, k as i64, corner[k], shape[k])?;
            corner[k] += shape[k];
        }
        calls.call("copy_", &[block, x], Attrs::new())?;
    }
    Ok(made)
}

fn diag_embed(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let spec = calls.spec(x).clone();
    let rank = spec.shape().len() + 1;
    let offset = given.int("offset")?.unwrap_or(0);
    let dim1 = positive(given.int("dim1")?.unwrap_or(-2), rank)?;
    let dim2 = positive(given.int("dim2")?.unwrap_or(-1), rank)?;
    let mut shape = ints(spec.shape());
    let Some(length) = shape.pop() else {
        return Err(wrong("expected one or more dimensions"));
    };
    let length = length + offset.abs();
    for dim in [dim1.min(dim2), dim1.max(dim2)] {
        let at = usize::try_from(dim).ok().filter(|at| *at <= shape.len());
        let at = at.ok_or_else(|| wrong(format!("no dimension {dim}")))?;
        shape.insert(at, length);
    }
    let zeros = calls.full(shape, 0i64, spec.dtype)?;
    let at = Attrs::new().with("offset", offset).with("dim1", dim1).with("dim2", dim2);
    let diagonal = calls.one("diagonal", &[zeros], at)?;
    calls.call("copy_", &[diagonal, x], Attrs::new())?;
    Ok(zeros)
}

/// Returns the gradient of `unfold`: each window is added to its elements.
fn unfold_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let grad = given.tensor("grad")?;
    let shape = given.ints("input_sizes")?.unwrap_or_default();
    let (size, step) = (given.int("size")?.unwrap_or(1), given.int("step")?.unwrap_or(1));
    let dtype = calls.dtype(grad);
    if shape.is_empty() {
        return calls.reshape(grad, &[]);
    }
    let dim = positive(given.int("dim")?.unwrap_or(0), shape.len())?;
    let zeros = calls.full(shape.clone(), 0i64, dtype)?;
    let windows = calls.spec(grad).shape().get(dim as usize).copied().unwrap_or(0) as i64;
    let starts = calls.range(windows, DType::I64)?;
    let starts = calls.by("mul", starts, step)?;
    let starts = calls.unsqueeze(starts, 1)?;
    let within = calls.range(size, DType::I64)?;
    let index = calls.apply("add", &[starts, within])?;
    let index = calls.reshape(index, &[-1])?;
    // The dimension of a window's elements moves behind that of the windows.
    let rank = shape.len() as i64 + 1;
    let mut order: Vec<i64> = (0..rank - 1).collect();
    order.insert(dim as usize + 1, rank - 1);
    let moved = calls.one("permute", &[grad], Attrs::new().with("dims", order))?;
    let mut merged = shape;
    merged[dim as usize] = windows * size;
    let moved = calls.reshape(moved, &merged)?;
    calls.one("index_add", &[zeros, index, moved], along(dim))
}

/// Pads each tensor with zeros to equal chunks, and joins those of one number.
fn joined_chunks(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let chunks = given.int("num_chunks")?.unwrap_or(1).max(1);
    let mut parts = Vec::new();
    let mut joined = 0;
    for &x in given.tensors() {
        let shape: Vec<i64> = calls.shape(x);
        if shape.is_empty() {
            return Err(wrong("expected one or more dimensions"));
        }
        let dim = positive(given.int("dim")?.unwrap_or(0), shape.len())?;
        let missing = (chunks - shape[dim as usize] % chunks) % chunks;
        let mut pad = vec![0i64; 2 * (shape.len() - dim as usize)];
        if let Some(last) = pad.last_mut() {
            *last = missing;
        }
        let whole = calls.one("constant_pad_nd", &[x], Attrs::new().with("pad", pad))?;
        let rest = shape[dim as usize + 1..].iter().product::<i64>();
        let width = (shape[dim as usize] + missing) / chunks * rest;
        let mut size = shape[..dim as usize].to_vec();
        size.extend([chunks, width]);
        parts.push(calls.reshape(whole, &size)?);
        joined = dim + 1;
    }
    calls.one("cat", &parts, Attrs::new().with("dim", joined))
}
