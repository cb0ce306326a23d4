//! Workers as servers of instructions, in simulated time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use millstream_profile::Profile;

/// A server of instructions: one worker, or the workers of a pool.
pub(super) struct Server {
    /// When each of its threads is free.
    pub(super) free: Vec<u64>,
    /// The instructions that could run if a thread were free, the first one on top. While there
    /// are any, the server has an event.
    pub(super) waiting: BinaryHeap<Reverse<u32>>,
}

impl Server {
    /// Returns when the first of its threads is free.
    pub(super) fn is_free_at(&self) -> u64 {
        self.free.iter().copied().min().unwrap_or(0)
    }
}

/// Returns the servers, and that of each stream.
pub(super) fn servers(profile: &Profile) -> (Vec<Server>, Vec<Option<usize>>) {
    let mut servers = Vec::new();
    let mut by_worker: HashMap<u32, usize> = HashMap::new();
    let mut pool = None;
    let mut add = |threads: usize| {
        servers.push(Server { free: vec![0; threads.max(1)], waiting: BinaryHeap::new() });
        servers.len() - 1
    };
    let of_stream = profile.streams.iter().map(|stream| match (stream.worker, stream.pool) {
        (Some(worker), _) => Some(*by_worker.entry(worker).or_insert_with(|| add(1))),
        (None, true) if profile.host_workers > 0 => {
            Some(*pool.get_or_insert_with(|| add(profile.host_workers as usize)))
        }
        (None, _) => None,
    });
    let of_stream = of_stream.collect();
    (servers, of_stream)
}
