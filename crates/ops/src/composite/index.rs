//! Composites that read and write by index.

use millstream_types::{Attrs, DType, Result};

use crate::args::ABSENT;
use crate::broadcast::broadcast;
use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::{along, positive};
use super::{Calls, Composite, Given, Symbol, op, table};

table! {
    op("index_copy", "a copy of x with slices of the source at the index", INDEX_COPY, DIM, copy);
    op("index_fill", "a copy of x whose slices at the index have one value", INDEX_FILL, FILL,
        fill).optional_from(2);
    op("index_fill_", "x, whose slices at the index get one value, in place", INDEX_FILL, FILL,
        fill_in_place).optional_from(2);
    op("take", "the elements of x, as if it had one dimension, at the index", TAKE, &[], take);
    op("put", "a copy of x, as if it had one dimension, with the source at the index", PUT,
        ACCUMULATE, put);
    op("masked_scatter", "x with the elements of the source, in order, where a mask is true",
        MASKED, &[], masked_scatter);
    op("masked_scatter_backward", "the gradient of `masked_scatter` for its source", MASK, SIZES,
        masked_scatter_backward);
    op("scatter_sum", "x with the elements of src added at the index", SCATTER, SCATTER_ATTRS,
        scatter_sum);
    op("scatter_mean", "x with the means of the elements of src at the index", SCATTER,
        SCATTER_ATTRS, scatter_mean);
    op("_unsafe_masked_index",
        "the elements of x at the indices where a mask is true, else a number",
        MASKED_INDEX, MASKED_INDEX_ATTRS, masked_index).of_list(2);
    op("_unsafe_masked_index_put_accumulate",
        "x with the values added at the indices where a mask is true", MASKED_SUM, MASKED_SUM_ATTRS,
        masked_sum).of_list(3);
    op("index_reduce", "x with slices of the source reduced at the index", INDEX_COPY, REDUCE,
        reduced_slices);
}

const MASKED_INDEX: &[ArgDoc] =
    &[arg("x", "any shape"), arg("mask", "the shape of the result"), arg("indices", "integers")];
const NO_INDEX: ArgDoc = arg(ABSENT, "the dimensions without an index").ints().optional();
const MASKED_INDEX_ATTRS: &[ArgDoc] = &[arg("fill", "the number").number(), NO_INDEX];
const MASKED_SUM: &[ArgDoc] = &[
    arg("x", "any shape"),
    arg("mask", "the shape of the values"),
    arg("values", "any shape"),
    arg("indices", "integers"),
];
const MASKED_SUM_ATTRS: &[ArgDoc] = &[NO_INDEX];
const DIM: &[ArgDoc] = &[arg("dim", "the dimension of the slices").int()];
const INDEX_COPY: &[ArgDoc] =
    &[arg("x", "any shape"), arg("index", "one dimension"), arg("source", "the slices")];
const INDEX_FILL: &[ArgDoc] =
    &[arg("x", "any shape"), arg("index", "one dimension"), arg("value", "no dimensions")];
const FILL: &[ArgDoc] = &[
    arg("dim", "the dimension of the slices").int(),
    arg("value", "a number in place of the tensor").number().instead_of("value"),
];
const TAKE: &[ArgDoc] = &[arg("x", "any shape"), arg("index", "any shape")];
const PUT: &[ArgDoc] =
    &[arg("x", "any shape"), arg("index", "any shape"), arg("source", "as many elements")];
const ACCUMULATE: &[ArgDoc] =
    &[arg("accumulate", "whether to add the elements").flag().or("false")];
const MASKED: &[ArgDoc] = &[
    arg("x", "any shape"),
    arg("mask", "a shape that broadcasts with x"),
    arg("source", "an element or more for each that is selected"),
];
const MASK: &[ArgDoc] = &[arg("grad", "the shape of the result"), arg("mask", "the mask")];
const SIZES: &[ArgDoc] = &[arg("sizes", "the shape of the source").ints()];
const SCATTER: &[ArgDoc] = &[
    arg("x", "any shape"),
    arg("index", "as many dimensions"),
    arg("src", "index's shape or greater"),
];
const INCLUDE: ArgDoc =
    arg("include_self", "whether the elements of x count as values").flag().or("true");
const SCATTER_ATTRS: &[ArgDoc] = &[arg("dim", "the dimension of the index").int(), INCLUDE];
const REDUCE: &[ArgDoc] = &[
    arg("dim", "the dimension of the slices").int(),
    arg("reduce", "\"prod\", \"mean\", \"amax\" or \"amin\"").text(),
    INCLUDE,
];

