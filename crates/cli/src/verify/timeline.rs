//! The verdict on another program's timeline, as it is printed.

use std::io::{self, Write};
use std::path::Path;

use annotate_snippets::Level;
use millstream_files::eprintln;
use millstream_timelines::Timeline as Read;
use millstream_timelines::verdict::{Conflict, Side, Status, Verdict, verdict};
use millstream_types::Access;
use serde_json::{Value, json};

use super::race::{Kernel, Race};
use crate::profile::Timeline;
use crate::show::snippet::{note, title};
use crate::show::violations::print_group;
use millstream_terminal::table::new_table;

/// The most undecided pairs that are printed; a report has all.
const PAIRS: usize = 10;

/// A timeline with its verdict.
pub(super) struct Checked {
    name: String,
    timeline: Read,
    pub(super) verdict: Verdict,
}

impl Checked {
    /// Reads and decides a timeline. Prints what the reader remarks.
    pub(super) fn of(path: &Path, options: &Timeline) -> Result<Checked, String> {
        let timeline = options.read_order(path)?;
        let name = path.display().to_string();
        timeline.profile.remarks.iter().for_each(|remark| eprintln!("{name}: {remark}"));
        let verdict = verdict(&timeline)?;
        Ok(Checked { name, timeline, verdict })
    }

    /// Prints the races, and the first of the undecided pairs, to standard error.
    pub(super) fn print_conflicts(&self) {
        let print = |level: Level<'static>, conflict: &Conflict, is_race: bool| {
            let race = Race::of(&self.name, &self.timeline, conflict, is_race);
            let notes = race.notes.iter().map(|text| Level::NOTE.message(note(text)));
            let help = Level::HELP.message(note(&race.help));
            print_group(level.primary_title(title(&race.title)).elements(notes).element(help));
        };
        let Verdict { races, undecided, .. } = &self.verdict;
        races.iter().for_each(|race| print(Level::ERROR, race, true));
        undecided.iter().take(PAIRS).for_each(|pair| print(Level::WARNING, pair, false));
        if let Some(left) = undecided.len().checked_sub(PAIRS).filter(|left| *left > 0) {
            eprintln!("{}: {left} more undecided pairs: --report lists them", self.name);
        }
    }

    /// Prints the verdict, and the waits if asked for.
    pub(super) fn show(
        &self,
        waits: bool,
        alone: bool,
        out: &mut dyn Write,
        terminal: bool,
    ) -> io::Result<()> {
        let name = if alone { String::new() } else { format!("{}: ", self.name) };
        writeln!(out, "{name}{}", self.verdict.line())?;
        let all: Vec<_> = self.waits().collect();
        if !waits || all.is_empty() {
            return Ok(());
        }
        let mut table = new_table(terminal, &["wait", "needed", "why"]);
        for (k, wait) in all {
            let needed = if wait.needed { "yes" } else { "no" };
            let why = wait.reason.say(|index| self.place(index));
            table.add_row([&self.brief(k), needed, &why]);
        }
        writeln!(out, "{table}")
    }

    /// Returns the waits whose event and stream are known, with their calls.
    fn waits(&self) -> impl Iterator<Item = (u32, &millstream_verify::Wait)> {
        let at = |index: usize| self.verdict.certain.positions.get(index).copied().flatten();
        self.verdict.verified.waits.iter().filter_map(move |wait| Some((at(wait.index)?, wait)))
    }

    fn brief(&self, instruction: u32) -> String {
        let side = Side { instruction, access: Access::Read, by_host: false };
        Kernel::of(&self.timeline, side).brief()
    }

    /// Names an instruction of the certain list.
    fn place(&self, index: usize) -> String {
        match self.verdict.certain.positions.get(index).copied().flatten() {
            Some(instruction) => self.brief(instruction),
            None => "a submission".to_owned(),
        }
    }

    /// Returns the verdict as JSON, on one line.
    pub(super) fn json(&self) -> String {
        let Verdict { status, races, undecided, unknown, verified, .. } = &self.verdict;
        let status = match status {
            Status::Proven => "proven",
            Status::Race => "race",
            Status::Undecided => "undecided",
        };
        let conflicts = |all: &[Conflict], are_races| -> Vec<Value> {
            all.iter().map(|conflict| self.conflict(conflict, are_races)).collect()
        };
        let waits = self.waits().map(|(k, wait)| {
            let reason = wait.reason.say(|index| self.place(index));
            json!({ "wait": self.brief(k), "needed": wait.needed, "reason": reason })
        });
        json!({
            "timeline": self.name,
            "verdict": status,
            "pairs": verified.pairs,
            "unknown": unknown.parts(),
            "races": conflicts(races, true),
            "undecided": conflicts(undecided, false),
            "waits": waits.collect::<Vec<_>>(),
        })
        .to_string()
    }

    fn conflict(&self, conflict: &Conflict, is_race: bool) -> Value {
        let race = Race::of(&self.name, &self.timeline, conflict, is_race);
        let side = |side: Side| {
            json!({
                "name": Kernel::of(&self.timeline, side).brief(),
                "stack": self.timeline.stack(side.instruction),
                "reads": side.access.reads(),
                "writes": side.access.writes(),
            })
        };
        let depends: Vec<String> = conflict.depends.iter().map(|&k| self.brief(k)).collect();
        json!({
            "message": race.title,
            "bytes": [conflict.bytes.start, conflict.bytes.end],
            "later": side(conflict.later),
            "earlier": side(conflict.earlier),
            "depends": depends,
            "repair": { "before": race.before, "text": race.wait },
        })
    }
}
