//! Composites that read and write by index.

use millstream_types::{Attrs, DType, Result};

use crate::args::ABSENT;
use crate::broadcast::broadcast;
use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Expr, along, ints, positive, wrong};

table! {
    op("index_copy", "a copy of x with slices of the source at the index", INDEX_COPY, DIM,
        |args| {
            let copy = args.tensor("x").op("clone", Attrs::new());
            with_slices(args, copy, args.tensor("source"))
        });
    op("index_fill", "a copy of x whose slices at the index have one value", INDEX_FILL, FILL,
        fill).optional_from(2);
    op("index_fill_", "x, whose slices at the index get one value, in place", INDEX_FILL, FILL,
        fill_in_place).optional_from(2);
    op("take", "the elements of x, as if it had one dimension, at the index", TAKE, &[],
        |args| Ok(args.tensor("x").reshape(&[-1]).apply("index", [args.tensor("index")])));
    op("put", "a copy of x, as if it had one dimension, with the source at the index", PUT,
        ACCUMULATE, put);
    op("masked_scatter", "x with the elements of the source, in order, where a mask is true",
        MASKED, &[], masked_scatter);
    op("masked_scatter_backward", "the gradient of `masked_scatter` for its source", MASK,
        SIZES, masked_scatter_backward);
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
    op("repeat_interleave", "each index of the repeats as often as its repeats say", REPEATS,
        OUTPUT_SIZE, repeated_indices);
}

const REPEATS: &[ArgDoc] = &[arg("repeats", "one dimension, i32 or i64")];
const OUTPUT_SIZE: &[ArgDoc] = &[arg("output_size", "the sum of the repeats").int()];

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

/// Writes values to the slices of a target at the indices along the dimension, and returns the
/// target.
fn with_slices<'a>(args: Args<'a>, target: Expr<'a>, values: Expr<'a>) -> Result<Expr<'a>> {
    let (rank, dim) = (target.rank()? as i64, args.int("dim")?.unwrap_or(0));
    let slices = if rank == 0 { target.unsqueeze(0) } else { target };
    let dim = if dim < 0 { dim + rank.max(1) } else { dim };
    let mut attrs = Attrs::new();
    if dim > 0 {
        attrs.set(ABSENT, (0..dim).collect::<Vec<i64>>());
    }
    args.calls.one("index_put_", &[slices, values, args.tensor("index")], attrs);
    Ok(target)
}

/// The value is a tensor, or a number, which takes the dtype of x.
fn fill_in_place(args: Args<'_>) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    let value = match args.optional("value") {
        Some(value) => value,
        None => args.calls.full(Vec::new(), args.value("value")?, x.dtype()),
    };
    with_slices(args, x, value)
}