/// Writes values to the slices of a target at the indices along a dimension.
fn index_slices(
    calls: &mut Calls<'_>,
    target: Symbol,
    dim: i64,
    index: Symbol,
    values: Symbol,
) -> Result<()> {
    let rank = calls.rank(target) as i64;
    let mut target = target;
    if rank == 0 {
        target = calls.unsqueeze(target, 0)?;
    }
    let dim = if dim < 0 { dim + rank.max(1) } else { dim };
    let mut attrs = Attrs::new();
    if dim > 0 {
        attrs.set("absent", (0..dim).collect::<Vec<i64>>());
    }
    calls.call("index_put_", &[target, values, index], attrs).map(drop)
}

/// Returns the source of `index_fill`: its tensor, or its number in the dtype of x.
fn fill_in_place(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, index) = (given.tensor("x")?, given.tensor("index")?);
    let value = match given.optional("value") {
        Some(value) => value,
        None => calls.full(Vec::new(), given.value("value")?, calls.dtype(x))?,
    };
    index_slices(calls, x, given.int("dim")?.unwrap_or(0), index, value)?;
    Ok(x)
}

fn fill(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let copy = calls.apply("clone", &[given.tensor("x")?])?;
    let operands = [&[copy], &given.tensors()[1..]].concat();
    calls.one("index_fill_", &operands, given.passed(&["dim", "value"]))
}

fn take(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let flat = calls.reshape(given.tensor("x")?, &[-1])?;
    calls.apply("index", &[flat, given.tensor("index")?])
}

fn copy(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, index) = (given.tensor("x")?, given.tensor("index")?);
    let source = given.tensor("source")?;
    let copy = calls.apply("clone", &[x])?;
    index_slices(calls, copy, given.int("dim")?.unwrap_or(0), index, source)?;
    Ok(copy)
}

fn put(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, index) = (given.tensor("x")?, given.tensor("index")?);
    let source = given.tensor("source")?;
    let shape = calls.shape(x);
    let flat = calls.copied(x, &[calls.spec(x).numel() as i64])?;
    let index = calls.reshape(index, &[-1])?;
    let source = calls.reshape(source, &[-1])?;
    let accumulate = given.flag("accumulate", false)?;
    let attrs = Attrs::new().with("accumulate", accumulate);
    calls.call("index_put_", &[flat, source, index], attrs)?;
    calls.one("view", &[flat], Attrs::new().with("size", shape))
}

/// Sets the k-th selected element to element k of the source.
fn masked_scatter(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, mask) = (given.tensor("x")?, given.tensor("mask")?);
    let source = given.tensor("source")?;
    let shape = broadcast(calls.spec(x).shape(), calls.spec(mask).shape())?;
    let shape: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    let size = || Attrs::new().with("size", shape.clone());
    let x = calls.one("expand", &[x], size())?;
    if calls.spec(source).numel() == 0 {
        return calls.apply("clone", &[x]);
    }
    let mask = calls.one("expand", &[mask], size())?;
    let number = numbers_of_selected(calls, mask, calls.spec(source).numel())?;
    let number = calls.reshape(number, &shape)?;
    let source = calls.reshape(source, &[-1])?;
    let chosen = calls.apply("index", &[source, number])?;
    calls.apply("where", &[mask, chosen, x])
}

/// Returns for each element of a mask the number of selected ones before it, below a bound.
fn numbers_of_selected(calls: &mut Calls<'_>, mask: Symbol, bound: usize) -> Result<Symbol> {
    let flat = calls.reshape(mask, &[-1])?;
    let count = along(0).with("dtype", DType::I64);
    let count = calls.one("cumsum", &[flat], count)?;
    let number = calls.by("sub", count, 1i64)?;
    let bounds = Attrs::new().with("min", 0i64).with("max", bound as i64 - 1);
    calls.one("clamp", &[number], bounds)
}

/// Returns the gradient of `masked_scatter` for its source.
fn masked_scatter_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (grad, mask) = (given.tensor("grad")?, given.tensor("mask")?);
    let sizes = given.ints("sizes")?.unwrap_or_default();
    let count: i64 = sizes.iter().product();
    let made = calls.full(vec![count], 0i64, calls.dtype(grad))?;
    if count > 0 && calls.spec(grad).numel() > 0 {
        let size = Attrs::new().with("size", calls.shape(grad));
        let mask = calls.one("expand", &[mask], size)?;
        let number = numbers_of_selected(calls, mask, count as usize)?;
        let unselected = calls.apply("logical_not", &[mask])?;
        let zero = Attrs::new().with("value", 0i64);
        let values = calls.one("masked_fill", &[grad, unselected], zero)?;
        let values = calls.reshape(values, &[-1])?;
        let dim = along(0);
        calls.call("index_add_", &[made, number, values], dim)?;
    }
    calls.one("view", &[made], Attrs::new().with("size", sizes))
}

