//! A profile as a graph for Graphviz: instructions, data and waits, clustered by stream.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use crate::model::{NONE, Profile, Role};
use crate::summary::time;

/// The most instructions of a readable graph.
pub const READABLE: usize = 500;

/// Returns the text of the graph of some instructions.
///
/// # Errors
/// The range holds more than [`READABLE`] instructions, or none.
pub fn write(profile: &Profile, range: Range<usize>) -> Result<String, String> {
    let range = range.start..range.end.min(profile.instructions.len());
    let is_node = |k: &usize| {
        let instruction = &profile.instructions[*k];
        instruction.stream != NONE && !profile.is_part(*k) && instruction.role != Role::Record
    };
    let nodes: Vec<usize> = range.clone().filter(is_node).collect();
    if nodes.len() > READABLE {
        let message = format!(
            "the graph would have {} instructions, and {READABLE} can be read; choose some of 0..{}",
            nodes.len(),
            profile.instructions.len()
        );
        return Err(message);
    }
    if nodes.is_empty() {
        return Err(format!("no instruction of {}..{} runs on a stream", range.start, range.end));
    }
    let mut out = String::from(
        "digraph profile {\n  rankdir=TB; compound=true; fontname=\"sans-serif\";\n  \
         node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\", \
         fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=8];\n",
    );
    for (stream, described) in profile.streams.iter().enumerate() {
        let own: Vec<usize> = nodes
            .iter()
            .copied()
            .filter(|&k| profile.instructions[k].stream as usize == stream)
            .collect();
        if own.is_empty() {
            continue;
        }
        let label = quoted(&described.name);
        let _ = writeln!(out, "  subgraph cluster_{stream} {{");
        let _ = writeln!(out, "    label={label}; color=\"#90a4ae\"; style=\"rounded\";");
        for &k in &own {
            let _ = writeln!(out, "    {}", node(profile, k));
        }
        // The order of the stream.
        for pair in own.windows(2) {
            let _ = writeln!(out, "    i{} -> i{} [color=\"#b0bec5\"];", pair[0], pair[1]);
        }
        out.push_str("  }\n");
    }
    data(profile, &nodes, &mut out);
    waits(profile, &nodes, &mut out);
    out.push_str("}\n");
    Ok(out)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn node(profile: &Profile, k: usize) -> String {
    let instruction = &profile.instructions[k];
    let mut label = profile.name_of(instruction).to_owned();
    let writes = profile.operands_of(instruction).iter().filter(|o| o.writes);
    for operand in writes {
        let tensor = &profile.tensors[operand.tensor as usize];
        let _ = write!(label, "\n{} {}", tensor.name, tensor.spec);
    }
    if let Some(times) = instruction.times {
        let _ = write!(label, "\n{}", time(times.end - times.start));
    }
    let fill = match instruction.role {
        Role::Wait | Role::Fence => "#ffe0b2",
        Role::Work | Role::Launch => "#e3f2fd",
        _ => "#eceff1",
    };
    format!("i{k} [label={}, fillcolor=\"{fill}\"];", quoted(&label).replace('\n', "\\n"))
}

/// Writes an edge from the last write of each tensor to its reads on other streams.
fn data(profile: &Profile, nodes: &[usize], out: &mut String) {
    let mut written: HashMap<u32, usize> = HashMap::new();
    for &k in nodes {
        let instruction = &profile.instructions[k];
        for operand in profile.operands_of(instruction) {
            let tensor = &profile.tensors[operand.tensor as usize];
            if operand.reads
                && let Some(&from) = written.get(&tensor.storage)
                && from != k
            {
                let label = quoted(&tensor.name);
                let _ = writeln!(out, "  i{from} -> i{k} [color=\"#1e88e5\", label={label}];");
            }
        }
        for operand in profile.operands_of(instruction).iter().filter(|o| o.writes) {
            written.insert(profile.tensors[operand.tensor as usize].storage, k);
        }
    }
}

/// Writes an edge for each wait. A record stands for the instruction before it.
fn waits(profile: &Profile, nodes: &[usize], out: &mut String) {
    let before = |k: u32| {
        let stream = profile.instructions[k as usize].stream;
        let own = |n: &&usize| profile.instructions[**n].stream == stream && **n <= k as usize;
        nodes.iter().rev().find(own).copied()
    };
    for wait in profile.waits.iter().filter(|w| !w.resolution.is_elided() && w.until != NONE) {
        if nodes.binary_search(&(wait.waiter as usize)).is_err() {
            continue;
        }
        if let Some(from) = before(wait.until) {
            let style = "color=\"#e65100\", style=dashed";
            let _ = writeln!(out, "  i{from} -> i{} [{style}];", wait.waiter);
        }
    }
}
