//! The forms in which a profile is written, as options that several commands share.

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use millstream_files::Outputs;
use millstream_profile::summary::Show;
use millstream_profile::{Profile, chrome, dot, page, perfetto, summary};

/// How many rows of each table are shown, unless all are requested.
const ROWS: usize = 12;

/// The forms in which a profile is written.
#[derive(clap::Args)]
pub(crate) struct Forms {
    /// Write the profile to FILE, which ui.perfetto.dev and `millstream profile` open
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write the profile as a page to FILE, which a browser opens
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the timeline as JSON to FILE, for chrome://tracing; `-` is standard output
    #[arg(long, value_name = "FILE", alias = "timeline")]
    chrome: Option<PathBuf>,
    /// Write the graph of instructions, data and waits to FILE, for Graphviz; `-` is standard
    /// output
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// With --dot: the instructions, by their numbers in the list
    #[arg(long, value_name = "FROM..TO", requires = "dot", value_parser = range)]
    dot_range: Option<Range<usize>>,
    /// Print what took the time: streams, ops, waits, the critical path, memory
    #[arg(long)]
    summary: bool,
    /// With --summary: print all rows of each table
    #[arg(long, requires = "summary")]
    all_rows: bool,
}

impl Forms {
    /// Returns whether anything is to be written.
    pub(crate) fn any(&self) -> bool {
        self.summary || self.files().any(|(_, path)| path.is_some())
    }

    /// Returns the files that are written, by option.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, Option<&Path>)> {
        let all = [
            ("--profile", &self.profile),
            ("--html", &self.html),
            ("--chrome", &self.chrome),
            ("--dot", &self.dot),
        ];
        all.into_iter().map(|(option, path)| (option, path.as_deref()))
    }

    /// Returns whether the summary is to be printed.
    pub(crate) const fn has_summary(&self) -> bool {
        self.summary
    }

    /// Writes the files.
    pub(crate) fn write(&self, profile: &Profile, outputs: &Outputs) {
        outputs.write("--profile", || Ok(perfetto::write(profile)));
        outputs.write("--html", || Ok(page::write(profile)));
        outputs.write("--chrome", || {
            let mut text = Vec::new();
            chrome::write(profile, &mut text).map_err(|e| e.to_string())?;
            Ok(text)
        });
        outputs.write("--dot", || {
            let all = 0..profile.instructions.len();
            let graph = dot::write(profile, self.dot_range.clone().unwrap_or(all));
            graph.map_err(|e| format!("{e} with --dot-range"))
        });
    }

    /// Prints the summary.
    pub(crate) fn print_summary(
        &self,
        profile: &Profile,
        out: &mut dyn Write,
        terminal: bool,
    ) -> io::Result<()> {
        summary::write(profile, self.show(terminal), out)
    }

    fn show(&self, terminal: bool) -> Show {
        Show { rows: (!self.all_rows).then_some(ROWS), terminal }
    }
}

/// Returns how much of each table is shown by default.
pub(crate) const fn some_rows(terminal: bool) -> Show {
    Show { rows: Some(ROWS), terminal }
}

/// Parses a range of numbers: `10..20`, `10..`, `..20`.
fn range(text: &str) -> Result<Range<usize>, String> {
    let wrong = || format!("expected two numbers, as in 10..20, got '{text}'");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str, absent: usize| match text {
        "" => Ok(absent),
        text => text.parse().map_err(|_| wrong()),
    };
    let range = number(from, 0)?..number(to, usize::MAX)?;
    if range.is_empty() { Err(wrong()) } else { Ok(range) }
}
