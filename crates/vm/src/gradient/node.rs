//! Nodes: the calls that a tape has noted, what they keep, and what gives their gradients.

use std::sync::Arc;

use millstream_ops::derivative::Rule;
use millstream_types::{Attrs, DeviceId, Layout, Origin, Result, Sharding, TensorSpec};

use crate::handle::Tensor;

use crate::handle::leaf::Leaf;

/// A result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Value {
    pub(super) node: usize,
    pub(super) output: usize,
}

/// A tensor that a formula needs, and the version that it had.
pub(super) struct Kept {
    pub(super) tensor: Tensor,
    pub(super) group: usize,
    pub(super) version: u64,
}

/// A function of a gradient, which may replace it.
pub(super) type Hook = Box<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send>;

/// A function that a checkpoint runs again.
pub(super) type Region = Arc<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;

/// What gives the gradients of a node's inputs.
pub(super) enum Source {
    Leaf(Arc<Leaf>),
    Rule(&'static Rule),
    /// The op has no derivative.
    Unknown,
    /// A copy from this device.
    Copy(DeviceId),
    /// A redistribution of a global tensor: how its gradient is held.
    Redistribution(Arc<Sharding>),
    /// A part of a base: the layout of the base, and that of the part.
    Part(Layout, Layout),
    /// A base whose part was written: the two layouts. The inputs are the base and the part.
    Joined(Layout, Layout),
    Checkpoint(Region),
}

pub(super) struct Node {
    pub(super) source: Source,
    pub(super) op: String,
    pub(super) origin: Origin,
    pub(super) attrs: Arc<Attrs>,
    /// The values of the inputs, in the order that the op lists them; none for constants.
    pub(super) inputs: Vec<Option<Value>>,
    pub(super) input_specs: Vec<Option<TensorSpec>>,
    pub(super) output_specs: Vec<TensorSpec>,
    pub(super) kept_inputs: Vec<Option<Kept>>,
    pub(super) kept_outputs: Vec<Option<Kept>>,
    pub(super) hooks: Vec<(usize, Hook)>,
    /// Whether a backward pass has dropped what was kept.
    pub(super) is_spent: bool,
}

impl Node {
    /// Returns a node without inputs, results and kept tensors.
    pub(super) fn new(source: Source, op: &str, origin: Origin) -> Node {
        Node {
            source,
            op: op.to_owned(),
            origin,
            attrs: Arc::default(),
            inputs: Vec::new(),
            input_specs: Vec::new(),
            output_specs: Vec::new(),
            kept_inputs: Vec::new(),
            kept_outputs: Vec::new(),
            hooks: Vec::new(),
            is_spent: false,
        }
    }
}
