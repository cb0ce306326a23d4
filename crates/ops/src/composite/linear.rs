//! Composite products with a bias.

use millstream_types::{AttrValue, Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, op, table, wrong};

table! {
    op("addr", "beta * x plus alpha times the outer product of two vectors", ADDR, FACTORS, outer);
    op("addmv", "beta * x plus alpha times the product of a matrix and a vector", ADDMV, FACTORS,
        addmv);
    op("addbmm", "beta * x plus alpha times the sum of the products of a batch", ADDBMM, FACTORS,
        addbmm);
    op("_int_mm", "the product of matrices of bytes, in i32", MATRICES, &[], |calls, given| {
        let x = calls.cast(given.tensor("x")?, DType::I32)?;
        let y = calls.cast(given.tensor("mat2")?, DType::I32)?;
        calls.apply("matmul", &[x, y])
    });
    op("_trilinear", "the sum of the products of three tensors with new dimensions", TRILINEAR,
        TRILINEAR_ATTRS, trilinear);
}

const FACTORS: &[ArgDoc] = &[
    arg("beta", "the factor of x").number().or("1"),
    arg("alpha", "the factor of the product").number().or("1"),
];
const ADDR: &[ArgDoc] =
    &[arg("x", "a shape that broadcasts to [n,m]"), arg("vec1", "[n]"), arg("vec2", "[m]")];
const ADDMV: &[ArgDoc] =
    &[arg("x", "a shape that broadcasts to [n]"), arg("mat", "[n,k]"), arg("vec", "[k]")];
const ADDBMM: &[ArgDoc] = &[
    arg("x", "a shape that broadcasts to [n,m]"),
    arg("batch1", "[b,n,k]"),
    arg("batch2", "[b,k,m]"),
];
const MATRICES: &[ArgDoc] = &[arg("x", "i8, [n,k]"), arg("mat2", "i8, [k,m]")];
const TRILINEAR: &[ArgDoc] =
    &[arg("i1", "any shape"), arg("i2", "any shape"), arg("i3", "any shape")];
const TRILINEAR_ATTRS: &[ArgDoc] = &[
    arg("expand1", "the new dimensions of i1").ints(),
    arg("expand2", "the new dimensions of i2").ints(),
    arg("expand3", "the new dimensions of i3").ints(),
    arg("sumdim", "the dimensions that are summed").ints(),
    arg("unroll_dim", "").int().ignored(),
];

fn outer(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let (a, b) = (given.tensor("vec1")?, given.tensor("vec2")?);
    let column = calls.unsqueeze(a, -1)?;
    let product = calls.apply("mul", &[column, b])?;
    let (of_x, dtype) = (calls.dtype(x), calls.dtype(product));
    let product = scaled(calls, given, "alpha", product)?;
    let product = calls.cast(product, dtype)?;
    if given.number("beta", 1.0)? == 0.0 {
        return Ok(product);
    }
    let scaled = scaled(calls, given, "beta", x)?;
    let scaled = calls.cast(scaled, of_x)?;
    calls.apply("add", &[scaled, product])
}

/// Returns the factors of a product that is added to a bias. As in PyTorch, those of integers are
/// truncated.
fn factors(calls: &Calls<'_>, given: &Given<'_>, bias: Symbol) -> Attrs {
    let mut attrs = given.passed(&["beta", "alpha"]);
    if !calls.dtype(bias).is_inexact() {
        for name in ["beta", "alpha"] {
            if let Some(AttrValue::Float(v)) = attrs.get(name) {
                attrs.set(name, *v as i64);
            }
        }
    }
    attrs
}

/// Multiplies a tensor by the argument of this name.
fn scaled(calls: &mut Calls<'_>, given: &Given<'_>, name: &str, x: Symbol) -> Result<Symbol> {
    let factor = given.attr(name);
    match factor {
        None | Some(AttrValue::Int(1) | AttrValue::Bool(true)) => Ok(x),
        Some(factor) => calls.by("mul", x, factor.clone()),
    }
}

fn addmv(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let mut bias = given.tensor("x")?;
    if !calls.spec(bias).shape().is_empty() {
        bias = calls.unsqueeze(bias, -1)?;
    }
    let (matrix, vector) = (given.tensor("mat")?, given.tensor("vec")?);
    let column = calls.unsqueeze(vector, -1)?;
    let factors = factors(calls, given, bias);
    let product = calls.one("addmm", &[bias, matrix, column], factors)?;
    calls.one("squeeze", &[product], along(-1))
}

/// Adds the products of a batch by one product of longer rows.
fn addbmm(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (bias, x) = (given.tensor("x")?, given.tensor("batch1")?);
    let y = given.tensor("batch2")?;
    let (&[batch, rows, inner], &[_, _, columns]) = (calls.spec(x).shape(), calls.spec(y).shape())
    else {
        return Err(wrong("expected two batches of matrices"));
    };
    let long = (batch * inner) as i64;
    let x = calls.one("permute", &[x], Attrs::new().with("dims", vec![1i64, 0, 2]))?;
    let x = calls.reshape(x, &[rows as i64, long])?;
    let y = calls.reshape(y, &[long, columns as i64])?;
    let factors = factors(calls, given, bias);
    calls.one("addmm", &[bias, x, y], factors)
}

fn trilinear(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let mut product = None;
    for (operand, expanded) in [("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")] {
        let mut x = given.tensor(operand)?;
        for dim in given.ints(expanded)?.unwrap_or_default() {
            x = calls.unsqueeze(x, dim)?;
        }
        product = Some(match product {
            None => x,
            Some(before) => calls.apply("mul", &[before, x])?,
        });
    }
    let product = product.ok_or_else(|| wrong("no operands"))?;
    match given.ints("sumdim")?.unwrap_or_default() {
        dims if dims.is_empty() => Ok(product),
        dims => {
            let attrs = Attrs::new().with("dim", dims).with("dtype", calls.dtype(product));
            calls.one("sum", &[product], attrs)
        }
    }
}
