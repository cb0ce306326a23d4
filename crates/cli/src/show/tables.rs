//! Prints the results of a run as tables.

use std::io::{self, Write};

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, Table};
use millstream_profile::Spread;
use millstream_profile::summary::{plural, time};
use millstream_runner::{OutputReport, ReadReport, RunReport};
use millstream_terminal::table::{bytes, is_coloured, new_table, width};
use millstream_trace::Imported;
use millstream_types::layout::brief;

use crate::coverage::Covered;
use crate::run::Ran;
use crate::show::values::preview;
use crate::verify::Found;

/// The least width in which all columns fit side by side.
const WIDE: u16 = 90;

/// Prints a table with one row for each program.
pub(crate) fn print_summary(all: &[Ran], out: &mut dyn Write, terminal: bool) -> io::Result<()> {
    let header: &[&str] = match width(terminal) < WIDE {
        true => &["trace", ">waits", ">time", "verdict"],
        false => &[
            "trace",
            ">waits",
            ">time",
            "verdict",
            ">outputs",
            ">instructions",
            ">streams",
            ">peak",
        ],
    };
    let mut table = new_table(terminal, header);
    for ran in all {
        let sum = |of: fn(&RunReport) -> u64| ran.ranks.iter().map(of).sum::<u64>();
        let wall = ran.spread(|report| &report.walls).map(|spread| time(spread.median));
        let waits = format!("{} of {}", sum(|r| r.waits.emitted()), sum(|r| r.waits.needed));
        let mut row = vec![
            Cell::new(&ran.trace),
            Cell::new(waits),
            Cell::new(wall.unwrap_or_default()),
            judged(&verdict(ran), terminal),
            Cell::new(sum(|r| r.outputs.len() as u64)),
            Cell::new(sum(|r| r.instructions.iter().map(|(_, n)| n).sum())),
            Cell::new(sum(|r| r.streams.len() as u64)),
            Cell::new(bytes(sum(|r| r.peak_bytes))),
        ];
        row.truncate(header.len());
        table.add_row(row);
    }
    whole(&mut table, 1);
    writeln!(out, "{table}")
}

/// Lets only the columns before `first` wrap.
fn whole(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// Returns the verdict on a program: "ok" only if all of its outputs were compared.
fn verdict(ran: &Ran) -> String {
    let outputs = || ran.ranks.iter().flat_map(|report| &report.outputs);
    let compared = outputs().filter(|output| output.expected).count();
    match (ran.ok(), compared, outputs().count()) {
        (false, ..) => "NOT OK".to_owned(),
        (true, compared, all) if compared == all && all > 0 => "ok".to_owned(),
        (true, _, 0) => "ran; nothing to compare".to_owned(),
        (true, compared, all) => format!("ran; {compared} of {all} compared"),
    }
}

/// Returns a table's cell for a verdict: what is wrong is red, where colours are wanted.
fn judged(verdict: &str, terminal: bool) -> Cell {
    let is_good = ["ok", "-", "ran"].iter().any(|good| verdict.starts_with(good));
    match is_good || !is_coloured(terminal) {
        true => Cell::new(verdict),
        false => Cell::new(verdict).fg(Color::Red).add_attribute(Attribute::Bold),
    }
}

/// How much is shown of a program beyond its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The outputs that differ.
    Differences,
    /// Also the elements of outputs that have nothing to be compared with.
    Values,
    /// All outputs, reads and costs.
    Tables,
}

/// The most outputs whose elements are shown without tables.
const VALUES: usize = 8;

