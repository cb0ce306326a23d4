//! Rows of a table by number, and the gradient of that.
//!
//! | op | result |
//! |---|---|
//! | `embedding(weight, indices; padding_idx, scale_grad_by_freq, sparse)` | row after row |
//! | `embedding_dense_backward(grad, indices; num_weights, padding_idx=-1, scale_grad_by_freq)` | for each row, the sum of its gradients |
//!
//! Gradients are added in the order of the indices. The row `padding_idx` gets none; with
//! `scale_grad_by_freq` a gradient is divided by how often its row was taken. A number out of range
//! is an error of the kernel. `padding_idx` and the others do not matter for the rows taken.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html>.

use millstream_types::{Dims, Result, TensorSpec};

use crate::args::required;
use crate::def::{Arity, Def, arg, refused};
use crate::expect;
use crate::schema::{ArgDoc, CallSpec, Signature};

const INDICES: ArgDoc = arg("indices", "any shape, of i64 or i32");
const PADDING: ArgDoc = arg("padding_idx", "the row that has no gradient; none (-1) unless given");
const SCALE: ArgDoc =
    arg("scale_grad_by_freq", "divide gradients by how often a row is taken; false unless given");

pub(crate) const OPS: &[Def] = &[
    Def {
        name: "embedding",
        summary: "the rows of a table that indices name",
        inputs: &[arg("weight", "[rows,columns]"), INDICES],
        attrs: &[PADDING, SCALE, arg("sparse", "how a gradient is kept; false unless given")],
        arity: Arity::Listed,
        rule: |call| {
            let (weight, indices) = (&call.inputs[0], &call.inputs[1]);
            expect::indices("embedding", "indices", indices)?;
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
    },
    Def {
        name: "embedding_dense_backward",
        summary: "the gradient of embedding for its table",
        inputs: &[arg("grad", "the gradient of the rows taken"), INDICES],
        attrs: &[arg("num_weights", "the rows of the table"), PADDING, SCALE],
        arity: Arity::Listed,
        rule: backward,
    },
];

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "embedding_dense_backward";
    let (grad, indices) = (&call.inputs[0], &call.inputs[1]);
    expect::floats(op, grad)?;
    expect::indices(op, "indices", indices)?;
    let columns = match grad.shape().split_last() {
        Some((&columns, rest)) if rest == indices.shape() => columns,
        _ => {
            let message = format!("{} are no rows for {}", grad.brief(), indices.brief());
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
