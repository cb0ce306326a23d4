//! The summary as tables.

use std::fmt;
use std::io::{self, Write};

use millstream_terminal::table::{bytes, new_table};

use crate::memory::{self, Peak};
use crate::model::{NONE, Profile, Stream};
use crate::order::{OnPath, Segment};

use super::counts::WaitCounts;
use super::{OpTime, loads, ops_where, overlap, path, repeats, waits};

/// How much of each table is shown.
#[derive(Clone, Copy, Debug)]
pub struct Show {
    /// The most rows of each table.
    pub rows: usize,
    /// Whether the output is a terminal.
    pub terminal: bool,
}

/// Returns a time with a unit: `312 ns`, `1.28 us`.
pub fn time(ns: u64) -> String {
    match ns as f64 {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

pub(super) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Returns a number of things: `1 stream`, `2 streams`.
pub fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns a place without its folders.
fn short(place: &str) -> String {
    let words = place.split(' ').map(|word| word.rsplit('/').next().unwrap_or(word));
    words.collect::<Vec<_>>().join(" ")
}

/// The names of streams and places without what all of a profile's have in common.
#[derive(Clone, Debug)]
pub struct ShortNames<'a> {
    profile: &'a Profile,
    /// The device of all streams, if there is one alone.
    device: Option<&'a str>,
    /// The file of all places, if there is one alone.
    file: Option<&'a str>,
}

impl<'a> ShortNames<'a> {
    /// Returns the names of a profile.
    pub fn of(profile: &'a Profile) -> ShortNames<'a> {
        let mut devices = profile.streams.iter().map(|stream| stream.device.as_str());
        let device = devices.next().filter(|first| devices.all(|device| device == *first));
        let mut files = profile.places.iter().map(|place| file_and_rest(place).0);
        let file = files.next().filter(|first| files.all(|file| file == *first));
        ShortNames { profile, device, file }
    }

    /// Returns the name of a stream: the program's, if it has one.
    pub fn stream(&self, stream: u32) -> &'a str {
        let own = self.profile.streams.get(stream as usize).and_then(Stream::own_name);
        if let Some(own) = own {
            return own;
        }
        let name = self.profile.stream_name(stream);
        let own = self.device.and_then(|device| name.strip_prefix(device));
        own.map_or(name, str::trim_start)
    }

    /// Returns the text of a place: `node 12`, `line 12`, or with its file where there are several.
    /// Of ops within each other it is the innermost one.
    pub fn place(&self, place: &str) -> String {
        let place = place.rsplit(" > ").next().unwrap_or(place);
        let own = self.file.and_then(|file| place.strip_prefix(file));
        let own = own.filter(|own| !own.is_empty());
        let own = own.map(|own| match own.strip_prefix(':') {
            Some(line) => format!("line {line}"),
            None => own.trim_start().to_owned(),
        });
        own.unwrap_or_else(|| short(place))
    }
}

/// Returns the name of an op, or of a kernel without its template arguments, which are long.
pub fn short_name(name: &str) -> String {
    match name.split_once('<') {
        Some((head, arguments)) if arguments.len() > 8 => format!("{head}<…>"),
        _ => name.to_owned(),
    }
}

/// Divides a place: `et.json.gz` and ` node 12`, `step.json` and `:12`. An op is no file, as in
/// `aten::mm`.
fn file_and_rest(place: &str) -> (&str, &str) {
    let is_line = |at: &usize| {
        let line = &place[at + 1..];
        !line.is_empty() && line.bytes().all(|c| c.is_ascii_digit())
    };
    let unit = place.rfind(" node ").or_else(|| place.rfind(':').filter(is_line));
    place.split_at(unit.unwrap_or(place.len()))
}

/// What the critical path is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathParts {
    /// The time in instructions.
    pub runs: u64,
    /// The time between them.
    pub gaps: u64,
    /// The time before the program submits the next one.
    pub submits: u64,
    /// The time behind the program, in which its outputs are read.
    pub reading: u64,
    /// The time of the run.
    pub total: u64,
}

