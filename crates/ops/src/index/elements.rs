//! Gather and scatter: an index for each element along a dimension.

use millstream_types::{Result, TensorSpec};

use crate::args::{Scalar, choice, dimension, required};
use crate::def::{Def, arg, refused};
use crate::index::{check_index, in_place, raised};
use crate::schema::{ArgDoc, CallSpec, Signature};

const DIM: ArgDoc = arg("dim", "the dimension that the index counts along").int();
const INDEX: ArgDoc = arg("index", "i64 or i32; as many dimensions as x, none longer except dim");
const SRC: ArgDoc = arg("src", "x's dtype; no dimension shorter than the index");
const X: ArgDoc = arg("x", "any shape");
const TARGET: ArgDoc = arg("x", "any shape, without overlapping elements; changed in place");
const VALUE: ArgDoc = arg("value", "a number in place of src").number().instead_of("src");

pub(super) const GATHER: Def = Def::new(
    "gather",
    "the elements of x at the index along a dimension",
    &[X, INDEX],
    &[DIM, arg("sparse_grad", "ignored").flag().ignored()],
    |call| {
        let (x, index) = (&call.inputs[0], &call.inputs[1]);
        call.attrs.bool("sparse_grad")?;
        let dim = dimension(required("dim", call.attrs.int("dim")?)?, x.layout.rank())?;
        check_index("gather", index)?;
        if index.numel() > 0 {
            check_within("gather", index, x, Some(dim))?;
        }
        Ok(Signature::reads(2, TensorSpec::contiguous(x.dtype, index.shape())?))
    },
)
.complex()
.unsigned();

/// Checks that an index is no longer than `x`, except along `but`.
fn check_within(op: &str, index: &TensorSpec, x: &TensorSpec, but: Option<usize>) -> Result<()> {
    let (lengths, limits) = (raised(index), raised(x));
    let within = lengths.len() == limits.len()
        && (0..limits.len()).all(|k| Some(k) == but || lengths[k] <= limits[k]);
    if within {
        return Ok(());
    }
    let but = but.map_or(String::new(), |dim| format!(" except along dimension {dim}"));
    let (index, x) = (index.brief(), x.brief());
    Err(refused(op, format!("expected an index no longer than {x}{but}, got {index}")))
}

pub(super) const SCATTER: Def = Def::new(
    "scatter",
    "x with the elements at the index along a dimension set to src",
    &[X, INDEX, SRC],
    &[DIM, VALUE],
    |call| {
        scatter("scatter", call)?;
        new(call)
    },
)
.optional(2)
.complex()
.unsigned();

pub(super) const SCATTER_: Def = Def {
    name: "scatter_",
    summary: "sets the elements of x at the index along a dimension to src, in place",
    inputs: &[TARGET, INDEX, SRC],
    rule: |call| {
        scatter("scatter_", call)?;
        in_place("scatter_", call.inputs)
    },
    ..SCATTER
};

pub(super) const SCATTER_ADD: Def = Def::new(
    "scatter_add",
    "x with src added to the elements at the index along a dimension",
    &[X, INDEX, SRC],
    &[DIM],
    |call| {
        scatter("scatter_add", call)?;
        new(call)
    },
)
.complex();

pub(super) const SCATTER_ADD_: Def = Def {
    name: "scatter_add_",
    summary: "adds src to the elements of x at the index along a dimension, in place",
    inputs: &[TARGET, INDEX, SRC],
    rule: |call| {
        scatter("scatter_add_", call)?;
        in_place("scatter_add_", call.inputs)
    },
    ..SCATTER_ADD
};

/// The combinations of `scatter_reduce`.
pub const REDUCTIONS: [&str; 4] = ["sum", "prod", "amax", "amin"];

pub(super) const SCATTER_REDUCE: Def = Def::new(
    "scatter_reduce",
    "x with the elements at the index along a dimension combined with those of src",
    &[X, INDEX, SRC],
    &[
        DIM,
        arg("reduce", "\"sum\", \"prod\", \"amax\" or \"amin\"; the extrema of NaN are NaN").text(),
        arg("include_self", "whether the elements of x at the index are combined, too")
            .flag()
            .or("true"),
    ],
    |call| {
        let op = "scatter_reduce";
        scatter(op, call)?;
        call.attrs.bool("include_self")?;
        required("reduce", choice(call.attrs, "reduce", &REDUCTIONS)?)?;
        new(call)
    },
);

/// Returns the signature of a new tensor of the shape and dtype of x.
fn new(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    Ok(Signature::reads(call.inputs.len(), TensorSpec::contiguous(x.dtype, x.shape())?))
}

fn scatter(op: &str, call: CallSpec<'_>) -> Result<()> {
    let (x, index) = (&call.inputs[0], &call.inputs[1]);
    let dim = dimension(required("dim", call.attrs.int("dim")?)?, x.layout.rank())?;
    check_index(op, index)?;
    let src = call.inputs.get(2);
    match (src, Scalar::of(call.attrs, "value")?) {
        (Some(src), None) if src.dtype != x.dtype => {
            let (x, src) = (x.brief(), src.brief());
            return Err(refused(op, format!("expected one dtype, got {x} and {src}")));
        }
        (Some(_), None) => {}
        (None, Some(value)) => {
            // The fraction is dropped for integers, as in `cast`.
            let whole = match value {
                Scalar::Float(v) if x.dtype.is_int() => Scalar::Float(v.trunc()),
                other => other,
            };
            if !whole.fits(x.dtype) {
                return Err(refused(op, format!("{} cannot hold {value}", x.dtype)));
            }
        }
        _ => return Err(refused(op, "expected either src or value, got both or neither")),
    }
    if index.numel() == 0 {
        return Ok(());
    }
    check_within(op, index, x, Some(dim))?;
    src.map_or(Ok(()), |src| check_within(op, index, src, None))
}
