//! Chooses the nodes of a trace to execute, and their order.
//!
//! PyTorch writes a node when its op ends, but numbers it when the op begins, so the ids are the
//! order of execution. The children of an op are the ops that it called. The search descends into
//! labels, composite ops, which only call others, and the nodes of autocast, which convert operands
//! and call the same op. It stops at every other op. Executing the
//! outermost ops instead would lose tensors that only inner ops return, such as the mean that
//! batch_norm saves. Executing the innermost ops would lose the work of kernels that call `empty`.
//!
//! Below the node of an op in place, autograd first copies operands that a gradient needs as they
//! were. These copies are executed before the op.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::et::BIND;
use crate::et::groups::FUNCTIONAL;
use crate::et::raw_form::NodeForm;
use crate::et::report::Label;
use crate::et::value;

/// Composite ops, with their overloads: the ops that PyTorch 2.15 registers as
/// `CompositeImplicitAutograd`, without a kernel of their own for the CPU. Generated from the
/// tables of PyTorch's dispatcher.
const COMPOSITE: &str = include_str!("composite.txt");

/// Composite ops of earlier releases that are no longer composite.
const FORMERLY_COMPOSITE: &[&str] = &["silu_backward"];

/// Returns whether an op, by its name with overload and without namespace, only calls others.
pub(super) fn is_composite(name: &str) -> bool {
    static OPS: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| COMPOSITE.lines().chain(FORMERLY_COMPOSITE.iter().copied()).collect());
    OPS.contains(name)
}

/// One step of a trace, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A label, by its index in the list of nodes. Some labels bind names to tensors.
    Label(usize),
    /// A node below the next executed op, by its index: what it allocates takes over addresses of
    /// tensors that ended.
    Inner(usize),
    /// An op to execute, by its index in the list of nodes.
    Op(usize),
}

/// The nodes of a trace, with the relations between them.
pub(crate) struct Tree<'a> {
    pub(crate) nodes: &'a [NodeForm<'a>],
    pub(crate) schemas: &'a [String],
    /// The node that called each node.
    pub(crate) parents: Vec<Option<usize>>,
    /// The nodes that each node called, in order.
    children: Vec<Vec<usize>>,
}

impl<'a> Tree<'a> {
    /// Returns the tree of these nodes, sorted by id, with their schemas. A node whose parent does
    /// not precede it counts as a root.
    pub(crate) fn new(nodes: &'a [NodeForm<'a>], schemas: &'a [String]) -> Tree<'a> {
        let by_id: HashMap<u64, usize> =
            nodes.iter().enumerate().filter_map(|(k, n)| Some((n.id?, k))).collect();
        let mut children = vec![Vec::new(); nodes.len()];
        let parent = |(k, node): (usize, &NodeForm<'_>)| {
            let parent = *by_id.get(&node.caller()?)?;
            (parent < k).then_some(parent)
        };
        let parents: Vec<Option<usize>> = nodes.iter().enumerate().map(parent).collect();
        for (k, parent) in parents.iter().enumerate() {
            if let Some(parent) = *parent {
                children[parent].push(k);
            }
        }
        Tree { nodes, schemas, parents, children }
    }

    /// Returns an op's name with namespace and overload; empty for a label.
    fn name(&self, k: usize) -> &'a str {
        self.schemas[k].split('(').next().unwrap_or_default().trim()
    }

    /// Returns the ops that a node called directly.
    fn ops_below(&self, k: usize) -> impl Iterator<Item = usize> + '_ {
        self.children[k].iter().copied().filter(|&c| !self.schemas[c].is_empty())
    }

    /// Returns whether a node is that of autocast: it converts operands and calls the same op with
    /// them. `norm` is called with a dtype, which is another overload.
    fn is_autocast(&self, k: usize) -> bool {
        let name = self.name(k);
        let is_norm = |name: &str| name.starts_with("aten::norm.");
        let (mut same, mut others) = (None, 0);
        for child in self.ops_below(k) {
            let called = self.name(child);
            if self.schemas[child] == self.schemas[k] || (is_norm(name) && is_norm(called)) {
                others += usize::from(same.replace(child).is_some());
            } else if called.split('.').next() != Some("aten::to") {
                others += 1;
            }
        }
        let Some(same) = same.filter(|_| others == 0) else { return false };
        let results = |k: usize| value::storages(self.nodes[k].outputs);
        results(k) == results(same)
    }

    /// Returns the copies that autograd keeps of the operands of an op in place, because a gradient
    /// needs their old elements. It calls `clone` below the op's node, before the op's kernel runs.
    fn kept_copies(&self, k: usize) -> Vec<usize> {
        let base = self.name(k).split('.').next().unwrap_or_default();
        if !base.ends_with('_') {
            return Vec::new();
        }
        let operands = value::storages(self.nodes[k].inputs);
        let copies_operand = |&child: &usize| {
            let copied = value::storages(self.nodes[child].inputs);
            self.name(child) == "aten::clone"
                && copied.first().is_some_and(|(storage, _)| {
                    operands.iter().any(|(operand, _)| operand == storage)
                })
        };
        self.ops_below(k).take_while(copies_operand).collect()
    }

    /// Appends the steps of an executed op: the kept copies of its operands, the nodes below it,
    /// and the op.
    fn push_op(&self, k: usize, steps: &mut Vec<Step>) {
        let copies = self.kept_copies(k);
        for &copy in &copies {
            self.push_op(copy, steps);
        }
        let mut below: Vec<usize> =
            self.children[k].iter().copied().filter(|c| !copies.contains(c)).rev().collect();
        while let Some(inner) = below.pop() {
            steps.push(Step::Inner(inner));
            below.extend(self.children[inner].iter().rev());
        }
        steps.push(Step::Op(k));
    }
}

