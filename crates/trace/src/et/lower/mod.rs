//! Lowers PyTorch's ops to calls of Millstream's ops. Most become the op of the same name, with
//! arguments named as in PyTorch's schema. This module handles the exceptions.
//!
//! Long because it has a line for each exception.

mod attention;
mod complex;
mod create;
mod foreach;
mod formula;
mod out;
mod random;
mod recurrent;
mod rules;
mod special;
mod views;

use millstream_ops::args::ABSENT;
use millstream_ops::{OpRegistry, composite};
use millstream_types::{Attrs, DType};

use crate::et::args::{self, Converted, NodeArgs};
use crate::et::collective;
use crate::et::import::{Import, Lowered, Refusal, Val, missing, unsupported};
use crate::et::lower::attention::attention;
use crate::et::lower::complex::complex;
use crate::et::lower::create::{arange, create, generated, is_creation, resize};
use crate::et::lower::foreach::foreach;
use crate::et::lower::out::with_outs;
use crate::et::lower::random::{RANDOM, random, recorded};
use crate::et::lower::special::{
    alignment_backward, alignment_loss, bincount, distinct, embedding_bag, fill, filled,
    masked_index, read_both, with_statistics,
};
use crate::et::lower::views::{copied_view, scattered_view};
use crate::et::signature::Signature;
use crate::et::value::{Arg, Recorded};

/// Ops that need no call. Millstream tracks last uses on all streams, so `record_stream` has no
/// effect; the others query or set properties that no element depends on.
const NOTHING: &[&str] = &[
    "record_stream",
    "is_pinned",
    "_version",
    "set_data",
    "_has_same_storage_numel",
    "is_same_size",
    "_linalg_check_errors",
    "_assert_async",
    "_assert_tensor_metadata",
];

const BATCH_NORM: &str = "native_batch_norm";

/// Ops that change operands, the running statistics, which PyTorch's schemas do not declare.
const UNDECLARED_WRITES: &[&str] =
    &["batch_norm", "cudnn_batch_norm", "instance_norm", "native_batch_norm"];

/// Returns whether Millstream has an op of this name.
pub(crate) fn knows(ops: &OpRegistry, name: &str) -> bool {
    let Some(bare) = name.strip_prefix("aten::") else { return ops.find(name).is_some() };
    ops.find(bare.split('.').next().unwrap_or(bare)).is_some()
}

/// Lowers a call of a PyTorch op, and returns its results.
pub(crate) fn calls(
    import: &mut Import<'_>,
    signature: &Signature,
    args: &[Arg],
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    if args.len() > signature.params.len() {
        return Err(Refusal::Wrong(format!(
            "the node has {} arguments, and its schema {}",
            args.len(),
            signature.params.len()
        )));
    }
    let given = NodeArgs { signature, args: args.into() }.with_exact_fractions(import)?;
    lower(import, &given, results)
}

