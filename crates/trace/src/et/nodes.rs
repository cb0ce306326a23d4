//! The nodes of an execution trace with their tensors, for readers that link them with a timeline
//! of the same run.

use std::path::Path;

use millstream_types::TensorSpec;
use millstream_types::layout::contiguous_strides;

use crate::error::{Result, TraceError};
use crate::et::effects::effects;
use crate::et::raw_form::{FileForm, NodeForm};
use crate::et::value::{self, Arg, Recorded, inputs, outputs};
use crate::load::LoadOptions;
use crate::read::read_text;

/// A node of an execution trace.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its id: the nodes of a trace begin in the order of their ids.
    pub id: u64,
    /// Its name, such as `aten::add`.
    pub name: String,
    /// The node that called it.
    pub parent: Option<u64>,
    /// The number of the thread that ran it.
    pub thread: u64,
    /// The number that PyTorch's profiler calls "Record function id"; 0 if there is none.
    pub record_function: u64,
    /// Whether it is an op; other nodes are labels.
    pub is_op: bool,
    /// Whether it is known which of its inputs it writes.
    pub has_known_effects: bool,
    /// Whether it reads or writes elements itself: views do not, nor ops that only call others.
    pub touches: bool,
    /// The tensors that it is given.
    pub inputs: Vec<NodeTensor>,
    /// The tensors that it returns.
    pub outputs: Vec<NodeTensor>,
}

/// A tensor of a node. The ids are addresses, which PyTorch reuses after a tensor is freed.
#[derive(Clone, Debug)]
pub struct NodeTensor {
    /// The id of the tensor.
    pub tensor: u64,
    /// The id of its storage.
    pub storage: u64,
    /// Its dtype and layout; dense where the trace has no strides.
    pub spec: TensorSpec,
    /// Whether it is in the memory of the host.
    pub on_host: bool,
    /// Whether the op writes it.
    pub is_written: bool,
}

/// Reads the nodes of an execution trace, sorted by id. The effects of a node whose tensors are not
/// understood are not known.
///
/// # Errors
/// The file cannot be read, or is no execution trace.
pub fn nodes(path: &Path, options: &LoadOptions) -> Result<Vec<Node>> {
    let source = read_text(path, options.max_bytes)?;
    let file: FileForm<'_> = serde_json::from_str(source.text())
        .map_err(|e| crate::syntax::syntax(&source, (0, source.text()), &e))?;
    let no_trace = |what: &str| TraceError::of_file(source.name(), what);
    if file.schema.is_none() {
        return Err(no_trace("no execution trace: it has no 'schema'"));
    }
    let nodes = file.nodes.ok_or_else(|| no_trace("no execution trace: it has no 'nodes'"))?;
    let mut nodes: Vec<Node> = nodes.iter().filter_map(node).collect();
    nodes.sort_by_key(|node| node.id);
    Ok(nodes)
}

/// Returns whether an op writes each of its arguments, by its schema, and whether that is known.
/// `flags` are the arguments that are true.
pub fn written(schema: &str, flags: &[usize]) -> (Vec<bool>, bool) {
    let args = 0..=schema.matches(',').count();
    let args: Vec<Arg> = args.map(|k| Arg::Bool(flags.contains(&k))).collect();
    let effects = effects(schema, &args);
    (effects.written, effects.is_known)
}

fn node(form: &NodeForm<'_>) -> Option<Node> {
    let schema = form.schema();
    let args = inputs(form).ok().zip(outputs(form).ok());
    let is_understood = args.is_some();
    let (inputs, outputs) = args.unwrap_or_default();
    let effects = effects(&schema, &inputs);
    let tensors = |args: &[Arg], written: &[bool]| {
        let mut tensors = Vec::new();
        for (k, arg) in args.iter().enumerate() {
            let is_written = written.get(k).copied().unwrap_or(false);
            let mut found = Vec::new();
            value::tensors(std::slice::from_ref(arg), &mut found);
            tensors.extend(found.into_iter().filter_map(|found| tensor(found, is_written)));
        }
        tensors
    };
    Some(Node {
        id: form.id?,
        name: form.name.as_deref().unwrap_or_default().to_owned(),
        parent: form.caller(),
        thread: form.thread(),
        record_function: form.record_function(),
        is_op: !schema.is_empty(),
        has_known_effects: effects.is_known && is_understood,
        touches: effects.touches,
        inputs: tensors(&inputs, &effects.written),
        outputs: tensors(&outputs, &[]),
    })
}

fn tensor(recorded: &Recorded, is_written: bool) -> Option<NodeTensor> {
    let strides = match &recorded.strides {
        Some(strides) => strides.clone(),
        None => contiguous_strides(&recorded.shape).ok()?,
    };
    Some(NodeTensor {
        tensor: recorded.tensor,
        storage: recorded.storage,
        spec: recorded.spec(&strides, 0).ok()?,
        on_host: recorded.on_host,
        is_written,
    })
}