/// Adds the elements of `src` to those of x at an index.
fn scatter_sum(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (mut x, index) = (given.tensor("x")?, given.tensor("index")?);
    let dim = along(given.int("dim")?.unwrap_or(0));
    if !given.flag("include_self", true)? {
        x = calls.one("scatter", &[x, index], dim.clone().with("value", 0i64))?;
    }
    calls.one("scatter_add", &[x, index, given.tensor("src")?], dim)
}

/// Divides the sums by the numbers of values, as PyTorch does. The quotient of integers is
/// rounded down.
fn scatter_mean(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, index) = (given.tensor("x")?, given.tensor("index")?);
    let src = given.tensor("src")?;
    let (dtype, own) = (calls.dtype(x), given.flag("include_self", true)?);
    let sums = scatter_sum(calls, given)?;
    let counts = calls.full(calls.shape(x), i64::from(own), dtype)?;
    let ones = calls.full(calls.shape(src), 1i64, dtype)?;
    let dim = along(given.int("dim")?.unwrap_or(0));
    let counts = calls.one("scatter_add", &[counts, index, ones], dim)?;
    let none = calls.by("eq", counts, 0i64)?;
    let counts = calls.filled(counts, none, 1i64)?;
    let mut attrs = Attrs::new();
    if !dtype.is_float() {
        attrs.set("rounding_mode", "floor");
    }
    calls.one("div", &[sums, counts], attrs)
}

/// Combines slices: the index, which selects them, is expanded to their shape.
fn reduced_slices(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, index) = (given.tensor("x")?, given.tensor("index")?);
    let src = given.tensor("source")?;
    let shape = calls.shape(src);
    let dim = positive(given.int("dim")?.unwrap_or(0), shape.len())?;
    let mut lengths = vec![1i64; shape.len()];
    if let Some(length) = usize::try_from(dim).ok().and_then(|dim| lengths.get_mut(dim)) {
        *length = calls.spec(index).numel() as i64;
    }
    let index = calls.reshape(index, &lengths)?;
    let index = calls.one("expand", &[index], Attrs::new().with("size", shape))?;
    let include = along(dim).with("include_self", given.flag("include_self", true)?);
    match given.text("reduce")? {
        "mean" => calls.one("scatter_mean", &[x, index, src], include),
        reduce => calls.one("scatter_reduce", &[x, index, src], include.with("reduce", reduce)),
    }
}

/// Returns the indices behind the first operands, within the range of each dimension of x. Those
/// that `absent` lists are absent.
fn clamped(
    calls: &mut Calls<'_>,
    x: Symbol,
    given: &Given<'_>,
    first: usize,
) -> Result<Vec<Symbol>> {
    let absent = given.ints(ABSENT)?.unwrap_or_default();
    let mut dims = (0..).filter(|dim| !absent.contains(dim));
    let mut indices = Vec::new();
    for &index in given.tensors().get(first..).unwrap_or_default() {
        let dim = dims.next().unwrap_or(0) as usize;
        let length = calls.shape(x).get(dim).copied().unwrap_or(1);
        let attrs = Attrs::new().with("min", -length).with("max", length - 1);
        indices.push(calls.one("clamp", &[index], attrs)?);
    }
    Ok(indices)
}

/// Returns the dimensions without an index, but for the last ones.
fn absent(given: &Given<'_>, indices: usize) -> Result<Attrs> {
    let mut absent = given.ints(ABSENT)?.unwrap_or_default();
    while absent.last().is_some_and(|&last| last as usize + 1 == indices + absent.len()) {
        absent.pop();
    }
    Ok(if absent.is_empty() { Attrs::new() } else { Attrs::new().with(ABSENT, absent) })
}

/// Reads by index where a mask is true.
fn masked_index(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, mask) = (given.tensor("x")?, given.tensor("mask")?);
    let indices = clamped(calls, x, given, 2)?;
    let absent = absent(given, indices.len())?;
    let read = calls.one("index", &[&[x], &indices[..]].concat(), absent)?;
    let skipped = calls.apply("logical_not", &[mask])?;
    let made = calls.filled(read, skipped, given.value("fill")?)?;
    calls.cast(made, calls.dtype(x))
}

/// Adds by index where a mask is true.
fn masked_sum(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, mask) = (given.tensor("x")?, given.tensor("mask")?);
    let indices = clamped(calls, x, given, 3)?;
    let absent = absent(given, indices.len())?;
    let skipped = calls.apply("logical_not", &[mask])?;
    let values = calls.filled(given.tensor("values")?, skipped, 0i64)?;
    let inputs = [&[x, values], &indices[..]].concat();
    calls.one("index_put", &inputs, absent.with("accumulate", true))
}