fn fill(args: Args<'_>) -> Result<Expr<'_>> {
    let copy = args.tensor("x").op("clone", Attrs::new());
    let operands = [&[copy], &args.all()[1..]].concat();
    Ok(args.calls.one("index_fill_", &operands, args.passed(&["dim", "value"])))
}

fn put(args: Args<'_>) -> Result<Expr<'_>> {
    let [x, index, source] = args.tensors(["x", "index", "source"]);
    let flat = x.copied(&[x.numel()? as i64]);
    let (index, source) = (index.reshape(&[-1]), source.reshape(&[-1]));
    let attrs = Attrs::new().with("accumulate", args.flag("accumulate", false)?);
    args.calls.one("index_put_", &[flat, source, index], attrs);
    Ok(flat.op("view", Attrs::new().with("size", x.shape()?)))
}

/// Sets the k-th selected element to element k of the source.
fn masked_scatter(args: Args<'_>) -> Result<Expr<'_>> {
    let [x, mask, source] = args.tensors(["x", "mask", "source"]);
    let shape = ints(&broadcast(x.spec()?.shape(), mask.spec()?.shape())?);
    let x = x.expand(&shape);
    let count = source.numel()? as i64;
    if count == 0 {
        return Ok(x.op("clone", Attrs::new()));
    }
    let mask = mask.expand(&shape);
    let number = numbers_of_selected(mask, count).reshape(&shape);
    let chosen = source.reshape(&[-1]).apply("index", [number]);
    Ok(mask.choose(chosen, x))
}

/// Returns for each element of a mask the number of selected ones before it, below a bound.
fn numbers_of_selected(mask: Expr<'_>, bound: i64) -> Expr<'_> {
    let count = mask.reshape(&[-1]).op("cumsum", along(0).with("dtype", DType::I64));
    (count - 1).op("clamp", Attrs::new().with("min", 0).with("max", bound - 1))
}

/// Returns the gradient of `masked_scatter` for its source.
fn masked_scatter_backward(args: Args<'_>) -> Result<Expr<'_>> {
    let [grad, mask] = args.tensors(["grad", "mask"]);
    let sizes = args.ints("sizes")?.unwrap_or_default();
    let count = sizes.iter().product();
    let made = args.calls.full(vec![count], 0, grad.dtype());
    if count > 0 && grad.numel()? > 0 {
        let mask = mask.expand(&grad.shape()?);
        let number = numbers_of_selected(mask, count);
        let values = grad.filled(mask.logical_not(), 0).reshape(&[-1]);
        args.calls.one("index_add_", &[made, number, values], along(0));
    }
    Ok(made.op("view", Attrs::new().with("size", sizes)))
}

/// Adds the elements of `src` to those of x at an index.
fn scatter_sum(args: Args<'_>) -> Result<Expr<'_>> {
    let [mut x, index, src] = args.tensors(["x", "index", "src"]);
    let dim = args.int("dim")?.unwrap_or(0);
    if !args.flag("include_self", true)? {
        x = x.with("scatter", index, along(dim).with("value", 0));
    }
    Ok(x.scatter_add(dim, index, src))
}

/// Divides the sums by the numbers of values, as PyTorch does. The quotient of integers is
/// rounded down.
fn scatter_mean(args: Args<'_>) -> Result<Expr<'_>> {
    let [x, index, src] = args.tensors(["x", "index", "src"]);
    let (dtype, own) = (x.dtype(), args.flag("include_self", true)?);
    let sums = scatter_sum(args)?;
    let counts = args.calls.full(x.shape()?, i64::from(own), dtype);
    let ones = args.calls.full(src.shape()?, 1, dtype);
    let counts = counts.scatter_add(args.int("dim")?.unwrap_or(0), index, ones);
    let counts = counts.filled(counts.eq(0), 1);
    let mut attrs = Attrs::new();
    if !dtype.is_float() {
        attrs.set("rounding_mode", "floor");
    }
    Ok(sums.with("div", counts, attrs))
}

/// Combines slices: the index, which selects them, is expanded to their shape.
fn reduced_slices(args: Args<'_>) -> Result<Expr<'_>> {
    let [x, index, src] = args.tensors(["x", "index", "source"]);
    let shape = src.shape()?;
    let dim = positive(args.int("dim")?.unwrap_or(0), shape.len())?;
    let mut lengths = vec![1; shape.len()];
    if let Some(length) = lengths.get_mut(dim as usize) {
        *length = index.numel()? as i64;
    }
    let index = index.reshape(&lengths).expand(&shape);
    let attrs = along(dim).with("include_self", args.flag("include_self", true)?);
    let (op, attrs) = match args.text("reduce")? {
        "mean" => ("scatter_mean", attrs),
        reduce => ("scatter_reduce", attrs.with("reduce", reduce)),
    };
    Ok(args.calls.one(op, &[x, index, src], attrs))
}

/// Returns the indices behind the first operands, within the range of each dimension of x, and the
/// dimensions without an index, but for the last ones, as an argument.
fn clamped<'a>(args: Args<'a>, first: usize) -> Result<(Vec<Expr<'a>>, Attrs)> {
    let mut absent = args.ints(ABSENT)?.unwrap_or_default();
    let shape = args.tensor("x").shape()?;
    let dims = (0..).filter(|dim| !absent.contains(dim));
    let within = |(index, dim): (Expr<'a>, i64)| {
        let length = shape.get(dim as usize).copied().unwrap_or(1);
        index.op("clamp", Attrs::new().with("min", -length).with("max", length - 1))
    };
    let indices: Vec<Expr<'a>> = args.all().into_iter().skip(first).zip(dims).map(within).collect();
    while absent.last().is_some_and(|&last| last as usize + 1 == indices.len() + absent.len()) {
        absent.pop();
    }
    let attrs = Attrs::new();
    Ok((indices, if absent.is_empty() { attrs } else { attrs.with(ABSENT, absent) }))
}

/// Reads by index where a mask is true.
fn masked_index(args: Args<'_>) -> Result<Expr<'_>> {
    let [x, mask] = args.tensors(["x", "mask"]);
    let (indices, absent) = clamped(args, 2)?;
    let read = args.calls.one("index", &[&[x], &indices[..]].concat(), absent);
    Ok(read.filled(mask.logical_not(), args.value("fill")?).cast(x.dtype()))
}

/// Adds by index where a mask is true.
fn masked_sum(args: Args<'_>) -> Result<Expr<'_>> {
    let [x, mask, values] = args.tensors(["x", "mask", "values"]);
    let (indices, absent) = clamped(args, 3)?;
    let values = values.filled(mask.logical_not(), 0);
    let inputs = [&[x, values], &indices[..]].concat();
    Ok(args.calls.one("index_put", &inputs, absent.with("accumulate", true)))
}

/// The index of a position is the number of indices whose repeats all lie before it.
fn repeated_indices(args: Args<'_>) -> Result<Expr<'_>> {
    let repeats = args.tensor("repeats");
    let (dtype, rank) = (repeats.dtype(), repeats.rank()?);
    if rank != 1 || !matches!(dtype, DType::I32 | DType::I64) {
        return Err(wrong(format!("repeats: expected one dimension, i32 or i64, got {dtype}")));
    }
    let position = args.calls.range(args.int("output_size")?.unwrap_or(0), DType::I64);
    let ends = repeats.op("cumsum", along(0));
    let attrs = Attrs::new().with("right", true).with("out_int32", dtype == DType::I32);
    Ok(ends.with("searchsorted", position, attrs))
}
