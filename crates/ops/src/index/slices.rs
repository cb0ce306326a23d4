//! An index for each slice of a dimension.

use millstream_types::{Dims, Result, TensorSpec};

use crate::args::{Scalar, dimension, required};
use crate::def::{Def, arg, refused};
use crate::index::{check_index, in_place, raised};
use crate::schema::{ArgDoc, CallSpec, Signature};

const DIM: ArgDoc = arg("dim", "the dimension").int();
const INDEX: ArgDoc = arg("index", "i64 or i32; at most one dimension");

pub(super) const INDEX_SELECT: Def = Def::new(
    "index_select",
    "the slices of x at an index along a dimension",
    &[arg("x", "any shape"), INDEX],
    &[DIM],
    |call| {
        let (x, index) = (&call.inputs[0], &call.inputs[1]);
        let dim = check("index_select", call)?;
        let mut shape = Dims::from_slice(x.shape());
        match shape.get_mut(dim) {
            Some(length) => *length = index.numel(),
            None if index.numel() == 1 => {}
            None => {
                let message =
                    format!("expected one index for {}, got {}", x.brief(), index.brief());
                return Err(refused("index_select", message));
            }
        }
        Ok(Signature::reads(2, TensorSpec::contiguous(x.dtype, &shape)?))
    },
)
.complex()
.unsigned();

/// Checks the index and returns the dimension.
fn check(op: &str, call: CallSpec<'_>) -> Result<usize> {
    let (x, index) = (&call.inputs[0], &call.inputs[1]);
    let dim = dimension(required("dim", call.attrs.int("dim")?)?, x.layout.rank())?;
    check_index(op, index)?;
    if index.layout.rank() > 1 {
        let message = format!("expected an index of one dimension, got {}", index.brief());
        return Err(refused(op, message));
    }
    Ok(dim)
}

pub(super) const INDEX_ADD: Def = Def::new(
    "index_add",
    "x with alpha * source added to the slices at an index along a dimension",
    &[arg("x", "any shape"), INDEX, SOURCE],
    &[DIM, arg("alpha", "factor of source").number().or("1").patchable()],
    |call| {
        index_add("index_add", call)?;
        let x = &call.inputs[0];
        Ok(Signature::reads(3, TensorSpec::contiguous(x.dtype, x.shape())?))
    },
)
.complex();

const SOURCE: ArgDoc = arg("source", "x's dtype and shape, except as long as the index along dim");

pub(super) const INDEX_ADD_: Def = Def {
    name: "index_add_",
    summary: "adds alpha * source to the slices of x at an index along a dimension, in place",
    inputs: &[arg("x", "any shape, without overlapping elements; changed in place"), INDEX, SOURCE],
    rule: |call| {
        index_add("index_add_", call)?;
        in_place("index_add_", call.inputs)
    },
    ..INDEX_ADD
};

fn index_add(op: &str, call: CallSpec<'_>) -> Result<()> {
    let (x, index, source) = (&call.inputs[0], &call.inputs[1], &call.inputs[2]);
    let dim = check(op, call)?;
    Scalar::of(call.attrs, "alpha")?;
    if x.dtype != source.dtype {
        let (x, source) = (x.brief(), source.brief());
        return Err(refused(op, format!("expected one dtype, got {x} and {source}")));
    }
    let mut expected = raised(x);
    expected[dim] = index.numel();
    if raised(source) != expected || source.layout.rank() != x.layout.rank() {
        let message = format!("expected a source of {:?}, got {}", &expected[..], source.brief());
        return Err(refused(op, message));
    }
    Ok(())
}
