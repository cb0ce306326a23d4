//! The ids that an instruction names: visiting them, and replacing them.
//!
//! The master table gives each field a [`Role`]; [`Ids`] says for each type of field which ids it
//! holds. From both, the table generates [`Body::visit_ids`] and [`Body::remap`], so that no other
//! code lists the fields of a kind in order to count or to renumber.
//!
//! [`Body::visit_ids`]: crate::Body::visit_ids
//! [`Body::remap`]: crate::Body::remap

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_types::{
    Attrs, CallbackId, EventId, ListId, OpId, Point, ReadId, StreamId, TensorId, TensorSpec,
};

use crate::instruction::{Operand, Operands, Part, Placement, Priority, Resolution, Via};
use crate::planner::ArenaId;

/// What an instruction does with the ids of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The point that the instruction takes in its stream's order.
    Takes,
    /// A point that must have completed before what follows.
    Awaits,
    /// An id that begins to mean something here.
    Defines,
    /// An id that means nothing after this.
    Ends,
    /// An id that was defined before, or elsewhere.
    Uses,
}

/// An id that an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// A stream.
    Stream(StreamId),
    /// A point in a stream's order.
    Point(Point),
    /// A tensor.
    Tensor(TensorId),
    /// An event.
    Event(EventId),
    /// An arena.
    Arena(ArenaId),
    /// An op.
    Op(OpId),
    /// An executable.
    List(ListId),
    /// A host read.
    Read(ReadId),
    /// A host callback.
    Callback(CallbackId),
}

/// New ids for old ones. A method that is not overridden keeps the id.
///
/// [`Body::remap`](crate::Body::remap) asks for the ids of an instruction in the order of its
/// fields, ids that the instruction defines last.
pub trait Remap {
    /// Why an id has no new one.
    type Error;

    /// Returns the new id of a stream.
    ///
    /// # Errors
    /// There is none.
    fn stream(&mut self, id: StreamId) -> Result<StreamId, Self::Error> {
        Ok(id)
    }

    /// Returns the new point. Unless overridden, the stream's new id with the same number.
    ///
    /// # Errors
    /// There is none.
    fn point(&mut self, point: Point) -> Result<Point, Self::Error> {
        Ok(Point::new(self.stream(point.stream)?, point.seq))
    }

    /// Returns the new id of a tensor.
    ///
    /// # Errors
    /// There is none.
    fn tensor(&mut self, id: TensorId, role: Role) -> Result<TensorId, Self::Error> {
        let _ = role;
        Ok(id)
    }

    /// Returns the new operand. Unless overridden, the tensor's new id with the same access.
    ///
    /// # Errors
    /// There is none.
    fn operand(&mut self, operand: Operand) -> Result<Operand, Self::Error> {
        Ok(Operand { tensor: self.tensor(operand.tensor, Role::Uses)?, ..operand })
    }

    /// Returns the new id of an event.
    ///
    /// # Errors
    /// There is none.
    fn event(&mut self, id: EventId, role: Role) -> Result<EventId, Self::Error> {
        let _ = role;
        Ok(id)
    }

    /// Returns the new id of an arena.
    ///
    /// # Errors
    /// There is none.
    fn arena(&mut self, id: ArenaId) -> Result<ArenaId, Self::Error> {
        Ok(id)
    }

    /// Returns the new id of an op.
    ///
    /// # Errors
    /// There is none.
    fn op(&mut self, id: OpId) -> Result<OpId, Self::Error> {
        Ok(id)
    }

    /// Returns the new id of an executable.
    ///
    /// # Errors
    /// There is none.
    fn list(&mut self, id: ListId) -> Result<ListId, Self::Error> {
        Ok(id)
    }

    /// Returns the new id of a host read.
    ///
    /// # Errors
    /// There is none.
    fn read(&mut self, id: ReadId) -> Result<ReadId, Self::Error> {
        Ok(id)
    }

    /// Returns the new id of a host callback.
    ///
    /// # Errors
    /// There is none.
    fn callback(&mut self, id: CallbackId) -> Result<CallbackId, Self::Error> {
        Ok(id)
    }
}

/// A type of field, as holder of ids.
pub trait Ids {
    /// Replaces each id of the field.
    ///
    /// # Errors
    /// An id has no new one.
    fn remap<R: Remap>(&mut self, role: Role, map: &mut R) -> Result<(), R::Error>;

    /// Returns the content of the field.
    fn part(&self) -> Part<'_>;
}

macro_rules! plain_ids {
    ($($ty:ident, $id:ident, $method:ident;)*) => {$(
        impl Ids for $ty {
            fn remap<R: Remap>(&mut self, _: Role, map: &mut R) -> Result<(), R::Error> {
                *self = map.$method(*self)?;
                Ok(())
            }
            #[inline]
            fn part(&self) -> Part<'_> {
                Part::Id(Id::$id(*self))
            }
        }
    )*};
}

