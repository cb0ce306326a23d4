//! Timelines of other programs, as options that several commands share.

use std::path::{Path, PathBuf};

use millstream_timelines::{Format, Options, read, recognise};
use millstream_trace::single_trace;

/// What is read of another program's timeline.
#[derive(clap::Args, Default)]
pub(crate) struct Timeline {
    /// With a file of PyTorch's profiler: the execution trace of the same run, or its folder, for
    /// the tensors
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// With another program's timeline: read only the range of this name, such as
    /// `ProfilerStep#3`; `NAME@2` is the third one of the name
    #[arg(long, value_name = "NAME")]
    within: Option<String>,
    /// With --trace: accept an execution trace that has fewer than nine of ten of the ops
    #[arg(long, requires = "trace")]
    partial: bool,
}

/// Returns the profile or timeline that a path stands for: the file itself, or the only one of a
/// folder.
pub(crate) fn single_profile(path: &Path) -> Result<PathBuf, String> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let at = path.display();
    let entries = path.read_dir().map_err(|e| format!("{at}: cannot read it: {e}"))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file());
    let mut found: Vec<PathBuf> = files.filter(|path| is_profile(path)).collect();
    found.sort();
    let message = match &found[..] {
        [one] => return Ok(one.clone()),
        [] => format!("{at}: it holds no profile and no timeline"),
        [first, .., last] => {
            let [first, last] = [first, last].map(|path| path.display());
            let count = found.len();
            format!("{at}: it holds {count} profiles and timelines, {first} to {last}; name one")
        }
    };
    Err(message)
}

/// Returns whether a file has times.
fn is_profile(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let format = || recognise(path).ok().flatten();
    ["pftrace", "html"].contains(&ending) || format().is_some_and(has_times)
}

fn has_times(format: Format) -> bool {
    !matches!(format, Format::ExecutionTrace | Format::Streams)
}

/// Returns the execution trace that the recorder wrote with a timeline: `timeline-et.json.gz` of
/// `timeline.json.gz`.
pub(crate) fn trace_beside(path: &Path) -> Option<PathBuf> {
    let own = path.file_name()?.to_str()?.strip_suffix(".json.gz")?;
    let trace = path.with_file_name(format!("{own}-et.json.gz"));
    trace.is_file().then_some(trace)
}

/// Returns the file of a recording that states the order of the run: its streams, or its timeline
/// with the execution trace.
pub(crate) fn recorded_order(folder: &Path) -> Option<PathBuf> {
    let [streams, timeline] = ["streams.json", "timeline.json.gz"].map(|name| folder.join(name));
    let has_tensors = |timeline: &PathBuf| timeline.is_file() && trace_beside(timeline).is_some();
    Some(streams).filter(|streams| streams.is_file()).or(Some(timeline).filter(has_tensors))
}

impl Timeline {
    /// Returns the execution trace.
    pub(crate) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// Returns the files that are read for a timeline: its own, and its execution trace.
    pub(crate) fn files(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let trace = self.trace.clone().or_else(|| trace_beside(path));
        std::iter::once(path.to_owned()).chain(trace)
    }

    /// Reads a timeline. Returns none for a file of Millstream's, or one without times.
    pub(crate) fn read(
        &self,
        path: &Path,
    ) -> Result<Option<millstream_timelines::Timeline>, String> {
        let format = recognise(path).map_err(|e| e.to_string())?;
        let is_timeline = format.is_some_and(has_times);
        let option = match self {
            Timeline { trace: Some(_), .. } => Some("--trace"),
            Timeline { within: Some(_), .. } => Some("--within"),
            Timeline { .. } => None,
        };
        if let Some(option) = option.filter(|_| !is_timeline) {
            let at = path.display();
            return Err(format!(
                "{at}: it is no timeline of another program's, which {option} is for"
            ));
        }
        if !is_timeline {
            return Ok(None);
        }
        self.read_order(path).map(Some)
    }

    /// Reads a timeline, or a recording of streams, which has an order and no times.
    pub(crate) fn read_order(&self, path: &Path) -> Result<millstream_timelines::Timeline, String> {
        let trace = self.trace.as_deref().map(single_trace).transpose();
        let trace = trace.map_err(|e| format!("--trace: {e}"))?.or_else(|| trace_beside(path));
        let options = Options { trace, within: self.within(), partial: self.partial };
        read(path, &options).map_err(|e| e.to_string())
    }

    /// Returns the range's name, and its number among those of the name.
    fn within(&self) -> Option<(String, usize)> {
        let text = self.within.as_ref()?;
        let numbered = text.rsplit_once('@').and_then(|(name, n)| Some((name, n.parse().ok()?)));
        Some(numbered.map_or((text.clone(), 0), |(name, number)| (name.to_owned(), number)))
    }
}
