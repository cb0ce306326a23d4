//! The helper process: PyTorch, which replays programs on request.

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

/// The helper's script. It is written beside the report, so this binary needs no other file.
const SCRIPT: &str = include_str!("../../../../tools/replay.py");

/// The helper's first line: its versions, or the reason why it cannot work.
#[derive(Deserialize)]
#[serde(untagged)]
enum Greeting {
    Here { torch: String, device: String },
    Absent { absent: String },
}

/// A program as the helper replays it.
#[derive(Deserialize)]
pub(super) struct Plan {
    /// The number of calls of each op.
    pub(super) calls: BTreeMap<String, usize>,
    /// The outputs that have expected elements, each with a message if it is wrong.
    pub(super) outputs: BTreeMap<String, Option<String>>,
    /// The number of additional calls for views that no node makes.
    pub(super) views: usize,
}

/// The seconds of each run.
#[derive(Deserialize)]
pub(super) struct Taken {
    pub(super) wall: Vec<f64>,
    pub(super) issued: Vec<f64>,
    /// Between two events on the stream; empty without a GPU.
    pub(super) device: Vec<f64>,
}

/// A process that answers each line with one line.
pub(super) struct Helper {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    /// PyTorch's version, and its name for the device.
    pub(super) what: String,
}

impl Helper {
    /// Starts the helper. The inner error says why there is no PyTorch to compare with.
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
        // The thread ends with the process.
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

    /// Makes the helper plan a program, of which the machine executes these ops.
    pub(super) fn load(
        &mut self,
        path: &Path,
        executed: &BTreeMap<String, usize>,
        time: &Time,
    ) -> Result<Plan> {
        let executed: Vec<&String> = executed.keys().collect();
        self.ask(&json!({ "load": path, "executed": executed }), time)
    }

    /// Makes the helper run the program `times` times.
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

    /// Returns the helper's next line; none if it has ended.
    fn answer<T: DeserializeOwned>(&mut self, time: &Time) -> Result<Option<T>> {
        match self.answers.recv_timeout(time.left()) {
            Ok(line) => Ok(Some(serde_json::from_str(&line).with_context(|| line.clone())?)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(anyhow!("PyTorch did not answer in time")),
        }
    }
}

impl Drop for Helper {
    /// The helper holds memory of the device, so it must not outlive this value.
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
