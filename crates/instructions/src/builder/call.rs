//! Calls of ops: schema, checks, memory, waits, emission.
//!
//! Long because its refusals say what was expected.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use millstream_ops::closure::CLOSURE;
use millstream_ops::{CallSpec, OutputSpec, Signature};
use millstream_types::{
    Access, Attrs, DType, DeviceId, Error, OpId, Origin, Result, StreamId, StreamKey, StreamType,
    TensorSpec,
};

use crate::builder::inference::Classes;
use crate::builder::known_call::Known;
use crate::builder::memory::Allocation;
use crate::builder::region::SectionId;
use crate::builder::slot::is_whole;
use crate::builder::{InstructionsBuilder, Outcome, Sink, TensorRef};
use crate::instruction::{Operand, Operands, Priority};
use crate::planner::ArenaId;
use crate::scalar::check_uses;
use crate::table::Body;

/// A call of an op.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The op.
    pub op: OpId,
    /// Its tensors.
    pub inputs: &'a [TensorRef],
    /// The tensors to write the results to, one for each result; new ones if not given.
    pub into: Option<&'a [TensorRef]>,
    /// Its named arguments.
    pub attrs: &'a Attrs,
    /// The stream to run on.
    pub stream: StreamId,
    /// How urgent it is, on a pool.
    pub priority: Priority,
    /// The critical section that the call is made from.
    pub section: Option<SectionId>,
    /// The call's place in the program.
    pub origin: &'a Origin,
}

/// One result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A tensor: a new one, a view, or one that was given for the result.
    Tensor(TensorRef),
    /// The input of this number, changed in place.
    Same(usize),
    /// A tensor whose first dimension is known once `count` has been read:
    /// [`InstructionsBuilder::fix_bound`] then makes the result. Both are to be released after
    /// that.
    Bounded {
        /// The rows: as many as the bound allows.
        data: TensorRef,
        /// The number of valid rows: one `i64`.
        count: TensorRef,
    },
}

impl Output {
    /// Returns the tensor, if it is one.
    const fn tensor(&self) -> Option<TensorRef> {
        match self {
            Output::Tensor(tensor) => Some(*tensor),
            Output::Same(_) | Output::Bounded { .. } => None,
        }
    }
}

/// The results of a call, in order.
pub type Outputs = SmallVec<[Output; 2]>;

impl InstructionsBuilder {
    /// Emits a call: its waits, the allocation of its results, and the call itself.
    ///
    /// # Errors
    /// The op refuses its operands or arguments; a tensor was released, is held, or lies on a
    /// device that the stream does not use; the stream runs no ops; the memory is used up. Nothing
    /// was emitted.
    pub fn call<S: Sink>(&mut self, sink: &mut S, call: &Call<'_>) -> Result<Outcome<Outputs>> {
        match self.call_known(sink, call)? {
            Known::Called(output) => Ok(Outcome::Done(smallvec![output])),
            Known::Need(need) => Ok(Outcome::Need(need)),
            Known::Not(found) => self.call_looked_up(sink, call, found),
        }
    }

