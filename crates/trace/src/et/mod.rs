//! PyTorch Execution Traces, schemas 1.0.1 to 1.1.1, as programs.
//!
//! # Contract
//! Every op that computed is executed once, or the import says which is not and why. What the trace
//! records of results (dtypes, shapes, strides, aliases) is compared with what our ops' schemas
//! say, and never believed instead. Nothing is executed here.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `form`, `value` | the file; arguments and results of a node |
//! | `signature` | PyTorch's schemas of ops |
//! | `tree` | which nodes are executed |
//! | `notes` | the files beside a trace |
//! | `import` | addresses, calls, what is inferred against what is recorded |
//! | `lower` | PyTorch's ops as ours |
//! | [`report`] | what became of the nodes |

mod args;
mod collective;
mod form;
mod import;
mod lower;
pub(crate) mod notes;
pub mod report;
mod signature;
mod tree;
mod value;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use millstream_ops::OpRegistry;
use millstream_types::nearest::nearest;
use millstream_types::{StreamMode, StreamType};

use crate::error::{Result, Site, TraceError};
use crate::et::form::{FileForm, NodeForm, SCHEMAS};
use crate::et::import::{Import, Refusal};
use crate::et::notes::Notes;
use crate::et::report::{Imported, Skipped};
use crate::et::signature::Signature;
use crate::et::tree::{Step, steps};
use crate::et::value::{Arg, Recorded};
use crate::load::LoadOptions;
use crate::number::Number;
use crate::program::{Block, Body, Program, Stream};
use crate::source::{Place, Source};

/// How execution traces are imported.
#[derive(Clone)]
pub struct EtOptions {
    /// The ops there are.
    pub ops: Arc<OpRegistry>,
    /// What stands for numbers that the trace lost; without one they are errors.
    pub missing_scalar: Option<Number>,
    /// Takes the trace for its structure alone: nodes that cannot be executed are left out, lost
    /// numbers are 1, and elements that are not there are made up.
    pub structural: bool,
}

impl Default for EtOptions {
    /// The standard ops; everything has to be there.
    fn default() -> EtOptions {
        let ops = Arc::new(millstream_ops::standard());
        EtOptions { ops, missing_scalar: None, structural: false }
    }
}

impl fmt::Debug for EtOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtOptions")
            .field("missing_scalar", &self.missing_scalar)
            .field("structural", &self.structural)
            .finish_non_exhaustive()
    }
}

/// The name of a label that gives a tensor a name: `bind:in/x`, `bind:out/loss`.
const BIND: &str = "bind:";

/// The label whose argument lists process groups.
const GROUPS: &str = "## process_group:init ##";

/// How many process groups such a label names.
fn groups(node: &NodeForm<'_>) -> usize {
    let Ok(args) = value::inputs(node) else { return 0 };
    let Some(Arg::Str(text)) = args.first() else { return 0 };
    let list = serde_json::from_str::<Vec<serde::de::IgnoredAny>>(text);
    list.map_or(0, |groups| groups.len())
}

/// Imports the trace that this text is.
pub(crate) fn import(
    text: &Source,
    folder: Option<&Path>,
    options: &LoadOptions,
) -> Result<Program> {
    let file: FileForm<'_> =
        serde_json::from_str(text.text()).map_err(|e| crate::json::syntax(text, &e))?;
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
            return Err(TraceError::at(&source, place(id), "two nodes have this id"));
        }
    }
    if let Some(id) = nodes.last().and_then(|n| n.id).filter(|id| u32::try_from(*id).is_err()) {
        return Err(whole(format!("node id {id} is too large: expected less than 2^32")));
    }

    let notes = Notes::read(folder)?;
    let name = notes.name.clone();
    let report =
        Imported { schema: schema.into_owned(), nodes: nodes.len(), ..Imported::default() };
    let et = &options.et;
    let known = |name: &str| lower::knows(&et.ops, name);
    let steps = steps(&nodes, &schemas, &known);
    let mut run =
        Run { import: Import::new(et, notes, report, source.clone()), signatures: HashMap::new() };
    for step in steps {
        match step {
            Step::Label(k) => run.label(&nodes[k], &source)?,
            Step::Op(k) => run.op(&nodes[k], &schemas[k], &source)?,
        }
    }
    if let Some((name, node)) = run.import.notes.left_over() {
        let message =
            format!("bindings.json binds '{name}' to it, and it is no label of that name");
        return Err(TraceError::at(&source, place(node), message));
    }
    let (finished, report) = run.import.finish().map_err(|r| refused(&source, 0, r))?;
    let streams = vec![Stream {
        name: "ccl".to_owned(),
        device: None,
        ty: StreamType::CCL,
        index: Some(0),
        mode: StreamMode::InOrder,
        site: Site { source: source.clone(), place: Place::default() },
    }];
    Ok(Program {
        name,
        streams,
        tensors: finished.tensors,
        values: finished.values,
        jobs: Vec::new(),
        body: Body::Statements(Block { statements: finished.statements, events: Vec::new() }),
        outputs: finished.outputs,
        source,
        spread: true,
        imported: Some(Box::new(report)),
    })
}

