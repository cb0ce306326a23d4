//! Views, copies and concatenation.

use millstream_types::{Attrs, DType, Layout, Result};

use super::{Derivative, Rule, every, one};
use crate::args::dimension;
use crate::formula::{Expr, along, ints};

pub(super) const RULES: &[Rule] = &[
    one("transpose", &[], |d| Ok(d.g().transpose(d.int("dim0", 0)?, d.int("dim1", 0)?))).complex(),
    one("t", &[], |d| Ok(d.g().t())).complex(),
    one("permute", &[], permute).complex(),
    one("squeeze", &[], shaped).complex(),
    one("unsqueeze", &[], shaped).complex(),
    one("view", &[], shaped).complex(),
    one("reshape", &[], shaped).complex(),
    // The engine sums over what was repeated.
    one("expand", &[], |d| Ok(d.g())).complex(),
    one("alias", &[], |d| Ok(d.g())).complex(),
    one("copy", &[], |d| Ok(d.g())).complex(),
    one("clone", &[], |d| Ok(d.g())).complex(),
    one("cast", &[], |d| Ok(d.g())).complex(),
    one("slice", &[], |d| sliced(d, "slice_backward", &["dim", "start", "end", "step"])).complex(),
    one("select", &[], |d| sliced(d, "select_backward", &["dim", "index"])).complex(),
    one("diagonal", &[], |d| sliced(d, "diagonal_backward", &["offset", "dim1", "dim2"])).complex(),
    one("narrow", &[], |d| {
        let dim = d.dim("dim", 0, d.shape(0)?.len())?;
        let length = d.shape(0)?[dim as usize];
        let start = d.int("start", 0)?;
        let start = if start < 0 { start + length } else { start };
        let end = start + d.int("length", 0)?;
        padded(d.g(), dim, start, length - end)
    })
    .complex(),
    one("as_strided", &[], as_strided).complex(),
    one("unfold", &[], unfold).complex(),
    one("split", &[], |d| joined(d, "cat")).complex(),
    one("chunk", &[], |d| joined(d, "cat")).complex(),
    one("split_with_sizes", &[], |d| joined(d, "cat")).complex(),
    one("unbind", &[], |d| joined(d, "stack")).complex(),
    every("cat", &[], cat).complex(),
    every("stack", &[], stack).complex(),
    one("repeat", &[], repeat).complex(),
];

/// Returns the gradient in the shape of the input.
fn shaped(d: Derivative<'_>) -> Result<Expr<'_>> {
    Ok(d.g().reshape(&d.shape(0)?))
}

fn permute(d: Derivative<'_>) -> Result<Expr<'_>> {
    let rank = d.shape(0)?.len();
    let mut back = vec![0; rank];
    for (at, dim) in d.ints("dims")?.into_iter().enumerate() {
        back[dimension(dim, rank)?] = at as i64;
    }
    Ok(d.g().permute(back))
}

fn sliced<'a>(d: Derivative<'a>, op: &str, names: &[&'static str]) -> Result<Expr<'a>> {
    let mut attrs = d.passed(names).with("input_sizes", d.shape(0)?);
    if attrs.get("dim").is_none() && names.contains(&"dim") {
        attrs.set("dim", 0);
    }
    Ok(d.g().op(op, attrs))
}

/// Returns zeros with the gradient between them, along a dimension.
fn padded(g: Expr<'_>, dim: i64, before: i64, after: i64) -> Result<Expr<'_>> {
    let behind = g.rank()? - 1 - dim as usize;
    let mut pad = vec![0; 2 * behind];
    pad.extend([before, after]);
    Ok(g.padded(pad))
}

/// Puts the gradient of a part where the part lies in its memory, and reads the operand there.
fn as_strided<'a>(d: Derivative<'a>) -> Result<Expr<'a>> {
    let (own, part) = (&d.spec(0)?.layout, &d.output_spec(0)?.layout);
    let at = |flat: Expr<'a>, at: &Layout| {
        let attrs = Attrs::new().with("size", ints(at.shape())).with("stride", ints(at.strides()));
        flat.op("as_strided", attrs.with("storage_offset", at.offset() as i64))
    };
    let (g, length) = (d.g(), own.span().max(part.span()) as i64);
    let flat = d.calls.full(vec![length], 0i64, g.dtype());
    if !part.may_overlap_itself() {
        at(flat, part).apply("copy_", [g]);
        return Ok(at(flat, own));
    }
    // Elements that lie at one place add up.
    let places = at(d.calls.range(length, DType::I64), part);
    let (places, elements) = (places.dense().reshape(&[-1]), g.dense().reshape(&[-1]));
    Ok(at(d.calls.one("index_add", &[flat, places, elements], along(0)), own))
}

/// Adds each window's gradient to its place.
fn unfold(d: Derivative<'_>) -> Result<Expr<'_>> {
    let rank = d.shape(0)?.len();
    let dim = d.dim("dimension", 0, rank)?;
    let (size, step) = (d.int("size", 1)?, d.int("step", 1)?);
    let (g, zeros) = (d.g(), d.zeros(0)?);
    if rank == 0 {
        return Ok(g.op("sum", Attrs::new()));
    }
    let shape = g.shape()?;
    let at = dim as usize;
    let windows = 0..shape[at];
    let index =
        d.calls.positions(windows.flat_map(|window| (0..size).map(move |k| window * step + k)));
    // The elements of the windows, which are the last dimension, go behind the windows.
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.insert(at + 1, rank as i64);
    let rows = [&shape[..at], &[shape[at] * size], &shape[at + 1..rank]].concat();
    let rows = g.permute(order).reshape(&rows);
    Ok(d.calls.one("index_add", &[zeros, index, rows], along(dim)))
}

/// Joins the gradients of the parts, by `cat` or `stack`.
fn joined<'a>(d: Derivative<'a>, op: &str) -> Result<Expr<'a>> {
    let parts: Vec<Expr<'a>> = (0..d.output_specs.len()).map(|k| d.gradient(k)).collect();
    Ok(d.calls.one(op, &parts, along(d.int("dim", 0)?)))
}

fn cat(d: Derivative<'_>, input: usize) -> Result<Expr<'_>> {
    let g = d.g();
    let dim = d.dim("dim", 0, g.rank()?)?;
    // Tensors of shape [0] fit to all others.
    if d.shape(input)? == [0] && g.rank()? != 1 {
        return d.zeros(input);
    }
    let length = |k: usize| -> Result<i64> {
        let shape = d.shape(k)?;
        Ok(if shape == [0] { 0 } else { shape[dim as usize] })
    };
    let start = (0..input).map(length).sum::<Result<i64>>()?;
    Ok(g.narrow(dim, start, length(input)?))
}

fn stack(d: Derivative<'_>, input: usize) -> Result<Expr<'_>> {
    Ok(d.g().select(d.int("dim", 0)?, input as i64))
}

fn repeat(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (shape, repeats) = (d.shape(0)?, d.ints("repeats")?);
    let added = repeats.len() - shape.len();
    let (mut lengths, mut dims) = (Vec::new(), Vec::new());
    for (k, &count) in repeats.iter().enumerate() {
        dims.push(lengths.len() as i64);
        lengths.push(count);
        if k >= added {
            lengths.push(shape[k - added]);
        }
    }
    Ok(if dims.is_empty() { d.g() } else { d.g().reshape(&lengths).sum(&dims, false) })
}
