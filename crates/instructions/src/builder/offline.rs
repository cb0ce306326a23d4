//! A builder without a machine, for lists that are made before anything runs.

use millstream_types::{DeviceId, Origin, Point, Result, StreamKey, StreamType};

use crate::builder::{Builder, Need, Sink};
use crate::catalog::{StreamCatalog, StreamFacts};
use crate::recorder::ListRecorder;
use crate::table::Instruction;

/// A catalog that has every stream: those of `cpu` wait by the host, those of any other device
/// wait for one another on the device. A type that is not built in runs kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineCatalog;

impl StreamCatalog for OfflineCatalog {
    fn describe(&self, key: &StreamKey) -> Result<StreamFacts> {
        let host = DeviceId::cpu(0);
        let own = key.device.clone();
        let facts = match key.ty {
            StreamType::HOST2DEVICE => StreamFacts::on(own).reading(host),
            StreamType::DEVICE2HOST | StreamType::PINNED_COMPUTE => {
                StreamFacts::on(host).reading(own)
            }
            _ => StreamFacts::on(own),
        };
        Ok(match key.ty.built_in_work() {
            Some(work) => facts.accepting(work),
            None => facts,
        })
    }

    fn waits_on_device(&self, waiter: &StreamKey, source: &StreamKey) -> bool {
        waiter.device == source.device && waiter.device.kind() != "cpu"
    }
}

impl Builder {
    /// Satisfies a call's need without a device: memory is taken to be there, and points to have
    /// completed.
    ///
    /// # Errors
    /// The memory is used up.
    pub fn assume(&mut self, sink: &mut dyn Sink, need: Need, origin: &Origin) -> Result<()> {
        match need {
            Need::Grow { arena, bytes, stream, .. } => self.grown(arena, bytes, stream),
            Need::Wait(points) => self.observe(sink, &points, origin),
            Need::Return { arena, bytes } => {
                let limit = self.planner().limit(self.planner().device(arena));
                let most = limit.unwrap_or(u64::MAX).saturating_sub(bytes);
                while self.planner().reserved(arena) > most
                    && let Some((start, points)) = self.planner().next_return(arena)
                {
                    self.observe(sink, &points, origin);
                    self.give_back(arena, start);
                }
            }
            Need::Everything(error) => return Err(*error),
        }
        Ok(())
    }
}

/// A sink that collects a list. It never reuses slots, so the ids of the list are slots.
#[derive(Debug, Default)]
pub struct OfflineSink {
    /// The list so far.
    pub recorder: ListRecorder,
    /// Whether the list gets annotations.
    pub annotated: bool,
}

impl Sink for OfflineSink {
    fn emit(&mut self, instruction: Instruction) {
        self.recorder.push(&instruction);
    }

    fn reached(&self, _: Point) -> bool {
        false
    }

    fn annotated(&self) -> bool {
        self.annotated
    }
}
