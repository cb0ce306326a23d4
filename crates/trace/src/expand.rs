//! Finds the traces in directories.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::error::{Result, TraceError};
use crate::list_file::ListRank;
use crate::sidecar::reason;

/// The maximum depth of nested directories.
const MAX_DEPTH: usize = 64;

/// A result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A program in one file.
    Trace(PathBuf),
    /// A program of several ranks, one file for each, in the order of the ranks.
    Ranks {
        /// The directory that holds the files.
        folder: PathBuf,
        /// The files.
        ranks: Vec<PathBuf>,
    },
    /// A file or directory that is no trace.
    Skipped {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl Entry {
    /// Returns the files of the program, one for each rank.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Entry::Ranks { ranks, .. } => ranks,
            Entry::Trace(path) | Entry::Skipped { path, .. } => std::slice::from_ref(path),
        }
    }

    /// Returns the program on so many ranks, all of which read its one file.
    ///
    /// # Errors
    /// The program has a file for each rank, of which there are not so many, or it is standard
    /// input.
    pub fn on_ranks(self, count: u32) -> Result<Entry> {
        match self {
            Entry::Trace(path) if path == Path::new("-") => {
                let message = "standard input is read once, and each of several ranks reads it";
                Err(TraceError::of_file("-", message).help("write the program to a file"))
            }
            Entry::Trace(folder) => {
                let ranks = vec![folder.clone(); count as usize];
                Ok(Entry::Ranks { folder, ranks })
            }
            Entry::Ranks { folder, ranks } if ranks.len() != count as usize => {
                let has = ranks.len();
                let message = format!("it has files for {has} ranks, and {count} are asked for");
                let error = TraceError::of_file(folder.display().to_string(), message);
                Err(error.help(format!("leave out --ranks, or write --ranks {has}")))
            }
            other => Ok(other),
        }
    }
}

/// Expands paths to traces, in the order of the paths.
///
/// A file stands for itself, and `-` for standard input. A directory stands for all traces below
/// it, sorted by name: files that end in `.json` or `.json.gz` and hold an object with the field
/// `millstream`, or with `schema` and `nodes`. The sidecar notes of an execution trace are ignored.
/// A directory that holds `rank0`, `rank1` and so on, as files with these extensions, as lists of
/// instructions (`.txt`), or as directories with one trace each, is one program of several ranks.
/// Links to directories are not followed.
///
/// # Errors
/// A path does not exist; a directory cannot be read.
pub fn expand<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Vec<Entry>> {
    let mut found = Vec::new();
    for path in paths {
        let path = path.as_ref();
        if path == Path::new("-") {
            found.push(Entry::Trace(path.to_owned()));
            continue;
        }
        let metadata = fs::metadata(path).map_err(|e| cannot(path, &e))?;
        match metadata.is_dir() {
            true => search(path, 0, &mut found)?,
            false => found.push(Entry::Trace(path.to_owned())),
        }
    }
    Ok(found)
}

/// Returns the one trace that a path stands for: the file itself, or that of a directory.
///
/// # Errors
/// The path does not exist, or the directory holds no trace, several, or those of several ranks.
pub fn single_trace(path: &Path) -> Result<PathBuf> {
    let wrong = |message: String| Err(TraceError::of_file(path.display().to_string(), message));
    let mut found = expand([path])?;
    found.retain(|entry| !matches!(entry, Entry::Skipped { .. }));
    match <[Entry; 1]>::try_from(found) {
        Ok([Entry::Trace(trace)]) => Ok(trace),
        Ok([Entry::Ranks { ranks, .. }]) => {
            wrong(format!("it holds the traces of {} ranks; expected one trace", ranks.len()))
        }
        Ok([Entry::Skipped { reason, .. }]) => wrong(reason),
        Err(found) => wrong(format!("it holds {} traces; expected one", found.len())),
    }
}

fn cannot(path: &Path, error: &io::Error) -> TraceError {
    TraceError::of_file(path.display().to_string(), format!("cannot read it: {}", reason(error)))
}

fn skipped(path: &Path, reason: impl Into<String>) -> Entry {
    Entry::Skipped { path: path.to_owned(), reason: reason.into() }
}

fn search(folder: &Path, depth: usize, found: &mut Vec<Entry>) -> Result<()> {
    if depth == MAX_DEPTH {
        found.push(skipped(folder, format!("more than {MAX_DEPTH} directories deep")));
        return Ok(());
    }
    let fail = |e: io::Error| cannot(folder, &e);
    let (mut paths, mut ranks) = (Vec::new(), BTreeMap::<u32, Vec<PathBuf>>::new());
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ranks = !name.ends_with(".txt") || is_list_of_rank(&entry.path());
        match rank_of(&name).filter(|_| is_ranks) {
            Some(rank) => ranks.entry(rank).or_default().push(entry.path()),
            None => paths.push((entry.path(), entry.file_type().map_err(fail)?)),
        }
    }
    if !ranks.is_empty() {
        found.push(all_ranks(folder, ranks, depth)?);
    }
    paths.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in paths {
        if kind.is_dir() {
            search(&path, depth + 1, found)?;
        } else if is_json(&path) && path.is_file() && !is_sidecar_note(&path) {
            found.push(match format_of_file(&path) {
                Ok(_) => Entry::Trace(path),
                Err(why) => skipped(&path, why),
            });
        }
    }
    Ok(())
}

