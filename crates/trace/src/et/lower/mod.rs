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

use millstream_ops::{OpRegistry, composite};
use millstream_types::{AttrValue, Attrs, DType};

use crate::et::args::{Binder, Converted, NodeArgs};
use crate::et::collective;
use crate::et::import::{Import, Lowered, Refusal, Val, missing, unsupported};
use crate::et::lower::attention::attention;
use crate::et::lower::complex::complex;
use crate::et::lower::create::{arange, create, generated, is_creation, resize};
use crate::et::lower::foreach::foreach;
use crate::et::lower::out::with_outs;
use crate::et::lower::random::{RANDOM, random, recorded};
use crate::et::lower::special::{
    alignment, distinct, embedding_bag, fill, masked_index, of_length, with_statistics,
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

/// A call of a PyTorch op on its way to calls of ours.
pub(crate) struct Node<'c, 'i> {
    pub(crate) import: &'c mut Import<'i>,
    pub(crate) given: &'c NodeArgs<'c>,
    pub(crate) results: &'c [Option<Recorded>],
    /// The dtype of the tensor that the result is written to.
    pub(crate) out: Option<DType>,
}

impl<'c> Node<'c, '_> {
    /// Returns the tensor of this name.
    pub(crate) fn tensor(&mut self, name: &str) -> Lowered<Val> {
        self.given.tensor(self.import, name)
    }

    /// Returns the recorded result of this number.
    fn result(&self, k: usize) -> Option<&'c Recorded> {
        self.results.get(k).and_then(Option::as_ref)
    }

    /// Returns the tensors of a list.
    fn tensors(&mut self, name: &str) -> Lowered<Vec<Val>> {
        self.given.tensors(self.import, name)
    }

    /// Converts the arguments to operands and attributes of an op. Leaves the parameters in
    /// `without` to the caller.
    fn convert(&mut self, op: &str, without: &[&str]) -> Lowered<Converted> {
        let mut binder = Binder::new(self, op)?;
        let params = self.given.signature.params.iter().enumerate();
        for (index, param) in params.take(self.given.args.len()) {
            if !without.contains(&param.name.as_str()) {
                binder.bind(self.import, index, false)?;
            }
        }
        binder.finish(self.import)
    }
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
    let given = &NodeArgs { signature, args: args.into() }.with_exact_fractions(import)?;
    lower(&mut Node { import, given, results, out: None })
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
        let Some(recorded) = recorded else { continue };
        let absent = || format!("result {k} is absent, and the trace has {}", recorded.brief());
        import.bind_result(k, recorded, val.ok_or_else(|| Refusal::Wrong(absent()))?)?;
    }
    Ok(())
}

pub(crate) type Made = Vec<Option<Val>>;

fn lower(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let name = node.given.signature.name.as_str();
    if name.starts_with("c10d::") || name == collective::WAIT {
        return collective::lower(node);
    }
    // torchvision's ops have their names here, too.
    if !name.starts_with("aten::") && !name.starts_with("torchvision::") {
        if !knows(node.import.ops(), name) {
            if node.import.has_recorded_results() {
                return recorded(node, node.given.signature.base());
            }
            let message = "a custom kernel, which the trace does not hold".to_owned();
            return Err(missing(name, message, None));
        }
        return same(node, name);
    }
    let base = node.given.signature.base();
    if NOTHING.contains(&base) {
        return Ok(Vec::new());
    }
    if node.given.signature.params.iter().any(|p| p.out) {
        return with_outs(node);
    }
    match base.strip_prefix("_foreach_") {
        Some(name) => foreach(node, name),
        None if base.starts_with("_fused_") && is_list(node.given) => foreach(node, base),
        None => one(node, base),
    }
}

/// Returns whether an op changes each tensor of a list.
fn is_list(given: &NodeArgs<'_>) -> bool {
    matches!(given.get("self"), Some((_, Arg::List(_))))
}

