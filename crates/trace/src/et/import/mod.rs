//! Builds the program from nodes: resolves addresses to tensors, and appends statements.
//!
//! PyTorch reuses addresses, so an id stands for the tensor that it was last bound to in program
//! order. The schema of an op infers the results of every call, and the recorded results are
//! compared with them.

mod addresses;
mod calls;
mod complex_numbers;
mod composites;
mod drawn;
mod finish;
mod known;
mod lazy;
mod names;
mod precision;
mod sets;
mod single;

use std::collections::HashMap;
use std::sync::Arc;

use millstream_ops::OpRegistry;
use millstream_ops::formula::Symbol;
use millstream_types::{DType, Dims, TensorSpec};

use crate::data::Data;
use crate::et::EtOptions;
use crate::et::groups::Groups;
use crate::et::import::known::KnownElements;
pub(crate) use crate::et::import::lazy::Lazy;
pub(crate) use crate::et::import::single::Single;
use crate::et::report::Imported;
use crate::et::sidecar_notes::SidecarNotes;
use crate::et::value::{Recorded, ValueError};
use crate::program::{Action, Output, Statement};
use crate::source::{Source, Span};

/// Why a node is not executed.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// Millstream has no equivalent of the op.
    Unsupported { message: String, help: Option<String> },
    /// The trace contradicts itself or the schema of an op.
    Wrong(String),
}

impl From<ValueError> for Refusal {
    fn from(message: ValueError) -> Refusal {
        Refusal::Wrong(message)
    }
}

impl From<millstream_types::Error> for Refusal {
    fn from(error: millstream_types::Error) -> Refusal {
        Refusal::Wrong(error.to_string())
    }
}

pub(crate) fn unsupported(message: impl Into<String>) -> Refusal {
    Refusal::Unsupported { message: message.into(), help: None }
}

/// Returns the refusal of an op that does not exist here, with what to do; `near` is another hint.
pub(crate) fn missing(name: &str, message: String, near: Option<String>) -> Refusal {
    let near = near.map_or(String::new(), |near| format!("; {near}"));
    let name = name.split('.').next().unwrap_or_default();
    let help = format!(
        "record the results of the op with opaque=['{name}'], or leave it out by `--structural`; \
         `millstream coverage` lists all such ops{near}"
    );
    Refusal::Unsupported { message, help: Some(help) }
}

pub(crate) type Lowered<T> = Result<T, Refusal>;

/// A tensor of the program, numbered in the order of definition.
pub(crate) type Val = Symbol;

/// A storage, numbered in the order of definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StorageIndex(usize);

/// The state of a tensor during the import.
struct TensorState {
    name: String,
    storage: StorageIndex,
    spec: TensorSpec,
    span: Span,
    /// What PyTorch does to the elements when it reads them.
    lazy: Lazy,
    /// Whether the shape depends on data and is that of the trace. The run must find the same.
    recorded: bool,
    /// The last statement that uses the tensor so far.
    last_use: Option<usize>,
}

/// The state of a storage during the import.
struct StorageState {
    /// The first tensor of the storage, which further views refer to.
    root: Val,
    /// The recorded offset of the element that has offset 0 in the imported program.
    base: usize,
    dtype: DType,
    bytes: usize,
    /// The index in [`Import::initial`], if the storage exists before the program.
    initial: Option<usize>,
    /// The last statement that writes the storage so far.
    last_write: usize,
    /// The elements that an input names or an op wrote. `None`: all, as an op made the storage.
    known: Option<KnownElements>,
    /// Why elements of a storage of the program are unknown.
    cause: Option<String>,
    /// Whether elements depend on random numbers that are not PyTorch's.
    drawn: bool,
    /// The coarsest dtype that elements were rounded to on their way from the inputs; of elements
    /// that no op computed, one without fractions.
    coarsest: DType,
}

impl StorageState {
    /// Returns the recorded offset of the first element, in elements of a dtype.
    fn base_for(&self, dtype: DType) -> usize {
        self.base * self.dtype.size() / dtype.size()
    }
}

/// A tensor that exists before the program.
struct Initial {
    val: Val,
    data: Data,
    /// Whether a single call uses the tensor, which is released after it.
    constant: bool,
}

/// A tensor that a label binds to the name of an output.
struct Bound {
    val: Val,
    /// The number of statements before the label.
    after: usize,
    output: Output,
}

