//! Matrix products with a bias.
//!
//! | op | result | shapes |
//! |---|---|---|
//! | `addmm(bias, x, y; beta=1, alpha=1)` | beta · bias + alpha · x y | `[m,k]`, `[k,n]` |
//! | `baddbmm(bias, x, y; beta=1, alpha=1)` | the same for a batch | `[b,m,k]`, `[b,k,n]` |
//!
//! The bias broadcasts to the result. If beta is 0, the bias is not read, NaN included. All tensors
//! have one dtype, any but bool; beta and alpha are whole for integers. The dtypes of the
//! computation are those of [`matmul`](mod@crate::matmul).
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.addmm.html>.

use millstream_types::{Result, TensorSpec};

use crate::args::Scalar;
use crate::broadcast::broadcast;
use crate::def::{Def, arg, refused};
use crate::matmul;
use crate::schema::{ArgDoc, CallSpec, Signature};

const FACTORS: &[ArgDoc] = &[
    arg("beta", "factor of the bias, whole for integers").number().or("1").patchable(),
    arg("alpha", "factor of the product, whole for integers").number().or("1").patchable(),
];

pub(crate) const OPS: &[Def] = &[ADDMM, BADDBMM];

const ADDMM: Def = Def::new(
    "addmm",
    "beta * bias + alpha * the matrix product of x and y",
    &[arg("bias", "a shape that broadcasts to [m,n]"), arg("x", "[m,k]"), arg("y", "[k,n]")],
    FACTORS,
    |call| rule(call, "addmm", 2),
)
.complex();

const BADDBMM: Def = Def::new(
    "baddbmm",
    "beta * bias + alpha * the batched matrix product of x and y",
    &[arg("bias", "a shape that broadcasts to [b,m,n]"), arg("x", "[b,m,k]"), arg("y", "[b,k,n]")],
    FACTORS,
    |call| rule(call, "baddbmm", 3),
)
.complex();

fn rule(call: CallSpec<'_>, op: &str, rank: usize) -> Result<Signature> {
    let [bias, x, y] = call.inputs else {
        return Err(refused(op, "expected three tensors"));
    };
    for side in [x, y] {
        if side.layout.rank() != rank {
            let message = format!("expected {rank} dimensions, got {}", side.brief());
            return Err(refused(op, message));
        }
    }
    if rank == 3 && x.shape()[0] != y.shape()[0] {
        let message =
            format!("expected batches of one length, got {} and {}", x.brief(), y.brief());
        return Err(refused(op, message));
    }
    let output = matmul::result(op, x, y)?;
    if bias.dtype != x.dtype {
        let message = format!("expected one dtype, got {} and {}", bias.brief(), x.brief());
        return Err(refused(op, message));
    }
    if broadcast(bias.shape(), output.shape())?.as_slice() != output.shape() {
        let message = format!("{} does not broadcast to {}", bias.brief(), output.brief());
        return Err(refused(op, message));
    }
    for name in ["beta", "alpha"] {
        factor(call, op, name, &output)?;
    }
    Ok(Signature::reads(3, output))
}

fn factor(call: CallSpec<'_>, op: &str, name: &str, output: &TensorSpec) -> Result<()> {
    match Scalar::of(call.attrs, name)? {
        Some(v @ Scalar::Float(_)) if !output.dtype.is_inexact() => {
            let message = format!("{name}: expected a whole number for {}, got {v}", output.dtype);
            Err(refused(op, message))
        }
        _ => Ok(()),
    }
}
