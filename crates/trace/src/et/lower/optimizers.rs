//! Lowers the optimizers' steps over lists of tensors, `_fused_adamw_` and its like: to a step for
//! each parameter, and these to one call for all.

use millstream_ops::composite;
use millstream_types::Attrs;

use super::{Made, optional};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val};
use crate::et::value::Arg;

/// The optimizers: PyTorch's name, ours, and the lists of tensors in the order of our operands.
const OPTIMIZERS: &[(&str, &str, &[&str])] = &[
    ("_fused_adam_", "adam_step_", ADAM),
    ("_fused_adamw_", "adamw_step_", ADAM),
    ("_fused_sgd_", "sgd_step_", &["self", "grads", "momentum_buffer_list", "lr", SCALE, FOUND]),
    (
        "_fused_adagrad_",
        "adagrad_step_",
        &["self", "grads", "state_sums", "state_steps", "lr", SCALE, FOUND],
    ),
];
/// What divides gradients by the scale of the loss.
const UNSCALE: &str = "_amp_foreach_non_finite_check_and_unscale_";
const SCALE: &str = "grad_scale";
const FOUND: &str = "found_inf";
const ADAM: &[&str] = &[
    "self",
    "grads",
    "exp_avgs",
    "exp_avg_sqs",
    "state_steps",
    "max_exp_avg_sqs",
    "lr",
    SCALE,
    FOUND,
];

/// Lowers an op; `None` if it is none of these.
pub(super) fn optimizer(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    if name == UNSCALE {
        let mut operands =
            vec![given.tensor(import, "found_inf")?, given.tensor(import, "inv_scale")?];
        let count = if let Some((_, Arg::List(list))) = given.get("self") { list.len() } else { 0 };
        for number in 0..count {
            operands.extend(operand(import, given, "self", number)?);
        }
        import.call("unscale_", &operands, Attrs::new())?;
        return Ok(Some(Vec::new()));
    }
    let found = OPTIMIZERS.iter().find(|(theirs, ..)| *theirs == name);
    let Some((_, op, lists)) = found else { return Ok(None) };
    let count = match given.get("self") {
        Some((_, Arg::List(list))) => list.len(),
        _ => 0,
    };
    let (from, mut ends) = (import.position(), Vec::new());
    for number in 0..count {
        let mut operands = Vec::new();
        for list in *lists {
            operands.push(operand(import, given, list, number)?);
        }
        let (inputs, mut attrs) = optional(&operands);
        for attr in composite::find(op).map_or(&[][..], |op| op.attrs) {
            if !matches!(given.get(attr.name), Some((_, Arg::Tensor(_))))
                && let Some(value) = given.scalar(attr.name)?
            {
                attrs.set(attr.name, value);
            }
        }
        import.call(op, &inputs, attrs)?;
        ends.push(import.position());
    }
    import.merge_sets(from, &ends);
    Ok(Some(Vec::new()))
}

/// Returns a parameter's tensor of a list, or the tensor of all; `None` if there is none.
fn operand(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    name: &str,
    number: usize,
) -> Lowered<Option<Val>> {
    match given.get(name) {
        Some((at, Arg::List(list))) => match list.get(number) {
            None => Ok(None),
            Some(Arg::Tensor(tensor)) => import.resolve(&tensor.clone(), at).map(Some),
            Some(_) => Err(Refusal::Wrong(format!("'{name}': expected tensors"))),
        },
        Some((at, Arg::Tensor(tensor))) => import.resolve(&tensor.clone(), at).map(Some),
        _ => Ok(None),
    }
}
