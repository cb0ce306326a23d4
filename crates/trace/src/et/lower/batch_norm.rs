//! Lowers batch norms. Those of libraries add a result that only their own gradient reads.

use millstream_types::{AttrValue, Attrs};

use super::{Made, call, cast, one_call, opaque, rules};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered};
use crate::et::value::Recorded;

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
        _ => Ok(None),
    }
}

fn forward(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut made = match rules::find(import, name, given) {
        Some(rule) => rule.apply(import, given, results)?,
        None => {
            let converted = args::convert(import, OP, given, &[], results)?;
            call(import, OP, converted)?
        }
    };
    let eps = given.scalar("eps")?.or(given.scalar("epsilon")?).unwrap_or(AttrValue::Float(1e-5));
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
                used = one_call(import, "add", &[used], Attrs::new().with("other", eps.clone()))?;
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
