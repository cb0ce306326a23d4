//! Table lookup and its gradient.
//!
//! | op | result |
//! |---|---|
//! | `embedding(weight, indices; …)` | the rows of weight at the indices |
//! | `embedding_dense_backward(grad, indices; num_weights, …)` | the sums of the gradients by row |
//!
//! Gradients are added in the order of the indices. Row `padding_idx` gets none. With
//! `scale_grad_by_freq`, the gradient of a row is divided by the number of its uses. The kernel
//! fails on an index out of range. `padding_idx`, `scale_grad_by_freq` and `sparse` do not change
//! the result of `embedding`.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html>.

use millstream_types::{Dims, Result, TensorSpec};

use crate::args::required;
use crate::checks;
use crate::def::{Def, arg, refused};
use crate::schema::{ArgDoc, CallSpec, Signature};

const INDICES: ArgDoc = arg("indices", "any shape, of i64 or i32");
const PADDING: ArgDoc =
    arg("padding_idx", "the row that gets no gradient; -1 for none").int().or("-1");
const SCALE: ArgDoc =
    arg("scale_grad_by_freq", "divide the gradient of a row by the number of its uses")
        .flag()
        .or("false");

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "embedding",
        "the rows of a table selected by indices",
        &[arg("weight", "[rows,columns]"), INDICES],
        &[PADDING, SCALE, arg("sparse", "ignored: gradients are dense").flag().ignored()],
        |call| {
            let (weight, indices) = (&call.inputs[0], &call.inputs[1]);
            checks::index_dtype("embedding", "indices", indices)?;
            let &[_, columns] = weight.shape() else {
                let message = format!("weight: expected two dimensions, got {}", weight.brief());
                return Err(refused("embedding", message));
            };
            call.attrs.int("padding_idx")?;
            for name in ["scale_grad_by_freq", "sparse"] {
                call.attrs.bool(name)?;
            }
            let mut shape = Dims::from_slice(indices.shape());
            shape.push(columns);
            Ok(Signature::reads(2, TensorSpec::contiguous(weight.dtype, &shape)?))
        },
    ),
    Def::new(
        "embedding_dense_backward",
        "the gradient of embedding for weight",
        &[arg("grad", "the gradient of the result"), INDICES],
        &[arg("num_weights", "the number of rows of the table").int(), PADDING, SCALE],
        backward,
    ),
];

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "embedding_dense_backward";
    let (grad, indices) = (&call.inputs[0], &call.inputs[1]);
    checks::floats(op, grad)?;
    checks::index_dtype(op, "indices", indices)?;
    let columns = match grad.shape().split_last() {
        Some((&columns, rest)) if rest == indices.shape() => columns,
        _ => {
            let message = format!(
                "grad: expected the shape of {} and one more dimension, got {}",
                indices.brief(),
                grad.brief()
            );
            return Err(refused(op, message));
        }
    };
    let given = required("num_weights", call.attrs.int("num_weights")?)?;
    let Ok(rows) = usize::try_from(given) else {
        return Err(refused(op, format!("num_weights: expected 0 or more, got {given}")));
    };
    call.attrs.int("padding_idx")?;
    call.attrs.bool("scale_grad_by_freq")?;
    Ok(Signature::reads(2, TensorSpec::contiguous(grad.dtype, &[rows, columns])?))
}
