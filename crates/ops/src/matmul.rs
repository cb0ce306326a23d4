//! Matrix products.
//!
//! | x | y | result |
//! |---|---|---|
//! | `[k]` | `[k]` | `[]` |
//! | `[m,k]` | `[k]` | `[m]` |
//! | `[k]` | `[k,n]` | `[n]` |
//! | `[m,k]` | `[k,n]` | `[m,n]` |
//! | `[..,m,k]` | `[..,k,n]` | `[..,m,n]`, the leading dimensions broadcast |
//!
//! A one-dimensional operand beside a batch counts as a row on the left, as a column on the right,
//! and its dimension is left out of the result. Both sides are of one dtype, any but bool.
//! Integers wrap. f16 and bf16 are computed in f32 and rounded once.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.matmul.html>.

use millstream_types::{DType, Dims, Result, TensorSpec};

use crate::broadcast::broadcast;
use crate::def::{Arity, Def, arg, refused};
use crate::schema::{CallSpec, Signature};

/// How a product of two tensors is cut into products of matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// The leading dimensions of the result.
    pub batch: Dims,
    /// Rows of the left matrices.
    pub m: usize,
    /// Columns of the left matrices, rows of the right ones.
    pub k: usize,
    /// Columns of the right matrices.
    pub n: usize,
}

impl Product {
    /// The product of tensors of these shapes.
    ///
    /// # Errors
    /// A tensor of no dimensions, inner lengths that differ, leading dimensions that do not
    /// broadcast.
    pub fn new(x: &[usize], y: &[usize]) -> Result<Product> {
        let (Some((&k, x_rest)), Some(_)) = (x.split_last(), y.first()) else {
            let message = format!("expected one or more dimensions, got {x:?} and {y:?}");
            return Err(refused("matmul", message));
        };
        let (x_batch, m) = x_rest.split_last().map_or((x_rest, 1), |(&m, rest)| (rest, m));
        let (y_batch, k2, n) = match y {
            [batch @ .., k2, n] => (batch, *k2, *n),
            _ => (&y[..0], y[0], 1),
        };
        if k != k2 {
            let message = format!("inner lengths differ: {x:?} by {y:?} meet with {k} and {k2}");
            return Err(refused("matmul", message));
        }
        Ok(Product { batch: broadcast(x_batch, y_batch)?, m, k, n })
    }
}

/// The alignment in bytes that the kernel gives its parts of the workspace; the workspace is that
/// much larger, since it may begin anywhere.
pub const WORKSPACE_ALIGN: usize = 64;

pub(crate) const OPS: &[Def] = &[MATMUL];

const MATMUL: Def = Def {
    name: "matmul",
    summary: "the matrix product, with leading dimensions broadcast",
    inputs: &[arg("x", "[k] or [..,m,k]"), arg("y", "[k] or [..,k,n], of x's dtype")],
    attrs: &[],
    arity: Arity::Listed,
    rule,
};

fn rule(call: CallSpec<'_>) -> Result<Signature> {
    let (output, workspace) = result("matmul", &call.inputs[0], &call.inputs[1])?;
    Ok(Signature { workspace, ..Signature::reads(2, output) })
}

/// What the product of `x` and `y` is, and the bytes of workspace that its kernel wants.
///
/// # Errors
/// Dtypes that differ or are bool, shapes that do not fit.
pub(crate) fn result(op: &str, x: &TensorSpec, y: &TensorSpec) -> Result<(TensorSpec, usize)> {
    if x.dtype != y.dtype {
        let message = format!("expected one dtype, got {} and {}", x.brief(), y.brief());
        return Err(refused(op, message));
    }
    if x.dtype == DType::Bool {
        let message = format!("expected numbers, got {} and {}", x.brief(), y.brief());
        return Err(refused(op, message));
    }
    let product = Product::new(x.shape(), y.shape())?;
    let mut shape = product.batch;
    if x.layout.rank() > 1 {
        shape.push(product.m);
    }
    if y.layout.rank() > 1 {
        shape.push(product.n);
    }
    let output = TensorSpec::contiguous(x.dtype, &shape)?;
    // f16 and bf16: both operands and the result in f32. No sum of three element counts that are
    // valid on their own overflows.
    let workspace = match x.dtype {
        DType::F16 | DType::BF16 => {
            let elements = x.numel() + y.numel() + output.numel();
            elements * DType::F32.size() + 4 * WORKSPACE_ALIGN
        }
        _ => 0,
    };
    Ok((output, workspace))
}