/// Lowers an op, named without namespace and overload, that writes to no `out`.
fn one(node: &mut Node<'_, '_>, base: &str) -> Lowered<Made> {
    if RANDOM.contains(&base) {
        return random(node, base);
    }
    // An op that the recorder was asked to save.
    if node.import.has_recorded_results() {
        return recorded(node, base);
    }
    match base {
        _ if is_creation(base) => return create(node, base),
        "arange" => return arange(node),
        "resize_" | "resize_as_" => return resize(node),
        "conj_physical_" => return complex::conjugate_in_place(node),
        "detach_" => return Ok(vec![Some(node.tensor("self")?)]),
        // Before a recurrent layer, an empty tensor becomes the buffer of its weights, which the
        // layer is given one by one as well.
        "set_" if is_empty(node.given) => {
            let view =
                |of: &Option<Recorded>| of.as_ref().map(|of| node.import.buffer(of)).transpose();
            return node.results.iter().map(view).collect();
        }
        // Questions whose answers are no tensors read their operands.
        "_local_scalar_dense" | "equal" | "allclose" => {
            for name in ["self", "other"].into_iter().filter(|name| node.given.has_tensor(name)) {
                let val = node.tensor(name)?;
                node.import.read(val)?;
            }
            return Ok(Vec::new());
        }
        // A dimension of length 0 has no elements to return.
        "unbind" | "unbind_copy"
            if node.results.is_empty() && !node.given.signature.name.ends_with("out") =>
        {
            return Ok(Vec::new());
        }
        "fill" | "fill_" | "zero" | "zero_" => return fill(node, base),
        _ => {}
    }
    if let Some(made) = generated(node, base)? {
        return Ok(made);
    }
    if base.ends_with('_') {
        if composite::find(base).is_some() {
            return same(node, base);
        }
        if let Some(rule) = formula::find(node, base) {
            return rule.apply(node);
        }
    }
    let plain = base.strip_suffix('_').filter(|_| node.given.get("self").is_some());
    if let Some(made) = several(node, plain.unwrap_or(base))? {
        return match plain {
            Some(_) => write_back(node, made),
            None => Ok(made),
        };
    }
    if node.import.ops().find(base).is_some() {
        return same(node, base);
    }
    if let Some(view) = base.strip_suffix("_copy")
        && let Some(made) = copied_view(node, view)?
    {
        return Ok(made);
    }
    if let Some(view) = base.strip_suffix("_scatter")
        && node.import.ops().find(view).is_some()
    {
        return scattered_view(node, view);
    }
    match plain {
        // An op in place that has only the form that returns a new tensor.
        Some(plain) if node.import.ops().find(plain).is_some() => {
            let made = one(node, plain)?;
            write_back(node, made)
        }
        _ => same(node, base),
    }
}

/// Returns whether the tensor that an op changes has no elements.
fn is_empty(given: &NodeArgs<'_>) -> bool {
    matches!(given.get("self"), Some((_, Arg::Tensor(tensor))) if tensor.shape.contains(&0))
}

/// Lowers an op, named without the `_` of its form in place, that several of ours compute together;
/// `None` if there is none of this name.
fn several(node: &mut Node<'_, '_>, name: &str) -> Lowered<Option<Made>> {
    let made = match name {
        "_ctc_loss" | "_ctc_loss_backward" => alignment(node, name)?,
        "_cudnn_rnn" | "miopen_rnn" | "mkldnn_rnn_layer" => recurrent::forward(node, name)?,
        "_cudnn_rnn_backward" | "miopen_rnn_backward" => recurrent::layers_backward(node)?,
        // The weights become views of a buffer, in an order that the library chooses.
        "_cudnn_rnn_flatten_weight" | "_cudnn_init_dropout_state" => match node.results {
            [Some(recorded)] => vec![Some(node.import.opaque(recorded)?)],
            _ => return Err(unsupported("the state of a library without its size")),
        },
        "_embedding_bag" | "_embedding_bag_forward_only" => embedding_bag(node)?,
        "_pack_padded_sequence" => recurrent::packed(node)?,
        "_unique" | "_unique2" | "unique_consecutive" | "unique_dim" | "unique_dim_consecutive" => {
            distinct(node, name)?
        }
        "_unsafe_masked_index" if complex::is_complex(node.given, "fill") => masked_index(node)?,
        // A number beyond the bins fails the call.
        "bincount" => of_length(node, name, "bins")?,
        "repeat_interleave" => of_length(node, name, "output_size")?,
        "mkldnn_rnn_layer_backward" => recurrent::layer_backward(node)?,
        _ => {
            if let Some(made) = attention(node, name)? {
                return Ok(Some(made));
            }
            if let Some(made) = complex(node, name)? {
                return Ok(Some(made));
            }
            let rule = formula::find(node, name);
            let op = rule.map_or(name, |rule| rule.op());
            let made = match rule {
                Some(rule) => rule.apply(node)?,
                None if op == BATCH_NORM || composite::find(name).is_some() => same(node, name)?,
                None => return Ok(None),
            };
            match op == BATCH_NORM {
                true => with_statistics(node, made)?,
                false => made,
            }
        }
    };
    Ok(Some(made))
}

/// Copies the result of an op to the operand that PyTorch's op in place changes.
fn write_back(node: &mut Node<'_, '_>, made: Made) -> Lowered<Made> {
    let target = node.tensor("self")?;
    let [Some(made)] = made[..] else {
        return Err(unsupported("an op in place with several results"));
    };
    if node.import.spec(target).shape() != node.import.spec(made).shape() {
        return Err(Refusal::Wrong(format!(
            "it changes {}, and its result is {}",
            node.import.spec(target).brief(),
            node.import.spec(made).brief()
        )));
    }
    node.import.copied_to(target, made)
}

