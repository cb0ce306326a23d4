//! Composites that move elements.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::promotion::common_dtype;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Expr, along, positive, wrong};

table! {
    op("pixel_shuffle", "channels moved into blocks of pixels", PIXELS, UP,
        |args| pixels(args, "upscale_factor"));
    op("pixel_unshuffle", "blocks of pixels moved into channels", PIXELS, DOWN,
        |args| pixels(args, "downscale_factor"));
    op("channel_shuffle", "the channels of several groups in turn", CHANNELS, GROUPS,
        channels);
    op("rot90", "x turned by right angles in a plane", X, ROT90, rotated);
    op("block_diag", "a matrix with the tensors as its blocks", BLOCKS, &[], blocks)
        .of_list(0);
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

fn pixels<'a>(args: Args<'a>, factor: &str) -> Result<Expr<'a>> {
    let x = args.tensor("x");
    let shape = x.shape()?;
    let &[ref outer @ .., c, h, w] = &shape[..] else {
        return Err(wrong(format!("pixels of {shape:?}")));
    };
    let r = args.int(factor)?.unwrap_or(1).max(1);
    let (split, order, result) = match factor {
        "upscale_factor" => {
            ([c / (r * r), r, r, h, w], [0, 3, 1, 4, 2], [c / (r * r), h * r, w * r])
        }
        _ => ([c, h / r, r, w / r, r], [0, 2, 4, 1, 3], [c * r * r, h / r, w / r]),
    };
    let before = outer.len() as i64;
    let order: Vec<i64> = (0..before).chain(order.map(|dim| dim + before)).collect();
    let split = x.reshape(&[outer, &split].concat());
    let moved = split.op("permute", Attrs::new().with("dims", order));
    Ok(moved.copied(&[outer, &result].concat()))
}

fn channels(args: Args<'_>) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    let shape = x.shape()?;
    let groups = args.int("groups")?.unwrap_or(1);
    let &[batch, channels, ref rest @ ..] = &shape[..] else {
        return Err(wrong(format!("channels of {shape:?}")));
    };
    let split = [&[batch, groups, channels / groups.max(1)], rest].concat();
    Ok(x.reshape(&split).transpose(1, 2).copied(&shape))
}

fn rotated(args: Args<'_>) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    let &[a, b] = &args.ints("dims")?.unwrap_or_else(|| vec![0, 1])[..] else {
        return Err(wrong("dims: expected two dimensions"));
    };
    let flip = |dims: &[i64]| x.op("flip", Attrs::new().with("dims", dims.to_vec()));
    Ok(match args.int("k")?.unwrap_or(1).rem_euclid(4) {
        0 => x.contiguous(),
        1 => flip(&[b]).transpose(a, b),
        2 => flip(&[a, b]),
        _ => flip(&[a]).transpose(a, b),
    })
}

fn blocks(args: Args<'_>) -> Result<Expr<'_>> {
    let mut parts = Vec::new();
    for x in args.all() {
        let shape = match x.shape()?[..] {
            [] => [1, 1],
            [columns] => [1, columns],
            [rows, columns] => [rows, columns],
            ref other => return Err(wrong(format!("a block of {other:?}"))),
        };
        parts.push((x.reshape(&shape), shape));
    }
    let dtype = common_dtype(parts.iter().map(|(x, _)| (x.dtype(), 2)), None)?;
    let sum = |k: usize| parts.iter().map(|(_, shape)| shape[k]).sum();
    let made = args.calls.full(vec![sum(0), sum(1)], 0, dtype);
    let (mut row, mut column) = (0, 0);
    for (x, [rows, columns]) in parts {
        made.narrow(0, row, rows).narrow(1, column, columns).copy_(x);
        (row, column) = (row + rows, column + columns);
    }
    Ok(made)
}

fn diag_embed(args: Args<'_>) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    let mut shape = x.shape()?;
    let rank = shape.len() + 1;
    let offset = args.int("offset")?.unwrap_or(0);
    let dim1 = positive(args.int("dim1")?.unwrap_or(-2), rank)?;
    let dim2 = positive(args.int("dim2")?.unwrap_or(-1), rank)?;
    let Some(length) = shape.pop() else {
        return Err(wrong("expected one or more dimensions"));
    };
    for dim in [dim1.min(dim2), dim1.max(dim2)] {
        if dim as usize > shape.len() {
            return Err(wrong(format!("no dimension {dim}")));
        }
        shape.insert(dim as usize, length + offset.abs());
    }
    let zeros = args.calls.full(shape, 0, x.dtype());
    let at = Attrs::new().with("offset", offset).with("dim1", dim1).with("dim2", dim2);
    zeros.op("diagonal", at).copy_(x);
    Ok(zeros)
}

/// Returns the gradient of `unfold`: each window is added to its elements.
fn unfold_backward(args: Args<'_>) -> Result<Expr<'_>> {
    let grad = args.tensor("grad");
    let mut shape = args.ints("input_sizes")?.unwrap_or_default();
    let (size, step) = (args.int("size")?.unwrap_or(1), args.int("step")?.unwrap_or(1));
    if shape.is_empty() {
        return Ok(grad.reshape(&[]));
    }
    let dim = positive(args.int("dim")?.unwrap_or(0), shape.len())?;
    let zeros = args.calls.full(shape.clone(), 0, grad.dtype());
    let windows = grad.shape()?.get(dim as usize).copied().unwrap_or(0);
    let starts = (args.calls.range(windows, DType::I64) * step).unsqueeze(1);
    let index = (starts + args.calls.range(size, DType::I64)).reshape(&[-1]);
    // The dimension of a window's elements moves behind that of the windows.
    let rank = shape.len() as i64 + 1;
    let mut order: Vec<i64> = (0..rank - 1).collect();
    order.insert(dim as usize + 1, rank - 1);
    shape[dim as usize] = windows * size;
    let moved = grad.op("permute", Attrs::new().with("dims", order)).reshape(&shape);
    Ok(args.calls.one("index_add", &[zeros, index, moved], along(dim)))
}

/// Pads each tensor with zeros to equal chunks, and joins those of one number.
fn joined_chunks(args: Args<'_>) -> Result<Expr<'_>> {
    let chunks = args.int("num_chunks")?.unwrap_or(1).max(1);
    let mut parts = Vec::new();
    let mut joined = 0;
    for x in args.all() {
        let mut shape = x.shape()?;
        if shape.is_empty() {
            return Err(wrong("expected one or more dimensions"));
        }
        let dim = positive(args.int("dim")?.unwrap_or(0), shape.len())? as usize;
        let missing = (chunks - shape[dim] % chunks) % chunks;
        let mut pad = vec![0; 2 * (shape.len() - dim)];
        if let Some(last) = pad.last_mut() {
            *last = missing;
        }
        let whole = x.op("constant_pad_nd", Attrs::new().with("pad", pad));
        let width = (shape[dim] + missing) / chunks * shape[dim + 1..].iter().product::<i64>();
        shape.truncate(dim);
        shape.extend([chunks, width]);
        parts.push(whole.reshape(&shape));
        joined = dim as i64 + 1;
    }
    Ok(args.calls.one("cat", &parts, along(joined)))
}
