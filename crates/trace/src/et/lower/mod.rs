//! Lowers PyTorch's ops to calls of Millstream's ops. Most become the op of the same name, with
//! arguments named as in PyTorch's schema. This module handles the exceptions.

mod create;
mod special;

use millstream_ops::{OpRegistry, OutputSpec};
use millstream_types::Attrs;

use crate::et::args::{self, Converted, NodeArgs};
use crate::et::collective;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::lower::create::{arange, create};
use crate::et::lower::special::{
    cudnn_batch_norm, cudnn_batch_norm_backward, fill, filled, floor_divide, index_fill, index_put,
    plain_convolution, reversed_sub, scalar_first, to_copy,
};
use crate::et::signature::Signature;
use crate::et::value::{Arg, Recorded};

/// Random ops, whose results cannot be computed again.
const RANDOM: &[&str] = &[
    "bernoulli",
    "bernoulli_",
    "cauchy_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "multinomial",
    "normal",
    "normal_",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random_",
    "randperm",
    "rrelu_with_noise",
    "uniform_",
    "_fused_dropout",
];

/// Ops with another name in Millstream; PyTorch's name is on the left.
const RENAMED: &[(&str, &str)] = &[
    ("mm", "matmul"),
    ("bmm", "matmul"),
    ("mv", "matmul"),
    ("dot", "matmul"),
    ("lift_fresh", "alias"),
    ("lift", "alias"),
    ("_unsafe_view", "view"),
    ("_reshape_alias", "as_strided"),
    ("unsafe_split", "split"),
    ("unsafe_split_with_sizes", "split_with_sizes"),
    ("_pin_memory", "clone"),
    ("_native_batch_norm_legit", "native_batch_norm"),
    ("_convolution", "convolution"),
];

/// In-place ops that change only the layout of a tensor, with the op that returns the same view.
const RELAYING: &[(&str, &str)] = &[
    ("as_strided_", "as_strided"),
    ("squeeze_", "squeeze"),
    ("t_", "t"),
    ("transpose_", "transpose"),
    ("unsqueeze_", "unsqueeze"),
];

/// Ops that need no call. Millstream tracks last uses on all streams, so `record_stream` has no
/// effect; the others query or set properties that no element depends on.
const NOTHING: &[&str] =
    &["record_stream", "is_pinned", "_version", "set_data", "_has_same_storage_numel"];

/// Ops that change operands, the running statistics, which PyTorch's schemas do not declare.
const UNDECLARED_WRITES: &[&str] =
    &["batch_norm", "cudnn_batch_norm", "instance_norm", "native_batch_norm"];

/// Returns whether Millstream has an op of this name.
pub(crate) fn knows(ops: &OpRegistry, name: &str) -> bool {
    let Some(bare) = name.strip_prefix("aten::") else { return ops.id(name).is_ok() };
    ops.id(bare.split('.').next().unwrap_or(bare)).is_ok()
}