    /// Emits a call after asking its schema. Keeps what the schema said if the call was `missed` in
    /// the cache.
    pub(super) fn call_anew(
        &mut self,
        sink: &mut dyn Sink,
        call: &Call<'_>,
        missed: Option<(u64, Classes)>,
    ) -> Result<Outcome<Outputs>> {
        let op = self
            .ops
            .get(call.op)
            .cloned()
            .ok_or_else(|| Error::Foreign { what: call.op.to_string() })?;
        check_uses(&*op, call.attrs, sink.scalars())?;
        let mut specs: SmallVec<[TensorSpec; 4]> = SmallVec::new();
        for &input in call.inputs {
            self.usable(input, call.section)?;
            specs.push(self.slots.spec(input.id).clone());
        }
        let signature = op.check(CallSpec { inputs: &specs, attrs: call.attrs })?;
        let fits = |message: String| Error::Op { op: op.name().to_owned(), message };
        if signature.accesses.len() != call.inputs.len() {
            return Err(Error::Internal {
                message: format!("the schema of {} names other operands than it takes", op.name()),
            });
        }
        let attrs = (!call.attrs.is_empty()).then(|| Arc::new(call.attrs.clone()));
        if let Some(into) = call.into {
            self.check_into(call, &signature, into).map_err(fits)?;
        } else if signature.is_view() {
            let views = self.views(sink, call, &specs, &signature)?;
            if let Some(missed) = missed {
                let made = views.iter().filter_map(Output::tensor);
                let made: SmallVec<[TensorRef; 2]> = made.collect();
                self.keep_inferred(sink, missed, call, attrs, &signature, &made);
            }
            return Ok(Outcome::Done(views));
        }

        let mut operands = Operands::new();
        for (input, &access) in call.inputs.iter().zip(&signature.accesses) {
            operands.push(Operand { tensor: input.id, access });
        }
        for operand in &operands {
            self.check_device(call.stream, op.name(), operand).map_err(fits)?;
        }
        let into = call.into.unwrap_or(&[]);
        for &target in into {
            // Writing a part of a storage keeps the content of the rest.
            let operand = Operand { tensor: target.id, access: self.write_access(target) };
            self.check_device(call.stream, op.name(), &operand).map_err(fits)?;
            operands.push(operand);
        }
        // Overwriting an input that covers a part of its storage keeps the content of the rest.
        for (operand, input) in operands.iter_mut().zip(call.inputs) {
            if operand.access == Access::Write {
                operand.access = self.write_access(*input);
            }
        }

        let fresh: SmallVec<[TensorSpec; 2]> =
            if call.into.is_some() { SmallVec::new() } else { fresh_specs(&signature)? };
        let arena = self.streams[call.stream.index()].memory;
        let mut sizes: SmallVec<[(ArenaId, u64); 4]> =
            fresh.iter().map(|s| (arena, s.span_bytes() as u64)).collect();
        if signature.workspace > 0 {
            sizes.push((arena, signature.workspace as u64));
        }
        let purpose = |_: &InstructionsBuilder, k: usize| match fresh.get(k) {
            Some(spec) => format!("{}, a result of {}", spec.brief(), op.name()),
            None => format!("the scratch memory of {}", op.name()),
        };
        let placed = self.place(sink, call.stream, &sizes, purpose, call.origin)?;
        let mut memory = match placed {
            Outcome::Need(need) => return Ok(Outcome::Need(need)),
            Outcome::Done(memory) => memory,
        };
        let workspace = if signature.workspace > 0 { memory.pop() } else { None };

        let mut made: SmallVec<[TensorRef; 2]> = SmallVec::new();
        for (spec, memory) in fresh.into_iter().zip(memory) {
            let tensor = self.begin_tensor(sink, call.stream, spec, memory, call.origin);
            operands.push(Operand { tensor: tensor.id, access: Access::Write });
            made.push(tensor);
        }
        self.emit_call(sink, call, operands, attrs.clone(), workspace);

        let outputs = if into.is_empty() {
            self.outputs(sink, call, &specs, &signature, &made)?
        } else {
            into.iter().map(|&t| Output::Tensor(t)).collect()
        };
        if let Some(missed) = missed {
            self.keep_inferred(sink, missed, call, attrs, &signature, &made);
        }
        Ok(Outcome::Done(outputs))
    }