/// Returns the steps of a trace. `known` decides whether an op can be executed.
pub(crate) fn steps(tree: &Tree<'_>, known: &dyn Fn(&str) -> bool) -> Vec<Step> {
    let (nodes, schemas) = (tree.nodes, tree.schemas);
    let helpers = gloo_threads(nodes, schemas);
    let mut called = vec![false; nodes.len()];
    let mut open = vec![false; nodes.len()];
    let mut steps = Vec::new();
    for (k, schema) in schemas.iter().enumerate() {
        // A node below an executed op is part of that op.
        called[k] = tree.parents[k].is_some_and(|p| called[p] || !open[p]);
        if called[k] || helpers.contains(&nodes[k].thread()) {
            continue;
        }
        let name = tree.name(k);
        let has_ops = tree.ops_below(k).next().is_some();
        let only_calls = |bare: &str| is_composite(bare) && (has_ops || !known(name));
        open[k] = schema.is_empty()
            || name.strip_prefix("aten::").is_some_and(only_calls)
            || (has_ops && name.starts_with(FUNCTIONAL))
            || (has_ops && tree.is_autocast(k));
        if schema.is_empty() {
            steps.push(Step::Label(k));
        } else if !open[k] {
            tree.push_op(k, &mut steps);
        }
    }
    steps
}

/// Returns the labels of the program with nodes below them. The labels of the recording itself, of
/// its threads and of bindings are left out.
pub(crate) fn label_ranges(tree: &Tree<'_>) -> Vec<Label> {
    let (nodes, schemas) = (tree.nodes, tree.schemas);
    let id = |k: usize| nodes[k].id.unwrap_or_default();
    // A node comes after its parent.
    let mut last: Vec<u64> = (0..nodes.len()).map(id).collect();
    for k in (0..nodes.len()).rev() {
        if let Some(parent) = tree.parents[k] {
            last[parent] = last[parent].max(last[k]);
        }
    }
    let mut labels = Vec::new();
    for (k, schema) in schemas.iter().enumerate() {
        let name = nodes[k].name.as_deref().unwrap_or_default();
        let is_own = name.starts_with('[') || name.starts_with("##") || name.starts_with(BIND);
        if schema.is_empty() && !is_own && last[k] > id(k) {
            labels.push(Label { name: name.to_owned(), first: id(k), last: last[k] });
        }
    }
    labels
}

/// Returns the threads on which gloo executes its collectives with ops of PyTorch. These ops are
/// part of collectives that the trace records as nodes of other threads. A thread of gloo has ops
/// but no label of the program.
fn gloo_threads(nodes: &[NodeForm<'_>], schemas: &[String]) -> Vec<u64> {
    let name = |n: &NodeForm<'_>| n.name.as_deref().unwrap_or_default().to_owned();
    if !nodes.iter().any(|n| name(n).starts_with("gloo:")) {
        return Vec::new();
    }
    // For each thread, whether it has ops and whether it has labels.
    let mut threads: HashMap<u64, (bool, bool)> = HashMap::new();
    for (node, schema) in nodes.iter().zip(schemas) {
        let name = name(node);
        let root = name.starts_with('[') && name.contains('|');
        let (ops, labels) = threads.entry(node.thread()).or_default();
        *ops |= !schema.is_empty();
        *labels |= schema.is_empty() && !root;
    }
    threads
        .into_iter()
        .filter(|(_, seen)| *seen == (true, false))
        .map(|(thread, _)| thread)
        .collect()
}
