//! The import of PyTorch execution traces, schemas 1.0.1 to 1.1.1, as programs.
//!
//! # Contract
//! Every op that computed becomes calls exactly once, or the import reports the op and the reason.
//! The schemas of Millstream's ops determine the results of a call. The recorded dtypes, shapes,
//! strides and aliases are only compared with them. A shape that depends on data is taken from the
//! trace, and the run checks it. The import executes nothing.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `raw_form`, `value` | the raw form of the file; arguments and results of a node |
//! | `signature` | PyTorch's schemas of ops |
//! | `tree` | the choice of the nodes to execute |
//! | `sidecar_notes` | the files next to a trace |
//! | `import` | the tensor of an address, its known elements, calls, checked results |
//! | `args` | arguments of PyTorch's ops as operands and attributes |
//! | `groups` | process groups, and what is recorded of a collective beside its node |
//! | `lower`, `collective` | PyTorch's ops as calls of Millstream's ops |
//! | [`lower_call`] | the same for one call, without a trace |
//! | [`nodes`], `effects` | for readers of timelines: nodes with their tensors, what they write |
//! | [`report`] | the executed and the skipped nodes, the synthesized data |

mod args;
mod call;
mod collective;
mod effects;
mod groups;
mod import;
mod lower;
pub mod nodes;
mod raw_form;
pub mod report;
pub(crate) mod sidecar_notes;
mod signature;
mod tree;
mod value;

pub use call::{Argument, LoweredCall, lower_call};

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use millstream_ops::OpRegistry;
use millstream_types::nearest::nearest;
use millstream_types::{StreamMode, StreamType};

use crate::error::{Result, Site, TraceError};
use crate::et::groups::Groups;
use crate::et::import::{Import, Refusal};
use crate::et::raw_form::{FileForm, NodeForm, SCHEMAS};
use crate::et::report::{Imported, Skipped};
use crate::et::sidecar_notes::SidecarNotes;
use crate::et::signature::Signature;
use crate::et::tree::{Step, Tree, label_ranges, steps};
use crate::et::value::{Arg, Recorded};
use crate::load::LoadOptions;
use crate::number::Number;
use crate::program::{Block, Body, Program, Stream};
use crate::source::{Source, Span};

/// The options of the import of execution traces.
#[derive(Clone)]
pub struct EtOptions {
    /// The registered ops.
    pub ops: Arc<OpRegistry>,
    /// The substitute for lost numbers; `None` makes a lost number an error.
    pub missing_scalar: Option<Number>,
    /// The seed of own random numbers for random ops whose results the recording does not hold.
    /// Results that depend on them are not compared. `None` makes such an op an error.
    pub random: Option<u64>,
    /// Whether only the structure of the trace matters: nodes that cannot be executed are skipped,
    /// lost numbers are 1, and unknown elements are synthesized. Otherwise an op that reads unknown
    /// elements is an error.
    pub structural: bool,
    /// The seed of random elements for tensors that no file holds and no hint defines; `None` makes
    /// such a tensor an error. With random elements, no output is compared.
    pub random_inputs: Option<u64>,
}

impl Default for EtOptions {
    /// Returns options with the standard ops, for which missing data is an error.
    fn default() -> EtOptions {
        let ops = Arc::new(millstream_ops::standard());
        EtOptions {
            ops,
            missing_scalar: None,
            random: None,
            structural: false,
            random_inputs: None,
        }
    }
}

impl fmt::Debug for EtOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtOptions")
            .field("missing_scalar", &self.missing_scalar)
            .field("random", &self.random)
            .field("structural", &self.structural)
            .field("random_inputs", &self.random_inputs)
            .finish_non_exhaustive()
    }
}

/// The prefix of labels that bind a name to a tensor: `bind:in/x`, `bind:out/loss`.
pub(crate) const BIND: &str = "bind:";

