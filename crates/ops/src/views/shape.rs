//! Views in another shape.

use millstream_types::layout::contiguous_strides;
use millstream_types::{Dims, Layout, Result, TensorSpec};

use crate::args::required;
use crate::def::{Def, arg, refused};
use crate::schema::{CallSpec, Signature};

pub(super) const RESHAPE: Def = Def::new(
    "reshape",
    "the same elements in row-major order in another shape; a view where strides allow it",
    &[arg("x", "any shape")],
    &[arg("shape", "the lengths; one may be -1, to be computed from the others").ints()],
    reshape,
)
.complex()
.unsigned();

fn reshape(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    let shape = resolve("reshape", x, &required("shape", call.attrs.ints("shape")?)?)?;
    match view_strides(x.shape(), x.layout.strides(), &shape) {
        Some(strides) => Ok(Signature::view(Layout::strided(&shape, &strides, x.layout.offset())?)),
        None => Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, &shape)?)),
    }
}

pub(super) const VIEW: Def = Def::new(
    "view",
    "a view of the same elements in row-major order in another shape",
    &[arg("x", "any shape whose strides allow a view of the other shape")],
    &[arg("size", "the lengths; one may be -1, to be computed from the others").ints()],
    |call| {
        let x = &call.inputs[0];
        let shape = resolve("view", x, &required("size", call.attrs.ints("size")?)?)?;
        let strides = view_strides(x.shape(), x.layout.strides(), &shape).ok_or_else(|| {
            let message =
                format!("expected strides that allow the shape {shape:?}, got {x}; use reshape");
            refused("view", message)
        })?;
        Ok(Signature::view(Layout::strided(&shape, &strides, x.layout.offset())?))
    },
)
.complex()
.unsigned();

pub(super) const AS_STRIDED: Def = Def::new(
    "as_strided",
    "a view of x's storage with given lengths, strides and offset",
    &[arg("x", "any shape")],
    &[
        arg("size", "the lengths").ints(),
        arg("stride", "the strides in elements, one for each length, 0 or more").ints(),
        arg("storage_offset", "the position of the first element in the storage")
            .int()
            .or("that of x"),
    ],
    |call| {
        let sizes = |name: &str| -> Result<Dims> {
            let given = required(name, call.attrs.ints(name)?)?;
            given.iter().map(|&v| not_negative(name, v)).collect()
        };
        let offset = match call.attrs.int("storage_offset")? {
            Some(offset) => not_negative("storage_offset", offset)?,
            None => call.inputs[0].layout.offset(),
        };
        Ok(Signature::view(Layout::strided(&sizes("size")?, &sizes("stride")?, offset)?))
    },
)
.complex()
.unsigned();

fn not_negative(name: &str, value: i64) -> Result<usize> {
    usize::try_from(value)
        .map_err(|_| refused("as_strided", format!("{name}: expected 0 or more, got {value}")))
}

/// Returns the lengths that `wanted` stands for.
fn resolve(op: &str, x: &TensorSpec, wanted: &[i64]) -> Result<Dims> {
    let refuse = |why: &str| refused(op, format!("{} to {wanted:?}: {why}", x.brief()));
    let mut shape = Dims::new();
    let mut open = None;
    for (k, &length) in wanted.iter().enumerate() {
        match usize::try_from(length) {
            Ok(length) => shape.push(length),
            Err(_) if length != -1 => return Err(refuse("expected lengths of 0 or more, or -1")),
            Err(_) if open.is_some() => return Err(refuse("expected at most one length of -1")),
            Err(_) => {
                open = Some(k);
                shape.push(1);
            }
        }
    }
    // Refuses an overflow before any multiplication.
    let elements = Layout::contiguous(&shape)?.numel();
    if let Some(k) = open {
        if elements == 0 {
            return Err(refuse("expected no -1 beside a length of 0: it could be any length"));
        }
        if !x.numel().is_multiple_of(elements) {
            return Err(refuse("the lengths do not divide the number of elements"));
        }
        shape[k] = x.numel() / elements;
    } else if elements != x.numel() {
        return Err(refuse(&format!("{} elements for {elements}", x.numel())));
    }
    Ok(shape)
}

/// Returns the strides that give a tensor of this shape and these strides the shape `new`, of as
/// many elements in the same row-major order; `None` if no strides do.
///
/// Runs of old dimensions that step like one dimension (each stride is the stride times the length
/// of the next) are split into new dimensions. A new dimension that would span two runs cannot be
/// expressed.
pub fn view_strides(shape: &[usize], strides: &[usize], new: &[usize]) -> Option<Dims> {
    if shape.contains(&0) {
        return contiguous_strides(new).ok();
    }
    let mut result = Dims::from_elem(1, new.len());
    // The new dimensions before `next` have no stride yet.
    let mut next = new.len();
    let mut old = shape.len();
    while old > 0 {
        // The run that ends before `old`: its number of elements and its smallest stride.
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
        // Assigns strides to new dimensions until they fill the run.
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
    // Only lengths of 1 are left, whose strides are arbitrary; they get the dense ones.
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
