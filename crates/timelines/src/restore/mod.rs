//! From what a file states to a profile: order between threads and streams is restored.
//!
//! # Rules
//! - Events of a thread nest; the profile has their parts in which none that they call runs.
//! - A call and the work that it submits have the same correlation number. Work of a stream runs in
//!   the order of its submission. A launch of a CUDA graph is one instruction, its kernels are its
//!   steps.
//! - A record completes with the last work that was submitted to its stream before it. A wait of a
//!   stream orders the work that is submitted to it after the wait.
//! - A thread that synchronizes waits for what was submitted before. A copy's call that returns
//!   after the copy is taken to wait for it.
//! - A backward op follows its forward op, where the file has an arrow between them.
//! - Waits whose event the file does not name are restored where the calls allow one reading only,
//!   and the profile's remarks count them; the others are counted as not known.
//!
//! Sources: Kineto's `CuptiActivity.cpp`; Holistic Trace Analysis, `critical_path_analysis.py`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `host` | the segments of threads |
//! | `items` | what becomes an instruction, in program order |
//! | `events` | which record a wait is for |
//! | `building`, `waits` | the instructions, their times and waits |
//! | `facts` | what the file states, for a proof |

mod building;
mod events;
mod facts;
mod host;
mod items;
mod waits;

use std::collections::HashMap;

use millstream_profile::Profile;

use crate::link::Links;
use crate::recording::Recording;

use crate::facts::Facts;
use host::Paths;

/// The functions of the program around the calls that submit instructions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks {
    functions: Paths,
    /// By the position of the instruction.
    called: HashMap<u32, u32>,
}

impl Stacks {
    /// Returns the functions around the call that submits an instruction, the innermost first.
    pub(crate) fn of<'a>(&'a self, instruction: u32, names: &'a [String]) -> Vec<&'a str> {
        let path = self.called.get(&instruction);
        path.map_or_else(Vec::new, |&path| self.functions.names(path, names).collect())
    }
}

/// Returns the profile of a recording, and the facts that a proof rests on.
pub(crate) fn restore(
    title: &str,
    recording: &Recording,
    links: Option<&Links>,
) -> (Profile, Stacks, Facts) {
    let mut host = host::segments(recording);
    let items = items::items(recording, &mut host);
    let (profile, called, facts) = building::build(title, recording, &host, &items, links);
    (profile, Stacks { functions: host.functions, called }, facts)
}

/// What a call of the CUDA runtime or driver does, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Record,
    StreamWait,
    EventSync,
    StreamSync,
    DeviceSync,
    /// It says whether an event has passed, and so may order.
    EventQuery,
    /// It may synchronize: a query of a stream; memory is freed after its uses.
    MayWait,
    BeginCapture,
    EndCapture,
    GraphLaunch,
    Copy,
    /// A kernel or a fill.
    Launch,
    Other,
}

impl Call {
    /// Returns what a call of this name does: `cudaEventRecord_v3020`, `cuStreamWaitEvent`,
    /// `hipStreamSynchronize`.
    fn of(name: &str) -> Call {
        let has = |part: &str| name.contains(part);
        if has("EventRecord") {
            Call::Record
        } else if has("StreamWaitEvent") {
            Call::StreamWait
        } else if has("EventSynchronize") {
            Call::EventSync
        } else if has("StreamSynchronize") {
            Call::StreamSync
        } else if has("DeviceSynchronize") || has("CtxSynchronize") {
            Call::DeviceSync
        } else if has("EventQuery") {
            Call::EventQuery
        } else if has("StreamQuery") || is_free(name) {
            Call::MayWait
        } else if has("StreamBeginCapture") {
            Call::BeginCapture
        } else if has("StreamEndCapture") {
            Call::EndCapture
        } else if has("GraphLaunch") {
            Call::GraphLaunch
        } else if has("Memcpy") {
            Call::Copy
        } else if has("LaunchKernel") || has("LaunchCooperative") || has("Memset") {
            Call::Launch
        } else {
            Call::Other
        }
    }
}

/// Returns whether a call frees memory, and so waits for its uses: `cudaFree`, not `cudaFreeAsync`.
fn is_free(name: &str) -> bool {
    let frees = ["cudaFree", "cuMemFree", "hipFree", "HostUnregister"];
    frees.iter().any(|free| name.contains(free)) && !name.contains("Async")
}
