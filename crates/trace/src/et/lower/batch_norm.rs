//! Lowers the batch norms of libraries. They name arguments otherwise, and add a result that only
//! their own gradient reads.

use millstream_types::{AttrValue, Attrs};

use super::{Made, call, cast, one_call, opaque, optional};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered};
use crate::et::value::{Arg, Recorded};

const OP: &str = "native_batch_norm";

/// Lowers an op; `None` if it is none of these.
pub(super) fn batch_norm(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    match name {
        OP
        | "_native_batch_norm_legit"
        | "_native_batch_norm_legit_no_training"
        | "_batch_norm_no_update"
        | "_batch_norm_with_update"
        | "cudnn_batch_norm"
        | "miopen_batch_norm" => forward(import, name, given, results).map(Some),
        "batch_norm_backward" | "cudnn_batch_norm_backward" | "miopen_batch_norm_backward" => {
            backward(import, given).map(Some)
        }
        _ => Ok(None),
    }
}

fn forward(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let without = ["exponential_average_factor", "epsilon"];
    let mut converted = args::convert(import, OP, given, &without, results)?;
    for (theirs, ours) in [(without[0], "momentum"), (without[1], "eps")] {
        if let Some(value) = given.scalar(theirs)? {
            converted.attrs.set(ours, value);
        }
    }
    match name {
        "_batch_norm_with_update" => converted.attrs.set("training", true),
        "_batch_norm_no_update" | "_native_batch_norm_legit_no_training" => {
            converted.attrs.set("training", false);
        }
        _ => {}
    }
    let eps = converted.attrs.float("eps")?.unwrap_or(1e-5);
    let mut made = call(import, OP, converted)?;
    // Without training, GPUs return the running statistics as those that the op used.
    for (k, name) in [(1, "running_mean"), (2, "running_var")] {
        let Some(Some(recorded)) = results.get(k) else { continue };
        let is_empty = made[k].is_some_and(|val| import.spec(val).numel() == 0);
        if !is_empty || recorded.numel() == 0 {
            continue;
        }
        let mut used = given.tensor(import, name)?;
        used = match k {
            1 => one_call(import, "clone", &[used], Attrs::new())?,
            _ => {
                used = one_call(import, "add", &[used], Attrs::new().with("other", eps))?;
                one_call(import, "rsqrt", &[used], Attrs::new())?
            }
        };
        made[k] = Some(cast(import, used, recorded.dtype)?);
    }
    if let Some(Some(reserve)) = results.get(3) {
        made.push(Some(opaque(import, reserve)?));
    }
    Ok(made)
}

fn backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let mut operands = Vec::new();
    for names in [
        &["grad_output", "grad_out"][..],
        &["input"],
        &["weight"],
        &["running_mean"],
        &["running_var"],
        &["save_mean"],
        &["save_var"],
    ] {
        let is_given = |name: &&&str| matches!(given.get(name), Some((_, Arg::Tensor(_))));
        operands.push(match names.iter().find(is_given) {
            Some(name) => Some(given.tensor(import, name)?),
            None => None,
        });
    }
    let (inputs, mut attrs) = optional(&operands);
    attrs.set("train", given.scalar("update")? != Some(AttrValue::Bool(false)));
    for name in ["epsilon", "eps"] {
        if let Some(eps) = given.scalar(name)? {
            attrs.set("eps", eps);
        }
    }
    attrs.set("output_mask", given.ints("output_mask")?.unwrap_or_else(|| vec![1, 1, 1]));
    call(import, "native_batch_norm_backward", args::Converted { inputs, attrs })
}
