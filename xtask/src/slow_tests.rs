//! `ci --slow`: the slowest tests, each with its time.

use std::io::{BufRead, BufReader, pipe};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How many tests are listed.
const LISTED: usize = 20;

/// A test with its program and the time that it took.
#[derive(Debug, PartialEq)]
struct Timed {
    program: String,
    test: String,
    time: Duration,
}

/// Runs all tests but those in the documentation, one at a time, and lists the slowest. The time of
/// a test is the time between its line and the line before it: only unstable options of the test
/// harness print times.
///
/// # Errors
/// Fails if cargo cannot be run, or if a test fails.
pub(crate) fn list(root: &Path) -> Result<()> {
    let (reader, writer) = pipe()?;
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--workspace", "--tests", "--", "--test-threads=1"]).current_dir(root);
    let mut tests =
        cargo.stdout(writer.try_clone()?).stderr(writer).spawn().context("cannot run cargo")?;
    // The command keeps the writing ends open.
    drop(cargo);
    let start = Instant::now();
    let lines = BufReader::new(reader).lines();
    let lines = lines.map_while(Result::ok).map(|line| (line, start.elapsed()));
    let mut timed = times(lines.inspect(|(line, _)| {
        if line.contains("FAILED") || line.contains("panicked at") || line.starts_with("error") {
            println!("{line}");
        }
    }));
    let status = tests.wait()?;
    timed.sort_by_key(|timed| std::cmp::Reverse(timed.time));
    for Timed { program, test, time } in timed.iter().take(LISTED) {
        println!("{:7.1} s  {program}: {test}", time.as_secs_f64());
    }
    ensure!(status.success(), "the tests failed ({status})");
    Ok(())
}

/// Reads the tests from the lines that cargo and its test programs print, each at a time.
fn times(lines: impl Iterator<Item = (String, Duration)>) -> Vec<Timed> {
    let (mut program, mut before, mut all) = (String::new(), Duration::ZERO, Vec::new());
    for (line, at) in lines {
        if let Some(path) = line.trim_start().strip_prefix("Running ") {
            // `tests/lists/main.rs (target/debug/deps/lists-4b1b0fd4d1c3bd5e)`
            let file = path.rsplit('/').next().unwrap_or(path);
            program = file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned();
        }
        if let Some((test, _)) = line.strip_prefix("test ").and_then(|l| l.split_once(" ... ")) {
            let time = at.saturating_sub(before);
            all.push(Timed { program: program.clone(), test: test.to_owned(), time });
        }
        before = at;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_takes_the_time_since_the_line_before_it() {
        let printed = [
            ("   Compiling millstream v0.1.0", 900),
            ("     Running tests/lists/main.rs (target/debug/deps/lists-4b1b0fd4d1c3bd5e)", 1000),
            ("running 2 tests", 1010),
            ("test cases::first ... ok", 1510),
            ("test cases::second ... ignored", 1511),
            ("test result: ok. 1 passed; 0 failed; 1 ignored", 1512),
            ("     Running unittests src/lib.rs (target/debug/deps/millstream_ep-0fd4)", 2000),
            ("test third ... FAILED", 2100),
        ];
        let lines = printed.map(|(line, ms)| (line.to_owned(), Duration::from_millis(ms)));
        let expected = [
            ("lists", "cases::first", 500),
            ("lists", "cases::second", 1),
            ("millstream_ep", "third", 100),
        ];
        let expected = expected.map(|(program, test, ms)| Timed {
            program: program.to_owned(),
            test: test.to_owned(),
            time: Duration::from_millis(ms),
        });
        assert_eq!(times(lines.into_iter()), expected);
    }
}
