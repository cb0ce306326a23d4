//! Ops by name. A registry is a value: each machine has its own, and anyone can add to it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millstream_types::nearest::nearest;
use millstream_types::{Error, OpId, Result};

use crate::schema::Op;

/// The ops that a machine knows, each with a dense id.
#[derive(Clone, Default)]
pub struct OpRegistry {
    ops: Vec<Arc<dyn Op>>,
    by_name: HashMap<String, OpId>,
}

impl OpRegistry {
    /// A registry without ops.
    pub fn new() -> OpRegistry {
        OpRegistry::default()
    }

    /// Adds an op. One of the same name is replaced and keeps its id.
    pub fn register(&mut self, op: Arc<dyn Op>) -> OpId {
        if let Some(&id) = self.by_name.get(op.name()) {
            self.ops[id.index()] = op;
            return id;
        }
        let id = OpId(self.ops.len() as u32);
        self.by_name.insert(op.name().to_owned(), id);
        self.ops.push(op);
        id
    }

    /// The id of the op called `name`.
    ///
    /// # Errors
    /// There is none; the error names the nearest.
    pub fn id(&self, name: &str) -> Result<OpId> {
        self.by_name.get(name).copied().ok_or_else(|| Error::Unknown {
            what: "op",
            name: name.to_owned(),
            nearest: nearest(name, self.ops.iter().map(|o| o.name())),
        })
    }

    /// The op of this id, if it is one of this registry's.
    pub fn get(&self, id: OpId) -> Option<&Arc<dyn Op>> {
        self.ops.get(id.index())
    }

    /// All ops, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Op>> {
        self.ops.iter()
    }
}

impl fmt::Debug for OpRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ops.iter().map(|o| o.name())).finish()
    }
}
