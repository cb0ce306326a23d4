//! Views: another layout on the same storage. They have no kernel.
//!
//! | op | result |
//! |---|---|
//! | `transpose(x; dim0, dim1)` | two dimensions exchanged |
//! | `slice(x; dim=0, start=0, end, step=1)` | every step-th element of a range of one dimension |
//! | `reshape(x; shape)` | the same elements in row-major order under another shape |
//!
//! `slice` counts negative bounds from the end and clamps what is out of range. `reshape` takes
//! one length of -1, found from the others; where no strides express it, it gives a new tensor
//! and copies.
//!
//! Source: <https://docs.pytorch.org/docs/stable/tensor_view.html>.

use millstream_types::layout::contiguous_strides;
use millstream_types::{Dims, Layout, Result, TensorSpec};

use crate::args::{dimension, required};
use crate::def::{Def, arg, refused};
use crate::schema::{CallSpec, Signature};

pub(crate) const TRANSPOSE: Def = Def {
    name: "transpose",
    summary: "a view with two dimensions exchanged",
    inputs: &[arg("x", "any shape")],
    attrs: &[arg("dim0", "a dimension"), arg("dim1", "the one to exchange it with")],
    rule: |call| {
        let layout = &call.inputs[0].layout;
        let dim0 = dimension(required("dim0", call.attrs.int("dim0")?)?, layout.rank())?;
        let dim1 = dimension(required("dim1", call.attrs.int("dim1")?)?, layout.rank())?;
        let mut shape = Dims::from_slice(layout.shape());
        let mut strides = Dims::from_slice(layout.strides());
        // A tensor of no dimensions may be asked for its dimension 0; there is nothing to swap.
        if dim0 != dim1 {
            shape.swap(dim0, dim1);
            strides.swap(dim0, dim1);
        }
        Ok(Signature::view(Layout::strided(&shape, &strides, layout.offset())?))
    },
};

pub(crate) const SLICE: Def = Def {
    name: "slice",
    summary: "a view of every step-th element from start up to end of one dimension",
    inputs: &[arg("x", "one or more dimensions")],
    attrs: &[
        arg("dim", "the dimension; 0 unless given"),
        arg("start", "the first element; negative from the end; 0 unless given"),
        arg("end", "one past the last element; negative from the end; the end unless given"),
        arg("step", "from one element to the next, at least 1; 1 unless given"),
    ],
    rule: slice,
};

fn slice(call: CallSpec<'_>) -> Result<Signature> {
    let layout = &call.inputs[0].layout;
    if layout.rank() == 0 {
        return Err(refused("slice", "expected one or more dimensions, got none"));
    }
    let dim = dimension(call.attrs.int("dim")?.unwrap_or(0), layout.rank())?;
    let step = call.attrs.int("step")?.unwrap_or(1);
    let step = match usize::try_from(step) {
        Ok(step) if step > 0 => step,
        _ => return Err(refused("slice", format!("step: expected 1 or more, got {step}"))),
    };
    let (length, stride) = (layout.shape()[dim], layout.strides()[dim]);
    let bound = |given: i64| match usize::try_from(given) {
        Ok(at) => at.min(length),
        Err(_) => length.saturating_sub(given.unsigned_abs() as usize),
    };
    let start = bound(call.attrs.int("start")?.unwrap_or(0));
    let end = bound(call.attrs.int("end")?.unwrap_or(i64::MAX)).max(start);

    let mut shape = Dims::from_slice(layout.shape());
    let mut strides = Dims::from_slice(layout.strides());
    shape[dim] = (end - start).div_ceil(step);
    // A stride overflows only where no second element follows that it would lead to.
    strides[dim] = stride.checked_mul(step).unwrap_or(stride);
    // The first element of a view without elements is nowhere, perhaps past the storage.
    let skipped = if shape[dim] == 0 { 0 } else { start * stride };
    Ok(Signature::view(Layout::strided(&shape, &strides, layout.offset() + skipped)?))
}

pub(crate) const RESHAPE: Def = Def {
    name: "reshape",
    summary: "the same elements in row-major order under another shape; a view where it can be",
    inputs: &[arg("x", "any shape")],
    attrs: &[arg("shape", "the lengths; one may be -1 and is found from the others")],
    rule: reshape,
};

fn reshape(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    let shape = resolve(x, &required("shape", call.attrs.ints("shape")?)?)?;
    match view_strides(x.shape(), x.layout.strides(), &shape) {
        Some(strides) => Ok(Signature::view(Layout::strided(&shape, &strides, x.layout.offset())?)),
        None => Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, &shape)?)),
    }
}

