//! Launches of executables: one instruction, whose operands are the executable's formals and its
//! private memory.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_types::{
    Access, Attrs, DeviceId, ListId, Origin, Point, Result, StreamId, TensorSpec,
};

use crate::builder::region::SectionId;
use crate::builder::slot::SpecClass;
use crate::builder::{InstructionsBuilder, Outcome, Sink, TensorRef};
use crate::instruction::{Operand, Operands};
use crate::planner::{ArenaId, Knowledge};
use crate::table::{Body, Kind};

/// A launch of an executable.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The stream, which accepts launches.
    pub stream: StreamId,
    /// The executable.
    pub list: ListId,
    /// Its operands, in order.
    pub operands: &'a [LaunchOperand<'a>],
    /// The scalars of the executable, by name.
    pub attrs: Option<&'a Arc<Attrs>>,
    /// The critical section that the launch is made from.
    pub section: Option<SectionId>,
    /// The launch's place in the program.
    pub origin: &'a Origin,
}

/// An operand of a launch.
#[derive(Clone, Copy, Debug)]
pub enum LaunchOperand<'a> {
    /// A tensor of the program, and the executable's access to it.
    Given(TensorRef, Access),
    /// A new tensor on a device, in a storage of this many bytes, which the executable overwrites.
    Fresh(&'a DeviceId, &'a Arc<TensorSpec>, u64),
}

/// The tensors of a launch's operands, in order.
pub type LaunchTensors = SmallVec<[TensorRef; 4]>;

impl InstructionsBuilder {
    /// Launches an executable: emits its waits, the allocation of its new tensors, and the launch.
    ///
    /// # Errors
    /// A tensor was released or is held, the stream runs no launches, or the memory is used up.
    /// Nothing was emitted.
    pub fn launch(
        &mut self,
        sink: &mut dyn Sink,
        launch: &Launch<'_>,
    ) -> Result<Outcome<(Point, LaunchTensors)>> {
        let Launch { stream, list, attrs, section, origin, .. } = *launch;
        self.runs(stream, Kind::LazyJobLauncher)?;
        let mut sizes: SmallVec<[(ArenaId, u64); 4]> = SmallVec::new();
        let mut fresh: SmallVec<[&Arc<TensorSpec>; 4]> = SmallVec::new();
        for operand in launch.operands {
            match operand {
                LaunchOperand::Given(tensor, _) => self.usable(*tensor, section)?,
                LaunchOperand::Fresh(device, spec, bytes) => {
                    sizes.push((self.planner.arena(device), *bytes));
                    fresh.push(spec);
                }
            }
        }
        let purpose = |_: &InstructionsBuilder, k: usize| {
            format!("{}, memory of an executable", fresh[k].brief())
        };
        let memory = match self.place(sink, stream, &sizes, purpose, origin)? {
            Outcome::Need(need) => return Ok(Outcome::Need(need)),
            Outcome::Done(memory) => memory,
        };
        let mut made = memory.into_iter().zip(fresh);
        let mut tensors = LaunchTensors::new();
        let mut operands = Operands::new();
        for operand in launch.operands {
            let (tensor, access) = match (operand, &mut made) {
                (LaunchOperand::Given(tensor, Access::Write), _) => {
                    (*tensor, self.write_access(*tensor))
                }
                (LaunchOperand::Given(tensor, access), _) => (*tensor, *access),
                (LaunchOperand::Fresh(..), made) => {
                    let Some((memory, spec)) = made.next() else { continue };
                    let class = SpecClass::default();
                    let new = self.begin_classified(sink, stream, spec, class, memory, origin);
                    (new, Access::Write)
                }
            };
            tensors.push(tensor);
            operands.push(Operand { tensor: tensor.id, access });
        }
        self.wait_for_operands(sink, stream, &operands, origin);
        let at = self.next(stream);
        self.note_uses(at, &operands);
        let attrs = attrs.cloned();
        self.emit(sink, Body::LazyJobLauncher { at, list, operands, attrs }, origin);
        Ok(Outcome::Done((at, tensors)))
    }

    /// Whether a use of a live tensor on `stream` needs no wait: the stream's clock covers all
    /// earlier uses that it must come after.
    ///
    /// # Errors
    /// The tensor was released.
    pub fn is_ordered(&self, stream: StreamId, tensor: TensorRef, access: Access) -> Result<bool> {
        self.slots.live(tensor)?;
        let mut is_ordered = true;
        self.for_each_hazard(stream, tensor.id, access, |point| {
            is_ordered &= self.known().knows(stream, point);
        });
        Ok(is_ordered)
    }
}