plain_ids! {
    StreamId, Stream, stream;
    ArenaId, Arena, arena;
    OpId, Op, op;
    ListId, List, list;
    ReadId, Read, read;
    CallbackId, Callback, callback;
}

macro_rules! ids_with_roles {
    ($($ty:ident, $id:ident, $method:ident;)*) => {$(
        impl Ids for $ty {
            fn remap<R: Remap>(&mut self, role: Role, map: &mut R) -> Result<(), R::Error> {
                *self = map.$method(*self, role)?;
                Ok(())
            }
            #[inline]
            fn part(&self) -> Part<'_> {
                Part::Id(Id::$id(*self))
            }
        }
    )*};
}

ids_with_roles! {
    TensorId, Tensor, tensor;
    EventId, Event, event;
}

impl Ids for Point {
    fn remap<R: Remap>(&mut self, _: Role, map: &mut R) -> Result<(), R::Error> {
        *self = map.point(*self)?;
        Ok(())
    }
    #[inline]
    fn part(&self) -> Part<'_> {
        Part::Point(self)
    }
}

impl Ids for Operand {
    fn remap<R: Remap>(&mut self, _: Role, map: &mut R) -> Result<(), R::Error> {
        *self = map.operand(*self)?;
        Ok(())
    }
    #[inline]
    fn part(&self) -> Part<'_> {
        Part::Operands(std::slice::from_ref(self))
    }
}

macro_rules! lists_of_ids {
    ($($list:ty, $part:expr;)*) => {$(
        impl Ids for $list {
            fn remap<R: Remap>(&mut self, role: Role, map: &mut R) -> Result<(), R::Error> {
                self.iter_mut().try_for_each(|item| item.remap(role, map))
            }
            #[inline]
            fn part(&self) -> Part<'_> {
                $part(self)
            }
        }
    )*};
}

lists_of_ids! {
    Operands, Part::Operands;
    SmallVec<[Point; 4]>, Part::Points;
    SmallVec<[TensorId; 4]>, Part::Tensors;
}

impl Ids for Via {
    fn remap<R: Remap>(&mut self, role: Role, map: &mut R) -> Result<(), R::Error> {
        match self {
            Via::Device(event) => event.remap(role, map),
            Via::Host => Ok(()),
        }
    }
    #[inline]
    fn part(&self) -> Part<'_> {
        Part::Via(*self)
    }
}

impl Ids for Resolution {
    fn remap<R: Remap>(&mut self, role: Role, map: &mut R) -> Result<(), R::Error> {
        match self {
            Resolution::Implied(point) => point.remap(role, map),
            Resolution::Device | Resolution::Host | Resolution::Known | Resolution::Fenced => {
                Ok(())
            }
        }
    }
    #[inline]
    fn part(&self) -> Part<'_> {
        match self {
            Resolution::Implied(point) => Part::Point(point),
            Resolution::Device | Resolution::Host | Resolution::Known | Resolution::Fenced => {
                Part::Other
            }
        }
    }
}

impl Ids for Placement {
    fn remap<R: Remap>(&mut self, role: Role, map: &mut R) -> Result<(), R::Error> {
        self.arena.remap(role, map)
    }
    #[inline]
    fn part(&self) -> Part<'_> {
        Part::Placement(self)
    }
}

macro_rules! without_ids {
    ($($ty:ty, $of:ident => $part:expr;)*) => {$(
        impl Ids for $ty {
            fn remap<R: Remap>(&mut self, _: Role, _: &mut R) -> Result<(), R::Error> {
                Ok(())
            }
            #[inline]
            fn part(&self) -> Part<'_> {
                let $of = self;
                $part
            }
        }
    )*};
}

without_ids! {
    Arc<Attrs>, _attrs => Part::Other;
    Priority, _priority => Part::Other;
    TensorSpec, spec => Part::Spec(spec);
}

impl<T: Ids> Ids for Box<T> {
    fn remap<R: Remap>(&mut self, role: Role, map: &mut R) -> Result<(), R::Error> {
        (**self).remap(role, map)
    }
    #[inline]
    fn part(&self) -> Part<'_> {
        (**self).part()
    }
}

impl<T: Ids> Ids for Option<T> {
    fn remap<R: Remap>(&mut self, role: Role, map: &mut R) -> Result<(), R::Error> {
        self.as_mut().map_or(Ok(()), |field| field.remap(role, map))
    }
    #[inline]
    fn part(&self) -> Part<'_> {
        self.as_ref().map_or(Part::Other, T::part)
    }
}
