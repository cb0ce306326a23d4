//! A builder without a machine, for lists that are made before anything runs.

use std::sync::Arc;

use millstream_ops::OpRegistry;
use millstream_types::{
    DeviceId, Error, Origin, Point, Result, StorageId, StreamId, StreamKey, StreamType, TensorSpec,
};

use crate::builder::{
    BuilderConfig, Call, InstructionsBuilder, Need, Outcome, Outputs, Sink, TensorRef,
};
use crate::catalog::{StreamCatalog, StreamFacts};
use crate::list::{External, InstructionList};
use crate::recorder::ListRecorder;
use crate::scalar::ScalarDecl;
use crate::table::Instruction;
use crate::text::OpNames;

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

/// More bytes than the memory of any machine.
const ALL_MEMORY: u64 = 1 << 56;

impl InstructionsBuilder {
    /// Returns a builder without a machine, with the default configuration and an
    /// [`OfflineCatalog`].
    pub fn offline(ops: Arc<OpRegistry>) -> InstructionsBuilder {
        InstructionsBuilder::new(&BuilderConfig::default(), ops, Box::new(OfflineCatalog))
    }

    /// Provides for a need without a machine: arenas grow at once, up to 2^56 bytes, and points
    /// that are waited for have passed.
    ///
    /// # Errors
    /// The memory is used up.
    pub fn assume(&mut self, sink: &mut dyn Sink, need: Need, origin: &Origin) -> Result<()> {
        match need {
            Need::Grow { arena, bytes, .. } => {
                let in_use = self.planner().reserved(arena);
                if bytes > ALL_MEMORY || in_use > ALL_MEMORY {
                    return Err(Error::OutOfMemory {
                        device: self.planner().device(arena).clone(),
                        purpose: "the program".to_owned(),
                        wanted: bytes,
                        in_use,
                        limit: ALL_MEMORY,
                        holders: Vec::new(),
                    });
                }
                self.grown(arena, bytes);
            }
            Need::Wait(points) => self.observe(sink, &points, origin),
            Need::Return { arena, bytes } => {
                let limit = self.planner().limit(self.planner().device(arena));
                let most = limit.unwrap_or(u64::MAX).saturating_sub(bytes);
                while self.planner().reserved(arena) > most
                    && let Some((start, points)) = self.planner_mut().next_return(arena)
                {
                    self.observe(sink, &points, origin);
                    self.give_back(arena, start);
                }
            }
            Need::Everything(error) => return Err(*error),
        }
        Ok(())
    }

    /// Makes a call without a machine: as [`InstructionsBuilder::call`], with
    /// [`InstructionsBuilder::assume`] for its needs.
    ///
    /// # Errors
    /// As [`InstructionsBuilder::call`], or the memory is used up.
    pub fn call_offline(&mut self, sink: &mut dyn Sink, call: &Call<'_>) -> Result<Outputs> {
        self.runs_kernels(call.stream)?;
        loop {
            match self.call_anew(sink, call, None)? {
                Outcome::Done(outputs) => return Ok(outputs),
                Outcome::Need(need) => self.assume(sink, need, call.origin)?,
            }
        }
    }

    /// Makes a tensor without a machine: as [`InstructionsBuilder::allocate`], with
    /// [`InstructionsBuilder::assume`] for its needs.
    ///
    /// # Errors
    /// As [`InstructionsBuilder::allocate`], or the memory is used up.
    pub fn allocate_offline(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        spec: &TensorSpec,
        origin: &Origin,
    ) -> Result<TensorRef> {
        let bytes = spec.span_bytes() as u64;
        loop {
            match self.allocate(sink, stream, spec.clone(), bytes, origin)? {
                Outcome::Done(tensor) => return Ok(tensor),
                Outcome::Need(need) => self.assume(sink, need, origin)?,
            }
        }
    }

    /// Returns the declaration of a tensor that exists before a list and after it.
    ///
    /// # Errors
    /// The tensor was released.
    pub fn external(&mut self, name: &str, tensor: TensorRef) -> Result<External> {
        let device = self.device(tensor)?.clone();
        Ok(External {
            tensor: tensor.id,
            name: name.to_owned(),
            spec: self.spec(tensor)?.clone(),
            bytes: self.storage_bytes(tensor)?,
            arena: self.planner_mut().arena(&device),
        })
    }

    /// Returns the declarations of all live tensors, without names, each with its storage.
    pub fn externals(&self) -> impl Iterator<Item = (External, StorageId)> + '_ {
        self.live_tensors().map(|tensor| {
            let storage = self.slots.storage_of(tensor);
            let of = self.slots.storage(storage);
            let (spec, name) = (self.slots.spec(tensor).clone(), String::new());
            (External { tensor, name, spec, bytes: of.bytes, arena: of.arena }, storage)
        })
    }

    /// Ends a list of this builder's instructions: declares its streams, arenas and ops.
    pub fn finish_list(&self, mut recorder: ListRecorder) -> InstructionList {
        for decl in self.streams() {
            recorder.stream(decl.clone());
        }
        for device in self.planner().devices() {
            recorder.arena(device.clone());
        }
        recorder.ops(OpNames::of(self.ops().clone()));
        recorder.finish()
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

    fn scalars(&self) -> &[ScalarDecl] {
        &self.recorder.list().scalars
    }

    fn reached(&self, _: Point) -> bool {
        false
    }

    fn annotated(&self) -> bool {
        self.annotated
    }
}
