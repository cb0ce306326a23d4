//! The subjects of a verification: lists, from a file of lists or from a trace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_files::eprintln;
use millstream_instructions::text::{parse_list_with_lines, print_list};
use millstream_instructions::{Body, InstructionList};
use millstream_ops::collective;
use millstream_runner::{
    Listing, Loading, RunError, RunOptions, is_list_file, lists, load as load_trace,
};
use millstream_timelines::{Format, recognise};
use millstream_trace::{Entry, ListRank, TraceError};

use crate::profile::{Timeline, recorded_order, single_profile};

/// The most levels of directories that are searched.
const MAX_DEPTH: usize = 64;

/// A list with its text.
pub(crate) struct Subject {
    /// The name of the file, and of the executable in it.
    pub(crate) name: String,
    pub(crate) list: InstructionList,
    /// Whether it belongs to one of several ranks.
    is_rank: bool,
    /// The rank that a file with a list says.
    pub(super) rank: Option<ListRank>,
    /// The text whose lines are counted: the file, or the list of a trace.
    text: String,
    /// The line of each instruction, from 1.
    lines: Vec<usize>,
    /// The position of each line's first byte.
    starts: Vec<usize>,
}

impl Subject {
    fn new(name: String, list: InstructionList, text: String, lines: Vec<usize>) -> Subject {
        let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        let (is_rank, rank) = (false, None);
        Subject { name, list, is_rank, rank, text, lines, starts }
    }

    /// Returns whether the list waits for other ranks, on whose lists it then depends.
    pub(crate) fn meets_ranks(&self) -> bool {
        let meets = |body: &Body| {
            let is_collective = |op| collective::is(self.list.ops.name(op));
            matches!(body, Body::GlobalSync { .. }) || body.op().is_some_and(is_collective)
        };
        self.is_rank && self.list.instructions.iter().any(|i| meets(&i.body))
    }

    /// Returns the line of an instruction.
    pub(crate) fn line(&self, index: usize) -> usize {
        self.lines.get(index).copied().unwrap_or(0)
    }

    /// Returns the text of a line.
    pub(crate) fn text(&self, line: usize) -> &str {
        let at = |line: usize| self.starts.get(line).copied().unwrap_or(self.text.len());
        self.text[at(line.saturating_sub(1))..at(line)].trim_end()
    }

    /// Returns the origin of an instruction, if its line does not contain it.
    pub(crate) fn origin(&self, index: usize) -> Option<String> {
        let origin = &self.list.instructions.get(index)?.origin;
        (!origin.is_unknown()).then(|| origin.to_string())
    }
}

/// A file to verify.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// The folder of the ranks, if it is the program of one of several, or the one file that all
    /// of them read.
    pub(super) ranks: Option<PathBuf>,
    /// The rank, and the number of ranks.
    rank: (usize, usize),
    /// Whether it is the timeline of another program.
    pub(super) is_timeline: bool,
}

