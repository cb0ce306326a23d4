//! The program on its way from nodes to statements: which tensor an address stands for, and the
//! calls that make it.
//!
//! Addresses are reused, so nothing is looked up in the trace as a whole: each id stands for what
//! it was last bound to in program order. Every call is inferred by its op's schema, and what the
//! trace recorded is compared with that.

mod addresses;
mod calls;
mod finish;
mod names;

use std::collections::HashMap;
use std::sync::Arc;

use millstream_ops::OpRegistry;
use millstream_types::{DType, Dims, TensorSpec};

use crate::data::Data;
use crate::et::EtOptions;
use crate::et::notes::Notes;
use crate::et::report::Imported;
use crate::et::value::{Fault, Recorded};
use crate::program::{Action, Output, Statement};
use crate::source::{Place, Source};

/// Why a node is not executed.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// Nothing here does what it does.
    Unsupported { message: String, nearest: Option<String> },
    /// The trace contradicts itself, or what its ops do.
    Wrong(String),
}

impl From<Fault> for Refusal {
    fn from(message: Fault) -> Refusal {
        Refusal::Wrong(message)
    }
}

pub(crate) fn unsupported(message: impl Into<String>) -> Refusal {
    Refusal::Unsupported { message: message.into(), nearest: None }
}

pub(crate) type Lowered<T> = Result<T, Refusal>;

/// A tensor of the program, by its number in order of making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Val(usize);

/// A storage, by its number in order of making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StorageId(usize);

struct Tensor {
    name: String,
    storage: StorageId,
    spec: TensorSpec,
    place: Place,
    /// The shape stands only in the trace; the run has to find the same.
    recorded: bool,
    /// The statement that uses it last; none yet if nothing does.
    last_use: Option<usize>,
}

struct Storage {
    /// The tensor that was there first: views are taken of it.
    root: Val,
    /// Where PyTorch's storage had the first element, which for us is at 0.
    base: usize,
    dtype: DType,
    bytes: usize,
    /// Its tensor among those that are there from the start.
    initial: Option<usize>,
    last_write: usize,
}

/// A tensor that is there from the start.
struct Initial {
    val: Val,
    data: Data,
    /// A number that only one call uses.
    constant: bool,
}

/// What was bound to a name for reading at the end.
struct Bound {
    val: Val,
    /// How many statements there were.
    after: usize,
    output: Output,
}

/// The parts of a program that are ready.
pub(crate) struct Finished {
    pub(crate) tensors: Vec<crate::program::Tensor>,
    pub(crate) values: Vec<crate::program::Value>,
    pub(crate) statements: Vec<Statement>,
    pub(crate) outputs: Vec<Output>,
}

pub(crate) struct Import<'a> {
    pub(crate) options: &'a EtOptions,
    pub(crate) notes: Notes,
    pub(crate) report: Imported,
    source: Arc<Source>,
    statements: Vec<Statement>,
    tensors: Vec<Tensor>,
    storages: Vec<Storage>,
    by_tensor: HashMap<u64, Val>,
    by_storage: HashMap<u64, StorageId>,
    initial: Vec<Initial>,
    bound: Vec<Bound>,
    /// The node at hand.
    place: Place,
    node: u64,
    /// The shapes of its results, for ops that find theirs only by running.
    shapes: Vec<Dims>,
    /// The process groups that the trace names.
    pub(crate) groups: usize,
    rounds: i64,
}

impl<'a> Import<'a> {
    pub(crate) fn new(
        options: &'a EtOptions,
        notes: Notes,
        report: Imported,
        source: Arc<Source>,
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
            place: Place::default(),
            node: 0,
            shapes: Vec::new(),
            groups: 0,
            rounds: 0,
        }
    }

    /// The number of the next collective, by which ranks know that they mean the same one.
    pub(crate) fn next_round(&mut self) -> i64 {
        self.rounds += 1;
        self.rounds - 1
    }

    pub(crate) fn ops(&self) -> &'a OpRegistry {
        &self.options.ops
    }

    /// Begins a node.
    pub(crate) fn at(&mut self, node: u64, place: Place, results: &[Option<Recorded>]) {
        (self.node, self.place) = (node, place);
        self.shapes = results.iter().flatten().map(|r| r.shape.clone()).collect();
    }

    pub(crate) fn spec(&self, val: Val) -> &TensorSpec {
        &self.tensors[val.0].spec
    }

    pub(crate) fn same_storage(&self, a: Val, b: Val) -> bool {
        self.tensors[a.0].storage == self.tensors[b.0].storage
    }

    fn push(&mut self, action: Action) {
        self.statements.push(Statement { place: self.place, action });
    }

    fn used(&mut self, val: Val) {
        self.tensors[val.0].last_use = Some(self.statements.len());
    }

    fn make(&mut self, name: String, storage: StorageId, spec: TensorSpec) -> Val {
        let place = self.place;
        let tensor = Tensor { name, storage, spec, place, recorded: false, last_use: None };
        self.tensors.push(tensor);
        Val(self.tensors.len() - 1)
    }

    fn make_storage(&mut self, name: String, spec: TensorSpec, initial: Option<usize>) -> Val {
        let storage = StorageId(self.storages.len());
        let (dtype, bytes) = (spec.dtype, spec.span_bytes());
        let root = self.make(name, storage, spec);
        self.storages.push(Storage { root, base: 0, dtype, bytes, initial, last_write: 0 });
        root
    }
}
