//! The master table of instructions.
//!
//! The table generates everything that knows instructions one by one: the enum, the printer, the
//! parser, the visitor and the renumbering of ids, the queries of an instruction's point, operands
//! and memory, the facts about each kind, and docs/instructions.md. A new instruction is a change
//! here.
//!
//! A kind states its fields, each with its type, the label that stands before it in the text form,
//! and in brackets its [`Role`] unless that is [`Role::Uses`]; its [`Class`], with `[SideEffect]`
//! if it has one; what it does to its operands; and the streams that run it, by the kinds of work
//! that these accept.
//!
//! Long because every kind of instruction is in one table.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_ops::closure::NAME;
use millstream_types::{
    AttrValue, Attrs, CallbackId, EventId, ListId, OpId, Origin, Point, ReadId, StreamId, TensorId,
    TensorSpec, WorkKind, WorkSet,
};

use crate::ids::{Id, Ids, Remap, Role};
use crate::instruction::{
    Accesses, Class, Operand, Operands, Part, Placement, Priority, Resolution, RunsOn, Via,
};
use crate::text::field::Field;
use crate::text::{OpNames, TextError};
use millstream_types::text::Cursor;

/// The text of the reference page about an instruction.
#[derive(Clone, Copy, Debug)]
pub struct KindDoc {
    /// Its group.
    pub group: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Its operands, as the text form writes them.
    pub fields: &'static [(&'static str, &'static str)],
    /// How it uses its operands.
    pub accesses: &'static str,
    /// What its use of streams needs beyond [`Kind::runs_on`].
    pub streams: &'static str,
    /// When it counts as complete.
    pub complete: &'static str,
    /// How it can fail.
    pub errors: &'static str,
}

macro_rules! role {
    () => {
        Role::Uses
    };
    ($role:ident) => {
        Role::$role
    };
}

macro_rules! side_effect {
    () => {
        false
    };
    (SideEffect) => {
        true
    };
}

macro_rules! runs_on {
    (Nowhere) => {
        RunsOn::Nowhere
    };
    (Anywhere) => {
        RunsOn::Anywhere
    };
    (Accepting $($kind:ident)+) => {
        RunsOn::Accepting(WorkSet::of(&[$(WorkKind::$kind),+]))
    };
}

