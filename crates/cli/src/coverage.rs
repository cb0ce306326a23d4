//! `coverage`: counts the nodes of execution traces that can be executed, with the reasons of the
//! others.
//!
//! Each trace is imported for its structure and built without a device: the schema of every op that
//! is executed has been evaluated, and gives the dtypes and shapes that the trace recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use millstream_files::{OutputError, Outputs, eprintln};
use millstream_runner::{RunError, RunOptions, prepare};
use millstream_trace::{
    Entry, EtOptions, Imported, LoadOptions, Program, TraceError, expand, input_files, load,
};
use serde_json::json;

use crate::SUCCESS;
use crate::run::no_trace;
use crate::show::{snippet, tables};

/// The arguments of `millstream coverage`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  millstream coverage examples/pytorch")]
pub(crate) struct Arguments {
    /// Execution traces, or directories with execution traces
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write a report as JSON to FILE, one line for each trace; `-` is standard output
    #[arg(long, alias = "json", value_name = "FILE")]
    report: Option<PathBuf>,
}

/// The nodes of one trace.
pub(crate) struct Covered {
    pub(crate) trace: String,
    pub(crate) imported: Imported,
}

impl Covered {
    /// Returns the share of executed nodes among the nodes that compute.
    pub(crate) fn nodes(&self) -> f64 {
        share(self.imported.executed() as f64, self.imported.ops as f64)
    }

    /// Returns the share of the executed nodes in the bytes that all computing nodes read and
    /// write.
    pub(crate) fn bytes(&self) -> f64 {
        let Imported { bytes, bytes_skipped, .. } = self.imported;
        share((bytes - bytes_skipped) as f64, bytes as f64)
    }

    /// Returns the numbers of nodes that are not executed, by op and reason.
    pub(crate) fn reasons(&self) -> BTreeMap<(&str, &str), Vec<u64>> {
        let mut reasons: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for skipped in &self.imported.skipped {
            let key = (skipped.op.as_str(), skipped.reason.as_str());
            reasons.entry(key).or_default().push(skipped.node);
        }
        reasons
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 1.0 } else { part / whole }
}

/// Counts the nodes of all traces that the arguments name.
pub(crate) fn run(arguments: &Arguments) -> u8 {
    all(arguments).map_or_else(snippet::bad_input, |()| SUCCESS)
}

fn all(arguments: &Arguments) -> Result<(), RunError> {
    let et = EtOptions { structural: true, ..EtOptions::default() };
    let loading = LoadOptions { et, ..LoadOptions::default() };
    let problem = |message: String| TraceError::of_file("coverage", message);
    let wrong = |error: OutputError| problem(error.into());
    let outputs = Outputs::new([("--report", arguments.report.as_deref())]).map_err(wrong)?;
    outputs.refuse(arguments.paths.iter().flat_map(input_files)).map_err(wrong)?;
    outputs.prepare().map_err(wrong)?;
    let mut covered = Vec::new();
    for entry in expand(&arguments.paths)? {
        let paths = match entry {
            Entry::Trace(path) => vec![path],
            Entry::Ranks { ranks, .. } => ranks,
            Entry::Skipped { path, reason } => {
                eprintln!("skipping {}: {reason}", path.display());
                continue;
            }
        };
        for path in paths {
            let program = Arc::new(load(&path, &loading)?);
            match imported(&program) {
                Some(imported) => {
                    prepare(program, &RunOptions::default())?;
                    covered.push(Covered { trace: path.display().to_string(), imported });
                }
                None => eprintln!("skipping {}: not an execution trace", path.display()),
            }
        }
    }
    if covered.is_empty() {
        return Err(no_trace(&arguments.paths, "no execution trace to count").into());
    }
    outputs.show(|out, terminal| tables::print_coverage(&covered, out, terminal));
    outputs.write("--report", || {
        Ok(covered.iter().map(|c| format!("{}\n", line(c))).collect::<String>())
    });
    Ok(outputs.finish().map_err(wrong)?)
}

fn imported(program: &Program) -> Option<Imported> {
    program.imported.as_deref().cloned()
}

fn line(covered: &Covered) -> serde_json::Value {
    let imported = &covered.imported;
    let skipped = imported.skipped.iter();
    let skipped = skipped.map(|s| json!({"node": s.node, "op": s.op, "reason": s.reason}));
    json!({
        "trace": covered.trace,
        "schema": imported.schema,
        "nodes": imported.nodes,
        "ops": imported.ops,
        "executed": imported.executed(),
        "bytes": imported.bytes,
        "bytes_skipped": imported.bytes_skipped,
        "missing_scalars": imported.missing_scalars,
        "made_up": imported.made_up,
        "relaid": imported.relaid,
        "skipped": skipped.collect::<Vec<_>>(),
    })
}
