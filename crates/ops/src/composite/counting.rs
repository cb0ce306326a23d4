//! Composite counts and histograms.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, several, table};
use crate::formula::{Expr, wrong};

table! {
    op("bincount",
        "for each whole number below the bins, how often it occurs in x, or the sum of its weights",
        X, BINS, bincount).optional_from(1);
    several("histogram", "the number of elements, or the sum of their weights, in each bin, and \
        the edges of the bins", HISTOGRAM, BINS_AND_RANGE, 2, histogram).optional_from(1);
    several("_histogramdd_bin_edges", "the edges of the bins of each column", ROWS, CELLS, 1,
        even_edges).optional_from(1);
    op("_histogramdd_from_bin_cts",
        "the number of rows, or the sum of their weights, in each cell", ROWS, CELLS, |args| {
        let (x, attrs) = (args.tensor("x"), args.passed(&["bins", "range"]));
        let edges = args.calls.call("_histogramdd_bin_edges", &[x], attrs);
        counts(args, x, &edges, args.optional("weight"), true)
    }).optional_from(1);
    op("_histogramdd_from_bin_tensors", "`_histogramdd_from_bin_cts` of bins of any widths",
        ROWS_AND_EDGES, &[DENSITY], |args| {
        let (x, all) = (args.tensor("x"), args.all());
        let columns = x.spec()?.shape().last().copied().unwrap_or(0);
        let behind = all[1..].split_at_checked(columns);
        let Some((edges, weight)) = behind.filter(|(_, weight)| weight.len() < 2) else {
            return Err(wrong(format!("edges: expected {columns} tensors, and weights or none")));
        };
        counts(args, x, edges, weight.first().copied(), false)
    }).of_list(2);
}

const X: &[ArgDoc] = &[arg("x", "one dimension, integers"), arg("weights", "x's shape")];
const BINS: &[ArgDoc] = &[
    arg("bins", "the number of bins, greater than each element of x").int(),
    arg("minlength", "").int().ignored(),
];
const WEIGHT: ArgDoc = arg("weight", "a number for each element or row");
const HISTOGRAM: &[ArgDoc] = &[
    arg("x", "any shape; f32 or f64"),
    arg("bins", "the edges of the bins, sorted; the last belongs to the last bin"),
    WEIGHT,
];
const ROWS: &[ArgDoc] = &[arg("x", "[..,columns]; f32 or f64"), WEIGHT];
const ROWS_AND_EDGES: &[ArgDoc] = &[
    arg("x", "[..,columns]; f32 or f64"),
    arg("edges", "the edges of the bins of each column, and the weights, if there are any"),
];
const RANGE: ArgDoc =
    arg("range", "the first and the last edge of each column").floats().or("its extrema");
const DENSITY: ArgDoc =
    arg("density", "divide by the sum and by the widths of the bins").flag().or("false");
const BINS_AND_RANGE: &[ArgDoc] = &[
    arg("bins", "a number of bins in place of the edges").int().instead_of("bins"),
    RANGE,
    DENSITY,
];
const CELLS: &[ArgDoc] = &[arg("bins", "the number of bins of each column").ints(), RANGE, DENSITY];

