//! Views with dimensions exchanged, added, removed or repeated.

use millstream_types::{Dims, Layout, Result};
use smallvec::SmallVec;

use crate::args::{dimension, required};
use crate::def::{Def, arg, refused};
use crate::schema::{CallSpec, Signature};

pub(super) const TRANSPOSE: Def = Def::new(
    "transpose",
    "a view with two dimensions exchanged",
    &[arg("x", "any shape")],
    &[arg("dim0", "a dimension").int(), arg("dim1", "the dimension to exchange it with").int()],
    |call| {
        let layout = &call.inputs[0].layout;
        let dim0 = dimension(required("dim0", call.attrs.int("dim0")?)?, layout.rank())?;
        let dim1 = dimension(required("dim1", call.attrs.int("dim1")?)?, layout.rank())?;
        let mut shape = Dims::from_slice(layout.shape());
        let mut strides = Dims::from_slice(layout.strides());
        // A tensor without dimensions accepts dimension 0, but has nothing to swap.
        if dim0 != dim1 {
            shape.swap(dim0, dim1);
            strides.swap(dim0, dim1);
        }
        Ok(Signature::view(Layout::strided(&shape, &strides, layout.offset())?))
    },
)
.complex()
.unsigned();

pub(super) const T: Def = Def::new(
    "t",
    "a view of a matrix with rows and columns exchanged",
    &[arg("x", "at most two dimensions")],
    &[],
    |call| {
        let layout = &call.inputs[0].layout;
        if layout.rank() > 2 {
            let message =
                format!("expected at most two dimensions, got {}", call.inputs[0].brief());
            return Err(refused("t", message));
        }
        let backwards = |dims: &[usize]| dims.iter().rev().copied().collect::<Dims>();
        let (shape, strides) = (backwards(layout.shape()), backwards(layout.strides()));
        Ok(Signature::view(Layout::strided(&shape, &strides, layout.offset())?))
    },
)
.complex()
.unsigned();

pub(super) const PERMUTE: Def = Def::new(
    "permute",
    "a view with the dimensions permuted",
    &[arg("x", "any shape")],
    &[arg("dims", "all dimensions, in the new order").ints()],
    |call| {
        let layout = &call.inputs[0].layout;
        let dims = named_once(&required("dims", call.attrs.ints("dims")?)?, layout.rank())?;
        if dims.len() != layout.rank() {
            let message =
                format!("dims: expected {} dimensions, got {}", layout.rank(), dims.len());
            return Err(refused("permute", message));
        }
        let shape: Dims = dims.iter().map(|&k| layout.shape()[k]).collect();
        let strides: Dims = dims.iter().map(|&k| layout.strides()[k]).collect();
        Ok(Signature::view(Layout::strided(&shape, &strides, layout.offset())?))
    },
)
.complex()
.unsigned();

/// Returns the dimensions in a list.
///
/// # Errors
/// Fails if a dimension is out of range or given twice.
pub(crate) fn named_once(dims: &[i64], rank: usize) -> Result<SmallVec<[usize; 4]>> {
    let mut named = SmallVec::new();
    for &dim in dims {
        let at = dimension(dim, rank)?;
        if named.contains(&at) {
            return Err(millstream_types::Error::Invalid {
                what: "dimension",
                message: format!("{dim}: given more than once"),
            });
        }
        named.push(at);
    }
    Ok(named)
}

pub(super) const SQUEEZE: Def = Def::new(
    "squeeze",
    "a view without dimensions of length 1",
    &[arg("x", "any shape")],
    &[arg("dim", "the dimension or dimensions to remove if of length 1").ints().or("all")],
    |call| {
        let layout = &call.inputs[0].layout;
        let chosen = match call.attrs.ints("dim")? {
            Some(dims) => named_once(&dims, layout.rank())?,
            None => (0..layout.rank()).collect(),
        };
        let kept = |k: &usize| layout.shape()[*k] != 1 || !chosen.contains(k);
        let kept: SmallVec<[usize; 4]> = (0..layout.rank()).filter(kept).collect();
        let shape: Dims = kept.iter().map(|&k| layout.shape()[k]).collect();
        let strides: Dims = kept.iter().map(|&k| layout.strides()[k]).collect();
        Ok(Signature::view(Layout::strided(&shape, &strides, layout.offset())?))
    },
)
.complex()
.unsigned();

pub(super) const UNSQUEEZE: Def = Def::new(
    "unsqueeze",
    "a view with a new dimension of length 1",
    &[arg("x", "any shape")],
    &[arg("dim", "its position in the result").int()],
    |call| {
        let layout = &call.inputs[0].layout;
        let dim = required("dim", call.attrs.int("dim")?)?;
        let dim = dimension(dim, layout.rank() + 1)?;
        let mut shape = Dims::from_slice(layout.shape());
        let mut strides = Dims::from_slice(layout.strides());
        let past = |k: usize| layout.strides()[k].saturating_mul(layout.shape()[k]);
        strides.insert(dim, if dim < layout.rank() { past(dim) } else { 1 });
        shape.insert(dim, 1);
        Ok(Signature::view(Layout::strided(&shape, &strides, layout.offset())?))
    },
)
.complex()
.unsigned();

pub(super) const EXPAND: Def = Def::new(
    "expand",
    "a view that repeats dimensions of length 1 and new leading dimensions",
    &[arg("x", "any shape")],
    &[
        arg("size", "the lengths, aligned at the last dimension; -1 keeps a length").ints(),
        arg("implicit", "ignored").flag().ignored(),
    ],
    expand,
)
.complex()
.unsigned();

fn expand(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    let size = required("size", call.attrs.ints("size")?)?;
    call.attrs.bool("implicit")?;
    let refuse = || {
        refused(
            "expand",
            format!("size: expected lengths that {} expands to, got {size:?}", x.brief()),
        )
    };
    let added = size.len().checked_sub(x.layout.rank()).ok_or_else(refuse)?;
    let mut shape = Dims::from_elem(1, size.len());
    let mut strides = Dims::from_elem(0, size.len());
    for (k, &wanted) in size.iter().enumerate() {
        let old = k.checked_sub(added);
        let length = old.map_or(1, |old| x.shape()[old]);
        shape[k] = match usize::try_from(wanted) {
            Ok(wanted) => wanted,
            Err(_) if wanted == -1 && old.is_some() => length,
            Err(_) => return Err(refuse()),
        };
        if shape[k] == length {
            strides[k] = old.map_or(0, |old| x.layout.strides()[old]);
        } else if length != 1 {
            return Err(refuse());
        }
    }
    Ok(Signature::view(Layout::strided(&shape, &strides, x.layout.offset())?))
}

pub(super) const ALIAS: Def =
    Def::new("alias", "a view of all of x", &[arg("x", "any shape")], &[], |call| {
        Ok(Signature::view(call.inputs[0].layout.clone()))
    })
    .complex()
    .unsigned();

pub(super) const DETACH: Def =
    Def { name: "detach", summary: "a view of all of x; the machine tracks no gradients", ..ALIAS };
