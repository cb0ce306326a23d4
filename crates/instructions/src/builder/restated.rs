//! Instructions of a list, emitted again: accesses and memory are given, as the list states them,
//! and not asked from schemas and the planner.
//!
//! Waits and events are found as for any other call. The passes use these entry points.

use std::sync::Arc;

use millstream_types::{
    Access, Attrs, OpId, Origin, Point, Result, StreamId, StreamMode, TensorSpec,
};

use crate::builder::memory::Allocation;
use crate::builder::region::SectionId;
use crate::builder::{Call, InstructionsBuilder, Sink, TensorRef};
use crate::frontier::Frontier;
use crate::instruction::{Operand, Operands, Placement, Priority};

/// A call as an instruction states it.
#[derive(Clone, Debug)]
pub struct StatedCall<'a> {
    /// The op. The builder does not ask for its schema.
    pub op: OpId,
    /// The tensors, and how the call uses each.
    pub operands: &'a [(TensorRef, Access)],
    /// The named arguments, if there are any.
    pub attrs: Option<Arc<Attrs>>,
    /// The scratch memory, if the call has any. The caller has placed it.
    pub workspace: Option<Placement>,
    /// The stream to run on.
    pub stream: StreamId,
    /// The priority on a pool.
    pub priority: Priority,
    /// The critical section that the call is made from.
    pub section: Option<SectionId>,
    /// The call's place in the program.
    pub origin: &'a Origin,
}

impl InstructionsBuilder {
    /// Emits a call as it is stated, with the waits that its operands need.
    ///
    /// # Errors
    /// A tensor was released or is held, or the stream is not this builder's.
    pub fn call_stated(&mut self, sink: &mut dyn Sink, call: &StatedCall<'_>) -> Result<Point> {
        self.runs_kernels(call.stream)?;
        let mut operands = Operands::new();
        for &(tensor, access) in call.operands {
            self.usable(tensor, call.section)?;
            operands.push(Operand { tensor: tensor.id, access });
        }
        let attrs = Arc::default();
        let made = Call {
            op: call.op,
            inputs: &[],
            into: None,
            attrs: &attrs,
            stream: call.stream,
            priority: call.priority,
            section: call.section,
            origin: call.origin,
        };
        let workspace = call.workspace.map(|placement| Allocation { placement, block: None });
        self.emit_call(sink, &made, operands, call.attrs.clone(), workspace);
        Ok(self.tail(call.stream))
    }

    /// Begins a tensor in memory that the caller has placed: all uses by earlier owners of the
    /// memory come before the stream's next instruction.
    ///
    /// # Errors
    /// The stream is not this builder's.
    pub fn begin_placed(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        spec: TensorSpec,
        placement: Placement,
        origin: &Origin,
    ) -> Result<TensorRef> {
        self.known_stream(stream)?;
        let memory = Allocation { placement, block: None };
        Ok(self.begin_tensor(sink, stream, spec, memory, origin))
    }

    /// Has the next instruction of `stream` that uses operands come after points, too: with the
    /// points that its operands need, it waits at most once for each other stream.
    ///
    /// # Errors
    /// A stream is not this builder's.
    pub fn wait_with_next(&mut self, stream: StreamId, points: &[Point]) -> Result<()> {
        self.known_stream(stream)?;
        for point in points {
            self.known_stream(point.stream)?;
        }
        let track = &mut self.streams[stream.index()];
        let is_pool = track.is_pool();
        let others = points.iter().filter(|p| (p.stream != stream || is_pool) && p.seq > 0);
        track.requested.extend(others.copied());
        Ok(())
    }

    /// Orders `stream` behind points, at most by one wait for each other stream; a pool behind
    /// points of its own, too. Emits only annotations if the stream is ordered so already.
    ///
    /// # Errors
    /// A stream is not this builder's.
    pub fn wait_points(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        points: &[Point],
        origin: &Origin,
    ) -> Result<()> {
        self.known_stream(stream)?;
        for point in points {
            self.known_stream(point.stream)?;
        }
        self.catch_up(stream);
        let is_pool = self.streams[stream.index()].is_pool();
        let others = points.iter().copied();
        let others = others.filter(|p| (p.stream != stream || is_pool) && p.seq > 0);
        let others: Vec<Point> = others.collect();
        self.wait_for_points(sink, stream, &others, origin);
        Ok(())
    }

    /// Returns the points that have passed once `point` has, `point` included.
    pub fn passed_with(&self, point: Point) -> Frontier {
        self.passed(point).frontier()
    }

    /// Returns the points that the next instruction of `stream` comes after without a wait. On a
    /// pool they are those behind a barrier or observed by the host.
    ///
    /// # Errors
    /// The stream is not this builder's.
    pub fn clock_of(&mut self, stream: StreamId) -> Result<Frontier> {
        self.known_stream(stream)?;
        self.catch_up(stream);
        let track = &self.streams[stream.index()];
        let mut clock = track.known.frontier();
        clock.join(&self.fence.frontier());
        if track.decl.mode == StreamMode::InOrder {
            clock.add(self.tail(stream));
        }
        Ok(clock)
    }

    /// Returns the critical section that holds a tensor, if one does.
    ///
    /// # Errors
    /// The tensor was released.
    pub fn held_by(&self, tensor: TensorRef) -> Result<Option<SectionId>> {
        let storage = self.slots.live(tensor)?;
        Ok(self.slots.storage(storage).held)
    }
}
