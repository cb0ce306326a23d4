//! Lowers ops that write their results to existing tensors, which the argument `out` names.

use millstream_ops::OutputSpec;

use super::random::RANDOM;
use super::{Made, Node, formula, one};
use crate::et::args::{Converted, NodeArgs};
use crate::et::import::{Import, Lazy, Lowered, Val, unsupported};
use crate::et::signature::Signature;
use crate::et::value::Arg;

/// Lowers an op with `out`. A result of another dtype is converted, and a target of another shape
/// is replaced, as PyTorch resizes it.
pub(super) fn with_outs(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let params = &node.given.signature.params;
    let first = params.iter().position(|p| p.out).unwrap_or(params.len());
    if params[first..].iter().any(|p| !p.out) {
        return Err(unsupported("arguments follow those that results are written to"));
    }
    let mut targets = Vec::new();
    for param in &params[first..] {
        match node.given.get(&param.name) {
            Some((_, Arg::List(_))) => targets.extend(node.tensors(&param.name)?),
            _ => targets.push(node.tensor(&param.name)?),
        }
    }
    let signature = Signature { params: params[..first].to_vec(), ..node.given.signature.clone() };
    let before = node.given.args.len().min(first);
    let given = &NodeArgs { signature: &signature, args: node.given.args[..before].into() };
    let is_random = RANDOM.contains(&signature.base());
    // Random numbers have the dtype that they have without a target.
    let out = targets.first().map(|target| node.import.spec(*target).dtype);
    let out = out.filter(|_| !is_random);
    let node = &mut Node { import: &mut *node.import, given, results: node.results, out };

    let base = signature.base();
    let op = formula::find(node, base).map_or(Some(base), |rule| rule.renamed());
    let special = SPECIAL.contains(&base) || is_random || node.import.has_recorded_results();
    let op = op.filter(|op| !special && node.import.ops().find(op).is_some());
    let made = if let Some(op) = op {
        let converted = node.convert(op, &[])?;
        if can_write_directly(node.import, op, &converted, &targets)? {
            node.import.call_into(op, &converted.inputs, converted.attrs, &targets)?;
            if node.results.is_empty() {
                return Ok(Vec::new());
            }
            return Ok(targets.into_iter().map(Some).collect());
        }
        node.import.made(op, converted)?
    } else {
        one(node, base)?
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
        let lazy = node.import.lazy(made);
        if base == "linalg_lu_solve" && node.import.spec(target).layout.is_contiguous() {
            let made = node.import.as_lazy(made, Lazy::NONE)?;
            let target = node.import.as_lazy(target, Lazy::NONE)?;
            let target = write(node.import, made, target)?;
            written.push(Some(node.import.as_lazy(target, lazy)?));
            continue;
        }
        written.push(Some(write(node.import, made, target)?));
    }
    // Ops that write to a list of tensors return nothing.
    Ok(if node.results.is_empty() { Vec::new() } else { written })
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
    let of_target = import.spec(target).clone();
    if import.spec(made).shape() == of_target.shape() {
        return import.apply("copy_", &[target, made]);
    }
    import.cast(made, of_target.dtype)
}
