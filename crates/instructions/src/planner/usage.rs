//! Memory use: how much there is, which stream has it, and by which steps requests were served.

use std::fmt;

use millstream_types::{DeviceId, StreamId};

use super::Knowledge;
use super::arena::{Arena, State};

/// Counts of the planner's steps, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Requests served by an idle block of the stream, or by memory that no stream has used.
    pub idle: u64,
    /// Requests served by a block that was pending until the stream knew its last uses.
    pub covered: u64,
    /// Requests served by a block of another stream, whose last uses the stream knew.
    pub elsewhere: u64,
    /// Chunks taken from the device, while the limit allowed.
    pub grown: u64,
    /// Requests served by a block that the stream has to wait for.
    pub stream_waits: u64,
    /// Chunks given back to the device to make room for others.
    pub given_back: u64,
    /// Waits of the host, for a block that a pool needs or for everything.
    pub host_waits: u64,
    /// Refused requests.
    pub refused: u64,
}

impl Steps {
    /// Returns each step's name and count.
    pub const fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("idle", self.idle),
            ("covered", self.covered),
            ("elsewhere", self.elsewhere),
            ("grown", self.grown),
            ("stream_waits", self.stream_waits),
            ("given_back", self.given_back),
            ("host_waits", self.host_waits),
            ("refused", self.refused),
        ]
    }
}

/// The memory of one device, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaUse {
    /// The device.
    pub device: DeviceId,
    /// The most that may be taken from the device, once it is known.
    pub limit: Option<u64>,
    /// Taken from the device.
    pub reserved: u64,
    /// The most that was ever taken.
    pub reserved_peak: u64,
    /// Held by tensors and workspaces.
    pub in_use: u64,
    /// The most that was ever held.
    pub peak: u64,
    /// Idle: free, and the stream that it belongs to knows its last uses, or no stream has used it.
    pub cached: u64,
    /// Pending: free once the stream that it belongs to knows its last uses.
    pub pending: u64,
    /// The largest free run of blocks.
    pub largest_free: u64,
    /// How requests were served.
    pub steps: Steps,
    /// By stream, without streams that never asked for memory.
    pub streams: Vec<StreamUse>,
}

/// The memory of one device that belongs to one stream, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamUse {
    /// The stream.
    pub stream: StreamId,
    /// Held by tensors and workspaces that were placed for it.
    pub in_use: u64,
    /// The most that was ever held.
    pub peak: u64,
    /// Idle: free, and the stream knows its last uses.
    pub cached: u64,
    /// Pending: free once the stream knows its last uses.
    pub pending: u64,
}

impl ArenaUse {
    /// Returns the share of the free bytes, from 0 to 1, that lies outside the largest free run: no
    /// single request can get it.
    pub fn fragmentation(&self) -> f64 {
        let free = self.cached + self.pending;
        if free == 0 { 0.0 } else { 1.0 - self.largest_free as f64 / free as f64 }
    }
}

impl fmt::Display for ArenaUse {
    /// Writes a few lines for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, reserved, in_use, peak, cached, pending, .. } = self;
        write!(
            f,
            "{device}: {in_use} bytes in use (peak {peak}), {cached} cached, {pending} pending; "
        )?;
        write!(f, "{reserved} reserved (peak {})", self.reserved_peak)?;
        if let Some(limit) = self.limit {
            write!(f, " of {limit}")?;
        }
        writeln!(f, "; fragmentation {:.2}", self.fragmentation())?;
        for StreamUse { stream, in_use, peak, cached, pending } in &self.streams {
            writeln!(
                f,
                "  {stream}: {in_use} in use (peak {peak}), {cached} cached, {pending} pending"
            )?;
        }
        f.write_str("  steps:")?;
        let taken = self.steps.named().into_iter().filter(|(_, count)| *count > 0);
        for (k, (name, count)) in taken.enumerate() {
            write!(f, "{} {name} {count}", if k == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Arena {
    /// Returns the memory use, as far as the streams know now. Moves no block: asking changes no
    /// placement.
    pub(super) fn usage(&self, known: &impl Knowledge) -> ArenaUse {
        let mut streams: Vec<StreamUse> = Vec::new();
        for (k, free) in self.free_blocks.iter().enumerate() {
            streams.push(StreamUse {
                stream: StreamId(k as u16),
                in_use: free.in_use,
                peak: free.peak,
                cached: free.idle.iter().chain([&free.resting]).map(|b| b.bytes).sum(),
                pending: free.pending.bytes,
            });
        }
        let mut largest_free = 0;
        for chunk in &self.chunks {
            let mut run = 0;
            for (_, block) in self.blocks_of(chunk) {
                run = if block.state == State::Used { 0 } else { run + block.size };
                largest_free = largest_free.max(run);
                let covered = || known.open(block.stream, &block.last_uses).is_none();
                if block.state == State::Pending && covered() {
                    let stream = &mut streams[block.stream.index()];
                    stream.pending -= block.size;
                    stream.cached += block.size;
                }
            }
        }
        let sum = |of: fn(&StreamUse) -> u64| streams.iter().map(of).sum();
        let unused: u64 = self.unused.idle.iter().map(|bins| bins.bytes).sum();
        let (cached, pending) = (sum(|s| s.cached) + unused, sum(|s| s.pending));
        streams.retain(|s| s.peak > 0 || s.cached + s.pending > 0);
        ArenaUse {
            device: self.device.clone(),
            limit: self.limit,
            reserved: self.reserved,
            reserved_peak: self.reserved_peak,
            in_use: self.in_use,
            peak: self.peak,
            cached,
            pending,
            largest_free,
            steps: self.steps,
            streams,
        }
    }
}
