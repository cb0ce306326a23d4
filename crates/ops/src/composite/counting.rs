//! Composite counts and histograms.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, op, several, table, wrong};

table! {
    op("bincount",
        "for each whole number below the bins, how often it occurs in x, or the sum of its weights",
        X, BINS, bincount).optional_from(1);
    several("histogram", "the number of elements, or the sum of their weights, in each bin, and \
        the edges of the bins", HISTOGRAM, BINS_AND_RANGE, 2, histogram).optional_from(1);
    several("_histogramdd_bin_edges", "the edges of the bins of each column", ROWS, CELLS, 1,
        even_edges).optional_from(1);
    op("_histogramdd_from_bin_cts", "the number of rows, or the sum of their weights, in each cell",
        ROWS, CELLS, |calls, given| {
        let x = given.tensor("x")?;
        let edges = calls.call("_histogramdd_bin_edges", &[x], given.passed(&["bins", "range"]))?;
        counts(calls, given, x, &edges, given.optional("weight"), true)
    }).optional_from(1);
    op("_histogramdd_from_bin_tensors", "`_histogramdd_from_bin_cts` of bins of any widths",
        ROWS_AND_EDGES, &[DENSITY], |calls, given| {
        let x = given.tensor("x")?;
        let columns = calls.spec(x).shape().last().copied().unwrap_or(0);
        let behind = given.tensors()[1..].split_at_checked(columns);
        let Some((edges, weight)) = behind.filter(|(_, weight)| weight.len() < 2) else {
            return Err(wrong(format!("edges: expected {columns} tensors, and weights or none")));
        };
        counts(calls, given, x, edges, weight.first().copied(), false)
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
fn bincount(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let bins = given.int("bins")?.unwrap_or(0);
    let (weights, dtype) = match given.optional("weights") {
        Some(weights) => {
            let dtype = calls.dtype(weights);
            let dtype = if dtype == DType::F32 { dtype } else { DType::F64 };
            (calls.cast(weights, dtype)?, dtype)
        }
        None => (calls.full(calls.shape(x), 1i64, DType::I64)?, DType::I64),
    };
    let made = calls.full(vec![bins], 0i64, dtype)?;
    let index = calls.cast(x, DType::I64)?;
    calls.call("index_add_", &[made, index, weights], along(0))?;
    Ok(made)
}

fn histogram(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let x = given.tensor("x")?;
    let rows = calls.reshape(x, &[calls.spec(x).numel() as i64, 1])?;
    let is_even = given.has("bins");
    let (edges, weight) = match is_even {
        // The weight is the only other tensor.
        true => {
            let attrs = given.passed(&["bins", "range"]);
            let edges = calls.one("_histogramdd_bin_edges", &[rows], attrs)?;
            (edges, given.tensors().get(1).copied())
        }
        false => (calls.apply("clone", &[given.tensor("bins")?])?, given.optional("weight")),
    };
    Ok(vec![counts(calls, given, rows, &[edges], weight, is_even)?, edges])
}

/// Returns the edges of bins of one width between bounds: the range, or the least and the greatest
/// element of a column. Equal bounds are moved apart by 1.
fn even_edges(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let (x, bins) = (given.tensor("x")?, given.ints("bins")?.unwrap_or_default());
    let (dtype, columns) = (calls.dtype(x), bins.len());
    let range = match given.numbers("range")? {
        None if calls.spec(x).numel() == 0 => Some([0.0, 1.0].repeat(columns)),
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
    let mut made = Vec::new();
    for (k, bins) in bins.into_iter().enumerate() {
        let mut attrs = Attrs::new().with("steps", bins.saturating_add(1)).with("dtype", dtype);
        let mut ends = Vec::new();
        if let Some(range) = &range {
            let (least, most) = (range[2 * k], range[2 * k + 1]);
            let apart = if least == most { 0.5 } else { 0.0 };
            attrs = attrs.with("start", least - apart).with("end", most + apart);
        } else {
            let column = calls.one("select", &[x], along(-1).with("index", k as i64))?;
            let [least, most] = calls.several("aminmax", &[column], Attrs::new())?;
            let is_equal = calls.apply("eq", &[least, most])?;
            let is_equal = calls.cast(is_equal, dtype)?;
            let apart = calls.by("mul", is_equal, 0.5)?;
            ends.push(calls.apply("sub", &[least, apart])?);
            ends.push(calls.apply("add", &[most, apart])?);
        }
        made.push(calls.one("linspace", &ends, attrs)?);
    }
    Ok(made)
}

/// Counts the rows of x in each cell, or adds their weights. An edge belongs to the bin above it,
/// but for the last one; rows with another element or NaN are left out.
fn counts(
    calls: &mut Calls<'_>,
    given: &Given<'_>,
    x: Symbol,
    edges: &[Symbol],
    weight: Option<Symbol>,
    is_even: bool,
) -> Result<Symbol> {
    let (dtype, columns) = (calls.dtype(x), edges.len());
    for &edges in edges {
        let spec = calls.spec(edges);
        if !matches!(dtype, DType::F32 | DType::F64) || spec.dtype != dtype {
            return Err(wrong(format!("expected f32 or f64, got {dtype} and {}", spec.brief())));
        }
        if !matches!(spec.shape(), [length] if *length > 1) {
            return Err(wrong(format!("expected edges of one dimension, got {}", spec.brief())));
        }
    }
    if columns == 0 || calls.spec(x).shape().last() != Some(&columns) {
        return Err(wrong(format!("expected {columns} columns, got {}", calls.spec(x).brief())));
    }
    let rows = [(calls.spec(x).numel() / columns) as i64];
    let mut at = calls.full(Vec::new(), 0i64, DType::I64)?;
    let mut inside = calls.full(Vec::new(), true, DType::Bool)?;
    let mut shape = Vec::new();
    for (k, &edges) in edges.iter().enumerate() {
        let column = calls.one("select", &[x], along(-1).with("index", k as i64))?;
        let column = calls.reshape(column, &rows)?;
        let bins = calls.shape(edges)[0] - 1;
        let end = |index: i64| along(0).with("index", index);
        let first = calls.one("select", &[edges], end(0))?;
        let last = calls.one("select", &[edges], end(bins))?;
        for (op, end) in [("ge", first), ("le", last)] {
            let is_inside = calls.apply(op, &[column, end])?;
            inside = calls.apply("logical_and", &[inside, is_inside])?;
        }
        let right = Attrs::new().with("right", true);
        let mut bin = calls.one("searchsorted", &[edges, column], right)?;
        if is_even {
            // PyTorch looks at the edges beside this bin alone, which matters if edges are equal.
            let distance = calls.apply("sub", &[column, first])?;
            let distance = calls.by("mul", distance, bins)?;
            let length = calls.apply("sub", &[last, first])?;
            let near = calls.apply("div", &[distance, length])?;
            let near = calls.cast(near, DType::I64)?;
            for (op, by) in [("maximum", -1i64), ("minimum", 2)] {
                let bound = calls.by("add", near, by)?;
                bin = calls.apply(op, &[bin, bound])?;
            }
        }
        bin = calls.one("clamp", &[bin], Attrs::new().with("min", 1i64).with("max", bins))?;
        bin = calls.by("sub", bin, 1i64)?;
        at = calls.by("mul", at, bins)?;
        at = calls.apply("add", &[at, bin])?;
        shape.push(bins);
    }
    let values = match weight {
        None => calls.cast(inside, dtype)?,
        Some(weight) => {
            let weight = calls.reshape(weight, &rows)?;
            let outside = calls.apply("logical_not", &[inside])?;
            calls.filled(weight, outside, 0i64)?
        }
    };
    let mut made = calls.full(shape.clone(), 0i64, dtype)?;
    let cells = calls.reshape(made, &[-1])?;
    calls.call("index_add_", &[cells, at, values], along(0))?;
    if given.flag("density", false)? {
        let sum = calls.apply("sum", &[made])?;
        made = calls.apply("div", &[made, sum])?;
        for (k, (&edges, &bins)) in edges.iter().zip(&shape).enumerate() {
            let (from, to) = (calls.narrow(edges, 0, 0, bins)?, calls.narrow(edges, 0, 1, bins)?);
            let widths = calls.apply("sub", &[to, from])?;
            let widths =
                calls.reshape(widths, &[&[bins], &vec![1; columns - k - 1][..]].concat())?;
            made = calls.apply("div", &[made, widths])?;
        }
    }
    Ok(made)
}
