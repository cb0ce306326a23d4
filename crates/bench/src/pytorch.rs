//! A process with PyTorch that runs programs on request and says how long they took.
//!
//! It runs one of two scripts: one that replays the calls of a trace, or one that runs the modules
//! from which recorded cases were made.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use millstream_files::{write, write_log};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A script of the helper. It is written to a folder first, so this binary needs no other file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Calls the ops of a trace one after another; autograd records nothing.
    Replay,
    /// Runs the modules of recorded cases, with autograd and optimizers.
    Modules,
}

impl Script {
    const fn file(self) -> (&'static str, &'static str) {
        match self {
            Script::Replay => ("replay.py", include_str!("../../../tools/replay.py")),
            Script::Modules => ("modules.py", include_str!("../../../tools/modules.py")),
        }
    }
}

/// The helper's first line: its versions, or the reason why it cannot work.
#[derive(Deserialize)]
#[serde(untagged)]
enum Greeting {
    Here { torch: String, device: String },
    Absent { absent: String },
}

/// The answer to a request to load a program.
#[derive(Deserialize)]
pub struct Plan {
    /// The number of calls of each op; empty for modules.
    #[serde(default)]
    pub calls: BTreeMap<String, usize>,
    /// The outputs that have expected elements, each with a message if it is wrong.
    #[serde(default)]
    pub outputs: BTreeMap<String, Option<String>>,
    /// The number of additional calls for views that no node makes.
    #[serde(default)]
    pub views: usize,
}

/// The seconds of each run.
#[derive(Deserialize)]
pub struct Taken {
    /// Until the device has completed everything.
    pub wall: Vec<f64>,
    /// Until the last call was made.
    pub issued: Vec<f64>,
    /// Between two events on the stream; empty without a GPU.
    #[serde(default)]
    pub device: Vec<f64>,
}

/// A process that answers each line with one line.
pub struct Helper {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    /// PyTorch's version, and its name for the device.
    pub what: String,
}

impl Helper {
    /// Starts the helper. The inner error says why there is no PyTorch to compare with.
    ///
    /// # Errors
    /// The script cannot be written or run, or does not answer in time.
    pub fn start(
        (python, script): (&Path, Script),
        arguments: &[&str],
        out: &Path,
        limit: Duration,
    ) -> Result<Result<Helper, String>> {
        let (name, text) = script.file();
        let (script, log) = (out.join(name), out.join(name).with_extension("txt"));
        write(&script, text).with_context(|| script.display().to_string())?;
        let log = write_log(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(python);
        command.arg(&script).args(arguments);
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
        match helper.answer(limit)? {
            None => Ok(Err(format!("{} did not answer, see {}", python.display(), out.display()))),
            Some(Greeting::Absent { absent }) => Ok(Err(format!("{}: {absent}", python.display()))),
            Some(Greeting::Here { torch, device }) => {
                helper.what = format!("PyTorch {torch} on {device}");
                Ok(Ok(helper))
            }
        }
    }

    /// Makes the helper plan a program, of which the machine executes these ops.
    ///
    /// # Errors
    /// PyTorch cannot run it, or does not answer in time.
    pub fn load(
        &mut self,
        path: &Path,
        executed: &BTreeMap<String, usize>,
        limit: Duration,
    ) -> Result<Plan> {
        let executed: Vec<&String> = executed.keys().collect();
        self.ask(&json!({ "load": path, "executed": executed }), limit)
    }

    /// Makes the helper load the case of this name.
    ///
    /// # Errors
    /// There is none, or it cannot be made.
    pub fn load_case(&mut self, case: &str, limit: Duration) -> Result<Plan> {
        self.ask(&json!({ "load": case }), limit)
    }

    /// Makes the helper run the program `times` times.
    ///
    /// # Errors
    /// PyTorch refuses, or does not answer in time.
    pub fn run(&mut self, times: usize, limit: Duration) -> Result<Taken> {
        self.ask(&json!({ "run": times }), limit)
    }

    /// Makes the helper replay the program `times` times as a CUDA graph, which it captures first.
    ///
    /// # Errors
    /// A call cannot be captured, or PyTorch does not answer in time.
    pub fn run_graph(&mut self, times: usize, limit: Duration) -> Result<Taken> {
        self.ask(&json!({ "graph": times }), limit)
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Value, limit: Duration) -> Result<T> {
        writeln!(self.requests, "{request}").context("PyTorch's process has ended")?;
        let answer: Option<Value> = self.answer(limit)?;
        let answer =
            answer.context("PyTorch's process has ended; its folder has its last words")?;
        if let Some(error) = answer.get("error") {
            bail!("PyTorch: {}", error.as_str().unwrap_or_default());
        }
        Ok(serde_json::from_value(answer)?)
    }

    /// Returns the helper's next line; none if it has ended.
    fn answer<T: DeserializeOwned>(&mut self, limit: Duration) -> Result<Option<T>> {
        match self.answers.recv_timeout(limit) {
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
