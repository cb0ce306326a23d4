//! Views of ranges and windows of a dimension, and of diagonals.

use millstream_types::{Dims, Layout, Result};

use crate::args::{dimension, required};
use crate::def::{Def, arg, refused};
use crate::schema::{CallSpec, Signature};

pub(super) const SLICE: Def = Def::new(
    "slice",
    "a view of every step-th element of one dimension, from start up to end",
    &[arg("x", "one or more dimensions")],
    &[
        arg("dim", "the dimension").int().or("0"),
        arg("start", "the first element; negative from the end").int().or("0"),
        arg("end", "one past the last element; negative from the end").int().or("the length"),
        arg("step", "the step between elements, 1 or more").int().or("1"),
    ],
    slice_rule,
)
.complex()
.unsigned();

fn slice_rule(call: CallSpec<'_>) -> Result<Signature> {
    let dim = dimension_of(call, "slice", call.attrs.int("dim")?.unwrap_or(0))?;
    let (start, end) = (call.attrs.int("start")?, call.attrs.int("end")?);
    let step = call.attrs.int("step")?.unwrap_or(1);
    Ok(Signature::view(slice("slice", &call.inputs[0].layout, dim, (start, end), step)?))
}

/// Returns a view of every `step`-th element of a range of a dimension. Negative bounds count from
/// the end; bounds out of range are clamped.
///
/// # Errors
/// Fails if the step is below 1.
pub fn slice(
    op: &str,
    layout: &Layout,
    dim: usize,
    (start, end): (Option<i64>, Option<i64>),
    step: i64,
) -> Result<Layout> {
    let step = match usize::try_from(step) {
        Ok(step) if step > 0 => step,
        _ => return Err(refused(op, format!("step: expected 1 or more, got {step}"))),
    };
    let (length, stride) = (layout.shape()[dim], layout.strides()[dim]);
    let bound = |given: i64| match usize::try_from(given) {
        Ok(at) => at.min(length),
        Err(_) => length.saturating_sub(given.unsigned_abs() as usize),
    };
    let start = bound(start.unwrap_or(0));
    let end = bound(end.unwrap_or(i64::MAX)).max(start);

    let mut shape = Dims::from_slice(layout.shape());
    let mut strides = Dims::from_slice(layout.strides());
    shape[dim] = (end - start).div_ceil(step);
    // The product overflows only if there is no second element to step to.
    strides[dim] = stride.checked_mul(step).unwrap_or(stride);
    // A view without elements keeps the offset: its start may lie past the storage.
    let skipped = if shape.contains(&0) { 0 } else { start * stride };
    Layout::strided(&shape, &strides, layout.offset() + skipped)
}

pub(super) const NARROW: Def = Def::new(
    "narrow",
    "a view of a range of one dimension",
    &[arg("x", "one or more dimensions")],
    &[
        arg("dim", "the dimension").int(),
        arg("start", "the first element; negative from the end").int(),
        arg("length", "the number of elements").int(),
    ],
    |call| {
        let layout = &call.inputs[0].layout;
        let dim = dimension_of(call, "narrow", required("dim", call.attrs.int("dim")?)?)?;
        let start = required("start", call.attrs.int("start")?)?;
        let length = required("length", call.attrs.int("length")?)?;
        let of = layout.shape()[dim];
        let at = if start < 0 { start.checked_add(of as i64) } else { Some(start) };
        let range =
            at.and_then(|at| Some((usize::try_from(at).ok()?, usize::try_from(length).ok()?)));
        match range {
            Some((at, length)) if at.checked_add(length).is_some_and(|end| end <= of) => {
                Ok(Signature::view(narrow(layout, dim, at, length)?))
            }
            _ => Err(refused(
                "narrow",
                format!(
                    "expected a range within {of} elements, got start {start}, length {length}"
                ),
            )),
        }
    },
)
.complex()
.unsigned();

/// Returns a view of the elements `start` to `start + length` of a dimension. The range must exist.
///
/// # Errors
/// None for a range that exists.
pub fn narrow(layout: &Layout, dim: usize, start: usize, length: usize) -> Result<Layout> {
    let mut shape = Dims::from_slice(layout.shape());
    shape[dim] = length;
    // A view without elements keeps the offset: its start may lie past the storage.
    let skipped = if shape.contains(&0) { 0 } else { start * layout.strides()[dim] };
    Layout::strided(&shape, layout.strides(), layout.offset() + skipped)
}

/// Returns the index of dimension `dim` of the call's tensor, which must have dimensions.
pub(super) fn dimension_of(call: CallSpec<'_>, op: &str, dim: i64) -> Result<usize> {
    match call.inputs[0].layout.rank() {
        0 => Err(refused(op, "expected one or more dimensions, got none")),
        rank => dimension(dim, rank),
    }
}

pub(super) const SELECT: Def = Def::new(
    "select",
    "a view of one element of a dimension, without that dimension",
    &[arg("x", "one or more dimensions")],
    &[arg("dim", "the dimension").int(), arg("index", "the element; negative from the end").int()],
    |call| {
        let layout = &call.inputs[0].layout;
        let dim = dimension_of(call, "select", required("dim", call.attrs.int("dim")?)?)?;
        let index = required("index", call.attrs.int("index")?)?;
        Ok(Signature::view(select("select", layout, dim, index)?))
    },
)
.complex()
.unsigned();