/// Calls the op of this name with the node's arguments.
fn same(node: &mut Node<'_, '_>, op: &str) -> Lowered<Made> {
    let mut converted = node.convert(op, &[])?;
    // Some of PyTorch's kernels compute more than the mask requests, as that of a grid's samples.
    if let Some(mask) = converted.attrs.ints("output_mask")? {
        let is_made = |k: usize| node.result(k).is_some();
        let made = mask.iter().enumerate().map(|(k, &m)| i64::from(m != 0 || is_made(k)));
        converted.attrs.set("output_mask", made.collect::<Vec<i64>>());
    }
    if composite::find(op).is_some() {
        return node.import.made(op, converted);
    }
    let inferred = node.import.infer(op, &converted.inputs, &converted.attrs)?;
    let signature = node.given.signature;
    let may_write = signature.writes || UNDECLARED_WRITES.contains(&signature.base());
    if !may_write && inferred.accesses.iter().any(|access| access.writes()) {
        return Err(unsupported(format!(
            "'{op}' changes its operand, and {} returns a new tensor",
            signature.name
        )));
    }
    node.import.made(op, converted)
}

impl Import<'_> {
    /// Appends a call with one result.
    pub(crate) fn one(&mut self, op: &str, inputs: &[Val], attrs: Attrs) -> Lowered<Val> {
        let made = self.call(op, inputs, attrs)?;
        made.first().copied().ok_or_else(|| unsupported(format!("'{op}' returns no tensor")))
    }

    /// Appends a call without arguments.
    pub(crate) fn apply(&mut self, op: &str, inputs: &[Val]) -> Lowered<Val> {
        self.one(op, inputs, Attrs::new())
    }

    /// Appends a call, and returns its results with the absent ones.
    fn made(&mut self, op: &str, converted: Converted) -> Lowered<Made> {
        let mask = converted.attrs.ints("output_mask")?;
        let mut made = self.call(op, &converted.inputs, converted.attrs)?.into_iter().map(Some);
        Ok(match mask {
            None => made.collect(),
            // The op returns only the results that the mask requests.
            Some(mask) => {
                let result = |m: i64| if m == 0 { None } else { made.next().flatten() };
                mask.into_iter().map(result).collect()
            }
        })
    }

    /// Returns a new tensor of one value.
    pub(crate) fn full(
        &mut self,
        shape: Vec<i64>,
        value: impl Into<AttrValue>,
        dtype: DType,
    ) -> Lowered<Val> {
        let attrs = Attrs::new().with("shape", shape).with("value", value);
        self.one("full", &[], attrs.with("dtype", dtype))
    }

    /// Copies the elements of a tensor to another one, which is the result.
    fn copied_to(&mut self, target: Val, from: Val) -> Lowered<Made> {
        Ok(vec![Some(self.apply("copy_", &[target, from])?)])
    }

    /// Returns a tensor in a dtype.
    pub(crate) fn cast(&mut self, x: Val, dtype: DType) -> Lowered<Val> {
        match self.spec(x).dtype == dtype {
            true => Ok(x),
            false => self.one("cast", &[x], Attrs::new().with("dtype", dtype)),
        }
    }

    /// Returns a tensor's elements in row-major order in another shape.
    pub(crate) fn reshaped(&mut self, x: Val, shape: Vec<i64>) -> Lowered<Val> {
        self.one("reshape", &[x], Attrs::new().with("shape", shape))
    }

    /// Returns a row-major copy.
    fn dense(&mut self, x: Val) -> Lowered<Val> {
        self.one("clone", &[x], Attrs::new().with("memory_format", "contiguous"))
    }

    /// Returns a view of a range along a dimension.
    pub(crate) fn narrow(&mut self, x: Val, dim: i64, start: i64, length: i64) -> Lowered<Val> {
        let attrs = Attrs::new().with("dim", dim).with("start", start).with("length", length);
        self.one("narrow", &[x], attrs)
    }

    /// Returns the lengths of a tensor as an argument.
    pub(crate) fn shape_of(&self, x: Val) -> Vec<i64> {
        ints(self.spec(x).shape())
    }

    /// Returns the view of a storage that other tensors have; where none has, a tensor of its own
    /// that only the library reads.
    fn buffer(&mut self, recorded: &Recorded) -> Lowered<Val> {
        match self.known(recorded)? {
            Some(view) => Ok(view),
            None => self.opaque(recorded),
        }
    }

    /// Returns zeros in place of a result that only the gradient of its library reads. No other op
    /// may read them.
    fn opaque(&mut self, recorded: &Recorded) -> Lowered<Val> {
        let made = self.full(ints(&recorded.shape), 0i64, recorded.dtype)?;
        self.leave_unknown(made);
        Ok(made)
    }
}

/// Returns lengths as an argument.
pub(crate) fn ints(lengths: &[usize]) -> Vec<i64> {
    lengths.iter().map(|&length| length as i64).collect()
}
