//! Ops by name. A registry is a value: each machine has its own, and programs can add to it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use millstream_types::{Error, OpId, Result};

use crate::composite::{self, Composite};
use crate::other_names;
use crate::schema::Op;

/// The help of an error where a composite stands in the place of an op.
const OF_CALLS: &str = "it is a composite: `run`, `on` and traces make its calls, and lists hold \
                        these; it cannot be prepared";

/// The ops of a machine, each with a dense id. Clones share one table until one of them changes.
#[derive(Clone, Default)]
pub struct OpRegistry(Arc<Table>);

#[derive(Clone, Default)]
struct Table {
    ops: Vec<Arc<dyn Op>>,
    by_name: FxHashMap<String, OpId>,
    /// The names of the ops that a program has registered.
    own: HashSet<String>,
}

impl OpRegistry {
    /// Returns a registry without ops.
    pub fn new() -> OpRegistry {
        OpRegistry::default()
    }

    /// Adds an op and returns its id. An op of the same name is replaced and keeps its id.
    pub fn register(&mut self, op: Arc<dyn Op>) -> OpId {
        let table = Arc::make_mut(&mut self.0);
        table.own.insert(op.name().to_owned());
        if let Some(&id) = table.by_name.get(op.name()) {
            table.ops[id.index()] = op;
            return id;
        }
        let id = OpId(table.ops.len() as u32);
        table.by_name.insert(op.name().to_owned(), id);
        table.ops.push(op);
        id
    }

    /// Declares the ops so far to be the standard ones.
    pub(crate) fn standardise(mut self) -> OpRegistry {
        Arc::make_mut(&mut self.0).own.clear();
        self
    }

    /// Returns whether the op called `name`, if there is one, is that of
    /// [`standard`](crate::standard()).
    pub fn is_standard(&self, name: &str) -> bool {
        !self.0.own.contains(name)
    }

    /// Returns the id of the op called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<OpId> {
        self.0.by_name.get(name).copied()
    }

    /// Returns the composite op called `name`, unless a registered op has its name.
    pub fn composite(&self, name: &str) -> Option<&'static Composite> {
        if self.find(name).is_some() { None } else { composite::find(name) }
    }

    /// Returns the id of the op called `name`.
    ///
    /// # Errors
    /// Fails if there is no such op; the error says what to write instead.
    pub fn id(&self, name: &str) -> Result<OpId> {
        self.find(name).ok_or_else(|| Error::Unknown {
            what: "op",
            name: name.to_owned(),
            help: match composite::find(name) {
                Some(_) => Some(OF_CALLS.to_owned()),
                None => {
                    let composites = composite::families().flat_map(|(_, ops)| ops).map(|o| o.name);
                    let ops = self.0.ops.iter().map(|o| o.name()).chain(composites);
                    other_names::help(name, ops.collect::<Vec<_>>().into_iter())
                }
            },
        })
    }

    /// Returns the op with this id, if there is one.
    pub fn get(&self, id: OpId) -> Option<&Arc<dyn Op>> {
        self.0.ops.get(id.index())
    }

    /// Returns all ops in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Op>> {
        self.0.ops.iter()
    }
}

impl fmt::Debug for OpRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.ops.iter().map(|o| o.name())).finish()
    }
}
