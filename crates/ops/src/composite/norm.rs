//! Composites that scale by norms.

use millstream_types::{AttrValue, Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, several, table};
use crate::formula::{Expr, in_floats, positive};

table! {
    several("_weight_norm_interface",
        "weights with the direction of v and the norm g, and the norms of v", VG, DIM, 2,
        |args| {
        let [v, g] = args.tensors(["v", "g"]);
        let norms = norms(v, 2, other_dims(args, v)?);
        Ok(vec![v * (g / norms), norms])
    });
    several("_weight_norm_interface_backward", "the gradients of `_weight_norm_interface`",
        VG_GRAD, DIM, 2, |args| {
        let [grad, v, g, norms] = args.tensors(["grad", "v", "g", "norms"]);
        let of_g = (grad * v).sum(&other_dims(args, v)?, true) / norms;
        Ok(vec![(grad - v * (of_g / norms)) * (g / norms), of_g])
    });
    op("renorm", "x with each slice scaled to a norm of at most the bound", X, RENORM, renorm);
    op("embedding_renorm",
        "a table whose rows that an index names are scaled to a norm of at most the bound", TABLE,
        ROWS, renormed_rows);
}

const VG: &[ArgDoc] =
    &[arg("v", "any shape"), arg("g", "the norms, of length 1 in the other dimensions")];
const VG_GRAD: &[ArgDoc] = &[
    arg("grad", "v's shape"),
    arg("v", "any shape"),
    arg("g", "g's shape"),
    arg("norms", "the norms of v"),
];
const DIM: &[ArgDoc] = &[arg("dim", "the dimension that keeps its norms").int().or("0")];
const X: &[ArgDoc] = &[arg("x", "any shape")];
const RENORM: &[ArgDoc] = &[
    arg("p", "the order of the norm").number(),
    arg("dim", "the dimension of the slices").int(),
    arg("maxnorm", "the greatest norm").number(),
];
const TABLE: &[ArgDoc] = &[arg("table", "[rows,width]"), arg("indices", "any shape")];
const ROWS: &[ArgDoc] = &[
    arg("max_norm", "the greatest norm").number(),
    arg("norm_type", "the order of the norm").number(),
];

/// Returns all dimensions but that of the node.
fn other_dims(args: Args<'_>, x: Expr<'_>) -> Result<Vec<i64>> {
    let rank = x.rank()?;
    let dim = positive(args.int("dim")?.unwrap_or(0), rank)?;
    Ok((0..rank as i64).filter(|&d| d != dim).collect())
}

/// Returns the norms along dimensions, which stay with length 1.
fn norms(x: Expr<'_>, order: impl Into<AttrValue>, dims: Vec<i64>) -> Expr<'_> {
    let attrs = Attrs::new().with("ord", order).with("dim", dims).with("keepdim", true);
    x.op("linalg_vector_norm", attrs)
}

/// Scales slices whose norm is greater than a bound to it.
fn renorm(args: Args<'_>) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    let dims = other_dims(args, x)?;
    let (most, order) = (args.number("maxnorm", 1.0)?, args.number("p", 2.0)?);
    in_floats([x], |[x]| {
        let norms = norms(x, order, dims);
        let within = norms.le(most);
        x * ((norms + 1e-7).reciprocal() * most).filled(within, 1.0)
    })
}

/// Scales the rows that an index names, and whose norm is greater than a bound, to it.
fn renormed_rows(args: Args<'_>) -> Result<Expr<'_>> {
    let ([table, indices], calls) = (args.tensors(["table", "indices"]), args.calls);
    let (most, order) = (args.number("max_norm", 1.0)?, args.number("norm_type", 2.0)?);
    let rows = table.shape()?.first().copied().unwrap_or(0);
    let norms = norms(table, order, vec![1]);
    let greater = norms.gt(most);
    let named = calls.full(vec![rows], 0, DType::Bool);
    let flat = indices.reshape(&[-1]).cast(DType::I64);
    let yes = calls.full(Vec::new(), true, DType::Bool);
    calls.call("index_put_", &[named, yes, flat], Attrs::new());
    let kept = greater.logical_and(named.unsqueeze(1)).logical_not();
    let factor = ((norms + 1e-7).reciprocal() * most).filled(kept, 1);
    Ok((table * factor).cast(table.dtype()))
}
