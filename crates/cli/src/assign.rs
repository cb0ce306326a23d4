//! `--assign`: which streams the calls of a program run on.

use std::path::{Path, PathBuf};

use millstream_runner::Assigner;
use millstream_types::nearest::did_you_mean;

/// A value of `--assign`.
#[derive(Clone, Debug)]
enum Assign {
    By(Assigner),
    File(PathBuf),
}

/// The streams of calls.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Assignments {
    /// How calls get their streams: auto (by the graph, over as many of --compute-streams as
    /// help), round-robin (in turn), or a FILE that assigns ops to streams (docs/run-trace.md). May
    /// be repeated: files count before the other two [default: auto]
    #[arg(id = "assign", long = "assign", value_name = "auto|round-robin|FILE", value_parser = of_text)]
    all: Vec<Assign>,
}

/// Reads a value of `--assign`. A file of a name that stands for a way has a path: `./auto`.
fn of_text(text: &str) -> Result<Assign, String> {
    Ok(match text {
        "auto" => Assign::By(Assigner::Auto),
        "round-robin" => Assign::By(Assigner::RoundRobin),
        "" => return Err("expected auto, round-robin or a file".to_owned()),
        file if !Path::new(file).exists() => {
            let near = did_you_mean(file, ["auto", "round-robin"]);
            let near = near.map_or_else(String::new, |near| format!("; {near}"));
            return Err(format!(
                "there is no such file, and it is neither auto nor round-robin{near}"
            ));
        }
        file => Assign::File(file.into()),
    })
}

impl Assignments {
    /// Returns how calls that no file assigns get their streams, if one is named.
    pub(crate) fn assigner(&self) -> Option<Assigner> {
        self.all.iter().rev().find_map(|one| match one {
            Assign::By(assigner) => Some(*assigner),
            Assign::File(_) => None,
        })
    }

    /// Returns the files, in the order of the command line.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.all.iter().filter_map(|one| match one {
            Assign::By(_) => None,
            Assign::File(file) => Some(file),
        })
    }

    /// Returns these arguments as a command line has them, each after a space.
    #[cfg(feature = "explore")]
    pub(crate) fn arguments(&self) -> String {
        let text = |one: &Assign| match one {
            Assign::By(Assigner::Auto) => "auto".to_owned(),
            Assign::By(Assigner::RoundRobin) => "round-robin".to_owned(),
            Assign::File(file) => file.display().to_string(),
        };
        self.all.iter().map(|one| format!(" --assign {}", text(one))).collect()
    }
}
