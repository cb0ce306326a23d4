//! Lowers collectives: ops in which several ranks take part. They run on the Ccl stream, in the
//! order of the trace.

use millstream_types::{AttrValue, Attrs};

use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;
use crate::program::StreamRef;

/// The only stream of an imported program.
const CCL: StreamRef = StreamRef(0);

/// Lowers an op of the namespace `c10d`; returns the tensors that the op changes as its results.
pub(crate) fn lower(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Vec<Option<Val>>> {
    if import.groups > 1 && !import.options.structural {
        return Err(unsupported(
            "the trace has several process groups and does not record which one this op uses",
        ));
    }
    let list = |import: &mut Import<'_>, name: &str| -> Lowered<Vec<Val>> {
        match given.get(name) {
            Some((at, Arg::List(list))) => list
                .iter()
                .map(|arg| match arg {
                    Arg::Tensor(tensor) => import.resolve(tensor, at),
                    _ => Err(Refusal::Wrong(format!("'{name}': expected tensors"))),
                })
                .collect(),
            _ => Err(Refusal::Wrong(format!("'{name}': expected tensors"))),
        }
    };
    let int = |name: &str| -> Lowered<i64> {
        given.int(name)?.ok_or_else(|| Refusal::Wrong(format!("'{name}': expected a rank or tag")))
    };
    let mut attrs = Attrs::new();
    let base = given.signature.base();
    let (op, inputs) = match base {
        "allreduce_" => ("allreduce_", list(import, "tensors")?),
        "broadcast_" => {
            attrs.set("root", int("root_rank")?);
            ("broadcast_", list(import, "tensors")?)
        }
        "_allgather_base_" => {
            let output = given.tensor(import, "output_tensor")?;
            ("allgather_", vec![output, given.tensor(import, "input_tensor")?])
        }
        "_reduce_scatter_base_" => {
            let output = given.tensor(import, "output_tensor")?;
            ("reduce_scatter_", vec![output, given.tensor(import, "input_tensor")?])
        }
        "alltoall_base_" => {
            for (name, ours) in
                [("output_split_sizes", "output_splits"), ("input_split_sizes", "input_splits")]
            {
                if let Some(sizes) = given.ints(name)?.filter(|sizes| !sizes.is_empty()) {
                    attrs.set(ours, AttrValue::Ints(sizes));
                }
            }
            let output = given.tensor(import, "output")?;
            ("alltoall_", vec![output, given.tensor(import, "input")?])
        }
        "send" => {
            attrs.set("to", int("dst")?);
            attrs.set("tag", int("tag")?);
            ("send", list(import, "tensors")?)
        }
        "recv_" => {
            attrs.set("from", int("src")?);
            attrs.set("tag", int("tag")?);
            ("recv_", list(import, "tensors")?)
        }
        other => return Err(unsupported(format!("there is no collective '{other}'"))),
    };
    if !matches!(op, "send" | "recv_") {
        attrs.set("round", import.next_round());
    }
    import.call_on(CCL, op, &inputs, attrs)?;
    // The recorded outputs are the changed tensors and a work handle, which has no counterpart
    // here.
    Ok(match base {
        "allreduce_" | "broadcast_" => inputs.into_iter().map(Some).collect(),
        "_allgather_base_" | "_reduce_scatter_base_" => vec![inputs.first().copied()],
        _ => Vec::new(),
    })
}
