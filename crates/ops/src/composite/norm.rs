//! Composites that scale by norms.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::positive;
use super::{Calls, Composite, Given, Symbol, op, several, table};

table! {
    several("_weight_norm_interface",
        "weights with the direction of v and the norm g, and the norms of v", VG, DIM, 2,
        weight_norm);
    several("_weight_norm_interface_backward", "the gradients of `_weight_norm_interface`",
        VG_GRAD, DIM, 2, weight_norm_backward);
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
fn other_dims(calls: &Calls<'_>, x: Symbol, given: &Given<'_>) -> Result<Vec<i64>> {
    let rank = calls.rank(x);
    let dim = positive(given.int("dim")?.unwrap_or(0), rank)?;
    Ok((0..rank as i64).filter(|&d| d != dim).collect())
}

/// Returns the weights that have the direction of v and the norm g, and the norms of v.
fn weight_norm(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let (v, g) = (given.tensor("v")?, given.tensor("g")?);
    let dims = other_dims(calls, v, given)?;
    let attrs = Attrs::new().with("ord", 2i64).with("dim", dims).with("keepdim", true);
    let norms = calls.one("linalg_vector_norm", &[v], attrs)?;
    let factor = calls.apply("div", &[g, norms])?;
    Ok(vec![calls.apply("mul", &[v, factor])?, norms])
}

fn weight_norm_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let grad = given.tensor("grad")?;
    let (v, g) = (given.tensor("v")?, given.tensor("g")?);
    let norms = given.tensor("norms")?;
    let dims = other_dims(calls, v, given)?;
    let product = calls.apply("mul", &[grad, v])?;
    let attrs = Attrs::new().with("dim", dims).with("keepdim", true);
    let product = calls.one("sum", &[product], attrs)?;
    let of_g = calls.apply("div", &[product, norms])?;
    let share = calls.apply("div", &[of_g, norms])?;
    let along = calls.apply("mul", &[v, share])?;
    let across = calls.apply("sub", &[grad, along])?;
    let factor = calls.apply("div", &[g, norms])?;
    Ok(vec![calls.apply("mul", &[across, factor])?, of_g])
}

/// Scales slices whose norm is greater than a bound to it.
fn renorm(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let rank = calls.rank(x);
    let dim = positive(given.int("dim")?.unwrap_or(0), rank)?;
    let others: Vec<i64> = (0..rank as i64).filter(|&d| d != dim).collect();
    let most = given.number("maxnorm", 1.0)?;
    let order = given.number("p", 2.0)?;
    calls.in_floats(&[x], |calls, given| {
        let attrs = Attrs::new().with("ord", order).with("dim", others).with("keepdim", true);
        let norm = calls.one("linalg_vector_norm", &[given[0]], attrs)?;
        let within = calls.by("le", norm, most)?;
        let factor = calls.by("add", norm, 1e-7)?;
        let factor = calls.apply("reciprocal", &[factor])?;
        let factor = calls.by("mul", factor, most)?;
        let factor = calls.filled(factor, within, 1.0)?;
        calls.apply("mul", &[given[0], factor])
    })
}

/// Scales the rows that an index names, and whose norm is greater than a bound, to it.
fn renormed_rows(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (table, indices) = (given.tensor("table")?, given.tensor("indices")?);
    let (most, order) = (given.number("max_norm", 1.0)?, given.number("norm_type", 2.0)?);
    let dtype = calls.dtype(table);
    let rows = calls.spec(table).shape().first().copied().unwrap_or(0) as i64;
    let attrs = Attrs::new().with("ord", order).with("dim", vec![1i64]).with("keepdim", true);
    let norms = calls.one("linalg_vector_norm", &[table], attrs)?;
    let greater = calls.by("gt", norms, most)?;
    let named = Attrs::new().with("shape", vec![rows]).with("value", 0i64);
    let named = calls.one("full", &[], named.with("dtype", DType::Bool))?;
    let flat = calls.reshape(indices, &[-1])?;
    let flat = calls.cast(flat, DType::I64)?;
    let yes = calls.one(
        "full",
        &[],
        Attrs::new()
            .with("shape", Vec::<i64>::new())
            .with("value", true)
            .with("dtype", DType::Bool),
    )?;
    calls.call("index_put_", &[named, yes, flat], Attrs::new())?;
    let named = calls.unsqueeze(named, 1)?;
    let scaled = calls.apply("logical_and", &[greater, named])?;
    let kept = calls.apply("logical_not", &[scaled])?;
    let factor = calls.by("add", norms, 1e-7)?;
    let factor = calls.apply("reciprocal", &[factor])?;
    let factor = calls.by("mul", factor, most)?;
    let one = Attrs::new().with("value", 1i64);
    let factor = calls.one("masked_fill", &[factor, kept], one)?;
    let made = calls.apply("mul", &[table, factor])?;
    calls.cast(made, dtype)
}
