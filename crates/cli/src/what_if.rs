//! `what-if`: predicts what a recorded run would take if something about it were different.
//!
//! Exit status 0: it was predicted. 2: bad input.

use std::io::{self, Write};
use std::path::PathBuf;

use millstream_explore::what_if::{
    Changes, Gain, Kernels, OpChange, Scaling, gains, numbered_waits, streams_as_assignment,
    what_if,
};
use millstream_files::Outputs;
use millstream_profile::model::Source;
use millstream_profile::summary::{self, short_name, time};
use millstream_profile::{Profile, file};
use millstream_terminal::table::new_table;
use millstream_trace::{Assignment, LoadOptions, input_files};
use serde_json::{Value, json};

use crate::SUCCESS;
use crate::assign::Assignments;
use crate::profile::{Forms, Timeline, bad, single_profile, some_rows};
use crate::simulate::read_model;

/// The most rows of each table of gains.
const ROWS: usize = 8;

/// The arguments of `millstream what-if`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    millstream what-if run.pftrace\n  \
    millstream what-if run.pftrace --without-wait 1\n  \
    millstream what-if run.pftrace --move 213=3\n  \
    millstream what-if run.pftrace --compute-streams 4 --op matmul=x0.5 --html predicted.html")]
pub(crate) struct Arguments {
    /// A file that --profile or --html has written, another program's timeline, or a folder with
    /// one
    #[arg(value_name = "PROFILE")]
    path: PathBuf,
    #[command(flatten)]
    timeline: Timeline,
    /// Spread the ops over N compute streams
    #[arg(long, alias = "streams", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    compute_streams: Option<u32>,
    #[command(flatten)]
    assign: Assignments,
    /// Write the streams of all calls to FILE, as an assignment that `millstream run --assign FILE`
    /// takes; `-` is standard output
    #[arg(long, value_name = "FILE")]
    emit_assign: Option<PathBuf>,
    /// Move calls to a stream: those at a node or line, as in 213=3, or of an op, as in
    /// matmul=side; may be repeated
    #[arg(long = "move", value_name = "PLACE=STREAM")]
    moves: Vec<String>,
    /// Number of worker threads that the host's streams share
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Give each call of an op another time, as in matmul=12us, or a factor of its own, as in
    /// matmul=x0.5; may be repeated
    #[arg(long, value_name = "NAME=TIME")]
    op: Vec<OpChange>,
    /// Leave out the waits of this number in the table of waits; may be repeated
    #[arg(long, value_name = "N")]
    without_wait: Vec<usize>,
    /// Time from the moment at which an instruction could run until it does, as in 2us or x0.5
    #[arg(long, value_name = "TIME")]
    launch: Option<Scaling>,
    /// Take the times of kernels from this cost model (docs/simulate.md)
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// With --model: the cost model of the device that was measured. Measured times are then
    /// changed in the ratio of the two models
    #[arg(long, value_name = "FILE", requires = "model")]
    measured_on: Option<PathBuf>,
    /// With --model: the kind of the model's devices that the kernels go to, as in sim
    #[arg(long, value_name = "KIND", requires = "model")]
    device: Option<String>,
    #[command(flatten)]
    outputs: Forms,
    /// Write the prediction as JSON to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Arguments {
    fn changes(&self) -> Result<Changes, String> {
        let measured_on = self.measured_on.as_deref().map(read_model).transpose()?;
        let kernels = self.model.as_deref().map(read_model).transpose()?;
        let device = self.device.clone();
        let kernels = kernels.map(|model| Kernels { model, measured_on, device });
        let read = |path: &PathBuf| Assignment::read(path, &LoadOptions::default());
        let files = self.assign.files().map(read);
        let all = files.chain(self.moves.iter().map(|text| Assignment::of_move(text)));
        let mut assignment: Option<Assignment> = None;
        for made in all {
            let made = made.map_err(|e| e.to_string())?;
            assignment = Some(match assignment {
                None => made,
                Some(earlier) => earlier.then(made),
            });
        }
        Ok(Changes {
            ops: self.op.clone(),
            without_waits: self.without_wait.clone(),
            launch: self.launch,
            compute_streams: self.compute_streams,
            assigner: self.assign.assigner().unwrap_or_default(),
            assignment,
            threads: self.threads,
            model: kernels,
        })
    }
}

/// Predicts a run.
pub(crate) fn run(arguments: &Arguments) -> u8 {
    shown(arguments).map_or_else(|message| bad(&message), |()| SUCCESS)
}