/// Imports the trace of this text.
pub(crate) fn import(
    text: &Source,
    folder: Option<&Path>,
    options: &LoadOptions,
) -> Result<Program> {
    let file: FileForm<'_> = serde_json::from_str(text.text())
        .map_err(|e| crate::syntax::syntax(text, (0, text.text()), &e))?;
    let whole = |message: String| TraceError::of_file(text.name(), message);
    let schema =
        file.schema.ok_or_else(|| whole("no execution trace: it has no 'schema'".into()))?;
    check_schema(&schema).map_err(|help| {
        whole(format!("schema '{schema}' of execution traces is not known")).help(help)
    })?;
    let mut nodes = file.nodes.unwrap_or_default();
    if nodes.is_empty() {
        return Err(whole("the trace has no nodes".to_owned()));
    }
    if nodes.len() > options.max_items {
        return Err(whole(format!("more than {} nodes", options.max_items)));
    }
    if let Some(at) = nodes.iter().position(|n| n.id.is_none()) {
        return Err(whole(format!("entry {at} of its nodes has no id")));
    }
    nodes.sort_by_key(|n| n.id);
    let schemas: Vec<String> = nodes.iter().map(|n| n.schema().into_owned()).collect();
    let source = Arc::new(Source::of_nodes(text.name().to_owned(), labels(&nodes, &schemas)));
    for pair in nodes.windows(2) {
        if pair[0].id == pair[1].id {
            let id = pair[0].id.unwrap_or_default();
            return Err(TraceError::at(&source, node_span(id), "two nodes have this id"));
        }
    }
    if let Some(id) = nodes.last().and_then(|n| n.id).filter(|id| u32::try_from(*id).is_err()) {
        return Err(whole(format!("node id {id} is too large: expected less than 2^32")));
    }

    let notes = SidecarNotes::read(folder)?;
    let name = notes.meta.name.clone();
    let eager = notes.meta.eager.clone();
    let mut places = BTreeMap::new();
    for (place, nodes) in &notes.meta.places {
        let place: Arc<str> = place.as_str().into();
        places.extend(nodes.iter().map(|node| (*node, place.clone())));
    }
    let tree = Tree::new(&nodes, &schemas);
    let report = Imported {
        schema: schema.into_owned(),
        nodes: nodes.len(),
        labels: label_ranges(&tree),
        eager: eager.filter(|eager| eager.seconds.is_finite() && eager.seconds > 0.0),
        places,
        ..Imported::default()
    };
    let et = &options.et;
    let known = |name: &str| lower::knows(&et.ops, name);
    let groups = Groups::read(&tree);
    let steps = steps(&tree, &known);
    let mut run = Run {
        import: Import::new(et, notes, report, source.clone(), groups),
        signatures: HashMap::new(),
    };
    for step in steps {
        match step {
            Step::Label(k) => run.label(&nodes[k], &source)?,
            Step::Inner(k) => run.import.forget_allocations(&nodes[k]),
            Step::Op(k) => run.op(&nodes[k], &schemas[k], &source)?,
        }
    }
    if let Some((name, node)) = run.import.notes.unused_binding() {
        let message =
            format!("bindings.json binds '{name}' to it, and it is no label of that name");
        return Err(TraceError::at(&source, node_span(node), message));
    }
    let (finished, report) = run.import.finish().map_err(|r| refused(&source, 0, r))?;
    let streams = vec![Stream {
        name: "ccl".to_owned(),
        device: None,
        ty: StreamType::CCL,
        index: Some(0),
        mode: StreamMode::InOrder,
        site: Site { source: source.clone(), span: Span::default() },
    }];
    let block = Block { statements: finished.statements, events: Vec::new() };
    Ok(Program {
        name,
        streams,
        tensors: finished.tensors,
        values: finished.values,
        outputs: finished.outputs,
        spread: true,
        imported: Some(Box::new(report)),
        ..Program::new(&source, Body::Statements(block))
    })
}

/// Checks the version without the suffix of a vendor: `1.1.1-chakra.0.0.4` is 1.1.1.
fn check_schema(schema: &str) -> Result<(), String> {
    let version = schema.split('-').next().unwrap_or_default();
    match SCHEMAS.contains(&version) {
        true => Ok(()),
        false => {
            let near = nearest(version, SCHEMAS.iter().copied());
            let near = near.map_or(String::new(), |n| format!("; {n} is the nearest"));
            Err(format!("this program reads {}{near}", SCHEMAS.join(", ")))
        }
    }
}

/// Returns the names of nodes in messages, by id: the op, or the name of a label.
fn labels(nodes: &[NodeForm<'_>], schemas: &[String]) -> HashMap<u32, Arc<str>> {
    let mut names: HashMap<&str, Arc<str>> = HashMap::new();
    let mut labels = HashMap::new();
    for (node, schema) in nodes.iter().zip(schemas) {
        let name = match schema.split('(').next().map(str::trim) {
            Some(op) if !op.is_empty() => op,
            _ => node.name.as_deref().unwrap_or_default(),
        };
        let Some(id) = node.id.and_then(|id| u32::try_from(id).ok()) else { continue };
        let name = names.entry(name).or_insert_with(|| Arc::from(name));
        labels.insert(id, name.clone());
    }
    labels
}

/// Returns the span that stands for a node.
fn node_span(id: u64) -> Span {
    Span { line: u32::try_from(id).unwrap_or(u32::MAX), ..Span::default() }
}

fn refused(source: &Source, node: u64, refusal: Refusal) -> TraceError {
    match refusal {
        Refusal::Wrong(message) => TraceError::at(source, node_span(node), message),
        Refusal::Unsupported { message, help } => {
            let error = TraceError::at(source, node_span(node), message);
            help.into_iter().fold(error, TraceError::help)
        }
    }
}

struct Run<'a> {
    import: Import<'a>,
    signatures: HashMap<String, Option<Arc<Signature>>>,
}

