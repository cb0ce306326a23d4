//! Timelines that other programs recorded, read as profiles: PyTorch's profiler (Kineto), Chakra's
//! execution traces, and the SQLite export of Nsight Systems.
//!
//! # Contract
//! A file is recognised by its content, compressed or not. It is read in one pass; what is kept of
//! an event is a few numbers, and names are kept once. No input makes a reader panic: an error says
//! which file and which event, what is wrong, and what was expected. Order between threads and
//! streams is restored from what the file states; what cannot be restored is a remark of the
//! profile.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `format`, `input`, `json` | what a file is; files, decompressed; JSON as profilers write it |
//! | `kineto`, `nsys`, `chakra` | the reader of each format |
//! | `recording` | what a file of Kineto's or Nsight Systems' states |
//! | `restore` | from a recording to a profile |
//! | `facts` | what a file states about order and memory, without guesses |
//! | `link` | nodes of an execution trace of the same run: operands of kernels |
//! | `streams` | the reader of the recorder's streams, which have tensors and no times |
//! | [`list`](mod@list), `memory` | a timeline as a list of instructions, for the verifier |
//! | [`verdict`](mod@verdict), `unknown` | proven, race, or undecided; what is not known |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod chakra;
mod error;
mod facts;
mod format;
mod input;
mod json;
mod kineto;
mod link;
pub mod list;
mod memory;
#[cfg(feature = "nsys")]
mod nsys;
mod recording;
mod restore;
mod streams;
mod unknown;
pub mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_profile::Profile;
use millstream_types::TensorSpec;

pub use error::{Result, TimelineError};
use facts::Facts;
pub use format::Format;
use input::Input;
use link::Links;
use recording::Recording;
use restore::Stacks;
pub use unknown::Unknown;

/// The options of a reader.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// PyTorch's execution trace of the same run.
    pub trace: Option<PathBuf>,
    /// A range of the program, and its number among those of its name: all else is left out.
    pub within: Option<(String, usize)>,
    /// Whether fewer than nine of ten ops may be nodes of the execution trace.
    pub partial: bool,
}

/// A timeline.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The profile.
    pub profile: Profile,
    /// The dtype and layout of each of the profile's tensors.
    pub specs: Vec<TensorSpec>,
    stacks: Stacks,
    facts: Facts,
}

impl Timeline {
    /// Returns the functions of the program around an instruction of a thread, or around the call
    /// that submits one, the innermost first, as the file names them: `model.py(12): forward`.
    /// There are none if the file has no stacks.
    pub fn stack(&self, instruction: u32) -> Vec<&str> {
        self.stacks.of(instruction, &self.profile.names)
    }
}

/// Returns the format of a file, if it is a timeline of another program's.
///
/// # Errors
/// The file cannot be read, or is damaged gzip data.
pub fn recognise(path: &Path) -> Result<Option<Format>> {
    format::of(Input::open(path)?)
}

/// Reads a timeline.
///
/// # Errors
/// The file cannot be read, is no timeline, or is damaged; the execution trace is not one, or no
/// node of it is in the timeline; there is no such range.
pub fn read(path: &Path, options: &Options) -> Result<Timeline> {
    of_input(path, recognise(path)?, Input::open(path)?, options)
}

fn of_input(
    path: &Path,
    found: Option<Format>,
    input: Input,
    options: &Options,
) -> Result<Timeline> {
    let Some(format) = found else {
        let message = "it is no timeline that is known";
        let help =
            "expected a file of PyTorch's profiler, Chakra's, or `nsys export --type sqlite`";
        return Err(input.error(message).help(help));
    };
    let recording = match format {
        Format::Kineto => kineto::read(input)?,
        #[cfg(feature = "nsys")]
        Format::Nsys => nsys::read(path)?,
        #[cfg(not(feature = "nsys"))]
        Format::Nsys => {
            let message = "this build does not read the SQLite export of Nsight Systems";
            return Err(input.error(message).help("build it with the feature `nsys`"));
        }
        Format::Chakra | Format::ChakraJson => {
            refuse_options(path, options, "a file of Chakra's")?;
            let profile = chakra::read(input, format == Format::ChakraJson)?;
            return Ok(Timeline { profile, ..Timeline::default() });
        }
        Format::ExecutionTrace => {
            let message = "it is an execution trace, which has no times";
            let help = "run it, or give it with --trace beside the profiler's file of the same run";
            return Err(input.error(message).help(help));
        }
        Format::Streams => {
            refuse_options(path, options, "a recording of streams")?;
            let (recording, links) = streams::read(input)?;
            return Ok(of_streams(path, &recording, links));
        }
    };
    of_recording(path, recording, options)
}

/// Returns the timeline of a recording that has an order and no times, and all allocations.
fn of_streams(path: &Path, recording: &Recording, links: Links) -> Timeline {
    let title = path.display().to_string();
    let (mut profile, stacks, mut facts) = restore::restore(&title, recording, Some(&links));
    for instruction in &mut profile.instructions {
        (instruction.times, instruction.issued) = (None, None);
    }
    (profile.total, facts.unknown.reuse) = (0, false);
    Timeline { profile, specs: links.specs, stacks, facts }
}

fn refuse_options(path: &Path, options: &Options, what: &str) -> Result<()> {
    let refused = |option: &str| {
        let message = format!("{option} does not apply to {what}");
        Err(TimelineError::of_file(path, message))
    };
    match options {
        Options { trace: Some(_), .. } => refused("--trace"),
        Options { within: Some(_), .. } => refused("--within"),
        Options { .. } => Ok(()),
    }
}

fn of_recording(path: &Path, mut recording: Recording, options: &Options) -> Result<Timeline> {
    recording.settle();
    let links = match &options.trace {
        Some(trace) => Some(Links::of(trace, &mut recording, options.partial)?),
        None => None,
    };
    if let Some((name, number)) = &options.within {
        let found = recording.keep_within(name, *number);
        found.map_err(|message| TimelineError::of_file(path, message))?;
    }
    let title = path.display().to_string();
    let (profile, stacks, facts) = restore::restore(&title, &recording, links.as_ref());
    let specs = links.map(|links| links.specs).unwrap_or_default();
    Ok(Timeline { profile, specs, stacks, facts })
}

/// Reads a timeline from bytes, for tests and fuzzing. Databases are not read this way.
///
/// # Errors
/// The same as those of [`read`].
pub fn read_bytes(name: &str, bytes: Vec<u8>) -> Result<Timeline> {
    let bytes = Arc::from(bytes);
    let found = format::of(Input::of(name, Arc::clone(&bytes))?)?;
    let input = Input::of(name, bytes)?;
    match found {
        Some(Format::Nsys) => Err(input.error("it is a database, which is not read from memory")),
        found => of_input(Path::new(name), found, input, &Options::default()),
    }
}