fn shown(arguments: &Arguments) -> Result<(), String> {
    let path = single_profile(&arguments.path)?;
    let (assign, report) = (arguments.emit_assign.as_deref(), arguments.report.as_deref());
    let own = [("--emit-assign", assign), ("--report", report)];
    let outputs = Outputs::new(own.into_iter().chain(arguments.outputs.files()))?;
    let read = [&arguments.model, &arguments.measured_on].into_iter().flatten();
    let read = read.chain(arguments.assign.files()).cloned();
    let read = read.chain(arguments.timeline.files(&path));
    outputs.refuse(read.flat_map(input_files))?;
    outputs.prepare()?;
    let changes = arguments.changes()?;
    let at = path.display();
    let profile = match arguments.timeline.read(&path)? {
        Some(timeline) => timeline.profile,
        None => file::read(&path)?,
    };
    let named = |message: String| format!("{at}: {message}");
    let unchanged = what_if(&profile, &Changes::default()).map_err(named)?;
    let made = what_if(&profile, &changes).map_err(named)?;
    arguments.outputs.write(&made, &outputs);
    if arguments.emit_assign.is_some() {
        let text = streams_as_assignment(&made).map_err(named)?;
        outputs.write("--emit-assign", || Ok(text));
    }
    let gained = match arguments.outputs.any() || !changes.is_empty() {
        true => None,
        false => Some(gains(&profile, &changes, ROWS).map_err(named)?),
    };
    outputs.write("--report", || {
        let gains = gained.as_ref().map_or([&[][..]; 2], |[waits, ops]| [&waits[..], ops]);
        Ok(format!("{}\n", report_of(&profile, &unchanged, (&made, &changes), gains)))
    });
    outputs.show(|out, terminal| {
        print(&profile, &unchanged, (&made, &changes), out)?;
        if arguments.outputs.has_summary() {
            return arguments.outputs.print_summary(&made, out, terminal);
        }
        let Some([waits, ops]) = &gained else {
            return summary::write_path(&made, some_rows(false, terminal), out);
        };
        let parts = summary::PathParts::of(&made, &summary::path(&made));
        writeln!(out, "critical path: {parts}")?;
        print_waits(&profile, &made, waits, terminal, out)?;
        print_ops(&made, ops, terminal, out)?;
        let spread = profile.spread();
        match spread.count {
            1 => Ok(()),
            count => {
                let off = percent((spread.high - spread.low) as i64, spread.median);
                let off = off.trim_start_matches('+');
                writeln!(out, "the middle half of the {count} runs differs by {off}: less is noise")
            }
        }
    });
    Ok(outputs.finish()?)
}

/// Returns a prediction as JSON, times in nanoseconds.
fn report_of(
    profile: &Profile,
    unchanged: &Profile,
    (made, changes): (&Profile, &Changes),
    [waits, ops]: [&[Gain]; 2],
) -> Value {
    let [before, same, new] = [profile, unchanged, made].map(|p| p.parts().program);
    let all = numbered_waits(profile);
    let waits = waits.iter().filter_map(|gain| {
        let number = *gain.changes.without_waits.last()?;
        let wait = all.get(number - 1)?;
        Some(json!({
            "wait": number, "until": wait.until, "user": wait.user, "at": wait.place,
            "blocked": wait.blocked, "without": gain.program,
        }))
    });
    let all = summary::ops(made);
    let ops = ops.iter().filter_map(|gain| {
        let change = gain.changes.ops.last()?;
        let op = all.iter().find(|op| op.name == change.name)?;
        Some(json!({
            "op": op.name, "calls": op.count, "time": op.total, "in_half_the_time": gain.program,
        }))
    });
    json!({
        "before": before,
        "unchanged": same,
        "predicted": new,
        "changes": changes.describe(),
        "waits": waits.collect::<Vec<_>>(),
        "ops": ops.collect::<Vec<_>>(),
    })
}

fn percent(part: i64, whole: u64) -> String {
    format!("{:+.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Prints the measured and the predicted times.
fn print(
    profile: &Profile,
    unchanged: &Profile,
    (made, changes): (&Profile, &Changes),
    out: &mut dyn Write,
) -> io::Result<()> {
    let source = match profile.source {
        Source::Predicted => "predicted before",
        other => other.name(),
    };
    let [before, same, new] = [profile, unchanged, made].map(|p| p.parts().program);
    let off = percent(same as i64 - before as i64, before);
    writeln!(out, "{source}: {}", profile.parts())?;
    summary::write_runs(profile, out)?;
    writeln!(out, "predicted without a change: {} ({off})", time(same))?;
    if !changes.is_empty() {
        let gain = percent(new as i64 - same as i64, same);
        writeln!(out, "predicted {}: {} ({gain})", changes.describe().join(", "), time(new))?;
        let described = changes.describe();
        let is_new =
            |remark: &&String| !profile.remarks.contains(remark) && !described.contains(remark);
        for remark in made.remarks.iter().filter(is_new) {
            writeln!(out, "{remark}")?;
        }
        if profile.spread().covers(new.abs_diff(same)) {
            writeln!(out, "the runs differ by as much: the change may not be seen")?;
        }
    }
    Ok(())
}

/// Prints what the removal of waits would gain.
fn print_waits(
    profile: &Profile,
    made: &Profile,
    gains: &[Gain],
    terminal: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = numbered_waits(profile);
    if gains.is_empty() {
        return Ok(());
    }
    let names = summary::ShortNames::of(profile);
    let header = [">wait", "waits for", "by", "at", ">blocked", ">without it", ">gain"];
    let mut table = new_table(terminal, &header);
    for gain in gains {
        let Some(&number) = gain.changes.without_waits.last() else { continue };
        let Some(wait) = all.get(number - 1) else { continue };
        table.add_row([
            number.to_string(),
            format!("{} on {}", short_name(&wait.until), names.stream(wait.source)),
            format!("{} on {}", short_name(&wait.user), names.stream(wait.stream)),
            names.place(&wait.place),
            time(wait.blocked),
            time(gain.program),
            gained(made, gain),
        ]);
    }
    writeln!(out, "{table}")?;
    summary::more(out, all.len(), gains.len())
}

/// Prints what faster ops would gain.
fn print_ops(
    made: &Profile,
    gains: &[Gain],
    terminal: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = summary::ops(made);
    let header = ["op", ">calls", ">time", ">in half the time", ">gain"];
    let mut table = new_table(terminal, &header);
    for gain in gains {
        let Some(change) = gain.changes.ops.last() else { continue };
        let Some(op) = all.iter().find(|op| op.name == change.name) else { continue };
        let calls = op.count.to_string();
        let cells =
            [op.name.clone(), calls, time(op.total), time(gain.program), gained(made, gain)];
        table.add_row(cells);
    }
    writeln!(out, "{table}")?;
    summary::more(out, all.len(), gains.len())
}

fn gained(made: &Profile, gain: &Gain) -> String {
    let program = made.parts().program;
    percent(gain.program as i64 - program as i64, program)
}