    /// Emits a checked call with its waits. A call that makes no tensors costs nothing more.
    pub(super) fn emit_call(
        &mut self,
        sink: &mut dyn Sink,
        call: &Call<'_>,
        operands: Operands,
        attrs: Option<Arc<Attrs>>,
        workspace: Option<Allocation>,
    ) {
        let Call { op, stream, priority, origin, .. } = *call;
        self.wait_for_operands(sink, stream, &operands, origin);
        let at = self.next(stream);
        self.note_uses(at, &operands);
        let block = workspace.and_then(|w| w.block);
        let workspace = workspace.map(|w| Box::new(w.placement));
        let body = Body::OpCall { at, op, operands, attrs, workspace, priority };
        self.emit(sink, body, origin);
        self.release_block(sink, block, [at].into_iter().collect(), origin);
    }

    /// Emits the result of a bounded output: a view of the first `count` rows.
    ///
    /// # Errors
    /// There are more rows than the bound allows, or a tensor was released.
    pub fn fix_bound(
        &mut self,
        sink: &mut dyn Sink,
        data: TensorRef,
        count: i64,
        origin: &Origin,
    ) -> Result<TensorRef> {
        let bound = self.spec(data)?.clone();
        let rows = usize::try_from(count).ok().filter(|n| *n <= bound.shape()[0]);
        let Some(rows) = rows else {
            return Err(Error::Internal {
                message: format!("a kernel gave {count} rows where {} is the bound", bound.brief()),
            });
        };
        let mut shape = bound.layout.shape().to_vec();
        shape[0] = rows;
        let spec = TensorSpec::contiguous(bound.dtype, &shape)?;
        self.view(sink, data, spec, origin)
    }

    /// Returns the access of a full overwrite of a tensor: `Write` if the tensor covers its
    /// storage, else `ReadWrite`, because the rest of the storage keeps its content.
    pub(super) fn write_access(&self, tensor: TensorRef) -> Access {
        let bytes = self.slots.storage(self.slots.storage_of(tensor.id)).bytes;
        let whole = is_whole(self.slots.spec(tensor.id), bytes);
        if whole { Access::Write } else { Access::ReadWrite }
    }

    fn check_into(
        &self,
        call: &Call<'_>,
        signature: &Signature,
        into: &[TensorRef],
    ) -> Result<(), String> {
        let specs = fresh_specs(signature).map_err(|e| e.to_string())?;
        let writable = signature.outputs.iter().all(|o| matches!(o, OutputSpec::Fresh(_)));
        if !writable {
            return Err("its results cannot be written to given tensors: they are views, changes \
                        in place, or of a size known only afterwards"
                .to_owned());
        }
        if into.len() != specs.len() {
            return Err(format!(
                "it has {} result(s), {} tensor(s) given",
                specs.len(),
                into.len()
            ));
        }
        for (k, (target, spec)) in into.iter().zip(&specs).enumerate() {
            self.usable(*target, call.section).map_err(|e| e.to_string())?;
            let given = self.slots.spec(target.id);
            if given.dtype != spec.dtype || given.shape() != spec.shape() {
                let (spec, given) = (spec.brief(), given.brief());
                return Err(format!("result {k} is {spec}, the tensor given for it {given}"));
            }
            if given.layout.may_overlap_itself() {
                return Err(format!("result {k}: elements of {given} overlap"));
            }
            let storage = self.slots.storage_of(target.id);
            let mut others = call.inputs.iter().chain(&into[..k]);
            if others.any(|o| self.slots.storage_of(o.id) == storage) {
                return Err(format!(
                    "result {k} shares its storage with another operand; use an op in place"
                ));
            }
        }
        Ok(())
    }

    /// Refuses an operand in the memory of a device that the stream does not use. A stream uses its
    /// own memory, and reads or writes the others that its facts name. A function of the program
    /// gets no memory from the machine: its operands order it, wherever they lie.
    pub(super) fn check_device(
        &self,
        stream: StreamId,
        op: &str,
        operand: &Operand,
    ) -> Result<(), String> {
        let track = &self.streams[stream.index()];
        let arena: ArenaId = self.slots.storage(self.slots.storage_of(operand.tensor)).arena;
        if arena == track.memory || op == CLOSURE {
            return Ok(());
        }
        let device = self.planner.device(arena);
        let reads = !operand.access.writes()
            && (track.reads.contains(device) || op == "copy" && track.copies.contains(device));
        if reads || track.writes.contains(device) {
            return Ok(());
        }
        let memory = self.planner.device(track.memory);
        let (tensor, key) = (operand.tensor, &track.decl.key);
        let how = copies_between(device, memory).map_or_else(String::new, |copies| {
            format!("; copy it first, by the op copy on {copies}")
        });
        Err(format!("{tensor} lies on {device}, and {key} works on {memory}{how}"))
    }

