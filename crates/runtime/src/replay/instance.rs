//! Instances: private memory with the streams of the tapes, one for each launch under way.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::TensorRef;
use millstream_types::{Access, Result, StreamId};

use crate::engine::Engine;
use crate::engine::router::OpenStream;
use crate::tapes::graph::InstanceGraphs;
use crate::tapes::recycled::Recycled;
use crate::tapes::run::Run;

/// The instances of an executable: its private memory, as often as launches may overlap.
pub struct Instances {
    /// Those that were made.
    pub all: SmallVec<[Box<Instance>; 1]>,
    /// The one of launches with memory of the caller, which has none itself.
    pub lent: Option<Box<Instance>>,
    /// How many there may be.
    pub most: usize,
    /// How many launches were made.
    pub launches: u64,
}

/// Private memory and the streams of the tapes.
pub struct Instance {
    /// Its memory, one tensor for each device.
    pub memory: SmallVec<[TensorRef; 1]>,
    /// The streams of the tapes, in the order of the tapes.
    pub tapes: Box<[OpenStream]>,
    /// The tapes that are launched as one command.
    pub graphs: Arc<InstanceGraphs>,
    /// The last launches.
    pub runs: Recycled<Arc<Run>>,
    /// The number of its last launch.
    pub last: u64,
}

impl Instances {
    /// Returns the instance for a launch on `stream`: one that the stream may use without a wait;
    /// none, so that another one is made, while there are fewer than may be; or else the one whose
    /// last launch is the oldest.
    pub fn choose(&self, e: &Engine, stream: StreamId) -> Result<Option<usize>> {
        let mut oldest: Option<usize> = None;
        for (k, instance) in self.all.iter().enumerate() {
            let mut is_free = true;
            for tensor in &instance.memory {
                is_free &= e.builder.is_ordered(stream, *tensor, Access::Write)?;
            }
            if is_free && !instance.memory.is_empty() {
                return Ok(Some(k));
            }
            if oldest.is_none_or(|oldest| instance.last < self.all[oldest].last) {
                oldest = Some(k);
            }
        }
        // Without private memory, one instance serves launches on all streams.
        let is_shared = oldest.is_some_and(|k| self.all[k].memory.is_empty());
        Ok(oldest.filter(|_| is_shared || self.all.len() >= self.most))
    }

    /// Notes a launch: with the chosen instance, or with one that was made for it.
    pub fn note_launch(&mut self, chosen: Option<usize>) {
        self.launches += 1;
        let last = self.all.len().saturating_sub(1);
        if let Some(instance) = self.all.get_mut(chosen.unwrap_or(last)) {
            instance.last = self.launches;
        }
    }
}