impl PathParts {
    /// Divides a critical path.
    pub fn of(profile: &Profile, path: &[OnPath]) -> PathParts {
        let mut parts = PathParts { total: profile.total, ..PathParts::default() };
        let reads_at = profile.parts().reads_at;
        for part in path {
            let takes = part.end.min(reads_at).saturating_sub(part.start);
            parts.reading += part.end - part.start - takes;
            match part.segment {
                Segment::Runs(_) => parts.runs += takes,
                Segment::Gap { .. } | Segment::Resumes { .. } => parts.gaps += takes,
                Segment::Submits { .. } => parts.submits += takes,
            }
        }
        parts
    }
}

impl fmt::Display for PathParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PathParts { runs, gaps, submits, reading, total } = *self;
        write!(f, "{} in instructions", share(runs, total))?;
        // A prediction from a list has neither.
        if gaps + submits > 0 {
            let (gaps, submits) = (share(gaps, total), share(submits, total));
            write!(
                f,
                ",\n  {gaps} between them, {submits} before the program submits the next one"
            )?;
        }
        if reading > 0 {
            write!(f, ",\n  {} reading the outputs", share(reading, total))?;
        }
        Ok(())
    }
}

/// Prints the summary of a profile.
///
/// # Errors
/// `out` fails.
pub fn write(profile: &Profile, show: Show, out: &mut dyn Write) -> io::Result<()> {
    let loads = loads(profile);
    let used = loads.iter().filter(|load| load.instructions > 0).count();
    let what = profile.source.name();
    let (streams, count) = (plural(used as u64, "stream"), profile.shown().count() as u64);
    writeln!(out, "{what}: {}; {} on {streams}", profile.parts(), plural(count, "instruction"))?;
    write_runs(profile, out)?;
    writeln!(out, "{}", WaitCounts::of(profile))?;
    for remark in &profile.remarks {
        writeln!(out, "{remark}")?;
    }
    streams_table(profile, show, out)?;
    // The ops of a timeline's threads have a table of their own: its devices run other names.
    let of_devices = ops_where(profile, |stream| !stream.thread);
    if !of_devices.is_empty() || profile.streams.iter().all(|stream| !stream.thread) {
        let overlap = overlap(profile);
        let several: u64 = overlap.at_once.iter().skip(2).sum();
        writeln!(
            out,
            "streams that work at once: {:.2} on average; two or more for {}",
            overlap.average(),
            share(several, profile.total)
        )?;
        ops_table(&of_devices, "op", show, out)?;
    }
    let of_threads = ops_where(profile, |stream| stream.thread);
    if !of_threads.is_empty() {
        ops_table(&of_threads, "on threads", show, out)?;
    }
    waits_table(profile, show, out)?;
    write_path(profile, show, out)?;
    repeats::write(profile, show, out)?;
    memory_tables(profile, show, out)
}

/// Prints the spread over the repeats of the program, if there are several.
///
/// # Errors
/// `out` fails.
pub fn write_runs(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let spread = profile.spread();
    match spread.count {
        1 => Ok(()),
        count => writeln!(out, "one in the middle of {count} runs: {spread}"),
    }
}

fn ops_table(all: &[OpTime], title: &str, show: Show, out: &mut dyn Write) -> io::Result<()> {
    let busy: u64 = all.iter().map(|op| op.total).sum();
    let mut table =
        new_table(show.terminal, &[title, ">calls", ">time", ">share", ">mean", ">longest"]);
    for op in all.iter().take(show.rows) {
        let mean = time(op.total / op.count.max(1) as u64);
        let (total, longest) = (time(op.total), time(op.longest));
        let cells = [op.count.to_string(), total, share(op.total, busy), mean, longest];
        table.add_row(std::iter::once(op.name.clone()).chain(cells));
    }
    writeln!(out, "{table}")?;
    more(out, all.len(), show.rows)
}

/// Prints how many rows are left out of a table.
///
/// # Errors
/// `out` fails.
pub fn more(out: &mut dyn Write, count: usize, rows: usize) -> io::Result<()> {
    match count.saturating_sub(rows) {
        0 => Ok(()),
        left => writeln!(out, "and {left} more"),
    }
}