impl Run<'_> {
    /// Imports a label, which may bind a name.
    fn label(&mut self, node: &NodeForm<'_>, source: &Source) -> Result<()> {
        let id = node.id.unwrap_or_default();
        let bound = self.import.notes.take_binding(id);
        let name = node.name.as_deref().unwrap_or_default();
        let error = |message: String| TraceError::at(source, node_span(id), message);
        let Some(name) = name.strip_prefix(BIND) else {
            return match bound {
                None => Ok(()),
                Some((bound, ..)) => Err(error(format!(
                    "bindings.json binds '{bound}' to it, and it is no label of that name"
                ))),
            };
        };
        let args = value::inputs(node).map_err(error)?;
        let [Arg::Tensor(given)] = &args[..] else {
            return Err(error("expected one tensor to bind".to_owned()));
        };
        match bound {
            None if self.import.notes.bound => {
                return Err(error(format!("bindings.json does not bind '{name}'")));
            }
            None if !self.import.options.structural => {
                return Err(error(format!("it binds '{name}', and there is no bindings.json")));
            }
            None => {}
            Some((bound, tensor, shape))
                if bound == name && tensor == given.tensor && shape == given.shape.as_slice() => {}
            Some((bound, tensor, shape)) => {
                return Err(error(format!(
                    "bindings.json binds '{bound}', tensor {tensor} of shape {shape:?}, and the \
                     trace '{name}', tensor {} of shape {:?}",
                    given.tensor, given.shape
                )));
            }
        }
        self.import.begin_node(id, node_span(id), &[]);
        let done = match name.split_once('/') {
            Some(("in", _)) => self.import.bind_input(name, given),
            Some(("out", _)) => self.import.bind_output(name, given),
            _ => return Err(error(format!("'{name}': expected in/NAME or out/NAME"))),
        };
        done.map_err(|r| refused(source, id, r))
    }

    /// Imports an op: lowers it to calls, or skips it if the options allow that.
    fn op(&mut self, node: &NodeForm<'_>, schema: &str, source: &Source) -> Result<()> {
        let id = node.id.unwrap_or_default();
        let args = value::inputs(node).and_then(|inputs| Ok((inputs, value::outputs(node)?)));
        let (args, fault) =
            args.map_or_else(|fault| (None, Some(fault)), |args| (Some(args), None));
        let (inputs, outputs) = args.unwrap_or_default();
        let mut seen = Vec::new();
        value::tensors(&inputs, &mut seen);
        value::tensors(&outputs, &mut seen);
        let bytes: u64 = seen.iter().map(|t| t.bytes()).fold(0, u64::saturating_add);
        let results = flatten(&outputs);
        self.import.begin_node(id, node_span(id), &results);
        let signature = match self.signatures.get(schema) {
            Some(known) => known.clone(),
            None => {
                let parsed = Signature::parse(schema).map(Arc::new);
                self.signatures.insert(schema.to_owned(), parsed.clone());
                parsed
            }
        };
        let done = match (fault, signature) {
            (Some(fault), _) => Err(fault.into()),
            (_, Some(signature)) => lower::node(&mut self.import, &signature, &inputs, &results),
            (_, None) => Err(Refusal::Wrong(format!("'{schema}' is not the schema of an op"))),
        };
        match done {
            Ok(()) => {
                let name = schema.split('(').next().unwrap_or_default().trim().to_owned();
                self.import.report.ops += 1;
                self.import.report.bytes += bytes;
                *self.import.report.executed.entry(name).or_default() += 1;
                Ok(())
            }
            Err(refusal) if self.import.options.structural => {
                self.import.unbind(&results);
                let (Refusal::Wrong(reason) | Refusal::Unsupported { message: reason, .. }) =
                    refusal;
                self.skip(id, schema, reason, bytes);
                Ok(())
            }
            Err(refusal) => Err(refused(source, id, refusal)),
        }
    }

    fn skip(&mut self, node: u64, schema: &str, reason: String, bytes: u64) {
        let op = schema.split('(').next().unwrap_or_default().trim().to_owned();
        let report = &mut self.import.report;
        report.ops += 1;
        report.bytes += bytes;
        report.bytes_skipped += bytes;
        report.skipped.push(Skipped { node, op, reason });
    }
}

/// Returns the results of a node in order, including those in lists; `None` stands for an undefined
/// tensor.
fn flatten(outputs: &[Arg]) -> Vec<Option<Recorded>> {
    let mut results = Vec::new();
    for output in outputs {
        match output {
            Arg::Tensor(given) => results.push(Some(given.clone())),
            Arg::Undefined => results.push(None),
            Arg::List(list) => results.extend(flatten(list)),
            _ => {}
        }
    }
    results
}
