//! `ci`: every check of the project, in one list. The quick part tests a change. The full part
//! is for `.ci/run`. The long part explores for an hour before a landing.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Error, Result, ensure};
use clap::Args;

use crate::{binary, slow_tests};

/// The arguments of `cargo xtask ci`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Run all checks, not only the quick ones
    #[arg(long)]
    full: bool,
    /// Run the long explorations instead: more seeds, schedules and programs, and the traps
    #[arg(long, conflicts_with = "full")]
    long: bool,
    /// Leave out `cargo test --workspace`, which has run already
    #[arg(long)]
    tested: bool,
    /// List the slowest tests instead: all but those in the documentation run, one at a time
    #[arg(long, conflicts_with_all = ["full", "long", "tested", "list"])]
    slow: bool,
    /// Compile what the full checks need beside the tests, and run no check
    #[arg(long, conflicts_with_all = ["full", "long", "tested", "slow", "list"])]
    compile: bool,
    /// Print the commands without running them
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// In the quick and in the full part.
    Both,
    /// In the quick part alone; the full part has a larger form of the check.
    Quick,
    /// In the full part alone.
    Full,
    /// In the long part alone.
    Long,
}
use Part::{Both, Full, Long, Quick};

/// The features of the `millstream` that all checks run, which is built once.
pub(crate) const FEATURES: &str = "cuda,bench,explore";

/// The tests, as in the README.
const TESTS: &str = "cargo test --workspace";

/// The checks in order. The first failure ends the run. A command that begins with `xtask` is one
/// of this program, a command that begins with `millstream` one of the binary. `NAME=VALUE` before
/// a command sets an environment variable.
const STEPS: &[(Part, &str, &str)] = &[
    (Both, "formatting", "cargo fmt --all --check"),
    (Both, "lints", "cargo clippy --workspace --all-targets -- -D warnings"),
    (
        Quick,
        "tests of the house rules, the machine, faults, lists and devices",
        "cargo test --workspace --lib --test tidy --test traps --test machine --test tensor \
         --test faults --test lists --test sim --test conformance --test allocations",
    ),
    (
        Quick,
        "models: loom, and schedules of each program by shuttle",
        "cargo test --workspace --test loom --test shuttle",
    ),
    (Full, "tests, with models and those in the documentation", TESTS),
    (Full, "documentation", "cargo doc --workspace --no-deps"),
    (Both, "layers", "xtask layering"),
    (Both, "generated pages", "xtask docs --check"),
    (Quick, "counts in the code", "xtask count --quick"),
    (Full, "counts in the code, and instructions of calls", "xtask count"),
    (Both, "example traces", "millstream run examples/traces"),
    (Both, "example traces, proven", "millstream verify examples/traces"),
    (Both, "random programs under many schedules", "millstream simulate --random --seeds 10000"),
    (Both, "and with faults", "millstream simulate --random --seeds 2000 --faults"),
    (Full, "recorded programs", "millstream run examples/pytorch tests/traces"),
    (
        Both,
        "recorded programs, compiled and launched",
        "millstream run --replay --repeat 2 --compute-streams 3 --assign round-robin examples/pytorch",
    ),
    (
        Both,
        "recorded programs, as the benchmark runs them",
        "millstream bench traces --rounds 1 --steps 2 examples/pytorch \
         tests/traces/pytorch/mlp_train_sgd",
    ),
    (Long, "random programs, 200,000 seeds", "millstream simulate --random --seeds 200000"),
    (Long, "and with faults, 40,000 seeds", "millstream simulate --random --seeds 40000 --faults"),
    (
        Long,
        "50,000 schedules of each program by shuttle",
        "MILLSTREAM_SCHEDULES=50000 cargo test --workspace --test shuttle",
    ),
    (
        Long,
        "100,000 random programs on worker threads and inline",
        "MILLSTREAM_CASES=100000 cargo test --workspace --test random_programs",
    ),
    (
        Long,
        "a million of each kind made and dropped, and a million instructions compiled",
        "MILLSTREAM_DROPS=1000000 MILLSTREAM_INSTRUCTIONS=1000000 cargo test --workspace --release \
         --test allocations",
    ),
    (Long, "known mistakes, put back in", "xtask traps"),
];

/// Returns a step's command, with the program that it takes built.
fn made(root: &Path, command: &str) -> Result<Command> {
    let words = || command.split_whitespace();
    let variables: Vec<(&str, &str)> = words().map_while(|word| word.split_once('=')).collect();
    let mut words = words().skip(variables.len());
    let program = words.next().context("a command without a program")?;
    let rest: Vec<&str> = words.collect();
    let mut made = match program {
        "xtask" => Command::new(std::env::current_exe()?),
        "millstream" => Command::new(binary::millstream(FEATURES, true).map_err(Error::msg)?),
        other => Command::new(other),
    };
    made.args(&rest).envs(variables).current_dir(root);
    if rest.first() == Some(&"doc") {
        made.env("RUSTDOCFLAGS", "-D warnings");
    }
    Ok(made)
}

/// Compiles the optimised binaries of the full checks, then runs lints and makes the documentation,
/// which wait until no other cargo compiles without optimisation.
fn compile(root: &Path) -> Result<()> {
    let needed = |starts: &'static [&str]| {
        let full = STEPS.iter().filter(|(part, ..)| matches!(part, Both | Full));
        let commands = full.map(|(.., command)| *command);
        commands.filter(|command| starts.iter().any(|start| command.starts_with(start)))
    };
    for command in needed(&["millstream "]) {
        made(root, command)?;
    }
    for command in needed(&["cargo clippy ", "cargo doc "]) {
        let status = made(root, command)?.status();
        let status = status.with_context(|| format!("{command}: cannot be run"))?;
        ensure!(status.success(), "{command}: failed ({status})");
    }
    Ok(())
}

/// Runs the checks.
///
/// # Errors
/// Fails with the first check that fails; later ones are not run.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    if arguments.slow {
        return slow_tests::list(root);
    }
    if arguments.compile {
        return compile(root);
    }
    let wanted = |part: Part| match part {
        Both => !arguments.long,
        Quick => !arguments.long && !arguments.full,
        Full => arguments.full,
        Long => arguments.long,
    };
    let start = Instant::now();
    let steps = STEPS.iter().filter(|(part, ..)| wanted(*part));
    for (_, what, command) in steps.filter(|step| !(arguments.tested && step.2 == TESTS)) {
        println!("\n==> {what}\n    {command}");
        if arguments.list {
            continue;
        }
        let begun = Instant::now();
        let status = made(root, command)?.status();
        let status = status.with_context(|| format!("{command}: cannot be run"))?;
        ensure!(status.success(), "{what}: failed ({status})");
        println!("    done in {} s", begun.elapsed().as_secs());
    }
    if !arguments.list {
        println!("\nall checks passed in {} s", start.elapsed().as_secs());
    }
    Ok(())
}
