//! `ci`: every check of the project, in one list. The quick part is what a change is tried with;
//! all of it is what `.ci/run` runs.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;

/// Which part.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// All checks, not only the quick ones.
    #[arg(long)]
    full: bool,
    /// Leaves out `cargo test --workspace`, for who has run it.
    #[arg(long)]
    tested: bool,
    /// Prints the commands and runs none.
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Of the quick part and of the whole.
    Both,
    /// Of the quick part alone: the whole has more of the same.
    Quick,
    /// Of the whole alone.
    Full,
}
use Part::{Both, Full, Quick};

/// The tests, as the README says.
const TESTS: &str = "cargo test --workspace";

/// What is run, in this order. The first that fails ends it. A command that begins with `xtask` is
/// one of this program's, one that begins with `millstream` the product's.
const STEPS: &[(Part, &str, &str)] = &[
    (Both, "formatting", "cargo fmt --all --check"),
    (Both, "lints", "cargo clippy --workspace --all-targets -- -D warnings"),
    (
        Quick,
        "tests of the house rules, the machine, random programs, faults, lists and devices",
        "cargo test --workspace --lib --test tidy --test traps --test machine --test faults \
         --test random_programs --test cases --test text --test sim --test conformance",
    ),
    (
        Quick,
        "models: loom, and 5,000 schedules of each program by shuttle",
        "cargo test --workspace --test loom --test shuttle",
    ),
    (Full, "tests, with models and those in the documentation", TESTS),
    (Full, "documentation", "cargo doc --workspace --no-deps"),
    (Both, "layers", "xtask layering"),
    (Both, "generated pages", "xtask docs --check"),
    (Both, "example traces", "millstream run examples/traces"),
    (Both, "example traces, proven", "millstream verify examples/traces"),
    (Quick, "random programs under many schedules", "millstream simulate --random --seeds 10000"),
    (Full, "random programs under many schedules", "millstream simulate --random --seeds 100000"),
    (Quick, "and with faults", "millstream simulate --random --seeds 2000 --faults"),
    (Full, "and with faults", "millstream simulate --random --seeds 20000 --faults"),
    (Full, "recorded programs", "millstream run examples/pytorch tests/traces"),
];

/// Runs the checks.
///
/// # Errors
/// One of them fails; those after it are not run.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    let wanted = |part: Part| part == Both || (part == Full) == arguments.full;
    let start = Instant::now();
    let steps = STEPS.iter().filter(|(part, ..)| wanted(*part));
    for (_, what, command) in steps.filter(|step| !(arguments.tested && step.2 == TESTS)) {
        println!("\n==> {what}\n    {command}");
        if arguments.list {
            continue;
        }
        let begun = Instant::now();
        let (program, rest) = command.split_once(' ').context("a command without arguments")?;
        let mut step = match program {
            "xtask" => Command::new(std::env::current_exe()?),
            "millstream" => Command::new(crate::forward::binary("cuda")?),
            other => Command::new(other),
        };
        step.args(rest.split_whitespace()).current_dir(root);
        if rest.starts_with("doc ") {
            step.env("RUSTDOCFLAGS", "-D warnings");
        }
        let status = step.status().with_context(|| format!("{program} cannot be run"))?;
        ensure!(status.success(), "{what}: failed ({status})");
        println!("    done in {} s", begun.elapsed().as_secs());
    }
    if !arguments.list {
        println!("\nall checks passed in {} s", start.elapsed().as_secs());
    }
    Ok(())
}