/// Counts the elements of each value. A value beyond the bins fails the call.
fn bincount(args: Args<'_>) -> Result<Expr<'_>> {
    let (calls, x) = (args.calls, args.tensor("x"));
    let weights = match args.optional("weights") {
        Some(weights) if weights.dtype() == DType::F32 => weights,
        Some(weights) => weights.cast(DType::F64),
        None => calls.full(x.shape()?, 1i64, DType::I64),
    };
    let made = calls.full(vec![args.int("bins")?.unwrap_or(0)], 0i64, weights.dtype());
    made.index_add_(0, x.cast(DType::I64), weights);
    Ok(made)
}

fn histogram(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let x = args.tensor("x");
    let rows = x.reshape(&[x.numel()? as i64, 1]);
    let is_even = args.has("bins");
    let (edges, weight) = match is_even {
        // The weight is the only other tensor.
        true => {
            let edges = rows.op("_histogramdd_bin_edges", args.passed(&["bins", "range"]));
            (edges, args.all().get(1).copied())
        }
        false => (args.tensor("bins").op("clone", Attrs::new()), args.optional("weight")),
    };
    Ok(vec![counts(args, rows, &[edges], weight, is_even)?, edges])
}

/// Returns the edges of bins of one width between bounds: the range, or the least and the greatest
/// element of a column. Equal bounds are moved apart by 1.
fn even_edges(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let (x, bins) = (args.tensor("x"), args.ints("bins")?.unwrap_or_default());
    let (calls, dtype, columns) = (args.calls, x.dtype(), bins.len());
    let range = match args.numbers("range")? {
        None if x.numel()? == 0 => Some([0.0, 1.0].repeat(columns)),
        range => range,
    };
    if bins.iter().any(|&bins| bins < 1) {
        return Err(wrong(format!("bins: expected 1 or more, got {bins:?}")));
    }
    let is_range = |ends: &[f64]| ends.iter().all(|v| v.is_finite()) && ends[0] <= ends[1];
    if let Some(range) = &range
        && (range.len() != 2 * columns || !range.chunks(2).all(is_range))
    {
        return Err(wrong("range: expected min <= max, two finite numbers for each column"));
    }
    let edges = |(k, bins): (usize, i64)| {
        let attrs = Attrs::new().with("steps", bins.saturating_add(1)).with("dtype", dtype);
        if let Some(range) = &range {
            let (least, most) = (range[2 * k], range[2 * k + 1]);
            let apart = if least == most { 0.5 } else { 0.0 };
            let attrs = attrs.with("start", least - apart).with("end", most + apart);
            return calls.one("linspace", &[], attrs);
        }
        let column = x.select(-1, k as i64);
        let [least, most] = calls.several("aminmax", &[column], Attrs::new());
        let apart = least.eq(most).cast(dtype) * 0.5;
        calls.one("linspace", &[least - apart, most + apart], attrs)
    };
    Ok(bins.into_iter().enumerate().map(edges).collect())
}

/// Counts the rows of x in each cell, or adds their weights. An edge belongs to the bin above it,
/// but for the last one; rows with another element or NaN are left out.
fn counts<'a>(
    args: Args<'a>,
    x: Expr<'a>,
    edges: &[Expr<'a>],
    weight: Option<Expr<'a>>,
    is_even: bool,
) -> Result<Expr<'a>> {
    let (calls, dtype, columns) = (args.calls, x.dtype(), edges.len());
    for edges in edges {
        let spec = edges.spec()?;
        if !matches!(dtype, DType::F32 | DType::F64) || spec.dtype != dtype {
            return Err(wrong(format!("expected f32 or f64, got {dtype} and {}", spec.brief())));
        }
        if !matches!(spec.shape(), [length] if *length > 1) {
            return Err(wrong(format!("expected edges of one dimension, got {}", spec.brief())));
        }
    }
    let spec = x.spec()?;
    if columns == 0 || spec.shape().last() != Some(&columns) {
        return Err(wrong(format!("expected {columns} columns, got {}", spec.brief())));
    }
    let rows = [(spec.numel() / columns) as i64];
    let mut at = calls.full(Vec::new(), 0i64, DType::I64);
    let mut inside = calls.full(Vec::new(), true, DType::Bool);
    let mut shape = Vec::new();
    for (k, edges) in edges.iter().enumerate() {
        let column = x.select(-1, k as i64).reshape(&rows);
        let bins = edges.shape()?[0] - 1;
        let (first, last) = (edges.select(0, 0), edges.select(0, bins));
        inside = inside.logical_and(column.ge(first)).logical_and(column.le(last));
        let mut bin = edges.with("searchsorted", column, Attrs::new().with("right", true));
        if is_even {
            // PyTorch looks at the edges beside this bin alone, which matters if edges are equal.
            let near = ((column - first) * bins / (last - first)).cast(DType::I64);
            bin = bin.maximum(near + -1).minimum(near + 2);
        }
        bin = bin.op("clamp", Attrs::new().with("min", 1i64).with("max", bins)) - 1;
        at = at * bins + bin;
        shape.push(bins);
    }
    let values = match weight {
        None => inside.cast(dtype),
        Some(weight) => weight.reshape(&rows).filled(inside.logical_not(), 0i64),
    };
    let mut made = calls.full(shape.clone(), 0i64, dtype);
    made.reshape(&[-1]).index_add_(0, at, values);
    if args.flag("density", false)? {
        made = made / made.op("sum", Attrs::new());
        for (k, (edges, bins)) in edges.iter().zip(shape).enumerate() {
            let (from, to) = (edges.narrow(0, 0, bins), edges.narrow(0, 1, bins));
            let widths = [vec![bins], vec![1; columns - k - 1]].concat();
            made = made / (to - from).reshape(&widths);
        }
    }
    Ok(made)
}