macro_rules! instructions {
    ($(
        $(#[doc = $meaning:literal])+
        $name:ident $group:literal {
            $($(#[doc = $field_doc:literal])+
            $field:ident: $ty:ty $([$role:ident])? = $label:literal,)*
        }
        class $class:ident $([$side_effect:ident])?
        accesses $uses:ident $accesses:literal
        streams $rule:ident $([$($work:ident),+])? $($note:literal)?
        complete $complete:literal
        errors $errors:literal
    )*) => {
        /// An instruction's kind and operands.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Body {
            $($(#[doc = $meaning])+ $name { $($(#[doc = $field_doc])+ $field: $ty,)* },)*
        }

        /// An instruction's kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $meaning])+ $name,)*
        }

        impl Kind {
            /// Every kind, in the order of the table.
            pub const ALL: &[Kind] = &[$(Kind::$name),*];

            /// Returns the name used in text forms and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$name => stringify!($name),)* }
            }

            /// Returns what instructions of this kind do to the state of a run.
            pub const fn class(self) -> Class {
                match self { $(Kind::$name => Class::$class,)* }
            }

            /// Whether the host, another rank, another list or a section outside could tell whether
            /// and when an instruction of this kind runs. Calls of some ops have a side effect
            /// although their kind has none.
            pub const fn has_side_effect(self) -> bool {
                match self { $(Kind::$name => side_effect!($($side_effect)?),)* }
            }

            /// Returns what instructions of this kind do to their operands. The builder states each
            /// operand's access by itself; this is for those who check it.
            pub const fn accesses(self) -> Accesses {
                match self { $(Kind::$name => Accesses::$uses,)* }
            }

            /// Returns the streams that run instructions of this kind.
            pub const fn runs_on(self) -> RunsOn {
                match self { $(Kind::$name => runs_on!($rule $($($work)+)?),)* }
            }

            /// Returns the text of the reference page.
            pub const fn doc(self) -> KindDoc {
                match self { $(Kind::$name => KindDoc {
                    group: $group,
                    meaning: concat!($($meaning,)+),
                    fields: &[$((stringify!($field), concat!($($field_doc,)+)),)*],
                    accesses: $accesses,
                    streams: concat!($($note)?),
                    complete: $complete,
                    errors: $errors,
                },)* }
            }
        }

        impl Body {
            /// Returns the instruction's kind.
            pub const fn kind(&self) -> Kind {
                match self { $(Body::$name { .. } => Kind::$name,)* }
            }

            /// Returns the first answer of `ask` about a field.
            #[inline]
            fn find<'a, T>(&'a self, ask: impl Fn(Role, Part<'a>) -> Option<T>) -> Option<T> {
                match self { $(Body::$name { $($field),* } => {
                    $(if let Some(found) = ask(role!($($role)?), $field.part()) {
                        return Some(found);
                    })*
                    None
                })* }
            }

            /// Calls `visit` with each id that the instruction names, in the order of its fields,
            /// ids that it defines last.
            pub fn visit_ids(&self, visit: &mut impl FnMut(Id, Role)) {
                for defines in [false, true] {
                    match self { $(Body::$name { $($field),* } => {
                        $(if (role!($($role)?) == Role::Defines) == defines {
                            $field.part().visit(role!($($role)?), visit);
                        })*
                    })* }
                }
            }

            /// Replaces each id that the instruction names, in the order of
            /// [`visit_ids`](Body::visit_ids).
            ///
            /// # Errors
            /// An id has no new one. The instruction is left half renumbered.
            pub fn remap<R: Remap>(&mut self, map: &mut R) -> Result<(), R::Error> {
                for defines in [false, true] {
                    match self { $(Body::$name { $($field),* } => {
                        $(if (role!($($role)?) == Role::Defines) == defines {
                            $field.remap(role!($($role)?), map)?;
                        })*
                    })* }
                }
                Ok(())
            }

            pub(crate) fn print_fields(&self, out: &mut String, ops: &OpNames) {
                match self { $(Body::$name { $($field),* } => {
                    $($field.print_labelled($label, out, ops);)*
                })* }
            }

            pub(crate) fn parse_fields(
                kind: Kind,
                cursor: &mut Cursor<'_>,
                ops: &mut OpNames,
            ) -> Result<Body, TextError> {
                match kind { $(Kind::$name => Ok(Body::$name {
                    $($field: Field::parse_labelled($label, cursor, ops)?,)*
                }),)* }
            }
        }
    };
}

instructions! {
    /// Runs an op's kernel on its operands.
    OpCall "compute" {
        /// its point
        at: Point [Takes] = "",
        /// the op
        op: OpId = "",
        /// inputs, then new outputs
        operands: Operands = "",
        /// the named arguments
        attrs: Option<Arc<Attrs>> = "",
        /// scratch memory
        workspace: Option<Box<Placement>> = "workspace",
        /// its priority on a pool; 0 is left out
        priority: Priority = "priority",
    }
    class Computes
    accesses Stated "as the op's schema says, operand by operand"
    streams Accepting [Compute, CopyIn, CopyOut, Collective]
    complete "its kernel has finished on the device"
    errors "the kernel's own, or its panic: it poisons its outputs; skipped if an input is poisoned"

    /// Begins a tensor with a storage of its own in this memory.
    AllocateTensor "memory" {
        /// the stream whose earlier waits order it behind the memory's last uses
        on: StreamId = "",
        /// the tensor
        tensor: TensorId [Defines] = "",
        /// dtype, shape and layout
        spec: Box<TensorSpec> = "",
        /// the storage's memory
        placement: Box<Placement> = "as",
    }
    class Begins
    accesses Nothing "write: earlier owners of the memory come before, all uses after"
    streams Anywhere "; takes no point, and comes after all earlier instructions of the stream"
    complete "with all earlier instructions of the stream"
    errors "none while running; the builder refuses it if there is no memory"

    /// Begins a view: a tensor that shares the storage of another one.
    ViewTensor "memory" {
        /// the new tensor
        tensor: TensorId [Defines] = "",
        /// the tensor whose storage it shares
        of: TensorId = "of",
        /// dtype, shape and layout within that storage
        spec: Box<TensorSpec> = "",
    }
    class Begins
    accesses Nothing "none"
    streams Nowhere
    complete "at once: a view costs no kernel"
    errors "none while running"

    /// Ends a tensor. A storage ends with its last tensor. A stream may get its memory again once
    /// the stream's clock covers all uses.
    ReleaseTensor "memory" {
        /// the tensor
        tensor: TensorId [Ends] = "",
    }
    class Ends
    accesses Nothing "none; every use must come before it in the list"
    streams Nowhere
    complete "once every use of the storage has completed"
    errors "none while running"

    /// Uses tensors without reading or writing them: later instructions of the stream come after
    /// the tensors' last writes, and later writes come after it.
    TouchTensors "memory" {
        /// its point
        at: Point [Takes] = "",
        /// the touched tensors
        operands: Operands = "",
    }
    class Orders
    accesses Reads "read"
    streams Anywhere
    complete "everything before it on the stream has completed"
    errors "none: a poisoned tensor can be touched"

    /// Notes that a stream needed a point of another one, and how the need was resolved. It does
    /// nothing itself: a wait that the need caused follows it.
    SoftSyncStream "ordering" {
        /// the stream that needs the point
        on: StreamId = "",
        /// the point
        needs: Point = "needs",
        /// the tensors whose uses need it
        tensors: SmallVec<[TensorId; 4]> = "for",
        /// how it was resolved
        resolution: Resolution = "",
    }
    class Annotates
    accesses Nothing "none"
    streams Anywhere
    complete "at once"
    errors "none"

    /// Records an event at a point of a stream, for other streams to wait for on the device.
    RecordEvent "ordering" {
        /// its point
        at: Point [Takes] = "",
        /// the event
        event: EventId [Defines] = "",
    }
    class Records
    accesses Nothing "none"
    streams Anywhere
    complete "everything before it on the stream has completed"
    errors "a device that refuses: the stream's later work fails with it"

    /// Orders a stream behind a point of another one.
    StreamWaitEvent "ordering" {
        /// its point
        at: Point [Takes] = "",
        /// the point to wait for
        until: Point [Awaits] = "until",
        /// by the device, with an event, or by the host, for exactly that point
        via: Via = "",
    }
    class Waits
    accesses Nothing "none"
    streams Anywhere "; by device only where the catalog says the two streams can"
    complete "the point, and everything before it on its own stream, have completed"
    errors "a device that refuses: the stream's later work fails with it"

    /// Records and waits in one: orders a stream behind all earlier instructions of another one. By
    /// device it takes a point of both streams; by host it waits for the other one's last point.
    StreamWait "ordering" {
        /// its point on the waiting stream
        at: Point [Takes] = "",
        /// its point on the other stream; by host, that stream's last point
        until: Point [Awaits] = "until",
        /// by the device, with an event, or by the host
        via: Via [Defines] = "",
    }
    class Waits
    accesses Nothing "none"
    streams Anywhere ", two of them"
    complete "on each stream, once everything before it there has; on the waiting one the point too"
    errors "as RecordEvent and StreamWaitEvent"

    /// Orders all later instructions of all streams behind all earlier ones.
    Barrier "ordering" {
        /// its point
        at: Point [Takes] = "",
    }
    class Fences
    accesses Nothing "none"
    streams Accepting [Barrier]
    complete "every earlier instruction on every stream has completed"
    errors "none"

    /// A barrier of all ranks. With one rank, the same as a barrier.
    GlobalSync "ordering" {
        /// its point
        at: Point [Takes] = "",
    }
    class Fences [SideEffect]
    accesses Nothing "none"
    streams Accepting [Barrier]
    complete "every earlier instruction on every stream has completed, on every rank"
    errors "a rank that does not reach it"

    /// Notes that the host waited for these points: all later instructions come after them.
    HostObserved "ordering" {
        /// the points
        points: SmallVec<[Point; 4]> [Awaits] = "",
    }
    class Observes
    accesses Nothing "none"
    streams Nowhere
    complete "at once, as the points have completed; a replayed list waits for them here"
    errors "none"

    /// Calls a function of the program with a tensor's memory on the host.
    AccessBlobByCallback "host" {
        /// its point
        at: Point [Takes] = "",
        /// the tensor and how the function uses it
        operand: Operand = "",
        /// the function, in the machine's table; a list with one cannot be replayed from its text
        callback: CallbackId = "",
    }
    class Computes [SideEffect]
    accesses Stated "as the operand says"
    streams Accepting [Compute, CopyOut]
    complete "the function has returned; it runs on a host worker, the stream waits meanwhile"
    errors "the function's own, or its panic: poisons its output; skipped if its input is poisoned"

    /// Copies a tensor's data to the host.
    SyncRead "host" {
        /// its point
        at: Point [Takes] = "",
        /// the tensor
        operand: Operand = "",
        /// the destination, in the machine's table
        into: ReadId [Defines] = "into",
    }
    class Computes [SideEffect]
    accesses Reads "read"
    streams Accepting [Compute, CopyOut]
    complete "the bytes, in row-major order without gaps, are in host memory"
    errors "a copy that fails; the reader gets the poison of the tensor"

    /// Begins an exclusive hold of its operands: it comes after all earlier uses, and until it ends
    /// only instructions within the section may use them.
    CriticalSectionBegin "regions" {
        /// its point
        at: Point [Takes] = "",
        /// the held tensors
        operands: Operands = "",
    }
    class Orders [SideEffect]
    accesses Holds "read and write for order; the values do not change"
    streams Accepting [Section]
    complete "every earlier use of the operands has completed"
    errors "none"

    /// Ends an exclusive hold: it comes after all uses within the section and before all later
    /// ones.
    CriticalSectionEnd "regions" {
        /// its point
        at: Point [Takes] = "",
        /// the held tensors, as the section's begin names them
        operands: Operands = "",
    }
    class Orders [SideEffect]
    accesses Holds "read and write for order; the values do not change"
    streams Accepting [Section]
    complete "every use within the section has completed"
    errors "none"

    /// Launches an executable: runs its list as one instruction.
    LazyJobLauncher "regions" {
        /// its point
        at: Point [Takes] = "",
        /// the executable
        list: ListId = "",
        /// its formals, with the list's accesses to them, then its private memory
        operands: Operands = "",
        /// the list's scalars, by name
        attrs: Option<Arc<Attrs>> = "",
    }
    class Computes [SideEffect]
    accesses Stated "the union of the list's"
    streams Accepting [Job]
    complete "every instruction of the list has"
    errors "those of its instructions, each with its own operands"
}

/// An instruction: its kind and operands, and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Kind and operands.
    pub body: Body,
    /// Its place in the program.
    pub origin: Origin,
}

