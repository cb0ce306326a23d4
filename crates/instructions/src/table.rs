//! The master table of instructions.
//!
//! Everything that knows instructions one by one is made from this table: the enum, the printer,
//! the parser and docs/instructions.md. A new instruction is a change here.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_types::{
    Attrs, CallbackId, ListId, OpId, Origin, Point, ReadId, StreamId, TensorId, TensorSpec,
};

use crate::instruction::{Operand, Operands, Placement, Priority, Resolution, Via};
use crate::text::cursor::Cursor;
use crate::text::field::Field;
use crate::text::{OpNames, TextError};

/// What the reference page says about an instruction.
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
    /// The types of streams it runs on.
    pub streams: &'static str,
    /// When it counts as complete.
    pub complete: &'static str,
    /// How it can fail.
    pub errors: &'static str,
}

macro_rules! instructions {
    ($(
        $(#[doc = $meaning:literal])+
        $name:ident $group:literal {
            $($(#[doc = $field_doc:literal])+ $field:ident: $ty:ty = $label:literal,)*
        }
        accesses $accesses:literal
        streams $streams:literal
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

            /// The name used in text forms and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$name => stringify!($name),)* }
            }

            /// What the reference page says.
            pub const fn doc(self) -> KindDoc {
                match self { $(Kind::$name => KindDoc {
                    group: $group,
                    meaning: concat!($($meaning,)+),
                    fields: &[$((stringify!($field), concat!($($field_doc,)+)),)*],
                    accesses: $accesses,
                    streams: $streams,
                    complete: $complete,
                    errors: $errors,
                },)* }
            }
        }

        impl Body {
            /// The instruction's kind.
            pub const fn kind(&self) -> Kind {
                match self { $(Body::$name { .. } => Kind::$name,)* }
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
        /// its place
        at: Point = "",
        /// the op
        op: OpId = "",
        /// inputs, then fresh outputs
        operands: Operands = "",
        /// the named arguments
        attrs: Option<Arc<Attrs>> = "",
        /// scratch memory
        workspace: Option<Box<Placement>> = "workspace",
        /// how urgent it is on a pool; 0 is left out
        priority: Priority = "priority",
    }
    accesses "as the op's schema says, operand by operand"
    streams "compute, host2device, device2host, ccl, pinned-compute"
    complete "its kernel has finished on the device"
    errors "the kernel's own, or its panic: what it writes is poisoned; skipped if what it reads is"

    /// Begins a tensor's life: its storage lies here from now on.
    AllocateTensor "memory" {
        /// the stream whose earlier waits make the memory free
        on: StreamId = "",
        /// the tensor
        tensor: TensorId = "",
        /// dtype, shape and layout
        spec: Box<TensorSpec> = "",
        /// the storage's place
        placement: Box<Placement> = "as",
    }
    accesses "write: earlier owners of the memory come before, all uses after"
    streams "any; takes no place of its own there, and stands after what was given so far"
    complete "with what was given to the stream so far"
    errors "none while running; memory that is not there is refused when the list is built"

    /// Begins a view: a tensor that shares another one's storage.
    ViewTensor "memory" {
        /// the new tensor
        tensor: TensorId = "",
        /// the tensor whose storage it shares
        of: TensorId = "of",
        /// dtype, shape and layout within that storage
        spec: Box<TensorSpec> = "",
    }
    accesses "none"
    streams "none"
    complete "at once: a view costs no kernel"
    errors "none while running"

    /// Ends a tensor. A storage ends with its last tensor; its memory is given out again to whoever
    /// knows all its uses to have passed.
    ReleaseTensor "memory" {
        /// the tensor
        tensor: TensorId = "",
    }
    accesses "none; every use must stand before it in the list"
    streams "none"
    complete "once every use of the storage has completed"
    errors "none while running"

    /// Uses tensors without changing or reading them: what follows on the stream comes after their
    /// last writes, and later writes come after it.
    TouchTensors "memory" {
        /// its place
        at: Point = "",
        /// what is touched
        operands: Operands = "",
    }
    accesses "read"
    streams "any"
    complete "everything before it on the stream has completed"
    errors "none: a poisoned tensor can be touched"

    /// Says that a stream needed another one's point, and what became of that. It does nothing
    /// itself: a wait that it caused follows it.
    SoftSyncStream "ordering" {
        /// the stream that needs the point
        on: StreamId = "",
        /// the point
        needs: Point = "needs",
        /// the tensors that made the need
        tensors: SmallVec<[TensorId; 4]> = "for",
        /// how it was resolved
        resolution: Resolution = "",
    }
    accesses "none"
    streams "any"
    complete "at once"
    errors "none"

    /// Marks a place in a stream's order that other streams can wait for on the device.
    RecordEvent "ordering" {
        /// its place
        at: Point = "",
        /// the event
        event: millstream_types::EventId = "",
    }
    accesses "none"
    streams "any"
    complete "everything before it on the stream has completed"
    errors "a device that refuses: the stream's later work is lost with it"

    /// Orders a stream behind a point of another one.
    StreamWaitEvent "ordering" {
        /// its place
        at: Point = "",
        /// the point waited for
        until: Point = "until",
        /// by an event on the device, or by the host for exactly that point
        via: Via = "",
    }
    accesses "none"
    streams "any; by device only where the catalog says the two streams can"
    complete "the point, and everything before it on its own stream, have completed"
    errors "a device that refuses: the stream's later work is lost with it"

    /// Records and waits in one: orders a stream behind all that another one was given so far. By
    /// device it takes a place in both streams; by host, the other one's last place is enough.
    StreamWait "ordering" {
        /// its place on the waiting stream
        at: Point = "",
        /// its place on the stream waited for, or by host that stream's last place
        until: Point = "until",
        /// by an event on the device, or by the host
        via: Via = "",
    }
    accesses "none"
    streams "any two"
    complete "on either stream, once everything before it there has; on the waiting one the point too"
    errors "as RecordEvent and StreamWaitEvent"

    /// Stands between all earlier and all later instructions of all streams.
    Barrier "ordering" {
        /// its place
        at: Point = "",
    }
    accesses "none"
    streams "barrier"
    complete "every earlier instruction on every stream has completed"
    errors "none"

    /// A barrier at which all ranks meet. With one rank, a barrier.
    GlobalSync "ordering" {
        /// its place
        at: Point = "",
    }
    accesses "none"
    streams "barrier"
    complete "every earlier instruction on every stream has completed, on every rank"
    errors "a rank that does not come"

    /// The host has seen these points pass before it went on: everything later comes after them.
    HostObserved "ordering" {
        /// the points
        points: SmallVec<[Point; 4]> = "",
    }
    accesses "none"
    streams "none"
    complete "at once, as the points have completed; a replayed list waits for them here"
    errors "none"

    /// Lets a function of the host's see a tensor's memory.
    AccessBlobByCallback "host" {
        /// its place
        at: Point = "",
        /// the tensor and how the function uses it
        operand: Operand = "",
        /// the function, in the machine's table; a list that has one cannot be replayed from text
        callback: CallbackId = "",
    }
    accesses "as the operand says"
    streams "compute, device2host, pinned-compute"
    complete "the function has returned; it runs on a host worker, the stream waits meanwhile"
    errors "the function's own, or its panic: what it writes is poisoned; skipped if what it reads is"

    /// Reads a tensor back to the host.
    SyncRead "host" {
        /// its place
        at: Point = "",
        /// the tensor
        operand: Operand = "",
        /// where the bytes go, in the machine's table
        into: ReadId = "into",
    }
    accesses "read"
    streams "compute, device2host, pinned-compute"
    complete "the bytes, in row-major order without gaps, are in host memory"
    errors "a copy that fails; poison of the tensor is given to the reader"

    /// Begins an exclusive hold of its operands: all earlier uses come before, and until it ends
    /// they can be used only from within.
    CriticalSectionBegin "regions" {
        /// its place
        at: Point = "",
        /// what is held
        operands: Operands = "",
    }
    accesses "read and write, as far as order goes; the values stay"
    streams "critical-section"
    complete "every earlier use of the operands has completed"
    errors "none"

    /// Ends an exclusive hold: all uses from within come before, all later ones after.
    CriticalSectionEnd "regions" {
        /// its place
        at: Point = "",
        /// what was held, as the section's begin says
        operands: Operands = "",
    }
    accesses "read and write, as far as order goes; the values stay"
    streams "critical-section"
    complete "every use from within has completed"
    errors "none"

    /// Runs a stored list on private streams as one instruction.
    LazyJobLauncher "regions" {
        /// its place
        at: Point = "",
        /// the list
        list: ListId = "",
        /// the union of the list's accesses to tensors from outside
        operands: Operands = "",
    }
    accesses "the union of the list's"
    streams "lazy-job"
    complete "every instruction of the list has"
    errors "those of its instructions, each with its own operands"
}

/// An instruction: what it is and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Kind and operands.
    pub body: Body,
    /// Where it came from.
    pub origin: Origin,
}

impl Body {
    /// The instruction's place in its stream's order, if it takes one. A `StreamWait` takes a
    /// second one, at its `until`.
    pub const fn at(&self) -> Option<Point> {
        match self {
            Body::OpCall { at, .. }
            | Body::TouchTensors { at, .. }
            | Body::RecordEvent { at, .. }
            | Body::StreamWaitEvent { at, .. }
            | Body::StreamWait { at, .. }
            | Body::Barrier { at }
            | Body::GlobalSync { at }
            | Body::AccessBlobByCallback { at, .. }
            | Body::SyncRead { at, .. }
            | Body::CriticalSectionBegin { at, .. }
            | Body::CriticalSectionEnd { at, .. }
            | Body::LazyJobLauncher { at, .. } => Some(*at),
            Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::SoftSyncStream { .. }
            | Body::HostObserved { .. } => None,
        }
    }

    /// The tensors that the instruction uses, and how.
    pub fn operands(&self) -> &[Operand] {
        match self {
            Body::OpCall { operands, .. }
            | Body::TouchTensors { operands, .. }
            | Body::CriticalSectionBegin { operands, .. }
            | Body::CriticalSectionEnd { operands, .. }
            | Body::LazyJobLauncher { operands, .. } => operands,
            Body::AccessBlobByCallback { operand, .. } | Body::SyncRead { operand, .. } => {
                std::slice::from_ref(operand)
            }
            _ => &[],
        }
    }
}
