//! Matrix products.
//!
//! | x | y | result |
//! |---|---|---|
//! | `[k]` | `[k]` | `[]` |
//! | `[m,k]` | `[k]` | `[m]` |
//! | `[k]` | `[k,n]` | `[n]` |
//! | `[m,k]` | `[k,n]` | `[m,n]` |
//! | `[..,m,k]` | `[..,k,n]` | `[..,m,n]`, with leading dimensions broadcast |
//!
//! Beside a batch, a one-dimensional operand is a row on the left and a column on the right, and
//! its dimension is dropped from the result. Both operands have one dtype, any but bool. Integers
//! wrap. f16 and bf16 are computed in f32 and rounded once.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.matmul.html>.

use millstream_types::{DType, Dims, Result, TensorSpec};

use crate::broadcast::broadcast;
use crate::def::{Def, arg, refused};
use crate::schema::{CallSpec, Signature};

/// The decomposition of a product of two tensors into products of matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// The leading dimensions of the result.
    pub batch: Dims,
    /// The rows of the left matrices.
    pub m: usize,
    /// The columns of the left matrices, which are the rows of the right ones.
    pub k: usize,
    /// The columns of the right matrices.
    pub n: usize,
}

impl Product {
    /// Returns the product of tensors of these shapes.
    ///
    /// # Errors
    /// Fails if a tensor has no dimensions, if the inner dimensions differ, or if the leading
    /// dimensions do not broadcast.
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
            let message =
                format!("expected equal inner dimensions, got {k} and {k2} in {x:?} by {y:?}");
            return Err(refused("matmul", message));
        }
        Ok(Product { batch: broadcast(x_batch, y_batch)?, m, k, n })
    }
}

pub(crate) const OPS: &[Def] = &[MATMUL];

const MATMUL: Def = Def::new(
    "matmul",
    "the matrix product of x and y, with leading dimensions broadcast",
    &[arg("x", "[k] or [..,m,k]"), arg("y", "[k] or [..,k,n], of x's dtype")],
    &[],
    rule,
)
.complex();

fn rule(call: CallSpec<'_>) -> Result<Signature> {
    Ok(Signature::reads(2, result("matmul", &call.inputs[0], &call.inputs[1])?))
}

/// Returns the product of `x` and `y`.
///
/// # Errors
/// Fails if dtypes differ or are bool, or if shapes do not match.
pub(crate) fn result(op: &str, x: &TensorSpec, y: &TensorSpec) -> Result<TensorSpec> {
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
    TensorSpec::contiguous(x.dtype, &shape)
}