/// Prints a line for a program, and as much of its outputs and costs as is wanted. On a terminal
/// the tables are as wide as it.
pub(crate) fn print(
    ran: &Ran,
    detail: Detail,
    out: &mut dyn Write,
    terminal: bool,
) -> io::Result<()> {
    match is_coloured(terminal) && !ran.ok() {
        true => write!(out, "{}: \x1b[1;31m{}\x1b[0m", ran.trace, verdict(ran))?,
        false => write!(out, "{}: {}", ran.trace, verdict(ran))?,
    }
    let outputs: u64 = ran.ranks.iter().map(|report| report.outputs.len() as u64).sum();
    match (verdict(ran).as_str(), outputs) {
        ("ok", 1) => write!(out, ", 1 output matches")?,
        ("ok", outputs) => write!(out, ", {outputs} outputs match")?,
        _ => {}
    }
    if let Some(wall) = ran.spread(|report| &report.walls) {
        write!(out, "; {}", took(ran, wall))?;
    }
    match ran.ranks.iter().map(|report| report.compute_streams).max() {
        Some([used, most]) if (1..most).contains(&used) => {
            writeln!(out, "; on {used} of {most} compute streams")?
        }
        _ => writeln!(out)?,
    }
    let has_remarks = detail != Detail::Differences || !ran.ok();
    for (rank, report) in ran.ranks.iter().enumerate().filter(|_| has_remarks) {
        for remark in report.imported.iter().flat_map(Imported::diagnostics) {
            writeln!(out, "NOTE: {}{remark}", ran.name(rank, ""))?;
        }
    }
    let reads = ran.ranks.iter().enumerate().filter(|_| detail == Detail::Tables);
    for (rank, report) in reads {
        for ReadReport { name, origin, dtype, shape, head } in &report.reads.first {
            let (name, kind) = (ran.name(rank, name), brief(*dtype, shape));
            writeln!(out, "{origin}: {name}, {kind} = {}", preview(head, *dtype, 8))?;
        }
        if report.reads.further > 0 {
            writeln!(out, "and {} more reads", report.reads.further)?;
        }
    }
    let outputs: Vec<(String, &OutputReport)> = ran
        .ranks
        .iter()
        .enumerate()
        .flat_map(|(rank, r)| r.outputs.iter().map(move |o| (ran.name(rank, &o.name), o)))
        .collect();
    let is_shown = |output: &OutputReport| detail == Detail::Tables || !output.ok();
    if outputs.iter().any(|(_, output)| is_shown(output)) {
        let narrow = width(terminal) < WIDE;
        let header: &[&str] = match narrow {
            true => &["output", "type", "max error", "tolerance", "verdict"],
            false => &["output", "type", "max abs", "max rel", "tolerance", "verdict"],
        };
        let mut table = new_table(terminal, header);
        for (name, output) in outputs.iter().filter(|(_, output)| is_shown(output)) {
            table.add_row(row(name, output, narrow, terminal));
        }
        whole(&mut table, 2);
        writeln!(out, "{table}")?;
    }
    for (name, output) in &outputs {
        if let Some(found) = output.comparison.as_ref().and_then(|c| c.first.as_ref()) {
            writeln!(out, "{name}: {found}")?;
        }
        if let Some(repeat) = output.unstable {
            writeln!(out, "{name}: run {} gave other bytes than run 1", repeat + 1)?;
        }
    }
    let values = outputs.iter().filter(|(_, output)| !output.expected);
    let values = values.filter_map(|(name, output)| Some((name, output, output.spec.as_ref()?)));
    let most = match detail {
        Detail::Differences => 0,
        Detail::Values => VALUES,
        Detail::Tables => usize::MAX,
    };
    for (name, output, spec) in values.clone().take(most) {
        writeln!(out, "{name} = {}", preview(&output.bytes, spec.dtype, 8))?;
    }
    match (detail, values.count().saturating_sub(most)) {
        (Detail::Tables, _) => costs(ran, out, terminal),
        (Detail::Differences, _) | (_, 0) => Ok(()),
        (Detail::Values, left) => writeln!(out, "and {left} more outputs, with --verbose"),
    }
}

/// Returns the time of a run, beside that of PyTorch if the recording has it: as a factor if the
/// recording was made on such a processor.
fn took(ran: &Ran, wall: Spread) -> String {
    let eager = ran.ranks.iter().find_map(|report| report.imported.as_ref()?.eager.as_ref());
    let Some(eager) = eager else { return format!("ran in {wall}") };
    let theirs = time((eager.seconds * 1e9) as u64);
    if eager.on.is_empty() || processor().as_ref() != Some(&eager.on) {
        let on = if eager.on.is_empty() { "another computer" } else { &eager.on };
        return format!("PyTorch {theirs} on {on}, here {wall}");
    }
    let factor = eager.seconds * 1e9 / wall.median.max(1) as f64;
    format!("PyTorch {theirs}, here {wall} ({factor:.1} ×)")
}

/// Returns the name of the processor, as Linux has it.
fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.to_owned())
}

/// Returns the row of an output. In a narrow table relative errors stand below absolute ones.
fn row(name: &str, output: &OutputReport, narrow: bool, terminal: bool) -> Vec<Cell> {
    let kind = output.spec.as_ref().map_or_else(String::new, |s| brief(s.dtype, s.shape()));
    let (mut abs, mut rel, mut tolerance) = (String::new(), String::new(), String::new());
    if let (true, Some(c)) = (output.expected, &output.comparison) {
        abs = error(c.max_abs);
        rel = error(c.max_rel);
        let between = if narrow { "\n" } else { ", " };
        tolerance = match (c.rtol, c.atol) {
            (0.0, 0.0) => "exact".to_owned(),
            (rtol, atol) => format!("{} abs{between}{} rel", error(atol), error(rtol)),
        };
        if narrow {
            abs = format!("{abs} abs\n{rel} rel");
        }
    }
    let verdict = match (&output.comparison, output.unstable) {
        (None, _) => "failed".to_owned(),
        (_, Some(_)) => "unstable".to_owned(),
        (Some(c), _) if !c.ok && c.mismatches > 0 => format!("differs in {}", c.mismatches),
        (Some(c), _) if !c.ok => "differs".to_owned(),
        (Some(_), _) if !output.expected => "-".to_owned(),
        _ => "ok".to_owned(),
    };
    let cells = match narrow {
        true => vec![name.to_owned(), kind, abs, tolerance],
        false => vec![name.to_owned(), kind, abs, rel, tolerance],
    };
    cells.into_iter().map(Cell::new).chain([judged(&verdict, terminal)]).collect()
}

