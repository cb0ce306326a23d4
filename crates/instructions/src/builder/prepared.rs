//! Prepared calls: the schema is asked once, and the call is made many times on operands of the
//! same classes.
//!
//! Most calls of a program that repeats itself need no wait: the operands are live and not held,
//! and their last uses are on the call's own stream, whose order suffices. (On a pool, its workers
//! keep the order.) Such a call is *plain*: it costs one check of each operand.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_ops::{CallSpec, OutputSpec};
use millstream_types::{
    Access, Attrs, Error, OpId, Origin, Point, Result, StreamId, TensorId, TensorSpec,
};

use crate::builder::slot::SpecClass;
use crate::builder::{InstructionsBuilder, Sink, SyncPolicy, TensorRef};
use crate::instruction::{Operand, Operands, Placement, Priority};
use crate::table::{Body, Instruction, Kind};

/// A call whose schema has been asked: an op, the classes of its operands, and its arguments.
#[derive(Clone, Debug)]
pub struct PreparedCall {
    op: OpId,
    operands: SmallVec<[(SpecClass, Access); 4]>,
    attrs: Option<Arc<Attrs>>,
    /// The priority on a pool.
    pub priority: Priority,
    /// The number that the sink gave the call, if it gave one.
    pub number: Option<u32>,
    /// The sink's number of the function of the program that the next call runs. Recorded lists
    /// omit it.
    pub function: Option<u64>,
    workspace: u64,
}

impl PreparedCall {
    /// Returns the op.
    pub const fn op(&self) -> OpId {
        self.op
    }

    /// Returns how the call uses each operand.
    pub fn accesses(&self) -> impl ExactSizeIterator<Item = Access> + Clone + '_ {
        self.operands.iter().map(|(_, access)| *access)
    }

    /// Returns the named arguments, if there are any.
    pub const fn attrs(&self) -> Option<&Arc<Attrs>> {
        self.attrs.as_ref()
    }

    /// Returns the bytes of scratch memory that each call is given; 0 if it needs none.
    pub const fn workspace(&self) -> u64 {
        self.workspace
    }

    pub(super) const fn new(
        op: OpId,
        operands: SmallVec<[(SpecClass, Access); 4]>,
        attrs: Option<Arc<Attrs>>,
        priority: Priority,
        workspace: u64,
    ) -> PreparedCall {
        PreparedCall { op, operands, attrs, priority, number: None, function: None, workspace }
    }

    pub(super) fn uses(&self, tensors: impl IntoIterator<Item = TensorId>) -> Operands {
        let uses = tensors.into_iter().zip(self.accesses());
        uses.map(|(tensor, access)| Operand { tensor, access }).collect()
    }

    /// Returns the call as an instruction at the point `at`, on the first of `tensors`, with its
    /// scratch memory if it needs some.
    pub fn instruction(
        &self,
        at: Point,
        tensors: impl IntoIterator<Item = TensorId>,
        workspace: Option<&Placement>,
        origin: &Origin,
    ) -> Instruction {
        let PreparedCall { op, priority, .. } = *self;
        let (operands, attrs) = (self.uses(tensors), self.attrs.clone());
        let workspace = workspace.map(|placement| Box::new(*placement));
        let body = Body::OpCall { at, op, operands, attrs, workspace, priority };
        Instruction { body, origin: origin.clone() }
    }
}

impl InstructionsBuilder {
    /// Asks an op's schema once, for a call that is made many times: on these operands, or on
    /// others of the same classes.
    ///
    /// # Errors
    /// The same as those of [`InstructionsBuilder::call`]; or the call makes tensors or needs
    /// scratch memory, which have to be placed anew for each call.
    pub fn prepare(
        &mut self,
        op: OpId,
        inputs: &[TensorRef],
        attrs: &Arc<Attrs>,
    ) -> Result<PreparedCall> {
        let schema = self.ops.get(op).ok_or_else(|| Error::Foreign { what: op.to_string() })?;
        let mut specs: SmallVec<[TensorSpec; 4]> = SmallVec::new();
        for &input in inputs {
            self.usable(input, None)?;
            specs.push(self.slots.spec(input.id).clone());
        }
        let signature = schema.check(CallSpec { inputs: &specs, attrs })?;
        let in_place = signature.outputs.iter().all(|o| matches!(o, OutputSpec::Same(_)));
        if !in_place || signature.workspace > 0 || signature.accesses.len() != inputs.len() {
            let message = "only a call that makes no tensors and wants no scratch memory can be \
                           prepared"
                .to_owned();
            return Err(Error::Op { op: schema.name().to_owned(), message });
        }
        let mut operands = SmallVec::new();
        for (&tensor, &access) in inputs.iter().zip(&signature.accesses) {
            let access = match access {
                Access::Write => self.write_access(tensor),
                other => other,
            };
            operands.push((self.slots.classify(tensor.id), access));
        }
        let attrs = (!attrs.is_empty()).then(|| attrs.clone());
        Ok(PreparedCall::new(op, operands, attrs, Priority::default(), 0))
    }

