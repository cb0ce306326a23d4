//! Views, copies and concatenation.

use millstream_types::{Error, Result};

use super::{Derivative, Formulas, Rule, one};
use crate::gradient::backward::embedded;
use crate::handle::Tensor;

pub(super) const RULES: &[Rule] = &[
    one(
        "transpose",
        &[],
        &[Some(|d| {
            let dim = |name| Ok::<_, Error>(d.attrs().int(name)?.unwrap_or(0));
            d.g()?.transpose(dim("dim0")?, dim("dim1")?)
        })],
    ),
    one("t", &[], &[Some(|d| d.g()?.t())]),
    one("permute", &[], &[Some(permute)]),
    one("squeeze", &[], &[Some(shaped)]),
    one("unsqueeze", &[], &[Some(shaped)]),
    one("view", &[], &[Some(shaped)]),
    one("reshape", &[], &[Some(shaped)]),
    // The engine sums over what was repeated.
    one("expand", &[], &[Some(|d| d.g())]),
    one("alias", &[], &[Some(|d| d.g())]),
    one("copy", &[], &[Some(|d| d.g())]),
    one("clone", &[], &[Some(|d| d.g())]),
    one("cast", &[], &[Some(|d| d.g())]),
    one("slice", &[], &[Some(|d| sliced(d, "slice_backward", &["dim", "start", "end", "step"]))]),
    one("select", &[], &[Some(|d| sliced(d, "select_backward", &["dim", "index"]))]),
    one("diagonal", &[], &[Some(|d| sliced(d, "diagonal_backward", &["offset", "dim1", "dim2"]))]),
    one(
        "narrow",
        &[],
        &[Some(|d| {
            let dim = d.dim("dim", 0, d.shape(0)?.len())?;
            let length = d.shape(0)?[dim as usize] as i64;
            let start = d.attrs().int("start")?.unwrap_or(0);
            let start = if start < 0 { start + length } else { start };
            let end = start + d.attrs().int("length")?.unwrap_or(0);
            padded(&d.g()?, dim, start, length - end)
        })],
    ),
    one("as_strided", &[], &[Some(as_strided)]),
    one("unfold", &[], &[Some(unfold)]),
    one("split", &[], &[Some(joined)]),
    one("chunk", &[], &[Some(joined)]),
    one("split_with_sizes", &[], &[Some(joined)]),
    one(
        "unbind",
        &[],
        &[Some(|d| {
            let parts = gradients(d)?;
            Tensor::stack(&parts.iter().collect::<Vec<_>>(), d.attrs().int("dim")?.unwrap_or(0))
        })],
    ),
    Rule { op: "cat", saves: &[], formulas: Formulas::Every(cat) },
    Rule { op: "stack", saves: &[], formulas: Formulas::Every(stack) },
    one("repeat", &[], &[Some(repeat)]),
];

/// Returns the gradient in the shape of the input.
fn shaped(d: &Derivative<'_>) -> Result<Tensor> {
    d.g()?.reshape(d.shape(0)?)
}

fn permute(d: &Derivative<'_>) -> Result<Tensor> {
    let rank = d.shape(0)?.len();
    let mut back = vec![0usize; rank];
    for (at, dim) in d.attrs().ints("dims")?.unwrap_or_default().into_iter().enumerate() {
        back[millstream_ops::args::dimension(dim, rank)?] = at;
    }
    d.g()?.permute(back)
}

fn sliced(d: &Derivative<'_>, op: &str, names: &[&'static str]) -> Result<Tensor> {
    let sizes: Vec<i64> = d.shape(0)?.iter().map(|&length| length as i64).collect();
    let mut attrs = millstream_types::Attrs::new().with("input_sizes", sizes);
    for name in names {
        if let Some(value) = d.attrs().get(name) {
            attrs.set(*name, value.clone());
        }
    }
    if attrs.get("dim").is_none() && names.contains(&"dim") {
        attrs.set("dim", 0);
    }
    super::first(op, crate::tensor::call_op(op, &[&d.g()?], attrs)?)
}

/// Returns zeros with the gradient between them, along a dimension.
fn padded(g: &Tensor, dim: i64, before: i64, after: i64) -> Result<Tensor> {
    let behind = g.rank() as i64 - 1 - dim;
    let mut pad = vec![0; 2 * behind as usize];
    pad.extend([before, after]);
    g.constant_pad_nd(pad)
}

fn as_strided(d: &Derivative<'_>) -> Result<Tensor> {
    let (own, part) = (&d.spec(0)?.layout, &d.output_spec(0)?.layout);
    let flat = embedded(&d.g()?, part, own)?;
    crate::gradient::backward::part(&flat, own)
}

/// Adds each window's gradient to its place.
fn unfold(d: &Derivative<'_>) -> Result<Tensor> {
    let rank = d.shape(0)?.len();
    let dim = d.dim("dimension", 0, rank)?;
    let number = |name| Ok::<_, Error>(d.attrs().int(name)?.unwrap_or(1));
    let (size, step) = (number("size")?, number("step")?);
    let (g, zeros) = (d.g()?, d.zeros(0)?);
    if rank == 0 {
        return g.sum(..);
    }
    let windows = g.shape()[dim as usize] as i64;
    let at: Vec<i64> =
        (0..windows).flat_map(|window| (0..size).map(move |k| window * step + k)).collect();
    let index = Tensor::from_slice(&at, at.len(), d.beside)?;
    // The elements of the windows, which are the last dimension, go behind the windows.
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.insert(dim as usize + 1, rank as i64);
    let rows = g.permute(order)?.flatten(dim, dim + 1)?;
    zeros.index_add(&index, &rows, dim)
}

fn gradients(d: &Derivative<'_>) -> Result<Vec<Tensor>> {
    (0..d.node.output_specs.len()).map(|k| d.gradient(k)).collect()
}

fn joined(d: &Derivative<'_>) -> Result<Tensor> {
    let parts = gradients(d)?;
    Tensor::cat(&parts.iter().collect::<Vec<_>>(), d.attrs().int("dim")?.unwrap_or(0))
}

fn cat(d: &Derivative<'_>, input: usize) -> Result<Tensor> {
    let g = d.g()?;
    let dim = d.dim("dim", 0, g.rank())?;
    // Tensors of shape [0] fit to all others.
    if d.shape(input)? == [0] && g.rank() != 1 {
        return d.zeros(input);
    }
    let length = |k: usize| -> Result<i64> {
        let shape = d.shape(k)?;
        Ok(if shape == [0] { 0 } else { shape[dim as usize] as i64 })
    };
    let start = (0..input).map(length).sum::<Result<i64>>()?;
    g.narrow(dim, start, length(input)?)
}

fn stack(d: &Derivative<'_>, input: usize) -> Result<Tensor> {
    d.g()?.select(d.attrs().int("dim")?.unwrap_or(0), input)
}

fn repeat(d: &Derivative<'_>) -> Result<Tensor> {
    let shape = d.shape(0)?;
    let repeats = d.attrs().ints("repeats")?.unwrap_or_default();
    let added = repeats.len() - shape.len();
    let mut lengths = Vec::new();
    let mut dims = Vec::new();
    for (k, &count) in repeats.iter().enumerate() {
        dims.push(lengths.len());
        lengths.push(count);
        if k >= added {
            lengths.push(shape[k - added] as i64);
        }
    }
    match dims.is_empty() {
        true => d.g(),
        false => d.g()?.reshape(lengths)?.sum(dims),
    }
}
