//! Lowers ops that write their results to existing tensors, which the argument `out` names.

use millstream_ops::OutputSpec;
use millstream_types::Attrs;

use super::create::{arange, create, generated, is_creation};
use super::random::RANDOM;
use super::{Made, call, formula, one, one_call};
use crate::et::args::{self, Converted, NodeArgs};
use crate::et::import::{Import, Lazy, Lowered, Val, unsupported};
use crate::et::signature::Signature;
use crate::et::value::{Arg, Recorded};

/// Lowers an op with `out`. A result of another dtype is converted, and a target of another shape
/// is replaced, as PyTorch resizes it.
pub(super) fn with_outs(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let params = &given.signature.params;
    let first = params.iter().position(|p| p.out).unwrap_or(params.len());
    if params[first..].iter().any(|p| !p.out) {
        return Err(unsupported("arguments follow those that results are written to"));
    }
    let mut targets = Vec::new();
    for param in &params[first..] {
        match given.get(&param.name) {
            Some((at, Arg::List(list))) => {
                for arg in list.clone() {
                    let Arg::Tensor(target) = arg else {
                        return Err(unsupported("a result to be written is absent"));
                    };
                    targets.push(import.resolve(&target, at)?);
                }
            }
            _ => targets.push(given.tensor(import, &param.name)?),
        }
    }
    let signature = Signature { params: params[..first].to_vec(), ..given.signature.clone() };
    let before = given.args.len().min(first);
    let plain = NodeArgs { signature: &signature, args: given.args[..before].into() };

    let base = signature.base();
    let rule = formula::find(import, base, &plain);
    let op = rule.map_or(Some(base), |rule| rule.renamed());
    let special = SPECIAL.contains(&base) || RANDOM.contains(&base);
    let special = special || import.has_recorded_results();
    let op = op.filter(|op| !special && import.ops().find(op).is_some());
    let made = if let Some(op) = op {
        let converted = args::convert(import, op, &plain, &[], results)?;
        if can_write_directly(import, op, &converted, &targets)? {
            import.call_into(op, &converted.inputs, converted.attrs, &targets)?;
            if results.is_empty() {
                return Ok(Vec::new());
            }
            return Ok(targets.into_iter().map(Some).collect());
        }
        call(import, op, converted)?
    } else {
        let dtype = targets.first().map(|target| import.spec(*target).dtype);
        match base {
            "arange" => arange(import, &plain, dtype)?,
            _ if is_creation(base) => create(import, base, &plain, dtype)?,
            base => match generated(import, base, &plain, dtype)? {
                Some(made) => made,
                None => one(import, base, &plain, results)?,
            },
        }
    };
    if made.len() != targets.len() {
        return Err(unsupported(format!(
            "the op returns {} tensor(s), and it writes {}",
            made.len(),
            targets.len()
        )));
    }
    let mut written = Vec::new();
    for (made, target) in made.into_iter().zip(targets) {
        let made = made.ok_or_else(|| unsupported("a result to be written is absent"))?;
        // A row-major target of this op becomes a view that is conjugated where it is read.
        let lazy = import.lazy(made);
        if base == "linalg_lu_solve" && import.spec(target).layout.is_contiguous() {
            let made = import.as_lazy(made, Lazy::NONE)?;
            let target = import.as_lazy(target, Lazy::NONE)?;
            let target = write(import, made, target)?;
            written.push(Some(import.as_lazy(target, lazy)?));
            continue;
        }
        written.push(Some(write(import, made, target)?));
    }
    // Ops that write to a list of tensors return nothing.
    Ok(if results.is_empty() { Vec::new() } else { written })
}

/// Returns whether the op can write to the targets itself: they have the dtypes and shapes of its
/// results and share no memory with operands or each other, and no tensor has to be conjugated or
/// negated first.
fn can_write_directly(
    import: &Import<'_>,
    op: &str,
    converted: &Converted,
    targets: &[Val],
) -> Lowered<bool> {
    if converted.inputs.iter().chain(targets).any(|val| import.lazy(*val) != Lazy::NONE) {
        return Ok(false);
    }
    let inferred = import.infer(op, &converted.inputs, &converted.attrs)?;
    let suits = |(k, (output, target)): (usize, (&OutputSpec, &Val))| {
        let OutputSpec::Fresh(spec) = output else { return false };
        let of_target = import.spec(*target);
        let mut others = converted.inputs.iter().chain(&targets[..k]);
        of_target.dtype == spec.dtype
            && of_target.shape() == spec.shape()
            && !of_target.layout.may_overlap_itself()
            && others.all(|other| !import.same_storage(*other, *target))
    };
    Ok(inferred.outputs.len() == targets.len()
        && inferred.outputs.iter().zip(targets).enumerate().all(suits))
}

/// Ops that a call of the same name does not compute.
const SPECIAL: &[&str] =
    &["arange", "conj_physical", "dot", "fill", "full", "linalg_lu_solve", "vdot"];

/// Writes a result to a target; returns the tensor that is the node's result.
fn write(import: &mut Import<'_>, made: Val, target: Val) -> Lowered<Val> {
    let (spec, of_target) = (import.spec(made).clone(), import.spec(target).clone());
    if spec.shape() == of_target.shape() {
        import.call("copy_", &[target, made], Attrs::new())?;
        return Ok(target);
    }
    match spec.dtype == of_target.dtype {
        true => Ok(made),
        false => one_call(import, "cast", &[made], Attrs::new().with("dtype", of_target.dtype)),
    }
}
