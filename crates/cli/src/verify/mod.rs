//! `verify`: proves that lists and traces keep the rules of order and memory, or prints a
//! counterexample.
//!
//! Exit status 0: all are proven. 1: one is not. 2: bad input. 3: a timeline is undecided.

mod json;
mod race;
mod ranks;
mod subject;
mod timeline;

use std::io::{self, Write};
use std::path::PathBuf;

use millstream_files::{OutputError, Outputs};
use millstream_instructions::Body;
use millstream_profile::summary::plural;
use millstream_runner::{Loading, RunError, RunOptions, is_list_file};
use millstream_timelines::verdict::Status;
use millstream_trace::{EtOptions, LoadOptions, Number, TraceError, input_files, single_trace};
use millstream_types::DeviceId;
use millstream_verify::{CommunicatorRules, Verdict, Wait, verify};

use ranks::{Ranks, Whole};
use subject::File;
pub(crate) use subject::Subject;
use timeline::Checked;

use crate::assign::Assignments;
use crate::profile::Timeline;
use crate::run::{Sync, no_trace, number};
use crate::show::{snippet, tables, violations};
use crate::{FAILURE, SUCCESS};

/// The exit status if the order of a timeline depends on what is not known.
const UNDECIDED: u8 = 3;

/// The arguments of `millstream verify`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  millstream verify examples/traces/diamond.json --waits")]
pub(crate) struct Arguments {
    /// Lists as `run --emit` writes them, traces, or directories with traces and lists; with
    /// --trace, a file of PyTorch's profiler
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write a report as JSON to FILE, one line for each list; `-` is standard output
    #[arg(long, alias = "json", value_name = "FILE")]
    report: Option<PathBuf>,
    /// Show every wait, and whether it is needed
    #[arg(long)]
    waits: bool,
    /// Device of a trace's tensors and streams that name none: cpu or sim
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Earlier uses of a tensor that an instruction waits for, in the list of a trace
    #[arg(long, value_enum, default_value_t = Sync::Frontier)]
    sync: Sync,
    /// Verify each trace on N ranks, all of which read the same file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,
    /// Decide whether ranks meet by NCCL's rules: a send waits for its receive, and all ranks
    /// launch in one order
    #[arg(long)]
    nccl: bool,
    /// Compare the lists of ranks with what this program, which names ranks, gives each of them
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Spread the ops of a trace that names no streams over N compute streams
    #[arg(long, alias = "streams", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    compute_streams: u32,
    #[command(flatten)]
    assign: Assignments,
    /// Use VALUE for every number that an execution trace lost and consts.json lacks
    #[arg(long, value_name = "VALUE", value_parser = number, allow_hyphen_values = true)]
    missing_scalar: Option<Number>,
    /// Leave out the nodes of an execution trace that cannot be executed
    #[arg(long)]
    structural: bool,
    #[command(flatten)]
    timeline: Timeline,
}

/// The result of verifying a list.
pub(crate) struct Found {
    pub(crate) subject: Subject,
    pub(crate) verdict: Verdict,
}

impl Found {
    /// Returns the result in one line.
    fn line(&self) -> String {
        let Verdict { violations, pairs, .. } = &self.verdict;
        let list = &self.subject.list;
        let (instructions, streams) = (list.instructions.len(), list.streams.len());
        // Whether the ranks meet follows from the lists of all of them.
        let proven = match self.subject.meets_ranks() {
            true => "proven for this rank alone",
            false => "proven",
        };
        match violations.len() {
            0 => format!(
                "{proven}: {}, {}, {}, {}",
                plural(instructions as u64, "instruction"),
                plural(streams as u64, "stream"),
                plural(*pairs, "pair"),
                self.waits(),
            ),
            n => format!(
                "not proven: {}, in {}",
                plural(n as u64, "violation"),
                plural(instructions as u64, "instruction"),
            ),
        }
    }
}

impl Found {
    /// Returns the numbers of waits: those between streams, and those of the host apart.
    fn waits(&self) -> String {
        let body = |wait: &&Wait| &self.subject.list.instructions[wait.index].body;
        let by_host = |wait: &&Wait| matches!(body(wait), Body::HostObserved { .. });
        let (of_host, waits): (Vec<&Wait>, Vec<&Wait>) =
            self.verdict.waits.iter().partition(by_host);
        let mut text = plural(waits.len() as u64, "wait") + " between streams";
        match waits.iter().filter(|wait| !wait.needed).count() {
            0 => {}
            others => text += &format!(" ({others} implied by the others)"),
        }
        match of_host.len() as u64 {
            0 => text,
            count => format!("{text}, {count} of the host"),
        }
    }
}

/// Verifies everything that the arguments name.
pub(crate) fn run(arguments: &Arguments) -> u8 {
    match all(arguments) {
        Ok(Status::Proven) => SUCCESS,
        Ok(Status::Race) => FAILURE,
        Ok(Status::Undecided) => UNDECIDED,
        Err(error) => snippet::bad_input(error),
    }
}

