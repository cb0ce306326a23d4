//! The list whose instructions become those of a profile, and its streams so far.

use std::collections::HashMap;

use millstream_instructions::{InstructionList, StreamDecl};
use millstream_types::{Point, StreamMode, TensorId};

use crate::model::Stream;

/// The list that instructions are of: the whole one, or that of a launch.
#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) tensors: HashMap<TensorId, u32>,
    pub(crate) tracks: Vec<Track>,
    /// Its streams and its arenas, as they are declared.
    pub(crate) streams: Vec<Stream>,
    pub(crate) arenas: Vec<String>,
    /// The position of each in the profile, once it is used.
    pub(crate) stream_numbers: Vec<Option<u32>>,
    pub(crate) arena_numbers: Vec<Option<u32>>,
    /// The tape of each stream, and its worker.
    pub(crate) tapes: Vec<Option<(u32, Option<u32>)>>,
    /// What the names of its streams, arenas and tensors end with: ` in list0`.
    pub(crate) suffix: String,
}

impl Scope {
    pub(crate) fn of(list: &InstructionList, suffix: String) -> Scope {
        let stream = |decl: &StreamDecl| Stream {
            name: format!("{}{suffix}", decl.key),
            device: decl.key.device.to_string(),
            // The instructions of a tape have an order.
            pool: decl.mode == StreamMode::Pool && suffix.is_empty(),
            ..Stream::default()
        };
        Scope {
            tensors: HashMap::new(),
            tracks: vec![Track::default(); list.streams.len()],
            streams: list.streams.iter().map(stream).collect(),
            arenas: list.arenas.iter().map(|arena| format!("{arena}{suffix}")).collect(),
            stream_numbers: vec![None; list.streams.len()],
            arena_numbers: vec![None; list.arenas.len()],
            tapes: Vec::new(),
            suffix,
        }
    }
}

/// The instructions of a stream so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// The sequence number and the position of each.
    pub(crate) at: Vec<(u64, u32)>,
    /// The needs of the next instruction that is no wait, as positions of waits.
    pub(crate) open: Vec<u32>,
    /// The needs that were resolved by a wait, which follows: the tensors.
    pub(crate) needed: Vec<(Point, Vec<u32>)>,
    /// For each other stream, the sequence numbers that its waits were for, with the waiters: those
    /// that exceed all before them.
    pub(crate) waited: HashMap<usize, Vec<(u64, u32)>>,
}

impl Track {
    pub(crate) fn wait(&mut self, source: usize, until: u64, waiter: u32) {
        let waits = self.waited.entry(source).or_default();
        if waits.last().is_none_or(|(last, _)| *last < until) {
            waits.push((until, waiter));
        }
    }

    /// Returns the first wait for a sequence number of a stream, or a later one.
    pub(crate) fn first_wait(&self, source: usize, seq: u64) -> Option<u32> {
        let waits = self.waited.get(&source)?;
        let first = waits.partition_point(|(until, _)| *until < seq);
        waits.get(first).map(|(_, waiter)| *waiter)
    }
}