/// The parts of the finished program.
pub(crate) struct Finished {
    pub(crate) tensors: Vec<crate::program::Tensor>,
    pub(crate) values: Vec<crate::program::Value>,
    pub(crate) statements: Vec<Statement>,
    pub(crate) outputs: Vec<Output>,
}

pub(crate) struct Import<'a> {
    pub(crate) options: &'a EtOptions,
    pub(crate) notes: SidecarNotes,
    pub(crate) report: Imported,
    source: Arc<Source>,
    statements: Vec<Statement>,
    tensors: Vec<TensorState>,
    storages: Vec<StorageState>,
    by_tensor: HashMap<u64, Val>,
    by_storage: HashMap<u64, StorageIndex>,
    initial: Vec<Initial>,
    bound: Vec<Bound>,
    /// The masks of dropout that gradients read, by a storage that both nodes have.
    masks: HashMap<u64, Vec<Val>>,
    /// The span of the current node.
    span: Span,
    /// The id of the current node.
    node: u64,
    /// The number of storages before the current node.
    before: usize,
    /// The recorded shapes of the node's results, for ops whose shapes depend on data.
    shapes: Vec<Dims>,
    /// The process groups that the trace lists.
    pub(crate) groups: Groups,
    /// Whether there is one call alone, of which nothing is recorded.
    pub(crate) is_single: bool,
}

impl<'a> Import<'a> {
    pub(crate) fn new(
        options: &'a EtOptions,
        notes: SidecarNotes,
        report: Imported,
        source: Arc<Source>,
        groups: Groups,
    ) -> Import<'a> {
        Import {
            options,
            notes,
            report,
            source,
            statements: Vec::new(),
            tensors: Vec::new(),
            storages: Vec::new(),
            by_tensor: HashMap::new(),
            by_storage: HashMap::new(),
            initial: Vec::new(),
            bound: Vec::new(),
            masks: HashMap::new(),
            span: Span::default(),
            node: 0,
            before: 0,
            shapes: Vec::new(),
            groups,
            is_single: false,
        }
    }

    pub(crate) fn ops(&self) -> &'a OpRegistry {
        &self.options.ops
    }

    /// Returns the id of the current node.
    pub(crate) fn node(&self) -> u64 {
        self.node
    }

    /// Makes a node the current one.
    pub(crate) fn begin_node(&mut self, node: u64, span: Span, results: &[Option<Recorded>]) {
        (self.node, self.span) = (node, span);
        self.before = self.storages.len();
        self.shapes = results.iter().flatten().map(|r| r.shape.clone()).collect();
    }

    pub(crate) fn spec(&self, val: Val) -> &TensorSpec {
        &self.tensors[val.0].spec
    }

    fn storage(&self, val: Val) -> &StorageState {
        &self.storages[self.tensors[val.0].storage.0]
    }

    fn storage_mut(&mut self, val: Val) -> &mut StorageState {
        &mut self.storages[self.tensors[val.0].storage.0]
    }

    /// Returns the name of the next tensor.
    fn next_name(&self) -> String {
        format!("n{}.{}", self.node, self.tensors.len())
    }

    pub(crate) fn same_storage(&self, a: Val, b: Val) -> bool {
        self.tensors[a.0].storage == self.tensors[b.0].storage
    }

    fn push(&mut self, action: Action) {
        self.statements.push(Statement { span: self.span, action });
    }

    fn record_use(&mut self, val: Val) {
        self.tensors[val.0].last_use = Some(self.statements.len());
    }

    fn define(&mut self, name: String, storage: StorageIndex, spec: TensorSpec) -> Val {
        let span = self.span;
        let tensor = TensorState {
            name,
            storage,
            spec,
            span,
            lazy: Lazy::default(),
            recorded: false,
            last_use: None,
        };
        self.tensors.push(tensor);
        Symbol(self.tensors.len() - 1)
    }

    fn define_storage(&mut self, name: String, spec: TensorSpec, initial: Option<usize>) -> Val {
        let storage = StorageIndex(self.storages.len());
        let (dtype, bytes) = (spec.dtype, spec.span_bytes());
        let root = self.define(name, storage, spec);
        let known = None;
        let base = 0;
        self.storages.push(StorageState {
            root,
            base,
            dtype,
            bytes,
            initial,
            last_write: 0,
            known,
            cause: None,
            drawn: false,
            coarsest: DType::Bool,
        });
        root
    }
}