/// Verifies all lists and timelines, and returns the worst result.
fn all(arguments: &Arguments) -> Result<Status, RunError> {
    let problem = |message: String| TraceError::of_file("verify", message);
    let device: DeviceId = arguments
        .device
        .parse()
        .map_err(|e| problem(format!("--device {}: {e}", arguments.device)))?;
    let options = RunOptions::default()
        .machine(|config| config.sync(arguments.sync.policy()))
        .device(device)
        .compute_streams(arguments.compute_streams)
        .assigner(arguments.assign.assigner().unwrap_or_default());
    options.probe().map_err(|e| problem(format!("--device {}: {e}", arguments.device)))?;
    let et = EtOptions {
        missing_scalar: arguments.missing_scalar,
        structural: arguments.structural,
        ..EtOptions::default()
    };
    let trace = LoadOptions { et, ..LoadOptions::default() };
    let assign = arguments.assign.files().cloned().collect();
    let loading = Loading { trace, assign, ..Loading::default() };
    let paths = subject::expand(&arguments.paths, arguments.ranks, &arguments.timeline)?;
    if paths.is_empty() {
        return Err(no_trace(&arguments.paths, "nothing to verify").into());
    }
    let is_of_ranks = |file: &File| file.ranks.is_some() && is_list_file(&file.path);
    if arguments.program.is_some() && !paths.iter().all(is_of_ranks) {
        let message = "--program: expected folders with lists of ranks, as run --emit writes them";
        return Err(problem(message.to_owned()).into());
    }
    let wrong = |error: OutputError| problem(error.into());
    let outputs = Outputs::new([("--report", arguments.report.as_deref())]).map_err(wrong)?;
    let besides = arguments.program.iter().chain(arguments.assign.files()).cloned();
    let own = paths.iter().flat_map(|file| arguments.timeline.files(&file.path));
    let mut read: Vec<PathBuf> = own.chain(besides).collect();
    read.dedup();
    outputs.refuse(read.iter().flat_map(input_files)).map_err(wrong)?;
    outputs.prepare().map_err(wrong)?;
    let (mut worst, mut lines, mut bad) = (Status::Proven, String::new(), Vec::new());
    let mut ranks = Ranks::default();
    let program = arguments.program.as_deref().map(single_trace).transpose()?;
    let program = program.as_deref();
    let rules = match arguments.nccl {
        true => CommunicatorRules::Nccl,
        false => CommunicatorRules::Own,
    };
    let whole = Whole { program, rules, options: &options, loading: &loading };
    for (k, file) in paths.iter().enumerate() {
        if file.is_timeline {
            match Checked::of(&file.path, &arguments.timeline) {
                Ok(checked) => {
                    worst = worse(worst, checked.verdict.status);
                    checked.print_conflicts();
                    let (waits, alone) = (arguments.waits, paths.len() == 1);
                    outputs.show(|out, terminal| checked.show(waits, alone, out, terminal));
                    lines.push_str(&checked.json());
                    lines.push('\n');
                }
                Err(error) => bad.push(TraceError::of_file(file.path.display().to_string(), error)),
            }
            continue;
        }
        let subjects = match subject::load(file, &options, &loading) {
            Ok(subjects) => subjects,
            Err(error) => {
                bad.extend(error.errors);
                continue;
            }
        };
        let alone = paths.len() == 1 && subjects.len() == 1;
        for (k, subject) in subjects.into_iter().enumerate() {
            let verdict = verify(&subject.list);
            let found = Found { subject, verdict };
            worst = worse(worst, status(found.verdict.proven()));
            if k == 0 {
                ranks.add(file, &found);
            }
            for violation in &found.verdict.violations {
                violations::print(&found.subject, violation);
            }
            outputs.show(|out, terminal| show(&found, arguments, alone, out, terminal));
            lines.push_str(&json::line(&found));
            lines.push('\n');
        }
        let ends = paths.get(k + 1).is_none_or(|next| next.ranks != file.ranks);
        let verdict = if ends { ranks.verdict(&whole)? } else { None };
        if let Some(verdict) = verdict {
            worst = worse(worst, status(verdict.proven()));
            verdict.errors.iter().chain(&verdict.pending).for_each(snippet::print);
            outputs.show(|out, _| writeln!(out, "{}", verdict.line()));
            lines.push_str(&json::ranks_line(&verdict));
            lines.push('\n');
        }
    }
    outputs.write("--report", || Ok(lines));
    bad.extend(outputs.finish().map_err(wrong).err());
    match bad.is_empty() {
        true => Ok(worst),
        false => Err(RunError { errors: bad, runtime: false }),
    }
}

/// Returns the status of a list, of which everything is known.
const fn status(proven: bool) -> Status {
    if proven { Status::Proven } else { Status::Race }
}

const fn worse(a: Status, b: Status) -> Status {
    match (a, b) {
        (Status::Race, _) | (_, Status::Race) => Status::Race,
        (Status::Undecided, _) | (_, Status::Undecided) => Status::Undecided,
        (Status::Proven, Status::Proven) => Status::Proven,
    }
}

fn show(
    found: &Found,
    arguments: &Arguments,
    alone: bool,
    out: &mut dyn Write,
    terminal: bool,
) -> io::Result<()> {
    if !alone {
        write!(out, "{}: ", found.subject.name)?;
    }
    writeln!(out, "{}", found.line())?;
    if arguments.waits && !found.verdict.waits.is_empty() {
        tables::print_waits(found, out, terminal)?;
    }
    Ok(())
}