    /// Emits a prepared call. Checks only the operands' liveness, memory and classes.
    ///
    /// # Errors
    /// An operand is not of the class that the call was prepared for. A tensor was released, is
    /// held, or lies in memory that the stream does not use; or the stream runs no ops.
    #[inline(always)]
    pub fn call_prepared(
        &mut self,
        sink: &mut impl Sink,
        stream: StreamId,
        call: &PreparedCall,
        tensors: &[TensorRef],
        origin: &Origin,
    ) -> Result<Point> {
        if !self.is_plain(stream, call, tensors) {
            self.order_prepared(sink, stream, call, tensors, origin)?;
        }
        let track = &mut self.streams[stream.index()];
        track.seq += 1;
        let at = Point::new(stream, track.seq);
        for (tensor, (_, access)) in tensors.iter().zip(&call.operands) {
            self.slots.used(tensor.id, at, *access);
        }
        self.stats.count(Kind::OpCall);
        sink.emit_prepared(at, call, tensors, None, origin);
        Ok(at)
    }

    /// Whether the call needs neither a wait nor a closer check.
    #[inline(always)]
    fn is_plain(&self, stream: StreamId, call: &PreparedCall, tensors: &[TensorRef]) -> bool {
        let Some(track) = self.streams.get(stream.index()) else { return false };
        let plain = |(tensor, (class, access)): (&TensorRef, &(SpecClass, Access))| {
            self.slots.is_plain(*tensor, *class, track.memory, stream, access.writes())
        };
        track.fence_epoch == self.fence_epoch
            && track.runs_ops
            && self.policy == SyncPolicy::Frontier
            && tensors.len() == call.operands.len()
            && tensors.iter().zip(&call.operands).all(plain)
    }

    /// Checks the operands of a prepared call, and emits the waits that it needs.
    #[cold]
    fn order_prepared(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        call: &PreparedCall,
        tensors: &[TensorRef],
        origin: &Origin,
    ) -> Result<()> {
        self.ready_for(stream, call, tensors)?;
        let accesses = call.operands.iter().map(|(_, access)| *access);
        let uses = tensors.iter().map(|tensor| tensor.id).zip(accesses);
        self.wait_for_uses(sink, stream, uses, origin);
        Ok(())
    }

    fn ready_for(
        &mut self,
        stream: StreamId,
        call: &PreparedCall,
        tensors: &[TensorRef],
    ) -> Result<()> {
        self.runs_kernels(stream)?;
        let memory = self.streams[stream.index()].memory;
        let mut operands = tensors.iter().zip(&call.operands);
        let is_ready = tensors.len() == call.operands.len()
            && operands.all(|(tensor, (class, _))| self.slots.is_ready(*tensor, *class, memory));
        if is_ready { Ok(()) } else { self.check_operands(stream, call, tensors) }
    }

    /// Checks the operands one by one, to name the one that is wrong. All may be right after all.
    #[cold]
    fn check_operands(
        &mut self,
        stream: StreamId,
        call: &PreparedCall,
        tensors: &[TensorRef],
    ) -> Result<()> {
        let op = self.ops.get(call.op).map_or("?", |o| o.name()).to_owned();
        let refused = |message| Error::Op { op: op.clone(), message };
        let (given, wanted) = (tensors.len(), call.operands.len());
        if given != wanted {
            let message = format!("it was prepared with {wanted} operand(s), {given} given");
            return Err(refused(message));
        }
        for (k, (&tensor, &(class, access))) in tensors.iter().zip(&call.operands).enumerate() {
            self.slots.live(tensor)?;
            let given = self.slots.classify(tensor.id);
            if given != class {
                let (given, wanted) =
                    (self.slots.describe_class(given), self.slots.describe_class(class));
                return Err(refused(format!(
                    "operand {k} is {given}, and the call was prepared for {wanted}"
                )));
            }
            self.usable(tensor, None)?;
            let operand = Operand { tensor: tensor.id, access };
            self.check_device(stream, &op, &operand).map_err(refused)?;
        }
        Ok(())
    }
}
