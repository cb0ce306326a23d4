//! Calls that were made before: the path of most calls.

use millstream_types::{Point, Result, TensorId};

use crate::builder::inference::{InferredOutput, Lookup, SIMPLE};
use crate::builder::{Call, InstructionsBuilder, Need, Outcome, Output, Outputs, Sink, TensorRef};
use crate::table::Kind;

/// What [`InstructionsBuilder::call_known`] has done.
pub enum Known {
    /// The call, with its one result.
    Called(Output),
    /// Nothing, as something has to happen first: [`InstructionsBuilder::call`] makes the call
    /// after that.
    Need(Need),
    /// Nothing: [`InstructionsBuilder::call_looked_up`] makes the call.
    Not(LookedUp),
}

/// What was found of a call.
pub struct LookedUp(Lookup);

impl InstructionsBuilder {
    /// Emits a call as [`InstructionsBuilder::call`] does, if it was made before on operands like
    /// these and has one result. Otherwise, or if something has to happen first, emits nothing.
    ///
    /// # Errors
    /// The stream runs no ops, or the memory is used up.
    #[inline]
    pub fn call_known<S: Sink>(&mut self, sink: &mut S, call: &Call<'_>) -> Result<Known> {
        self.runs_kernels(call.stream)?;
        let found = self.look_up(call);
        self.inference.count(call.op, &found);
        let Lookup::Found(place, ordered) = found else { return Ok(Known::Not(LookedUp(found))) };
        if ordered && let Some(output) = self.call_simple(sink, call, place) {
            return Ok(Known::Called(output));
        }
        if self.inference.places[place].as_ref().is_none_or(|found| found.outputs.len() != 1) {
            return Ok(Known::Not(LookedUp(found)));
        }
        Ok(match self.call_inferred(sink, call, (place, ordered))? {
            Outcome::Done(outputs) => Known::Called(outputs[0]),
            Outcome::Need(need) => Known::Need(need),
        })
    }

    /// Emits a call that [`InstructionsBuilder::call_known`] has not, as
    /// [`InstructionsBuilder::call`] does.
    ///
    /// # Errors
    /// As [`InstructionsBuilder::call`].
    pub fn call_looked_up<S: Sink>(
        &mut self,
        sink: &mut S,
        call: &Call<'_>,
        LookedUp(found): LookedUp,
    ) -> Result<Outcome<Outputs>> {
        match found {
            Lookup::Found(place, ordered) => self.call_inferred(sink, call, (place, ordered)),
            Lookup::Missed(hash, classes) => self.call_anew(sink, call, Some((hash, classes))),
            Lookup::Passed(_) => self.call_anew(sink, call, None),
        }
    }

    /// Emits a call that was found, if it is one of the most: it changes its operand or makes one
    /// result, which takes over the tensor that was released last, and it waits for nothing.
    /// Returns none otherwise, and has emitted nothing.
    #[inline]
    pub(super) fn call_simple<S: Sink>(
        &mut self,
        sink: &mut S,
        call: &Call<'_>,
        place: usize,
    ) -> Option<Output> {
        let Call { stream, origin, inputs, .. } = *call;
        let InstructionsBuilder { inference, slots, records, streams, planner, stats, .. } = self;
        let found = inference.places[place].as_deref().filter(|f| f.is_simple && f.is_stored)?;
        let mut tensors = [TensorRef { id: TensorId(0), generation: 0 }; SIMPLE];
        tensors[..inputs.len()].copy_from_slice(inputs);
        let (output, count) = match found.outputs.first()? {
            InferredOutput::Same(input) => (Output::Same(*input), inputs.len()),
            InferredOutput::Fresh { spec, bytes, class } => {
                let &(block, record) = records.newest(*class, stream)?;
                let own = &streams[stream.index()];
                if block.arena() != own.memory {
                    return None;
                }
                let version = own.version + own.fence_epoch;
                let placement = planner.take_over(block, *bytes, record.last_use, version)?;
                records.take_newest();
                stats.count(Kind::AllocateTensor);
                let made = slots.renew(&record, Point::new(stream, own.seq), origin);
                sink.renew_tensor(stream, made.id, spec, placement, origin);
                tensors[inputs.len()] = made;
                (Output::Tensor(made), inputs.len() + 1)
            }
            InferredOutput::View { .. } => return None,
        };
        let tensors = &tensors[..count];
        let track = &mut streams[stream.index()];
        track.seq += 1;
        let at = Point::new(stream, track.seq);
        for (tensor, access) in tensors.iter().zip(found.call.accesses()) {
            slots.used(tensor.id, at, access);
        }
        stats.count(Kind::OpCall);
        sink.emit_prepared(at, &found.call, tensors, None, origin);
        Some(output)
    }
}