/// Returns a view of one element of a dimension, without that dimension. A negative index counts
/// from the end.
///
/// # Errors
/// Fails if the index is out of range.
pub fn select(op: &str, layout: &Layout, dim: usize, index: i64) -> Result<Layout> {
    let at = element(op, index, layout.shape()[dim])?;
    without(&narrow(layout, dim, at, 1)?, dim)
}

/// Returns the index from the start of a dimension of `length`; `index` may count from either end.
fn element(op: &str, index: i64, length: usize) -> Result<usize> {
    let at = if index < 0 { index.checked_add(length as i64) } else { Some(index) };
    match at.and_then(|at| usize::try_from(at).ok()) {
        Some(at) if at < length => Ok(at),
        _ => {
            let message = format!("index: expected an index into {length} element(s), got {index}");
            Err(refused(op, message))
        }
    }
}

/// Returns the layout without a dimension, at the first element of that dimension.
pub(super) fn without(layout: &Layout, dim: usize) -> Result<Layout> {
    let mut shape = Dims::from_slice(layout.shape());
    let mut strides = Dims::from_slice(layout.strides());
    shape.remove(dim);
    strides.remove(dim);
    Layout::strided(&shape, &strides, layout.offset())
}

pub(super) const DIAGONAL: Def = Def::new(
    "diagonal",
    "a view of the diagonals of two dimensions, which become the last dimension",
    &[arg("x", "two or more dimensions")],
    &[
        arg("offset", "the offset from the main diagonal, negative below it").int().or("0"),
        arg("dim1", "the dimension of rows").int().or("0"),
        arg("dim2", "the dimension of columns").int().or("1"),
    ],
    |call| {
        let offset = call.attrs.int("offset")?.unwrap_or(0);
        let dim1 = call.attrs.int("dim1")?.unwrap_or(0);
        let dim2 = call.attrs.int("dim2")?.unwrap_or(1);
        Ok(Signature::view(diagonal("diagonal", &call.inputs[0].layout, offset, dim1, dim2)?))
    },
)
.complex()
.unsigned();

/// Returns a view of the diagonals of two dimensions.
///
/// # Errors
/// Fails if the two are not different dimensions of the layout.
pub fn diagonal(op: &str, layout: &Layout, offset: i64, dim1: i64, dim2: i64) -> Result<Layout> {
    let (row, column) = (dimension(dim1, layout.rank())?, dimension(dim2, layout.rank())?);
    if row == column {
        return Err(refused(
            op,
            format!("expected two different dimensions, got {dim1} and {dim2}"),
        ));
    }
    let (rows, columns) = (layout.shape()[row], layout.shape()[column]);
    let away = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let (down, right) = if offset < 0 { (away, 0) } else { (0, away) };
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right));
    let (along, across) = (layout.strides()[row], layout.strides()[column]);
    let mut shape = Dims::from_slice(layout.shape());
    let mut strides = Dims::from_slice(layout.strides());
    for dim in [row.max(column), row.min(column)] {
        shape.remove(dim);
        strides.remove(dim);
    }
    shape.push(length);
    // The sum overflows only if there is no second element to step to.
    strides.push(along.saturating_add(across));
    let skipped = if shape.contains(&0) { 0 } else { down * along + right * across };
    Layout::strided(&shape, &strides, layout.offset() + skipped)
}

pub(super) const UNFOLD: Def = Def::new(
    "unfold",
    "a view of all windows of a dimension; their elements become a new last dimension",
    &[arg("x", "any shape")],
    &[
        arg("dimension", "the dimension").int(),
        arg("size", "the size of a window").int(),
        arg("step", "the step between windows, 1 or more").int(),
    ],
    unfold,
)
.complex()
.unsigned();

fn unfold(call: CallSpec<'_>) -> Result<Signature> {
    let layout = &call.inputs[0].layout;
    let dim = required("dimension", call.attrs.int("dimension")?)?;
    let dim = dimension(dim, layout.rank())?;
    let size = required("size", call.attrs.int("size")?)?;
    let step = required("step", call.attrs.int("step")?)?;
    let (length, stride) = match layout.rank() {
        0 => (1, 1),
        _ => (layout.shape()[dim], layout.strides()[dim]),
    };
    let window = usize::try_from(size)
        .ok()
        .filter(|&size| size <= length)
        .ok_or_else(|| refused("unfold", format!("size: expected 0 to {length}, got {size}")))?;
    let step = usize::try_from(step)
        .ok()
        .filter(|&step| step > 0)
        .ok_or_else(|| refused("unfold", format!("step: expected 1 or more, got {step}")))?;
    let mut shape = Dims::from_slice(layout.shape());
    let mut strides = Dims::from_slice(layout.strides());
    if layout.rank() > 0 {
        shape[dim] = (length - window) / step + 1;
        // The product overflows only if there is no second window to step to.
        strides[dim] = stride.checked_mul(step).unwrap_or(stride);
    }
    shape.push(window);
    strides.push(stride);
    Ok(Signature::view(Layout::strided(&shape, &strides, layout.offset())?))
}