/// The version without what a vendor appends: `1.1.1-chakra.0.0.4` is 1.1.1.
fn check_schema(schema: &str) -> Result<(), String> {
    let version = schema.split('-').next().unwrap_or_default();
    match SCHEMAS.contains(&version) {
        true => Ok(()),
        false => {
            let near = nearest(version, SCHEMAS.iter().copied());
            let near = near.map_or(String::new(), |n| format!(", of which {n} is the nearest"));
            Err(format!("this program reads {}{near}", SCHEMAS.join(", ")))
        }
    }
}

/// What messages call each node.
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

/// A node as a place.
fn place(id: u64) -> Place {
    Place { line: u32::try_from(id).unwrap_or(u32::MAX), ..Place::default() }
}

fn refused(source: &Source, node: u64, refusal: Refusal) -> TraceError {
    match refusal {
        Refusal::Wrong(message) => TraceError::at(source, place(node), message),
        Refusal::Unsupported { message, nearest } => {
            TraceError::at(source, place(node), message).meant(nearest)
        }
    }
}

struct Run<'a> {
    import: Import<'a>,
    signatures: HashMap<String, Option<Arc<Signature>>>,
}

impl Run<'_> {
    /// A label: it may bind a name.
    fn label(&mut self, node: &NodeForm<'_>, source: &Source) -> Result<()> {
        let id = node.id.unwrap_or_default();
        let bound = self.import.notes.take_binding(id);
        let name = node.name.as_deref().unwrap_or_default();
        let error = |message: String| TraceError::at(source, place(id), message);
        if name == GROUPS {
            self.import.groups += groups(node);
        }
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
        self.import.at(id, place(id), &[]);
        let done = match name.split_once('/') {
            Some(("in", _)) => self.import.bind_input(name, given),
            Some(("out", _)) => self.import.bind_output(name, given),
            _ => return Err(error(format!("'{name}': expected in/NAME or out/NAME"))),
        };
        done.map_err(|r| refused(source, id, r))
    }

    /// An op: it becomes calls, or is skipped if that is wanted.
    fn op(&mut self, node: &NodeForm<'_>, schema: &str, source: &Source) -> Result<()> {
        let id = node.id.unwrap_or_default();
        let error = |message: String| TraceError::at(source, place(id), message);
        let (inputs, outputs) =
            match value::inputs(node).and_then(|i| Ok((i, value::outputs(node)?))) {
                Ok(both) => both,
                Err(fault) if self.import.options.structural => {
                    self.skip(id, schema, fault, 0);
                    return Ok(());
                }
                Err(fault) => return Err(error(fault)),
            };
        let mut seen = Vec::new();
        value::tensors(&inputs, &mut seen);
        value::tensors(&outputs, &mut seen);
        let bytes: u64 = seen.iter().map(|t| t.bytes()).fold(0, u64::saturating_add);
        let results = flat(&outputs);
        self.import.at(id, place(id), &results);
        let signature = match self.signatures.get(schema) {
            Some(known) => known.clone(),
            None => {
                let parsed = Signature::parse(schema).map(Arc::new);
                self.signatures.insert(schema.to_owned(), parsed.clone());
                parsed
            }
        };
        let done = match signature {
            Some(signature) => lower::node(&mut self.import, &signature, &inputs, &results),
            None => Err(Refusal::Wrong(format!("'{schema}' is no schema of an op"))),
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
                self.import.forget(&results);
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

/// The results of a node in order, those of lists included; `None` for one that is not there.
fn flat(outputs: &[Arg]) -> Vec<Option<Recorded>> {
    let mut results = Vec::new();
    for output in outputs {
        match output {
            Arg::Tensor(given) => results.push(Some(given.clone())),
            Arg::Undefined => results.push(None),
            Arg::List(list) => results.extend(flat(list)),
            _ => {}
        }
    }
    results
}