/// Parses the rank of `rank3`, `rank3.json`, `rank3.json.gz` or `rank3.txt`.
fn rank_of(name: &str) -> Option<u32> {
    let bare = name.strip_suffix(".json.gz").or_else(|| name.strip_suffix(".json"));
    let bare = bare.or_else(|| name.strip_suffix(".txt")).unwrap_or(name);
    let digits = bare.strip_prefix("rank")?;
    let plain = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| plain)
}

/// Returns whether the file is the list of a rank, not a text of another kind.
fn is_list_of_rank(path: &Path) -> bool {
    let mut line = String::new();
    let opened = File::open(path).map(|file| BufReader::new(file.take(256)));
    opened.is_ok_and(|mut file| file.read_line(&mut line).is_ok())
        && ListRank::parse(&line).is_some()
}

fn is_json(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".json") || name.ends_with(".json.gz")
}

/// Returns whether the file is a sidecar note of an execution trace.
fn is_sidecar_note(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    crate::et::sidecar_notes::FILES.contains(&&*name)
}

/// Returns the ranks of one program, or why the directory is skipped: a rank is missing, or one has
/// several traces.
fn all_ranks(folder: &Path, ranks: BTreeMap<u32, Vec<PathBuf>>, depth: usize) -> Result<Entry> {
    let mut files = Vec::new();
    for ((rank, paths), expected) in ranks.into_iter().zip(0..) {
        if rank != expected {
            return Ok(skipped(folder, format!("there is rank{rank} and no rank{expected}")));
        }
        let mut traces = Vec::new();
        for path in paths {
            match path.is_dir() {
                true => search(&path, depth + 1, &mut traces)?,
                false => traces.push(Entry::Trace(path)),
            }
        }
        traces.retain(|entry| !matches!(entry, Entry::Skipped { .. }));
        match &mut traces[..] {
            [Entry::Trace(path)] => files.push(std::mem::take(path)),
            other => {
                let message = format!("rank{rank} has {} traces; expected one", other.len());
                return Ok(skipped(folder, message));
            }
        }
    }
    Ok(Entry::Ranks { folder: folder.to_owned(), ranks: files })
}

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// An object with the field `millstream`.
    Native,
    /// An object with the fields `schema` and `nodes`.
    ExecutionTrace,
}

/// Returns the format of a file, or why it is no trace. Reads no further than the field that
/// determines the format.
pub(crate) fn format_of_file(path: &Path) -> Result<Format, String> {
    let fail = |e: io::Error| format!("cannot read it: {}", reason(&e));
    let mut file = BufReader::new(File::open(path).map_err(fail)?);
    let zipped = file.fill_buf().map_err(fail)?.starts_with(&[0x1f, 0x8b]);
    let bound = crate::LoadOptions::default().max_bytes;
    match zipped {
        true => format_of(BufReader::new(MultiGzDecoder::new(file)).take(bound)),
        false => format_of(file.take(bound)),
    }
}

/// Why a timeline is no trace.
pub(crate) const TIMELINE: &str = "a timeline: it records when ops ran, but not what they computed";

/// Returns the format of a text, or why it is no trace.
pub(crate) fn format_of(from: impl BufRead) -> Result<Format, String> {
    const NATIVE: &str = "the field millstream";
    const EXECUTION: &str = "the fields of an execution trace";
    struct Search;
    impl<'de> Visitor<'de> for Search {
        type Value = ();
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            let mut schema = false;
            while let Some(key) = map.next_key::<String>()? {
                match key.as_str() {
                    // Only an error stops the visitor before the end of the object.
                    "millstream" => return Err(A::Error::custom(NATIVE)),
                    "nodes" if schema => return Err(A::Error::custom(EXECUTION)),
                    "schema" => schema = true,
                    "traceEvents" => return Err(A::Error::custom(TIMELINE)),
                    _ => {}
                }
                map.next_value::<IgnoredAny>()?;
            }
            match schema {
                true => Err(A::Error::custom(EXECUTION)),
                false => Ok(()),
            }
        }
    }
    let error = match serde_json::Deserializer::from_reader(from).deserialize_map(Search) {
        Ok(()) => {
            let message = "no trace: it has neither 'millstream' nor 'schema' and 'nodes'";
            return Err(message.to_owned());
        }
        Err(error) => error,
    };
    let message = error.to_string();
    match () {
        () if message.starts_with(NATIVE) => Ok(Format::Native),
        () if message.starts_with(EXECUTION) => Ok(Format::ExecutionTrace),
        () if message.starts_with(TIMELINE) => Err(TIMELINE.to_owned()),
        () if error.is_data() => Err("no Millstream trace: it is not an object".to_owned()),
        () => Err(format!("not valid JSON: {error}")),
    }
}