fn streams_table(profile: &Profile, show: Show, out: &mut dyn Write) -> io::Result<()> {
    let header = ["stream", ">instructions", ">busy", ">share", ">blocked", ">share"];
    let mut table = new_table(show.terminal, &header);
    for (stream, load) in profile.streams.iter().zip(loads(profile)) {
        if load.instructions > 0 {
            let (busy, blocked) = (load.busy, load.blocked);
            table.add_row([
                stream.name.clone(),
                load.instructions.to_string(),
                time(busy),
                share(busy, profile.total),
                time(blocked),
                share(blocked, profile.total),
            ]);
        }
    }
    writeln!(out, "{table}")
}

fn waits_table(profile: &Profile, show: Show, out: &mut dyn Write) -> io::Result<()> {
    // A prediction of a program without overlap may have waits that cost nothing.
    let waits: Vec<_> = waits(profile).into_iter().filter(|wait| wait.blocked > 0).collect();
    if waits.is_empty() {
        return Ok(());
    }
    let names = ShortNames::of(profile);
    let header = [">wait", "waits for", "by", "at", ">waits", ">blocked"];
    let mut table = new_table(show.terminal, &header);
    for (number, wait) in waits.iter().take(show.rows).enumerate() {
        table.add_row([
            (number + 1).to_string(),
            format!("{} on {}", short_name(&wait.until), names.stream(wait.source)),
            format!("{} on {}", short_name(&wait.user), names.stream(wait.stream)),
            names.place(&wait.place),
            wait.count.to_string(),
            time(wait.blocked),
        ]);
    }
    writeln!(out, "{table}")?;
    more(out, waits.len(), show.rows)
}

/// Prints the critical path: what it is made of, and its parts.
///
/// # Errors
/// `out` fails.
pub fn write_path(profile: &Profile, show: Show, out: &mut dyn Write) -> io::Result<()> {
    let path = path(profile);
    writeln!(out, "critical path: {}", PathParts::of(profile, &path))?;
    let names = ShortNames::of(profile);
    let header = ["critical path", "stream", "at", ">takes", ">share"];
    let mut table = new_table(show.terminal, &header);
    for part in path.iter().take(show.rows) {
        let takes = part.end - part.start;
        let (what, of) = match part.segment {
            Segment::Runs(k) => (None, k),
            Segment::Gap { before } => (Some("the way to "), before),
            Segment::Submits { before } => (Some("the program, until it submits "), before),
            Segment::Resumes { after } => (Some("the way to the program, after "), after),
        };
        let instruction = &profile.instructions[of as usize];
        let name = format!("{}{}", what.unwrap_or(""), profile.name_of(instruction));
        let stream = match instruction.stream {
            NONE => String::new(),
            stream => names.stream(stream).to_owned(),
        };
        let place = names.place(profile.place_of(instruction));
        table.add_row([name, stream, place, time(takes), share(takes, profile.total)]);
    }
    writeln!(out, "{table}")?;
    more(out, path.len(), show.rows)
}

fn memory_tables(profile: &Profile, show: Show, out: &mut dyn Write) -> io::Result<()> {
    for Peak { arena, level, most_held, holders } in memory::peaks(profile) {
        let used = format!("{} after {}", bytes(level.bytes), time(level.at));
        match most_held {
            Some(most) => writeln!(
                out,
                "memory of {arena}: the program holds at most {}\n  in use are at most {used}",
                bytes(most)
            )?,
            None => writeln!(out, "memory of {arena}: at most {used}")?,
        }
        writeln!(
            out,
            "  they lie in the first {}, of which {:.0} % are free",
            bytes(level.extent),
            level.fragmentation() * 100.0
        )?;
        let header = ["held at the peak", "shape", ">bytes", ">share", "made at"];
        let mut table = new_table(show.terminal, &header);
        for holder in holders.iter().take(show.rows) {
            let (size, part) = (bytes(holder.bytes), share(holder.bytes, level.bytes));
            let place = holder.made_at.map_or_else(|| "before the run".to_owned(), short);
            table.add_row([holder.tensor, holder.spec, &size, &part, &place]);
        }
        writeln!(out, "{table}")?;
        more(out, holders.len(), show.rows)?;
    }
    Ok(())
}
