//! `traps`: reintroduces known mistakes, one at a time, and requires that a test finds each.
//!
//! A trap is a file of `tests/traps`: a description, a test, and a patch that introduces the
//! mistake. For each trap the tree is copied to `target/traps`, the patch is applied to the copy,
//! and the test is built and run. The test must fail, or not end within [`LIMIT`]. A patch that
//! does not apply, a test that does not build and a test that passes are errors.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

/// The arguments of `cargo xtask traps`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Names of files of `tests/traps`, or prefixes of names [default: all]
    names: Vec<String>,
}

/// The time after which a test counts as hung. Without a trap each test takes a few seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The debug information of the copy; the tree is built without.
const LINES: &str = "line-directives-only";

struct Trap {
    name: String,
    patch: PathBuf,
    description: String,
    /// The arguments of `cargo test`; the last one selects the tests.
    test: Vec<String>,
}

/// The end of a test.
enum Outcome {
    Passed,
    Failed,
    Hung,
}

/// Tries the traps that the arguments name.
///
/// # Errors
/// Fails if a trap is not found by its test, or cannot be tried. All traps are tried first.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    let chosen = |t: &Trap| {
        arguments.names.is_empty() || arguments.names.iter().any(|n| t.name.starts_with(n))
    };
    let traps: Vec<Trap> = read_traps(root)?.into_iter().filter(chosen).collect();
    ensure!(
        !traps.is_empty(),
        "no file in tests/traps has a name that begins with {}",
        arguments.names.join(", ")
    );
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let copy = target.join("traps");
    let mut bad = 0;
    for trap in &traps {
        let start = Instant::now();
        let tried = trap.try_in(root, &copy, &target);
        let took = start.elapsed().as_secs();
        match tried {
            Ok(Outcome::Failed) => println!("{}: found ({took} s)", trap.name),
            Ok(Outcome::Hung) => println!("{}: found, the test did not end ({took} s)", trap.name),
            Ok(Outcome::Passed) => {
                bad += 1;
                println!("{}: NOT FOUND: {}", trap.name, trap.description);
            }
            Err(error) => {
                bad += 1;
                println!("{}: error: {error:#}", trap.name);
            }
        }
    }
    ensure!(bad == 0, "{bad} of {} traps are not found", traps.len());
    println!("all {} traps are found", traps.len());
    Ok(())
}

fn read_traps(root: &Path) -> Result<Vec<Trap>> {
    let folder = root.join("tests/traps");
    let mut traps = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let patch = entry?.path();
        let text = fs::read_to_string(&patch)?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.with_context(|| format!("{}: no line \"{name}…\"", patch.display()))
        };
        let stem = patch.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        traps.push(Trap {
            name: stem.to_owned(),
            description: field("Trap: ")?.to_owned(),
            test: field("Test: ")?.split_whitespace().map(str::to_owned).collect(),
            patch: patch.clone(),
        });
    }
    traps.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(traps)
}

impl Trap {
    fn try_in(&self, root: &Path, copy: &Path, target: &Path) -> Result<Outcome> {
        mirror(root, copy)?;
        let mut apply = Command::new("git");
        // The copy lies within a repository that ignores it, and git must not search upwards for
        // it.
        apply.env("GIT_CEILING_DIRECTORIES", target).current_dir(copy);
        let applied = apply.arg("apply").arg(&self.patch).output().context("git cannot be run")?;
        ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr).trim());
        let (filter, arguments) = self.test.split_last().context("the test has no name")?;
        let mut build = Command::new(env!("CARGO"));
        build.args(["test", "--workspace", "--no-run", "--message-format=json"]).args(arguments);
        build.env("CARGO_TARGET_DIR", target).current_dir(copy);
        // Building takes most of the time, so as little as possible is optimised.
        build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        // Cargo takes a crate of the copy for the tree's own unless their profiles differ: a later
        // build of the tree would contain the mistake. The manifest has levels for some crates,
        // but debug information for no crate of ours.
        build.env("CARGO_PROFILE_DEV_DEBUG", LINES);
        let built = build.output().context("cargo cannot be run")?;
        let messages = String::from_utf8_lossy(&built.stdout);
        ensure!(
            built.status.success(),
            "the test does not build:\n{}",
            first_error(&messages, &built.stderr)
        );
        let mut ended = None;
        for message in messages.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok()) {
            let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
            // A build script is the tree's own: no trap changes one.
            let is_own =
                manifest.starts_with(copy) && message["target"]["kind"][0] != "custom-build";
            ensure!(
                !is_own || message["profile"]["debuginfo"] == LINES,
                "{} sets `debug` in the tree's manifest, so that cargo cannot distinguish its copy",
                message["target"]["name"]
            );
            let Some(executable) = message["executable"].as_str() else { continue };
            let home = manifest.parent().unwrap_or(copy);
            match self.test(Path::new(executable), filter, home, copy)? {
                Some(Outcome::Passed) => ended = Some(Outcome::Passed),
                Some(found) => return Ok(found),
                None => {}
            }
        }
        ended.with_context(|| format!("no test is called {filter}"))
    }

    /// Runs the tests of that name; `None` if there are none.
    fn test(
        &self,
        executable: &Path,
        filter: &str,
        home: &Path,
        copy: &Path,
    ) -> Result<Option<Outcome>> {
        let log = copy.join("target").join(format!("{}.log", self.name));
        fs::create_dir_all(copy.join("target"))?;
        let output = File::create(&log)?;
        let mut test = Command::new(executable);
        test.arg(filter).current_dir(home).env("CARGO_MANIFEST_DIR", home);
        test.env("MILLSTREAM_TESTS", "all").env("MILLSTREAM_SCHEDULES", "5000");
        test.stdout(output.try_clone()?).stderr(output).stdin(Stdio::null());
        let mut child = test.spawn().with_context(|| executable.display().to_string())?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if start.elapsed() > LIMIT {
                child.kill()?;
                child.wait()?;
                return Ok(Some(Outcome::Hung));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let none = fs::read(&log)?.windows(15).any(|w| w == b"running 0 tests");
        let ended = if status.success() { Outcome::Passed } else { Outcome::Failed };
        Ok((!none).then_some(ended))
    }
}

/// Returns the compiler's first error, or cargo's output if there is none.
fn first_error(messages: &str, stderr: &[u8]) -> String {
    let messages = messages.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let mut errors = messages.filter(|m| m["message"]["level"] == "error");
    let first = errors.find_map(|m| m["message"]["rendered"].as_str().map(str::to_owned));
    first.unwrap_or_else(|| String::from_utf8_lossy(stderr).into_owned())
}

/// Makes `to` equal to `from`, except for files that tools write. Equal files are not touched, so
/// that cargo finds them built.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = {
            let e = entry?;
            (e.path(), e.file_name())
        };
        if ["target", ".git", "corpus", "artifacts"].iter().any(|tool| name == *tool) {
            continue;
        }
        let copy = to.join(&name);
        if path.is_dir() {
            mirror(&path, &copy)?;
        } else {
            let text = fs::read(&path)?;
            if fs::read(&copy).ok().as_ref() != Some(&text) {
                fs::write(&copy, text)?;
            }
        }
    }
    for entry in fs::read_dir(to)? {
        let (path, name) = {
            let e = entry?;
            (e.path(), e.file_name())
        };
        if name == "target" || from.join(&name).exists() {
            continue;
        }
        if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
    }
    Ok(())
}
