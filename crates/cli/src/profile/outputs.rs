//! The forms in which a profile is written, as options that several commands share.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use millstream_files::Outputs;
use millstream_profile::summary::Show;
use millstream_profile::{Profile, page, perfetto, summary};

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
        let all = [("--profile", &self.profile), ("--html", &self.html)];
        all.into_iter().map(|(option, path)| (option, path.as_deref()))
    }

    /// Returns whether a page may be written, now or from the profile.
    pub(crate) const fn has_page(&self) -> bool {
        self.html.is_some() || self.profile.is_some()
    }

    /// Returns whether the summary is to be printed.
    pub(crate) const fn has_summary(&self) -> bool {
        self.summary
    }

    /// Writes the files.
    pub(crate) fn write(&self, profile: &Profile, outputs: &Outputs) {
        outputs.write("--profile", || Ok(perfetto::write(profile)));
        outputs.write("--html", || Ok(page::write(profile)));
    }

    /// Prints the summary.
    pub(crate) fn print_summary(
        &self,
        profile: &Profile,
        out: &mut dyn Write,
        terminal: bool,
    ) -> io::Result<()> {
        summary::write(profile, some_rows(self.all_rows, terminal), out)
    }
}

/// Returns how much of each table is shown: some rows, unless all are wanted.
pub(crate) const fn some_rows(all: bool, terminal: bool) -> Show {
    Show { rows: if all { usize::MAX } else { ROWS }, terminal }
}
