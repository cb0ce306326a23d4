//! Chooses the nodes of a trace to execute, and their order.
//!
//! PyTorch writes a node when its op ends, but numbers it when the op begins, so the ids are the
//! order of execution. The children of an op are the ops that it called. The search descends into
//! labels and composite ops, which only call others, and stops at every other op. Executing the
//! outermost ops instead would lose tensors that only inner ops return, such as the mean that
//! batch_norm saves. Executing the innermost ops would lose the work of kernels that call `empty`.

use std::collections::{HashMap, HashSet};

use crate::et::raw_form::NodeForm;

/// Composite ops, with their overloads: the ops that PyTorch 2.15 registers as
/// `CompositeImplicitAutograd`, without a kernel of their own for the CPU. Generated from the
/// tables of PyTorch's dispatcher.
const COMPOSITE: &str = include_str!("composite.txt");

/// Composite ops of earlier releases that are no longer composite.
const FORMERLY_COMPOSITE: &[&str] = &["silu_backward"];

fn composite() -> HashSet<&'static str> {
    COMPOSITE.lines().chain(FORMERLY_COMPOSITE.iter().copied()).collect()
}

/// One step of a trace, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A label, by its index in the list of nodes. Some labels bind names to tensors.
    Label(usize),
    /// An op to execute, by its index in the list of nodes.
    Op(usize),
}

/// Returns the steps of a trace. `nodes` are sorted by id, `schemas` are the schemas of the nodes,
/// and `known` says whether an op can be executed. A node whose parent does not precede it counts
/// as a root.
pub(crate) fn steps(
    nodes: &[NodeForm<'_>],
    schemas: &[String],
    known: &dyn Fn(&str) -> bool,
) -> Vec<Step> {
    let by_id: HashMap<u64, usize> =
        nodes.iter().enumerate().filter_map(|(k, n)| Some((n.id?, k))).collect();
    let helpers = gloo_threads(nodes, schemas);
    let composite = composite();
    let mut called = vec![false; nodes.len()];
    let mut open = vec![false; nodes.len()];
    let mut has_ops = vec![false; nodes.len()];
    let parent_of = |k: usize| {
        let parent = *by_id.get(&nodes[k].caller()?)?;
        (parent < k).then_some(parent)
    };
    for (k, schema) in schemas.iter().enumerate() {
        if let Some(parent) = parent_of(k).filter(|_| !schema.is_empty()) {
            has_ops[parent] = true;
        }
    }
    let mut steps = Vec::new();
    for (k, schema) in schemas.iter().enumerate() {
        // A node below an executed op is part of that op.
        called[k] = parent_of(k).is_some_and(|p| called[p] || !open[p]);
        if called[k] || helpers.contains(&nodes[k].thread()) {
            continue;
        }
        let name = schema.split('(').next().unwrap_or_default().trim();
        let bare = name.strip_prefix("aten::");
        open[k] = schema.is_empty()
            || bare.is_some_and(|bare| composite.contains(bare) && (has_ops[k] || !known(name)));
        if schema.is_empty() {
            steps.push(Step::Label(k));
        } else if !open[k] {
            steps.push(Step::Op(k));
        }
    }
    steps
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
