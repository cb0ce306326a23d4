//! The other process: PyTorch, which replays a program when it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::section::Time;

/// What runs there. It is written beside the report: this binary needs nothing else.
const SCRIPT: &str = include_str!("../../../../tools/replay.py");

/// What it is, or why it is not there.
#[derive(Deserialize)]
#[serde(untagged)]
enum Greeting {
    Here { torch: String, device: String },
    Absent { absent: String },
}

/// A program as it is replayed.
#[derive(Deserialize)]
pub(super) struct Plan {
    /// How many calls of each op.
    pub(super) calls: BTreeMap<String, usize>,
    /// Its outputs, with what is wrong with each; those without expected elements are not there.
    pub(super) outputs: BTreeMap<String, Option<String>>,
    /// Calls beside those, for views that no node makes.
    pub(super) views: usize,
}

/// Seconds of each run.
#[derive(Deserialize)]
pub(super) struct Taken {
    pub(super) wall: Vec<f64>,
    pub(super) issued: Vec<f64>,
    /// Between two events on the stream; empty where there is no GPU.
    pub(super) device: Vec<f64>,
}

/// A process that answers one line with one.
pub(super) struct Helper {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    /// PyTorch's version, and its name for the device.
    pub(super) what: String,
}

impl Helper {
    /// Starts it. The inner error says why there is no PyTorch to compare with.
    pub(super) fn start(
        python: &Path,
        device: &str,
        out: &Path,
        time: &Time,
    ) -> Result<Result<Helper, String>> {
        std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        let (script, log) = (out.join("replay.py"), out.join("pytorch.txt"));
        std::fs::write(&script, SCRIPT).with_context(|| script.display().to_string())?;
        let log = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(python);
        command.arg(&script).args(["--device", device]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(format!("{}: {error}", python.display()))),
        };
        let requests = child.stdin.take().context("its input")?;
        let lines = BufReader::new(child.stdout.take().context("its output")?);
        let (sender, answers) = channel();
        // Ends with the process.
        thread::spawn(move || {
            lines.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut helper = Helper { child, requests, answers, what: String::new() };
        match helper.answer(time)? {
            None => Ok(Err(format!("{} did not answer, see {}", python.display(), out.display()))),
            Some(Greeting::Absent { absent }) => Ok(Err(format!("{}: {absent}", python.display()))),
            Some(Greeting::Here { torch, device }) => {
                helper.what = format!("PyTorch {torch} on {device}");
                Ok(Ok(helper))
            }
        }
    }

    /// Has it plan a program, of which the machine executes these ops.
    pub(super) fn load(
        &mut self,
        path: &Path,
        executed: &BTreeMap<String, usize>,
        time: &Time,
    ) -> Result<Plan> {
        let executed: Vec<&String> = executed.keys().collect();
        self.ask(&json!({ "load": path, "executed": executed }), time)
    }

    /// Has it run the program so often.
    pub(super) fn run(&mut self, times: usize, time: &Time) -> Result<Taken> {
        self.ask(&json!({ "run": times }), time)
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Value, time: &Time) -> Result<T> {
        writeln!(self.requests, "{request}").context("PyTorch's process has ended")?;
        let answer: Option<Value> = self.answer(time)?;
        let answer = answer.context("PyTorch's process has ended, see pytorch.txt")?;
        if let Some(error) = answer.get("error") {
            bail!("PyTorch: {}", error.as_str().unwrap_or_default());
        }
        Ok(serde_json::from_value(answer)?)
    }

    /// Its next line; none if it has ended.
    fn answer<T: DeserializeOwned>(&mut self, time: &Time) -> Result<Option<T>> {
        match self.answers.recv_timeout(time.left()) {
            Ok(line) => Ok(Some(serde_json::from_str(&line).with_context(|| line.clone())?)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(anyhow!("PyTorch did not answer in time")),
        }
    }
}

impl Drop for Helper {
    /// It holds memory of the device.
    fn drop(&mut self) {
        // That it has ended already is no matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