/// The content of the first field of this kind, and of this role if one is given.
macro_rules! part {
    ($body:ident, $part:pat $(if $wanted:expr)? => $value:expr) => {
        $body.find(|_role, part| match part {
            $part $(if _role == $wanted)? => Some($value),
            _ => None,
        })
    };
}

impl Body {
    /// Returns the point that the instruction takes in its stream's order, if it takes one.
    #[inline]
    pub fn at(&self) -> Option<Point> {
        part!(self, Part::Point(point) if Role::Takes => *point)
    }

    /// Returns the single point that the instruction waits for, if there is one.
    #[inline]
    pub fn until(&self) -> Option<Point> {
        part!(self, Part::Point(point) if Role::Awaits => *point)
    }

    /// Returns the points that the instruction comes after, or that all later ones do.
    pub fn awaited(&self) -> &[Point] {
        let found = self.find(|role, part| match part {
            Part::Point(point) if role == Role::Awaits => Some(std::slice::from_ref(point)),
            Part::Points(points) if role == Role::Awaits => Some(points),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Returns the means of the instruction's wait, if it waits.
    pub fn via(&self) -> Option<Via> {
        part!(self, Part::Via(via) => via)
    }

    /// Returns the stream that the instruction names beside its points, if it names one.
    pub fn on(&self) -> Option<StreamId> {
        part!(self, Part::Id(Id::Stream(stream)) => stream)
    }

    /// Returns the op that the instruction calls, if it calls one.
    pub fn op(&self) -> Option<OpId> {
        part!(self, Part::Id(Id::Op(op)) => op)
    }

    /// Returns the executable that the instruction launches, if it launches one.
    pub fn list(&self) -> Option<ListId> {
        part!(self, Part::Id(Id::List(list)) => list)
    }

    /// Returns the tensors that the instruction uses, and how it uses each.
    #[inline]
    pub fn operands(&self) -> &[Operand] {
        part!(self, Part::Operands(operands) => operands).unwrap_or_default()
    }

    /// Returns the memory that begins to be used with the instruction: a storage's or a call's
    /// workspace.
    pub fn placement(&self) -> Option<&Placement> {
        part!(self, Part::Placement(placement) => placement)
    }

    /// Returns the tensor that begins with the instruction, with its description.
    pub fn begins(&self) -> Option<(TensorId, &TensorSpec)> {
        self.tensor(Role::Defines).zip(part!(self, Part::Spec(spec) => spec))
    }

    /// Returns the tensor whose storage the begun tensor shares, if the instruction begins a view.
    pub fn view_of(&self) -> Option<TensorId> {
        self.tensor(Role::Uses)
    }

    /// Returns the tensor that ends with the instruction.
    pub fn ends(&self) -> Option<TensorId> {
        self.tensor(Role::Ends)
    }

    fn tensor(&self, wanted: Role) -> Option<TensorId> {
        part!(self, Part::Id(Id::Tensor(tensor)) if wanted => tensor)
    }

    /// Returns the second point that a `StreamWait` by device takes: its record, on the stream that
    /// it waits for.
    pub const fn second_point(&self) -> Option<Point> {
        if let Body::StreamWait { until, via: Via::Device(_), .. } = self {
            return Some(*until);
        }
        None
    }

    /// Returns what the instruction does to the state of a run.
    #[inline]
    pub const fn class(&self) -> Class {
        self.kind().class()
    }

    /// Returns the name of the function of the program that the instruction runs, if it runs one
    /// that has a name: no other op has such an argument.
    pub fn function_name(&self) -> Option<&str> {
        let Body::OpCall { attrs: Some(attrs), .. } = self else { return None };
        match attrs.get(NAME) {
            Some(AttrValue::Str(name)) => Some(name),
            _ => None,
        }
    }
}