/// Lowers a node and binds its results.
pub(crate) fn node(
    import: &mut Import<'_>,
    signature: &Signature,
    args: &[Arg],
    results: &[Option<Recorded>],
) -> Lowered<()> {
    if args.len() > signature.params.len() {
        return Err(Refusal::Wrong(format!(
            "the node has {} arguments, and its schema {}",
            args.len(),
            signature.params.len()
        )));
    }
    let given = NodeArgs { signature, args: args.into() }.with_exact_fractions(import)?;
    let made = lower(import, &given, results)?;
    if made.len() != results.len() {
        return Err(Refusal::Wrong(format!(
            "the op returns {} tensor(s), and the trace has {}",
            made.len(),
            results.len()
        )));
    }
    for (k, (recorded, val)) in results.iter().zip(made).enumerate() {
        match (recorded, val) {
            (Some(recorded), Some(val)) => import.bind_result(k, recorded, val)?,
            (Some(recorded), None) => {
                return Err(Refusal::Wrong(format!(
                    "result {k} is absent, and the trace has {}",
                    recorded.brief()
                )));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

type Made = Vec<Option<Val>>;

fn lower(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let name = given.signature.name.as_str();
    if name.starts_with("c10d::") {
        return collective::lower(import, given);
    }
    let Some(bare) = name.strip_prefix("aten::") else {
        if !knows(import.ops(), name) {
            return Err(unsupported("a custom kernel, which the trace does not hold"));
        }
        return same(import, name, given, results);
    };
    let base = given.signature.base();
    if RANDOM.contains(&base) {
        return Err(unsupported("it is random: its results cannot be computed again"));
    }
    if let Some(name) = base.strip_prefix("_foreach_") {
        return foreach(import, name, given);
    }
    if NOTHING.contains(&base) {
        return Ok(Vec::new());
    }
    if let Some((_, view)) = RELAYING.iter().find(|(n, _)| *n == base) {
        return same(import, view, given, results);
    }
    match base {
        "zeros" | "empty" | "ones" | "full" | "new_zeros" | "new_empty" | "new_ones"
        | "new_full" | "zeros_like" | "empty_like" | "ones_like" | "full_like"
        | "empty_strided" | "new_empty_strided" | "scalar_tensor" => create(import, base, given),
        "arange" => arange(import, given, results),
        "_to_copy" => to_copy(import, given),
        "detach_" => Ok(vec![Some(given.tensor(import, "self")?)]),
        "_local_scalar_dense" => {
            let val = given.tensor(import, "self")?;
            import.read(val)?;
            Ok(Vec::new())
        }
        "zero_" | "fill_" => fill(import, given),
        "fill" | "zero" => filled(import, given),
        "index_put_" | "_index_put_impl_" | "index_put" => index_put(import, given, results),
        "index_fill_" => index_fill(import, given, results),
        "rsub" => reversed_sub(import, given, results),
        "floor_divide" | "floor_divide_" => floor_divide(import, base, given, results),
        "remainder" if bare == "remainder.Scalar_Tensor" => scalar_first(import, base, given),
        "pow" if bare == "pow.Scalar" => scalar_first(import, base, given),
        "cudnn_batch_norm" => cudnn_batch_norm(import, given, results),
        "cudnn_batch_norm_backward" => cudnn_batch_norm_backward(import, given),
        "cudnn_convolution" | "mkldnn_convolution" => plain_convolution(import, given),
        "max" | "min" if bare.ends_with(".other") => {
            let op = if base == "max" { "maximum" } else { "minimum" };
            same(import, op, given, results)
        }
        _ => {
            let renamed = RENAMED.iter().find(|(n, _)| *n == base).map(|(_, op)| *op);
            let op = renamed.unwrap_or(base);
            match out_params(given) {
                outs if !outs.is_empty() => out_variant(import, op, given, &outs, results),
                _ => same(import, op, given, results),
            }
        }
    }
}

/// Calls the op of this name with the node's arguments.
fn same(
    import: &mut Import<'_>,
    op: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let converted = args::convert(import, op, given, &[], results)?;
    let inferred = import.infer(op, &converted.inputs, &converted.attrs)?;
    let writes = inferred.accesses.iter().any(|access| access.writes());
    if writes && !given.signature.writes && !UNDECLARED_WRITES.contains(&given.signature.base()) {
        return Err(unsupported(format!(
            "'{op}' changes its operand, and {} returns a new tensor",
            given.signature.name
        )));
    }
    call(import, op, converted)
}

fn call(import: &mut Import<'_>, op: &str, converted: Converted) -> Lowered<Made> {
    let mask = converted.attrs.ints("output_mask").map_err(|e| Refusal::Wrong(e.to_string()))?;
    let mut made = import.call(op, &converted.inputs, converted.attrs)?.into_iter().map(Some);
    Ok(match mask {
        None => made.collect(),
        // The op returns only the results that the mask requests.
        Some(mask) => {
            mask.into_iter().map(|m| if m == 0 { None } else { made.next().flatten() }).collect()
        }
    })
}

/// Returns the parameters that results are written to.
fn out_params(given: &NodeArgs<'_>) -> Vec<String> {
    let overload = given.signature.name.rsplit_once('.').map_or("", |(_, o)| o);
    if !(overload.ends_with("out") || overload == "grad_input") {
        return Vec::new();
    }
    let names = given.signature.params.iter().map(|p| &p.name);
    names.filter(|n| n.starts_with("out") || *n == "grad_input").cloned().collect()
}

/// Lowers an op that writes its result to an existing tensor.
fn out_variant(
    import: &mut Import<'_>,
    op: &str,
    given: &NodeArgs<'_>,
    outs: &[String],
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let [out] = outs else { return Err(unsupported("it writes several results")) };
    let converted = args::convert(import, op, given, &[out.as_str()], results)?;
    let target = given.tensor(import, out)?;
    let inferred = import.infer(op, &converted.inputs, &converted.attrs)?;
    let [OutputSpec::Fresh(spec)] = inferred.outputs.as_slice() else {
        return Err(unsupported("its result cannot be written to a tensor"));
    };
    let target_spec = import.spec(target).clone();
    if target_spec.shape() != spec.shape() && target_spec.numel() == 0 {
        // PyTorch resizes an empty target.
        return call(import, op, converted);
    }
    let separate = converted.inputs.iter().all(|input| !import.same_storage(*input, target));
    let fits = target_spec.dtype == spec.dtype && target_spec.shape() == spec.shape();
    if separate && fits && !target_spec.layout.may_overlap_itself() {
        import.call_into(op, &converted.inputs, converted.attrs, &[target])?;
        return Ok(vec![Some(target)]);
    }
    let made = import.call(op, &converted.inputs, converted.attrs)?;
    let inputs: Vec<Val> = [target].into_iter().chain(made).collect();
    import.call("copy_", &inputs, Attrs::new())?;
    Ok(vec![Some(target)])
}

/// Lowers an op over lists of tensors to one call per tensor.
fn foreach(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Made> {
    let renamed = [("norm", "linalg_vector_norm")];
    let op = renamed.iter().find(|(n, _)| *n == name).map_or(name, |(_, op)| *op);
    let lists: Vec<usize> = given
        .args
        .iter()
        .filter_map(|arg| match arg {
            Arg::List(list) => Some(list.len()),
            _ => None,
        })
        .collect();
    let Some(&count) = lists.first() else { return Err(unsupported("no argument is a list")) };
    if lists.iter().any(|length| *length != count) {
        return Err(Refusal::Wrong(format!("lists of different lengths: {lists:?}")));
    }
    let mut params = given.signature.params.clone();
    for param in &mut params {
        use crate::et::signature::Ty;
        param.ty = match param.ty {
            Ty::Tensors => Ty::Tensor,
            Ty::Scalars => Ty::Scalar,
            other => other,
        };
        // Parameters of the op over one tensor have other names.
        let renamed = match (name, param.name.as_str()) {
            (_, "scalars")
            | ("add_" | "add" | "sub_" | "sub" | "mul_" | "mul" | "div_" | "div", "scalar") => {
                "value"
            }
            (_, other) => other,
        };
        param.name = renamed.to_owned();
        let two = ["add", "sub", "mul", "div"].contains(&name.trim_end_matches('_'));
        if two && ["value", "other", "tensor"].contains(&param.name.as_str()) {
            "other".clone_into(&mut param.name);
        }
    }
    let mut made = Vec::new();
    for k in 0..count {
        let of_one = |arg: &Arg| match arg {
            Arg::List(list) => list[k].clone(),
            other => other.clone(),
        };
        let one: Vec<Arg> = given.args.iter().map(of_one).collect();
        let signature = Signature { params: params.clone(), ..given.signature.clone() };
        let of_one = NodeArgs { signature: &signature, args: one.into() };
        made.extend(same(import, op, &of_one, &[])?);
    }
    // In-place variants return nothing.
    Ok(if name.ends_with('_') { Vec::new() } else { made })
}