/// Lowers a node and binds its results.
pub(crate) fn node(
    import: &mut Import<'_>,
    signature: &Signature,
    args: &[Arg],
    results: &[Option<Recorded>],
) -> Lowered<()> {
    let mut made = calls(import, signature, args, results)?;
    if results.iter().skip(made.len()).all(Option::is_none) {
        made.resize(results.len(), None);
    }
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

pub(crate) type Made = Vec<Option<Val>>;

fn lower(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let name = given.signature.name.as_str();
    if name.starts_with("c10d::") || name == collective::WAIT {
        return collective::lower(import, given);
    }
    // torchvision's ops have their names here, too.
    if !name.starts_with("aten::") && !name.starts_with("torchvision::") {
        if !knows(import.ops(), name) {
            if import.has_recorded_results() {
                return recorded(import, given.signature.base(), given, results);
            }
            let message = "a custom kernel, which the trace does not hold".to_owned();
            return Err(missing(name, message, None));
        }
        return same(import, name, given, results);
    }
    let base = given.signature.base();
    if NOTHING.contains(&base) {
        return Ok(Vec::new());
    }
    if given.signature.params.iter().any(|p| p.out) {
        return with_outs(import, given, results);
    }
    match base.strip_prefix("_foreach_") {
        Some(name) => foreach(import, name, given),
        None if base.starts_with("_fused_") && is_list(given) => foreach(import, base, given),
        None => one(import, base, given, results),
    }
}

/// Returns whether an op changes each tensor of a list.
fn is_list(given: &NodeArgs<'_>) -> bool {
    matches!(given.get("self"), Some((_, Arg::List(_))))
}

/// Lowers an op, named without namespace and overload, that writes to no `out`.
fn one(
    import: &mut Import<'_>,
    base: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    if RANDOM.contains(&base) {
        return random(import, base, given, results);
    }
    // An op that the recorder was asked to save.
    if import.has_recorded_results() {
        return recorded(import, base, given, results);
    }
    match base {
        _ if is_creation(base) => return create(import, base, given, None),
        "arange" => return arange(import, given, None),
        "resize_" | "resize_as_" => return resize(import, given),
        "conj_physical_" => return complex::conjugate_in_place(import, given),
        "detach_" => return Ok(vec![Some(given.tensor(import, "self")?)]),
        // Before a recurrent layer, an empty tensor becomes the buffer of its weights, which the
        // layer is given one by one as well.
        "set_" if is_empty(given) => {
            let view = |recorded: &Option<Recorded>| {
                recorded.as_ref().map(|recorded| buffer(import, recorded)).transpose()
            };
            return results.iter().map(view).collect();
        }
        "_local_scalar_dense" => {
            let val = given.tensor(import, "self")?;
            import.read(val)?;
            return Ok(Vec::new());
        }
        "equal" | "allclose" => return read_both(import, given),
        // A dimension of length 0 has no elements to return.
        "unbind" | "unbind_copy"
            if results.is_empty() && !given.signature.name.ends_with("out") =>
        {
            return Ok(Vec::new());
        }
        "zero_" | "fill_" => return fill(import, given),
        "fill" | "zero" => return filled(import, given),
        _ => {}
    }
    if let Some(made) = generated(import, base, given, None)? {
        return Ok(made);
    }
    if base.ends_with('_') {
        if composite::find(base).is_some() {
            return same(import, base, given, results);
        }
        if let Some(rule) = formula::find(import, base, given) {
            return rule.apply(import, given, results);
        }
    }
    let plain = base.strip_suffix('_').filter(|_| given.get("self").is_some());
    if let Some(made) = several(import, plain.unwrap_or(base), given, results)? {
        return match plain {
            Some(_) => write_back(import, given, made),
            None => Ok(made),
        };
    }
    if import.ops().find(base).is_some() {
        return same(import, base, given, results);
    }
    if let Some(view) = base.strip_suffix("_copy")
        && let Some(made) = copied_view(import, view, given, results)?
    {
        return Ok(made);
    }
    if let Some(view) = base.strip_suffix("_scatter")
        && import.ops().find(view).is_some()
    {
        return scattered_view(import, view, given, results);
    }
    match plain {
        // An op in place that has only the form that returns a new tensor.
        Some(plain) if import.ops().find(plain).is_some() => {
            let made = one(import, plain, given, results)?;
            write_back(import, given, made)
        }
        _ => same(import, base, given, results),
    }
}

/// Returns the view of a storage that other tensors have; where none has, a tensor of its own that
/// only the library reads.
fn buffer(import: &mut Import<'_>, recorded: &Recorded) -> Lowered<Val> {
    match import.known(recorded)? {
        Some(view) => Ok(view),
        None => opaque(import, recorded),
    }
}

/// Returns whether the tensor that an op changes has no elements.
fn is_empty(given: &NodeArgs<'_>) -> bool {
    matches!(given.get("self"), Some((_, Arg::Tensor(tensor))) if tensor.shape.contains(&0))
}

/// Lowers an op, named without the `_` of its form in place, that several of ours compute together;
/// `None` if there is none of this name.
fn several(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    let made = match name {
        "_ctc_loss" => alignment_loss(import, given, results)?,
        "_ctc_loss_backward" => alignment_backward(import, given)?,
        "_cudnn_rnn" | "miopen_rnn" | "mkldnn_rnn_layer" => {
            recurrent::forward(import, name, given, results)?
        }
        "_cudnn_rnn_backward" | "miopen_rnn_backward" => {
            recurrent::layers_backward(import, given, results)?
        }
        // The weights become views of a buffer, in an order that the library chooses.
        "_cudnn_rnn_flatten_weight" | "_cudnn_init_dropout_state" => match results {
            [Some(recorded)] => vec![Some(opaque(import, recorded)?)],
            _ => return Err(unsupported("the state of a library without its size")),
        },
        "_embedding_bag" | "_embedding_bag_forward_only" => embedding_bag(import, given, results)?,
        "_pack_padded_sequence" => recurrent::packed(import, given, results)?,
        "_unique" | "_unique2" | "unique_consecutive" | "unique_dim" | "unique_dim_consecutive" => {
            distinct(import, name, given, results)?
        }
        "_unsafe_masked_index" if complex::is_complex(given, "fill") => {
            masked_index(import, given, results)?
        }
        "bincount" => bincount(import, given, results)?,
        "mkldnn_rnn_layer_backward" => recurrent::layer_backward(import, given, results)?,
        _ => {
            if let Some(made) = attention(import, name, given, results)? {
                return Ok(Some(made));
            }
            if let Some(made) = complex(import, name, given, results)? {
                return Ok(Some(made));
            }
            let rule = formula::find(import, name, given);
            let op = rule.map_or(name, |rule| rule.op());
            let made = match rule {
                Some(rule) => rule.apply(import, given, results)?,
                None if op == BATCH_NORM || composite::find(name).is_some() => {
                    same(import, name, given, results)?
                }
                None => return Ok(None),
            };
            match op == BATCH_NORM {
                true => with_statistics(import, made, given, results)?,
                false => made,
            }
        }
    };
    Ok(Some(made))
}

/// Copies the result of an op to the operand that PyTorch's op in place changes.
fn write_back(import: &mut Import<'_>, given: &NodeArgs<'_>, made: Made) -> Lowered<Made> {
    let target = given.tensor(import, "self")?;
    let [Some(made)] = made[..] else {
        return Err(unsupported("an op in place with several results"));
    };
    if import.spec(target).shape() != import.spec(made).shape() {
        return Err(Refusal::Wrong(format!(
            "it changes {}, and its result is {}",
            import.spec(target).brief(),
            import.spec(made).brief()
        )));
    }
    import.call("copy_", &[target, made], Attrs::new())?;
    Ok(vec![Some(target)])
}

/// Appends a call with one result.
pub(crate) fn one_call(
    import: &mut Import<'_>,
    op: &str,
    inputs: &[Val],
    attrs: Attrs,
) -> Lowered<Val> {
    let made = import.call(op, inputs, attrs)?;
    made.first().copied().ok_or_else(|| unsupported(format!("'{op}' returns no tensor")))
}

/// Returns zeros in place of a result that only the gradient of its library reads. No other op may
/// read them.
fn opaque(import: &mut Import<'_>, recorded: &Recorded) -> Lowered<Val> {
    let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
    let attrs = Attrs::new().with("shape", shape).with("value", 0i64);
    let made = one_call(import, "full", &[], attrs.with("dtype", recorded.dtype))?;
    import.leave_unknown(made);
    Ok(made)
}

/// Returns the operands that are given, and the argument that lists the absent ones before others.
fn optional(operands: &[Option<Val>]) -> (Vec<Val>, Attrs) {
    let last = operands.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let absent: Vec<i64> = (0..last).filter(|&k| operands[k].is_none()).map(|k| k as i64).collect();
    let attrs = if absent.is_empty() { Attrs::new() } else { Attrs::new().with(ABSENT, absent) };
    (operands.iter().copied().flatten().collect(), attrs)
}

/// Returns the lengths of a tensor as an argument.
fn shape_of(import: &Import<'_>, x: Val) -> Vec<i64> {
    import.spec(x).shape().iter().map(|&length| length as i64).collect()
}

/// Returns a tensor's elements in row-major order in another shape.
fn reshaped(import: &mut Import<'_>, x: Val, shape: &[i64]) -> Lowered<Val> {
    one_call(import, "reshape", &[x], Attrs::new().with("shape", shape.to_vec()))
}

/// Appends a call without arguments.
fn apply(import: &mut Import<'_>, op: &str, inputs: &[Val]) -> Lowered<Val> {
    one_call(import, op, inputs, Attrs::new())
}

/// Returns a tensor in a dtype.
fn cast(import: &mut Import<'_>, x: Val, dtype: DType) -> Lowered<Val> {
    match import.spec(x).dtype == dtype {
        true => Ok(x),
        false => one_call(import, "cast", &[x], Attrs::new().with("dtype", dtype)),
    }
}

/// Calls the op of this name with the node's arguments.
fn same(
    import: &mut Import<'_>,
    op: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut converted = args::convert(import, op, given, &[], results)?;
    // Some of PyTorch's kernels compute more than the mask requests, as that of a grid's samples.
    if let Some(mask) = converted.attrs.ints("output_mask")? {
        let is_made = |k: usize| results.get(k).is_some_and(Option::is_some);
        let made = mask.iter().enumerate().map(|(k, &m)| i64::from(m != 0 || is_made(k)));
        converted.attrs.set("output_mask", made.collect::<Vec<i64>>());
    }
    if composite::find(op).is_some() {
        return call(import, op, converted);
    }
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
    let mask = converted.attrs.ints("output_mask")?;
    let mut made = import.call(op, &converted.inputs, converted.attrs)?.into_iter().map(Some);
    Ok(match mask {
        None => made.collect(),
        // The op returns only the results that the mask requests.
        Some(mask) => {
            mask.into_iter().map(|m| if m == 0 { None } else { made.next().flatten() }).collect()
        }
    })
}