    fn views(
        &mut self,
        sink: &mut dyn Sink,
        call: &Call<'_>,
        specs: &[TensorSpec],
        signature: &Signature,
    ) -> Result<Outputs> {
        // The call emits all views or none: every check comes before the first emission.
        let mut made: SmallVec<[(TensorRef, TensorSpec); 2]> = SmallVec::new();
        for output in &signature.outputs {
            if let OutputSpec::View { of, layout, dtype } = output {
                let spec = TensorSpec::new(dtype.unwrap_or(specs[*of].dtype), layout.clone())?;
                let bytes = self.storage_bytes(call.inputs[*of])?;
                if spec.span_bytes() as u64 > bytes {
                    let message = format!("{spec} reaches past a storage of {bytes} bytes");
                    return Err(Error::Invalid { what: "view", message });
                }
                made.push((call.inputs[*of], spec));
            }
        }
        made.into_iter()
            .map(|(of, spec)| self.view(sink, of, spec, call.origin).map(Output::Tensor))
            .collect()
    }

    fn outputs(
        &mut self,
        sink: &mut dyn Sink,
        call: &Call<'_>,
        specs: &[TensorSpec],
        signature: &Signature,
        made: &[TensorRef],
    ) -> Result<Outputs> {
        let mut made = made.iter().copied();
        let mut outputs = Outputs::new();
        let missing = || Error::Internal { message: "an output was not made".to_owned() };
        for output in &signature.outputs {
            outputs.push(match output {
                OutputSpec::Same(input) => Output::Same(*input),
                OutputSpec::Fresh(_) => Output::Tensor(made.next().ok_or_else(missing)?),
                OutputSpec::Bounded(_) => Output::Bounded {
                    data: made.next().ok_or_else(missing)?,
                    count: made.next().ok_or_else(missing)?,
                },
                OutputSpec::View { of, layout, dtype } => {
                    let spec = TensorSpec::new(dtype.unwrap_or(specs[*of].dtype), layout.clone())?;
                    Output::Tensor(self.view(sink, call.inputs[*of], spec, call.origin)?)
                }
            });
        }
        Ok(outputs)
    }
}

/// Returns the stream that copies from one memory to another; none within the host's memory, where
/// any stream copies.
fn copies_between(from: &DeviceId, to: &DeviceId) -> Option<StreamKey> {
    match (from.is_host(), to.is_host()) {
        (true, true) => None,
        (false, true) => Some(StreamKey::new(from.clone(), StreamType::DEVICE2HOST, 0)),
        (_, false) => Some(StreamKey::new(to.clone(), StreamType::HOST2DEVICE, 0)),
    }
}

/// Returns the descriptions of the tensors that a call makes, in the order of its operands.
///
/// # Errors
/// A shape is too large for any memory.
pub fn fresh_specs(signature: &Signature) -> Result<SmallVec<[TensorSpec; 2]>> {
    let mut specs = SmallVec::new();
    for output in &signature.outputs {
        match output {
            OutputSpec::Fresh(spec) => specs.push(spec.clone()),
            OutputSpec::Bounded(bound) => {
                specs.push(bound.clone());
                specs.push(TensorSpec::contiguous(DType::I64, &[])?);
            }
            OutputSpec::View { .. } | OutputSpec::Same(_) => {}
        }
    }
    Ok(specs)
}
