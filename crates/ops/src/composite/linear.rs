//! Composite products with a bias.

use millstream_types::{AttrValue, Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::{Expr, wrong};

table! {
    op("addr", "beta * x plus alpha times the outer product of two vectors", ADDR, FACTORS,
        outer);
    op("addmv", "beta * x plus alpha times the product of a matrix and a vector", ADDMV,
        FACTORS, addmv);
    op("addbmm", "beta * x plus alpha times the sum of the products of a batch", ADDBMM,
        FACTORS, addbmm);
    op("_int_mm", "the product of matrices of bytes, in i32", MATRICES, &[], |args| {
        let [x, y] = args.tensors(["x", "mat2"]).map(|x| x.cast(DType::I32));
        Ok(x.matmul(y))
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

fn outer(args: Args<'_>) -> Result<Expr<'_>> {
    let [x, a, b] = args.tensors(["x", "vec1", "vec2"]);
    let product = scaled(args, "alpha", a.unsqueeze(-1) * b);
    match args.number("beta", 1.0)? == 0.0 {
        true => Ok(product),
        false => Ok(scaled(args, "beta", x) + product),
    }
}

/// Multiplies a tensor by the argument of this name, in the tensor's dtype.
fn scaled<'a>(args: Args<'a>, name: &str, x: Expr<'a>) -> Expr<'a> {
    match args.attr(name) {
        None | Some(AttrValue::Int(1) | AttrValue::Bool(true)) => x,
        Some(factor) => x.op("mul", Attrs::new().with("other", factor.clone())).cast(x.dtype()),
    }
}

/// Returns a product that is added to a bias, with their factors. As in PyTorch, factors of
/// integers are truncated.
fn added<'a>(args: Args<'a>, operands: [Expr<'a>; 3]) -> Expr<'a> {
    let mut attrs = args.passed(&["beta", "alpha"]);
    if !operands[0].dtype().is_inexact() {
        for name in ["beta", "alpha"] {
            if let Some(AttrValue::Float(v)) = attrs.get(name) {
                attrs.set(name, *v as i64);
            }
        }
    }
    args.calls.one("addmm", &operands, attrs)
}

fn addmv(args: Args<'_>) -> Result<Expr<'_>> {
    let [bias, matrix, vector] = args.tensors(["x", "mat", "vec"]);
    let bias = if bias.rank()? == 0 { bias } else { bias.unsqueeze(-1) };
    Ok(added(args, [bias, matrix, vector.unsqueeze(-1)]).squeeze(-1))
}

/// Adds the products of a batch by one product of longer rows.
fn addbmm(args: Args<'_>) -> Result<Expr<'_>> {
    let [bias, x, y] = args.tensors(["x", "batch1", "batch2"]);
    let (&[batch, rows, inner], &[_, _, columns]) = (&x.shape()?[..], &y.shape()?[..]) else {
        return Err(wrong("expected two batches of matrices"));
    };
    let x = x.op("permute", Attrs::new().with("dims", vec![1i64, 0, 2]));
    let x = x.reshape(&[rows, batch * inner]);
    Ok(added(args, [bias, x, y.reshape(&[batch * inner, columns])]))
}

fn trilinear<'a>(args: Args<'a>) -> Result<Expr<'a>> {
    let expanded = |operand, dims| -> Result<Expr<'a>> {
        let dims = args.ints(dims)?.unwrap_or_default();
        Ok(dims.into_iter().fold(args.tensor(operand), Expr::unsqueeze))
    };
    let product = expanded("i1", "expand1")? * expanded("i2", "expand2")?;
    let product = product * expanded("i3", "expand3")?;
    match args.ints("sumdim")?.unwrap_or_default() {
        dims if dims.is_empty() => Ok(product),
        dims => {
            let attrs = Attrs::new().with("dim", dims).with("dtype", product.dtype());
            Ok(product.op("sum", attrs))
        }
    }
}
