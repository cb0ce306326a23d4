//! What a rank's machine and the thread of the library tell each other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::call::{Call, Slot};
use crate::error::CommError;
use crate::request::Completer;

/// A command of the rank's machine.
pub(super) enum Command {
    Start {
        call: Box<Call>,
        completer: Option<Completer>,
        /// Whether the call is compared with those of the other ranks.
        compared: bool,
    },
    Skip(Slot, CommError),
    Abort(CommError),
    Stall(u64),
    EndProgram(u64),
    Leave,
}

/// What the thread and the rank's machine share.
#[derive(Debug)]
pub(super) struct Counters {
    /// How many outcomes the rank's requests were given, without those of sends.
    pub(super) deliveries: AtomicU64,
    /// How many requests wait, without sends.
    pub(super) pending: AtomicUsize,
    /// The longest time between two heartbeats of a process, in milliseconds.
    pub(super) longest_pause: AtomicU64,
    /// Why no call can succeed any more.
    pub(super) failure: OnceLock<CommError>,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            deliveries: AtomicU64::new(0),
            pending: AtomicUsize::new(0),
            longest_pause: AtomicU64::new(60_000),
            failure: OnceLock::new(),
        }
    }
}
