//! Timelines of other programs, as options that several commands share.

use std::path::{Path, PathBuf};

use millstream_timelines::{Format, Options, read, recognise};

/// What is read of another program's timeline.
#[derive(clap::Args, Default)]
pub(crate) struct Timeline {
    /// With a file of PyTorch's profiler: the execution trace of the same run, for the tensors
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// With another program's timeline: read only the range of this name, such as
    /// `ProfilerStep#3`; `NAME@2` is the third one of the name
    #[arg(long, value_name = "NAME")]
    within: Option<String>,
}

impl Timeline {
    /// Returns the execution trace.
    pub(crate) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// Reads a timeline. Returns none for a file of Millstream's, or one without times.
    pub(crate) fn read(
        &self,
        path: &Path,
    ) -> Result<Option<millstream_timelines::Timeline>, String> {
        let format = recognise(path).map_err(|e| e.to_string())?;
        let is_timeline = format.is_some_and(|format| format != Format::ExecutionTrace);
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
        let options = Options { trace: self.trace.clone(), within: self.within() };
        read(path, &options).map(Some).map_err(|e| e.to_string())
    }

    /// Returns the range's name, and its number among those of the name.
    fn within(&self) -> Option<(String, usize)> {
        let text = self.within.as_ref()?;
        let numbered = text.rsplit_once('@').and_then(|(name, n)| Some((name, n.parse().ok()?)));
        Some(numbered.map_or((text.clone(), 0), |(name, number)| (name.to_owned(), number)))
    }
}
