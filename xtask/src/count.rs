//! `count`: figures of the code and of its calls that may not grow, in `xtask/counts.json`.
//!
//! Instructions are counted by valgrind's callgrind on `millstream bench calls`: a long run less a
//! short one, so that the cost of a start cancels out. Counts repeat to a few per cent of one
//! between machines, where times do not. Without valgrind these rows are skipped with a message.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Error, Result, bail, ensure};
use clap::Args;
use millstream_instructions::Kind;

use crate::binary;
use crate::ci::FEATURES;
use crate::source::{self, block};

/// The arguments of `cargo xtask count`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Write the new figures to xtask/counts.json
    #[arg(long)]
    bless: bool,
    /// Leave out the rows that run the binary under valgrind
    #[arg(long)]
    quick: bool,
}

/// The file with the figures that hold.
const FILE: &str = "xtask/counts.json";

/// The kinds of calls that are counted, as `millstream bench calls --kind` names them.
const KINDS: &[&str] = &[
    "method",
    "builder",
    "chain",
    "streams",
    "attribute",
    "in-place",
    "view",
    "prepared",
    "batch",
    "read",
    "taped",
    "untaped",
    "global",
];

/// The numbers of calls of the short and of the long run.
const CALLS: (u64, u64) = (2_000, 6_000);

/// By how much a count of instructions may differ before it counts as changed. A locked instruction
/// more in a call is outside it up to 50 of them. Calls on many streams have some in waits, whose
/// number differs from run to run.
const TOLERANCE: f64 = 0.02;

/// Kinds of calls whose counts differ from run to run by more: the notes of a tape are in maps with
/// keys of their own for each run, also those that the calls without a tape are counted beside, and
/// the few instructions of a batch are counted beside what the machine did before them.
const UNSTEADY: [&str; 3] = ["batch", "taped", "untaped"];
const UNSTEADY_TOLERANCE: f64 = 0.25;

/// A figure by its name. Counts of instructions have a tolerance, and unsteady kinds a greater one.
type Figures = BTreeMap<String, f64>;

/// Counts, prints the figures beside those of the file, and compares.
///
/// # Errors
/// Fails if a figure grew, became smaller without the file being rewritten, or cannot be counted.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    let path = root.join(FILE);
    let known: Figures = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).context(FILE)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Figures::new(),
        Err(error) => return Err(error).context(FILE),
    };
    let mut figures = code(root)?;
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    if arguments.quick || !has_valgrind {
        let reason = if arguments.quick { "--quick" } else { "there is no valgrind" };
        println!("SKIPPED: instructions are not counted: {reason}");
    } else {
        figures.extend(calls()?);
    }
    let mut changed = Vec::new();
    for (name, now) in &figures {
        let before = known.get(name);
        let tolerance = match name.rsplit(": ").next() {
            Some(kind) if UNSTEADY.contains(&kind) => UNSTEADY_TOLERANCE,
            _ if name.contains("instructions") => TOLERANCE,
            _ => 0.0,
        };
        let is_same = before.is_some_and(|b| (now - b).abs() <= b * tolerance);
        println!("{name:<40} {now:>10}   {}", before.map_or("-".to_owned(), f64::to_string));
        if !is_same {
            changed.push(name.as_str());
        }
    }
    if arguments.bless {
        let mut all = known;
        all.extend(figures);
        millstream_files::write(&path, serde_json::to_string_pretty(&all)? + "\n").context(FILE)?;
        return Ok(());
    }
    if !changed.is_empty() {
        bail!(
            "{} changed: mend what grew, or if it is smaller, or grew for a reason that the commit \
             gives, run `cargo xtask count --bless`",
            changed.join(", ")
        );
    }
    Ok(())
}

/// Returns the figures that are counted in the sources.
fn code(root: &Path) -> Result<Figures> {
    let mut matches = 0;
    for folder in ["crates", "src"] {
        for source in source::sources(root, folder)? {
            let is_tests = source.path.contains("/tests/") || source.path.contains("/testing/");
            if !is_tests {
                matches += matches_over_all_kinds(&source.code);
            }
        }
    }
    Ok(Figures::from([("matches over all kinds".to_owned(), matches as f64)]))
}

/// Returns the number of `match` expressions that name all kinds of instructions.
fn matches_over_all_kinds(code: &str) -> usize {
    let names_all = |block: &str| {
        Kind::ALL.iter().all(|kind| {
            let after = |path: &str| {
                let name = format!("{path}::{}", kind.name());
                block.match_indices(&name).any(|(at, _)| {
                    !block[at + name.len()..].starts_with(|c: char| c.is_alphanumeric())
                })
            };
            after("Body") || after("Kind")
        })
    };
    let blocks = code.match_indices("match ").filter_map(|(at, _)| block(&code[at..]));
    blocks.filter(|block| names_all(block)).count()
}

/// Returns the instructions and the locked instructions of each kind of call.
fn calls() -> Result<Figures> {
    let binary = binary::millstream(FEATURES, true).map_err(Error::msg)?;
    let mut figures = Figures::new();
    for kind in KINDS {
        let (short, long) = std::thread::scope(|scope| {
            let short = scope.spawn(|| callgrind(&binary, kind, CALLS.0));
            let long = callgrind(&binary, kind, CALLS.1);
            (short.join().expect("does not panic"), long)
        });
        let (short, long) = (short?, long?);
        let per_call = |at: usize| (long[at] - short[at]) as f64 / (CALLS.1 - CALLS.0) as f64;
        figures.insert(format!("instructions: {kind}"), per_call(0).round());
        figures.insert(format!("locked instructions: {kind}"), (per_call(1) * 10.0).round() / 10.0);
    }
    Ok(figures)
}

/// Runs the calls once, and returns the instructions and the locked ones of the whole process.
fn callgrind(binary: &Path, kind: &str, calls: u64) -> Result<[u64; 2]> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-bus=yes", "--callgrind-out-file=/dev/null"])
        .arg(binary)
        .args(["bench", "calls", "--rounds", "0", "--kind", kind, "--calls", &calls.to_string()])
        .output()
        .context("cannot run valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "bench calls --kind {kind} under valgrind: {text}");
    // `==1== Collected : 123 4`, in the order of `==1== Events    : Ir Ge`.
    let line = text.lines().find_map(|line| line.split_once("Collected :")).map(|(_, rest)| rest);
    let counts: Vec<u64> =
        line.unwrap_or_default().split_whitespace().filter_map(|n| n.parse().ok()).collect();
    <[u64; 2]>::try_from(counts).ok().with_context(|| format!("callgrind printed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_that_names_all_kinds_is_counted_once() {
        let arms: String =
            Kind::ALL.iter().map(|kind| format!("Body::{} => 1,\n", kind.name())).collect();
        let all = format!("fn f() {{ match body {{ {arms} }} }}");
        assert_eq!(matches_over_all_kinds(&all), 1);
        let first = format!("Body::{} => 1,\n", Kind::ALL[0].name());
        assert_eq!(matches_over_all_kinds(&all.replace(&first, "")), 0);
        assert_eq!(matches_over_all_kinds(&all.replace("Body::", "Kind::")), 1);
    }
}