/// Returns the files that the paths stand for.
pub(super) fn expand(
    paths: &[PathBuf],
    ranks: Option<u32>,
    timeline: &Timeline,
) -> Result<Vec<File>, TraceError> {
    let mut files = Vec::new();
    let one = |path| File { path, ranks: None, rank: (0, 1), is_timeline: false };
    for path in paths {
        let is_timeline = |path: &Path| {
            let format = recognise(path).ok().flatten();
            format.is_some_and(|format| format != Format::ExecutionTrace)
        };
        if timeline.trace().is_some() || (path.is_file() && is_timeline(path)) {
            let file = single_profile(path).map_err(|e| TraceError::of_file("verify", e))?;
            files.push(File { is_timeline: true, ..one(file) });
            continue;
        }
        if let Some(file) = recorded_order(path) {
            files.push(File { is_timeline: true, ..one(file) });
            continue;
        }
        let entries = millstream_trace::expand([path])?;
        if path.is_dir() {
            let mut lists = Vec::new();
            let found = lists_below(path, 0, &mut lists);
            // The lists of ranks are verified together.
            let of_ranks = |list: &PathBuf| {
                let is_ranks = |entry: &&Entry| matches!(entry, Entry::Ranks { .. });
                entries.iter().filter(is_ranks).any(|entry| entry.paths().contains(list))
            };
            files.extend(lists.into_iter().filter(|list| !of_ranks(list)).map(one));
            found.map_err(|e| {
                let file = path.display().to_string();
                TraceError::of_file(file, format!("cannot read it: {e}"))
            })?;
        }
        for entry in entries {
            let is_list = matches!(&entry, Entry::Trace(path) if is_list_file(path));
            let entry = match ranks.filter(|_| !is_list) {
                Some(count) => entry.on_ranks(count)?,
                None => entry,
            };
            match entry {
                Entry::Trace(path) => files.push(one(path)),
                Entry::Ranks { folder, ranks } => {
                    let count = ranks.len();
                    files.extend(ranks.into_iter().enumerate().map(|(rank, path)| File {
                        ranks: Some(folder.clone()),
                        rank: (rank, count),
                        ..one(path)
                    }));
                }
                // A program of several ranks that is not complete.
                Entry::Skipped { path, reason } if path.is_dir() => {
                    return Err(TraceError::of_file(path.display().to_string(), reason));
                }
                Entry::Skipped { path, reason } => {
                    eprintln!("skipping {}: {reason}", path.display());
                }
            }
        }
    }
    Ok(files)
}

/// Adds the lists below a directory, sorted by name: files that end in `.txt` or `.list` and begin
/// as lists do.
fn lists_below(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth == MAX_DEPTH {
        return Ok(());
    }
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(|e| e.file_name());
    for entry in entries {
        let path = entry.path();
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if entry.file_type()?.is_dir() {
            lists_below(&path, depth + 1, files)?;
        } else if ["txt", "list"].contains(&ending) && is_list_file(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Loads the lists of a file: the file's own, or those of the trace in it.
pub(super) fn load(
    File { path, ranks, rank, is_timeline: _ }: &File,
    options: &RunOptions,
    loading: &Loading,
) -> Result<Vec<Subject>, RunError> {
    let name = match ranks {
        Some(all) if all == path => format!("{} of rank {}", path.display(), rank.0),
        _ => path.display().to_string(),
    };
    if is_list_file(path) {
        let text = fs::read_to_string(path)
            .map_err(|e| TraceError::of_file(&*name, format!("cannot read it: {e}")))?;
        let (list, lines) = parse_list_with_lines(&text).map_err(|e| {
            let line = text.lines().nth(e.line.saturating_sub(1)).unwrap_or_default();
            TraceError::of_file(format!("{name}:{}:{}", e.line, e.column), e.message)
                .help(format!("the line is: {}", line.trim()))
        })?;
        let rank = ListRank::parse(&text);
        let is_rank = ranks.is_some() || rank.as_ref().is_some_and(|rank| rank.ranks > 1);
        return Ok(vec![Subject { is_rank, rank, ..Subject::new(name, list, text, lines) }]);
    }
    let program = Arc::new(load_trace(path, &loading.of_rank(rank.0, rank.1), options)?);
    let made = lists(&program, &options.checked_on_rank(rank.0, rank.1))?;
    let subject = |listing: Listing| {
        let Listing { executable, list, places } = listing;
        let name = match executable {
            Some(executable) => format!("{name}, executable {executable:?}"),
            None => name.clone(),
        };
        if !places.is_empty() {
            let lines = places.iter().map(|p| p.line as usize).collect();
            let text = program.source.text().to_owned();
            return Subject { is_rank: ranks.is_some(), ..Subject::new(name, list, text, lines) };
        }
        Subject { is_rank: ranks.is_some(), ..printed(name, list) }
    };
    Ok(made.into_iter().map(subject).collect())
}

/// Returns the subject of a list without a text of its own.
fn printed(name: String, list: InstructionList) -> Subject {
    let text = print_list(&list);
    let header = 1 + list.streams.len() + list.arenas.len() + list.externals.len();
    let lines = (0..list.instructions.len()).map(|k| header + 1 + k).collect();
    Subject::new(name, list, text, lines)
}