/// The lengths that `wanted` means for `x`.
fn resolve(x: &TensorSpec, wanted: &[i64]) -> Result<Dims> {
    let refuse = |why: &str| refused("reshape", format!("{} to {wanted:?}: {why}", x.brief()));
    let mut shape = Dims::new();
    let mut open = None;
    for (k, &length) in wanted.iter().enumerate() {
        match usize::try_from(length) {
            Ok(length) => shape.push(length),
            Err(_) if length != -1 => return Err(refuse("a length below zero")),
            Err(_) if open.is_some() => return Err(refuse("more than one length of -1")),
            Err(_) => {
                open = Some(k);
                shape.push(1);
            }
        }
    }
    // Refuses what overflows, before anything is multiplied.
    let elements = Layout::contiguous(&shape)?.numel();
    if let Some(k) = open {
        if elements == 0 {
            return Err(refuse("beside a length of 0, -1 could be any length"));
        }
        if !x.numel().is_multiple_of(elements) {
            return Err(refuse("the lengths given do not divide the number of elements"));
        }
        shape[k] = x.numel() / elements;
    } else if elements != x.numel() {
        return Err(refuse(&format!("{} elements for {elements}", x.numel())));
    }
    Ok(shape)
}

/// The strides with which a tensor of this shape and these strides is seen under `new`, a shape of
/// as many elements, in the same row-major order; `None` if there are none.
///
/// Runs of old dimensions that lie like one (each stride the next one's stride times its length)
/// are cut into new dimensions; a new dimension that would straddle two runs cannot be expressed.
pub fn view_strides(shape: &[usize], strides: &[usize], new: &[usize]) -> Option<Dims> {
    if shape.contains(&0) {
        return contiguous_strides(new).ok();
    }
    let mut result = Dims::from_elem(1, new.len());
    // New dimensions not placed yet: those before `next`.
    let mut next = new.len();
    let mut old = shape.len();
    while old > 0 {
        // The run that ends before `old`: its elements and its smallest stride.
        old -= 1;
        if shape[old] == 1 {
            continue;
        }
        let step = strides[old];
        let (mut run, mut reach) = (shape[old], step.checked_mul(shape[old]));
        while let Some(before) = old.checked_sub(1) {
            if shape[before] != 1 {
                if Some(strides[before]) != reach {
                    break;
                }
                run *= shape[before];
                reach = strides[before].checked_mul(shape[before]);
            }
            old = before;
        }
        // Place new dimensions until they take up the run.
        let mut placed = 1;
        while placed < run {
            next = next.checked_sub(1)?;
            result[next] = step * placed;
            placed *= new[next];
            if placed > run || !run.is_multiple_of(placed) {
                return None;
            }
        }
    }
    // Only lengths of 1 are left, whose stride does not matter; give the dense one.
    let dense = contiguous_strides(new).ok()?;
    for k in 0..new.len() {
        if new[k] == 1 {
            result[k] =
                result.get(k + 1).map_or(1, |&s| s.checked_mul(new[k + 1]).unwrap_or(dense[k]));
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::view_strides;

    fn check(shape: &[usize], strides: &[usize], new: &[usize], expected: Option<&[usize]>) {
        let got = view_strides(shape, strides, new);
        assert_eq!(got.as_deref(), expected, "{shape:?} {strides:?} -> {new:?}");
    }

    #[test]
    fn which_reshapes_are_views() {
        check(&[2, 3], &[3, 1], &[3, 2], Some(&[2, 1]));
        check(&[2, 3], &[3, 1], &[6], Some(&[1]));
        check(&[6], &[2], &[2, 3], Some(&[6, 2]));
        check(&[3, 2], &[1, 3], &[6], None);
        check(&[3, 2], &[1, 3], &[3, 2], Some(&[1, 3]));
        check(&[3, 4], &[8, 1], &[3, 2, 2], Some(&[8, 2, 1]));
        check(&[3, 4], &[8, 1], &[12], None);
        check(&[3, 4], &[8, 1], &[6, 2], None);
        check(&[4], &[0], &[2, 2], Some(&[0, 0]));
        check(&[2, 3], &[0, 1], &[2, 1, 3], Some(&[0, 3, 1]));
        check(&[1, 5, 1], &[usize::MAX, 1, 7], &[5], Some(&[1]));
        check(&[], &[], &[1, 1], Some(&[1, 1]));
        check(&[1], &[9], &[], Some(&[]));
        check(&[0, 3], &[3, 1], &[3, 0, 2], Some(&[2, 2, 1]));
        check(&[2, 2, 2], &[4, 1, 2], &[2, 4], None);
        check(&[2, 2, 2], &[4, 2, 1], &[2, 1, 4, 1], Some(&[4, 4, 1, 1]));
    }
}
