//! The parts of instructions.

use std::fmt;

use smallvec::SmallVec;

use crate::ids::{Id, Role};
use millstream_types::{Access, EventId, Point, StreamType, TensorId, TensorSpec, WorkSet};

use crate::planner::ArenaId;

/// A tensor that an instruction uses, and how it uses the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The tensor.
    pub tensor: TensorId,
    /// How the instruction uses it.
    pub access: Access,
}

/// The operands of an instruction; up to four are stored inline.
pub type Operands = SmallVec<[Operand; 4]>;

/// The memory of a tensor's storage or of a call's workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The arena.
    pub arena: ArenaId,
    /// The offset of the first byte in the arena.
    pub offset: u64,
    /// The requested bytes.
    pub size: u64,
    /// The number of this placement among all of its arena, which distinguishes the owners of the
    /// same bytes.
    pub generation: u64,
}

/// The priority of a call. Of a pool's ready calls, those of the highest priority run first, and of
/// these the first of the program. In-order streams ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

/// The means of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// The device orders the stream behind an event.
    Device(EventId),
    /// The stream's worker holds the stream until the point has completed.
    Host,
}

/// The resolution of a need to wait for another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// A wait follows, on the device.
    Device,
    /// A wait follows, by the host.
    Host,
    /// No wait: the waiting stream's clock covers the point.
    Known,
    /// No wait: the host has observed the point, or a barrier stands between.
    Fenced,
    /// No wait: another wait of the same instruction, for this point, implies it.
    Implied(Point),
}

impl Resolution {
    /// Whether no wait was needed.
    pub const fn is_elided(self) -> bool {
        matches!(self, Resolution::Known | Resolution::Fenced | Resolution::Implied(_))
    }

    /// Returns the name used in text forms and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Resolution::Device => "by-device",
            Resolution::Host => "by-host",
            Resolution::Known => "elided-known",
            Resolution::Fenced => "elided-fenced",
            Resolution::Implied(_) => "elided-implied",
        }
    }
}

/// The class of an instruction's kind: what it does to the state of a run.
///
/// Code that treats kinds alike matches over the classes, so that a new kind of a known class
/// changes nothing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Uses its operands' data: by a kernel, by a function of the program's, by a copy to the host,
    /// or by an executable.
    Computes,
    /// Begins a tensor.
    Begins,
    /// Ends a tensor.
    Ends,
    /// Uses its operands for order alone, at a point of one stream.
    Orders,
    /// Records an event.
    Records,
    /// Orders a stream behind a point of another one.
    Waits,
    /// Orders all later instructions of all streams behind all earlier ones.
    Fences,
    /// Orders all later instructions of all streams behind points that the host has seen pass.
    Observes,
    /// Explains other instructions, and does nothing itself.
    Annotates,
}

millstream_types::names! {
    Class: Computes "computes", Begins "begins a tensor", Ends "ends a tensor", Orders "orders",
    Records "records an event", Waits "waits", Fences "orders all streams",
    Observes "orders all streams behind points", Annotates "annotates"
}

/// What instructions of a kind do to their operands, beside what each operand says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accesses {
    /// There are no operands.
    Nothing,
    /// What the operands say.
    Stated,
    /// They read all of them.
    Reads,
    /// They keep all others from them, and change no value.
    Holds,
}

/// The streams that run instructions of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunsOn {
    /// None: the instruction takes effect when the list is read.
    Nowhere,
    /// Every stream.
    Anywhere,
    /// The streams that accept one of these kinds of work.
    Accepting(WorkSet),
}

impl RunsOn {
    /// Whether a stream that accepts `work` runs the instruction.
    pub const fn allows(self, work: WorkSet) -> bool {
        match self {
            RunsOn::Nowhere | RunsOn::Anywhere => true,
            RunsOn::Accepting(kinds) => kinds.intersects(work),
        }
    }
}

/// Lists the built-in types of streams that run the instruction.
impl fmt::Display for RunsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunsOn::Nowhere => f.write_str("none"),
            RunsOn::Anywhere => f.write_str("any"),
            RunsOn::Accepting(_) => {
                let runs = |ty: &StreamType| ty.built_in_work().is_some_and(|w| self.allows(w));
                let types = StreamType::BUILT_IN.into_iter().filter(runs);
                for (k, ty) in types.enumerate() {
                    let comma = if k == 0 { "" } else { ", " };
                    write!(f, "{comma}{ty}")?;
                }
                Ok(())
            }
        }
    }
}

/// The content of a field.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// An id other than those of operands.
    Id(Id),
    /// A point.
    Point(&'a Point),
    /// Any number of points.
    Points(&'a [Point]),
    /// Any number of tensors.
    Tensors(&'a [TensorId]),
    /// Operands.
    Operands(&'a [Operand]),
    /// The description of a tensor.
    Spec(&'a TensorSpec),
    /// Memory.
    Placement(&'a Placement),
    /// The means of a wait.
    Via(Via),
    /// Anything else, or an optional field that is empty.
    Other,
}

impl Part<'_> {
    /// Calls `visit` with each id of the field.
    pub(crate) fn visit(self, role: Role, visit: &mut impl FnMut(Id, Role)) {
        match self {
            Part::Id(id) => visit(id, role),
            Part::Point(point) => visit(Id::Point(*point), role),
            Part::Points(all) => all.iter().for_each(|point| visit(Id::Point(*point), role)),
            Part::Tensors(all) => all.iter().for_each(|id| visit(Id::Tensor(*id), role)),
            Part::Operands(all) => all.iter().for_each(|o| visit(Id::Tensor(o.tensor), role)),
            Part::Placement(placement) => visit(Id::Arena(placement.arena), role),
            Part::Via(Via::Device(event)) => visit(Id::Event(event), role),
            Part::Via(Via::Host) | Part::Spec(_) | Part::Other => {}
        }
    }
}