fn error(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v.is_finite() => format!("{v:.1e}"),
        v => v.to_string(),
    }
}

fn costs(ran: &Ran, out: &mut dyn Write, terminal: bool) -> io::Result<()> {
    let sum = |of: fn(&RunReport) -> u64| ran.ranks.iter().map(of).sum::<u64>();
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    for (kind, count) in ran.ranks.iter().flat_map(|r| &r.instructions) {
        match kinds.iter_mut().find(|(name, _)| *name == kind.name()) {
            Some((_, total)) => *total += count,
            None => kinds.push((kind.name(), *count)),
        }
    }
    let mut table = new_table(terminal, &["instruction", ">count"]);
    for (kind, count) in kinds {
        table.add_row(vec![kind.to_owned(), count.to_string()]);
    }
    writeln!(out, "{table}")?;

    let mut table = new_table(terminal, &["waits", ">count"]);
    for (what, count) in [
        ("needed", sum(|r| r.waits.needed)),
        ("emitted by device", sum(|r| r.waits.device)),
        ("emitted by host", sum(|r| r.waits.host)),
        ("elided: known to the stream", sum(|r| r.waits.known)),
        ("elided: seen by the host or a barrier", sum(|r| r.waits.fenced)),
        ("elided: implied by another wait", sum(|r| r.waits.implied)),
    ] {
        table.add_row(vec![what.to_owned(), count.to_string()]);
    }
    writeln!(out, "{table}")?;

    let mut table = new_table(terminal, &["stream", ">instructions"]);
    for (rank, report) in ran.ranks.iter().enumerate() {
        for stream in &report.streams {
            let key = stream.key.to_string();
            let name = stream.name.as_ref().map_or(key.clone(), |own| format!("{own} ({key})"));
            table.add_row(vec![ran.name(rank, &name), stream.instructions.to_string()]);
        }
    }
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "{} created, used again {}; peak memory {}",
        plural(sum(|r| r.events_created), "event"),
        plural(sum(|r| r.events_reused), "time"),
        bytes(sum(|r| r.peak_bytes)),
    )?;
    match ran.spread(|report| &report.readings) {
        Some(reading) => writeln!(out, "outputs read in {reading}"),
        None => Ok(()),
    }
}

/// Prints the numbers of executed nodes of execution traces.
pub(crate) fn print_coverage(
    all: &[Covered],
    out: &mut dyn Write,
    terminal: bool,
) -> io::Result<()> {
    let header: &[&str] = match width(terminal) < WIDE {
        true => &["trace", ">ops", ">executed", ">nodes", ">bytes"],
        false => &["trace", ">ops", ">executed", ">nodes", ">bytes", ">lost numbers", "schema"],
    };
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let mut table = new_table(terminal, header);
    for covered in all {
        let imported = &covered.imported;
        let mut row = vec![
            covered.trace.clone(),
            imported.ops.to_string(),
            imported.executed().to_string(),
            percent(covered.nodes()),
            percent(covered.bytes()),
            imported.missing_scalars.to_string(),
            imported.schema.clone(),
        ];
        row.truncate(header.len());
        table.add_row(row);
    }
    whole(&mut table, 1);
    writeln!(out, "{table}")?;
    for covered in all.iter().filter(|c| !c.imported.skipped.is_empty()) {
        writeln!(out, "\nnot executed in {}:", covered.trace)?;
        let mut table = new_table(terminal, &["op", ">nodes", ">first", "reason"]);
        for ((op, reason), nodes) in covered.reasons() {
            let first = nodes.first().map(u64::to_string).unwrap_or_default();
            table.add_row([op, &nodes.len().to_string(), &first, reason]);
        }
        writeln!(out, "{table}")?;
    }
    Ok(())
}

/// Prints the waits of a list, and whether each is needed.
pub(crate) fn print_waits(found: &Found, out: &mut dyn Write, terminal: bool) -> io::Result<()> {
    let Found { subject, verdict } = found;
    let mut table = new_table(terminal, &[">line", "wait", "needed", "why"]);
    for wait in &verdict.waits {
        let line = subject.line(wait.index);
        let text = subject.text(line).trim();
        let needed = if wait.needed { "yes" } else { "no" };
        let why = wait.reason.say(|index| format!("line {}", subject.line(index)));
        table.add_row([&line.to_string(), text, needed, &why]);
    }
    writeln!(out, "{table}")
}
