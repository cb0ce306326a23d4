//! `profile` and `compare`: show a profile that was written, and the difference between two.
//!
//! Exit status 0: it was shown. 2: bad input.

mod outputs;
mod timeline;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_files::Outputs;
use millstream_instructions::InstructionList;
use millstream_instructions::text::parse_list;
use millstream_profile::{
    ListTimes, Outcome, Profile, Source, Times, compare, file, of_list, summary,
};
use millstream_runner::{Names, RunOptions, lists};
use millstream_trace::{LoadOptions, input_files, load, single_trace};
use millstream_types::{ListId, Point};

pub(crate) use outputs::{Forms, some_rows};
pub(crate) use timeline::{Timeline, recorded_order, single_profile, trace_beside};

use crate::show::snippet::print_message;
use crate::{BAD_INPUT, SUCCESS};

/// The arguments of `millstream profile`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  millstream profile run.pftrace --html run.html --summary\n  \
                  millstream profile kineto.json.gz --trace et.json --html page.html")]
pub(crate) struct Arguments {
    /// A file that --profile or --html has written, or another program's timeline: a file of
    /// PyTorch's profiler (Kineto), of Chakra, or the SQLite export of Nsight Systems; or a folder
    /// with one of these
    #[arg(value_name = "FILE")]
    path: PathBuf,
    #[command(flatten)]
    timeline: Timeline,
    #[command(flatten)]
    outputs: Forms,
    /// Write the summary as JSON to FILE, with all rows; `-` is standard output
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// The arguments of `millstream compare`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  millstream compare before.pftrace after.pftrace")]
pub(crate) struct Compare {
    /// A profile, a list, a trace, or a folder with one
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Another one
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Print all rows of each table
    #[arg(long)]
    all_rows: bool,
    /// Write the comparison as JSON to FILE, with all rows; `-` is standard output
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Gives the streams and tensors of a profile the names that the program has for them.
pub(crate) fn rename(profile: &mut Profile, list: &InstructionList, names: &Names) {
    rename_in(profile, None, list, names);
    for (k, (list, names)) in list.executables.iter().zip(&names.executables).enumerate() {
        rename_in(profile, Some(&ListId(k as u32).to_string()), list, names);
    }
}

fn rename_in(profile: &mut Profile, of: Option<&str>, list: &InstructionList, names: &Names) {
    let streams = names.streams.iter().filter_map(|(id, name)| {
        Some((list.streams.get(id.index())?.key.to_string(), name.as_str()))
    });
    let tensors = names.tensors.iter().map(|(id, name)| (id.to_string(), name.as_str()));
    profile.rename(of, &streams.collect(), &tensors.collect());
}

/// Prints a message to standard error, and returns the exit status of bad input.
pub(crate) fn bad(message: &str) -> u8 {
    print_message(message);
    BAD_INPUT
}

/// Shows a profile.
pub(crate) fn run(arguments: &Arguments) -> u8 {
    shown(arguments).map_or_else(|message| bad(&message), |()| SUCCESS)
}

fn shown(arguments: &Arguments) -> Result<(), String> {
    let own = [("--report", arguments.report.as_deref())];
    let outputs = Outputs::new(own.into_iter().chain(arguments.outputs.files()))?;
    let path = &single_profile(&arguments.path)?;
    outputs.refuse(arguments.timeline.files(path).flat_map(input_files))?;
    outputs.prepare()?;
    let profile = match arguments.timeline.read(path)? {
        Some(timeline) => timeline.profile,
        None => file::read(path)?,
    };
    arguments.outputs.write(&profile, &outputs);
    outputs.write("--report", || Ok(format!("{}\n", summary::report(&profile))));
    // Without an option, the summary is what there is to show.
    let is_shown = !arguments.outputs.any() && arguments.report.is_none();
    if arguments.outputs.has_summary() || is_shown {
        outputs.show(|out, terminal| arguments.outputs.print_summary(&profile, out, terminal));
    }
    Ok(outputs.finish()?)
}

/// Compares two profiles.
pub(crate) fn run_compare(arguments: &Compare) -> u8 {
    compared(arguments).map_or_else(|message| bad(&message), |()| SUCCESS)
}

fn compared(arguments: &Compare) -> Result<(), String> {
    let outputs = Outputs::new([("--report", arguments.report.as_deref())])?;
    outputs.refuse([&arguments.a, &arguments.b])?;
    outputs.prepare()?;
    let (a, b) = (read_any(&arguments.a)?, read_any(&arguments.b)?);
    let comparison = compare::compare(&a, &b);
    let names = [&arguments.a, &arguments.b].map(|path| path.display().to_string());
    outputs.write("--report", || {
        serde_json::to_string(&comparison).map(|text| text + "\n").map_err(|e| e.to_string())
    });
    outputs.show(|out, terminal| {
        let show = some_rows(arguments.all_rows, terminal);
        compare::write(&comparison, [&names[0], &names[1]], show, out)
    });
    Ok(outputs.finish()?)
}

/// The times of a list alone: there are none.
struct NoTimes;

impl ListTimes for NoTimes {
    fn issued(&self, _: usize) -> Option<u64> {
        None
    }

    fn at(&self, _: usize, _: Point) -> Option<(Times, Outcome)> {
        None
    }
}

/// Reads a profile, or the list of a trace or of a file with a list.
fn read_any(path: &Path) -> Result<Profile, String> {
    let trace = single_trace(path).map_err(|e| e.to_string());
    let path = &trace.or_else(|wrong| single_profile(path).map_err(|_| wrong))?;
    if let Some(timeline) = Timeline::default().read(path)? {
        return Ok(timeline.profile);
    }
    let at = path.display();
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read {at}: {e}"))?;
    let title = at.to_string();
    let profile = |list| of_list(&title, Source::Predicted, list, &NoTimes);
    let text = str::from_utf8(&bytes).ok();
    let starts = |with: &str| text.is_some_and(|text| text.trim_start().starts_with(with));
    if starts("millstream-list") {
        let list = parse_list(text.unwrap_or_default()).map_err(|e| format!("{at}: {e}"))?;
        return Ok(profile(&list));
    }
    if starts("{") || path.extension().is_some_and(|e| e == "gz") {
        let first = |errors: Vec<millstream_trace::TraceError>| {
            errors.first().map_or_else(|| at.to_string(), ToString::to_string)
        };
        let program = load(path, &LoadOptions::default()).map_err(|e| e.to_string())?;
        let made = lists(&Arc::new(program), &RunOptions::default());
        let made = made.map_err(|e| first(e.errors))?;
        let own = made.iter().find(|listing| listing.executable.is_none());
        let own = own.ok_or_else(|| format!("{at}: the program has no list"))?;
        return Ok(profile(&own.list));
    }
    file::read(path)
}
