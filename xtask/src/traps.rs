//! `traps`: puts known mistakes back in, one at a time, and sees a test find each.
//!
//! A trap is a file of `tests/traps`: what it is, a test, and a patch that puts it in. For each, the
//! tree is copied to `target/traps`, the patch is applied there, and the test is built and run. The
//! test has to fail, or not to come to an end within [`LIMIT`]. A patch that does not apply, a test
//! that does not build and a test that passes are errors.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

/// Which traps.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Names of files of `tests/traps`, or how they begin; all, if there are none.
    names: Vec<String>,
}

/// How long a test may take that a trap makes hang. Each takes a few seconds without.
const LIMIT: Duration = Duration::from_secs(60);

struct Trap {
    name: String,
    patch: PathBuf,
    what: String,
    /// Arguments of `cargo test`, the last of which chooses the tests.
    test: Vec<String>,
}

/// How a test ended.
enum Ended {
    Passed,
    Failed,
    Hung,
}

/// Puts the traps back in that the arguments name.
///
/// # Errors
/// A trap is not found by its test, or cannot be tried. All of them have been tried.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    let chosen = |t: &Trap| {
        arguments.names.is_empty() || arguments.names.iter().any(|n| t.name.starts_with(n))
    };
    let traps: Vec<Trap> = all(root)?.into_iter().filter(chosen).collect();
    ensure!(!traps.is_empty(), "no file of tests/traps begins so: {}", arguments.names.join(", "));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let copy = target.join("traps");
    let mut bad = 0;
    for trap in &traps {
        let start = Instant::now();
        let tried = trap.try_in(root, &copy, &target);
        let took = start.elapsed().as_secs();
        match tried {
            Ok(Ended::Failed) => println!("{}: found ({took} s)", trap.name),
            Ok(Ended::Hung) => println!("{}: found, the test hangs ({took} s)", trap.name),
            Ok(Ended::Passed) => {
                bad += 1;
                println!("{}: NOT FOUND: {}", trap.name, trap.what);
            }
            Err(error) => {
                bad += 1;
                println!("{}: cannot be tried: {error:#}", trap.name);
            }
        }
    }
    ensure!(bad == 0, "{bad} of {} traps are not found", traps.len());
    println!("all {} traps are found", traps.len());
    Ok(())
}

fn all(root: &Path) -> Result<Vec<Trap>> {
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
            what: field("Trap: ")?.to_owned(),
            test: field("Test: ")?.split_whitespace().map(str::to_owned).collect(),
            patch: patch.clone(),
        });
    }
    traps.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(traps)
}

impl Trap {
    fn try_in(&self, root: &Path, copy: &Path, target: &Path) -> Result<Ended> {
        mirror(root, copy)?;
        let mut apply = Command::new("git");
        // The copy lies within a repository that ignores it; git is not to look for that.
        apply.env("GIT_CEILING_DIRECTORIES", target).current_dir(copy);
        let applied = apply.arg("apply").arg(&self.patch).output().context("git cannot be run")?;
        ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr).trim());
        let (filter, arguments) = self.test.split_last().context("the test has no name")?;
        let mut build = Command::new(env!("CARGO"));
        build.args(["test", "--workspace", "--no-run", "--message-format=json"]).args(arguments);
        build.env("CARGO_TARGET_DIR", target).current_dir(copy);
        // Building takes most of the time. And cargo tells a crate of the copy from the tree's own
        // by this alone: at the same level of optimisation it might take one for the other.
        build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        let built = build.output().context("cargo cannot be run")?;
        let messages = String::from_utf8_lossy(&built.stdout);
        ensure!(built.status.success(), "it does not build:\n{}", why(&messages, &built.stderr));
        let mut ended = None;
        for message in messages.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok()) {
            let Some(executable) = message["executable"].as_str() else { continue };
            let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
            let home = manifest.parent().unwrap_or(copy);
            match self.test(Path::new(executable), filter, home, copy)? {
                Some(Ended::Passed) => ended = Some(Ended::Passed),
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
    ) -> Result<Option<Ended>> {
        let log = copy.join("target").join(format!("{}.log", self.name));
        fs::create_dir_all(copy.join("target"))?;
        let output = File::create(&log)?;
        let mut test = Command::new(executable);
        test.arg(filter).current_dir(home).env("CARGO_MANIFEST_DIR", home);
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
                return Ok(Some(Ended::Hung));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let none = fs::read(&log)?.windows(15).any(|w| w == b"running 0 tests");
        let ended = if status.success() { Ended::Passed } else { Ended::Failed };
        Ok((!none).then_some(ended))
    }
}

/// The first error of the compiler's, or else what cargo says.
fn why(messages: &str, said: &[u8]) -> String {
    let messages = messages.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let mut errors = messages.filter(|m| m["message"]["level"] == "error");
    let first = errors.find_map(|m| m["message"]["rendered"].as_str().map(str::to_owned));
    first.unwrap_or_else(|| String::from_utf8_lossy(said).into_owned())
}

/// Makes `to` the same as `from`, but for what tools write. Files that are the same are left alone,
/// so that cargo finds them built.
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
