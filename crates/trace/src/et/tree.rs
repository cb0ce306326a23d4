//! Which nodes of a trace are executed, and in which order.
//!
//! Nodes are written when an op ends; their ids count when it begins, so the ids are the order. An
//! op's children are what it called. Labels and composite ops, which only call others, are
//! descended into; at everything else the descent stops. To execute the outermost ops instead would
//! lose tensors that only inner ops give (the mean that batch_norm saves), to execute the innermost
//! would miss what kernels do between the `empty` that they call.

use std::collections::{HashMap, HashSet};

use crate::et::form::NodeForm;

/// Ops, with their overloads, that do nothing but call others: those that PyTorch 2.15 registers as
/// `CompositeImplicitAutograd`, without a kernel of their own for the host. Made from its
/// dispatcher's tables.
const COMPOSITE: &str = include_str!("composite.txt");

/// Composite ops of earlier releases.
const COMPOSITE_ONCE: &[&str] = &["silu_backward"];

fn composite() -> HashSet<&'static str> {
    COMPOSITE.lines().chain(COMPOSITE_ONCE.iter().copied()).collect()
}

/// One step of a trace, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A label, such as those that bind names to tensors.
    Label(usize),
    /// An op to execute, by its index in the list of nodes.
    Op(usize),
}

/// The steps of a trace whose nodes have these schemas. The nodes are sorted by id and their
/// parents are known to come before them.
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
        // Whether some op around it stands for it.
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

/// The threads on which gloo does the work of its collectives, step by step with the ops of
/// PyTorch: all of that is part of a collective which stands in the trace itself. Such a thread has
/// no label of the program's.
fn gloo_threads(nodes: &[NodeForm<'_>], schemas: &[String]) -> Vec<u64> {
    let name = |n: &NodeForm<'_>| n.name.as_deref().unwrap_or_default().to_owned();
    if !nodes.iter().any(|n| name(n).starts_with("gloo:")) {
        return Vec::new();
    }
    // By thread, whether it has ops and whether it has labels.
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
