//! The text form of each type of field.

use std::fmt::Write;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_types::text::{Cursor, TextError, is_word, parse_attrs, print_attrs};
use millstream_types::{
    Access, Attrs, CallbackId, DType, Dims, EventId, Layout, ListId, OpId, Point, ReadId, ScalarId,
    StreamId, TensorId, TensorSpec,
};

use crate::instruction::{Operand, Operands, Placement, Priority, Resolution, Via};
use crate::planner::ArenaId;
use crate::text::OpNames;

/// A type of field of an instruction.
pub trait Field: Sized {
    /// Writes the field.
    fn print(&self, out: &mut String, ops: &OpNames);

    /// Reads the field.
    ///
    /// # Errors
    /// The text is something else.
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError>;

    /// Writes a space, the label if there is one, and the field.
    fn print_labelled(&self, label: &str, out: &mut String, ops: &OpNames) {
        out.push(' ');
        if !label.is_empty() {
            out.push_str(label);
            out.push(' ');
        }
        self.print(out, ops);
    }

    /// Reads the label if there is one, and the field.
    ///
    /// # Errors
    /// The text is something else.
    fn parse_labelled(
        label: &str,
        cursor: &mut Cursor<'_>,
        ops: &mut OpNames,
    ) -> Result<Self, TextError> {
        if !label.is_empty() {
            cursor.expect(label)?;
        }
        Self::parse(cursor, ops)
    }
}

macro_rules! id_fields {
    ($($name:ident $what:literal)*) => {$(
        impl Field for $name {
            fn print(&self, out: &mut String, _: &OpNames) {
                let _ = write!(out, "{self}");
            }
            fn parse(cursor: &mut Cursor<'_>, _: &mut OpNames) -> Result<Self, TextError> {
                cursor.id($name::MARK, $what).map($name)
            }
        }
    )*};
}

id_fields! {
    StreamId "a stream, as in s0"
    TensorId "a tensor, as in %0"
    EventId "an event, as in e0"
    CallbackId "a callback, as in cb0"
    ListId "a list, as in list0"
    ReadId "a read, as in read0"
    ScalarId "a scalar, as in $0"
}

impl Field for ArenaId {
    fn print(&self, out: &mut String, _: &OpNames) {
        let _ = write!(out, "{self}");
    }
    fn parse(cursor: &mut Cursor<'_>, _: &mut OpNames) -> Result<Self, TextError> {
        cursor.id("a", "an arena, as in a0").map(ArenaId)
    }
}

impl Field for OpId {
    fn print(&self, out: &mut String, ops: &OpNames) {
        let _ = match ops.get(*self) {
            Some(name) if is_word(name) => write!(out, "{name}"),
            Some(name) => write!(out, "{name:?}"),
            // An id without a name: the line can be shown, but the parser refuses it.
            None => write!(out, "?{self}"),
        };
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        if cursor.peek() == Some('"') {
            let name = cursor.quoted()?;
            return Ok(ops.id(&name));
        }
        cursor.word("an op's name").map(|name| ops.id(name))
    }
}

impl Field for Point {
    fn print(&self, out: &mut String, _: &OpNames) {
        let _ = write!(out, "{self}");
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        let stream = StreamId::parse(cursor, ops)?;
        cursor.expect(":")?;
        Ok(Point::new(stream, cursor.number("a sequence number")?))
    }
}

impl Field for Access {
    fn print(&self, out: &mut String, _: &OpNames) {
        out.push_str(self.name());
    }
    fn parse(cursor: &mut Cursor<'_>, _: &mut OpNames) -> Result<Self, TextError> {
        [Access::ReadWrite, Access::Read, Access::Write]
            .into_iter()
            .find(|a| cursor.eat(a.name()))
            .ok_or_else(|| cursor.expected("read, write or readwrite"))
    }
}

impl Field for Operand {
    fn print(&self, out: &mut String, _: &OpNames) {
        let _ = write!(out, "{} {}", self.tensor, self.access);
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        let tensor = TensorId::parse(cursor, ops)?;
        Ok(Operand { tensor, access: Access::parse(cursor, ops)? })
    }
}

fn print_list<T: Field>(items: &[T], out: &mut String, ops: &OpNames) {
    out.push('(');
    for (k, item) in items.iter().enumerate() {
        if k > 0 {
            out.push_str(", ");
        }
        item.print(out, ops);
    }
    out.push(')');
}

macro_rules! list_fields {
    ($($list:ty, $item:ty;)*) => {$(
        impl Field for $list {
            fn print(&self, out: &mut String, ops: &OpNames) {
                print_list(self, out, ops);
            }
            fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
                cursor.expect("(")?;
                let items = cursor.items(")", |c| <$item>::parse(c, ops))?;
                Ok(items.into_iter().collect())
            }
        }
    )*};
}

list_fields! {
    Operands, Operand;
    SmallVec<[Point; 4]>, Point;
    SmallVec<[TensorId; 4]>, TensorId;
}

impl Field for Placement {
    fn print(&self, out: &mut String, _: &OpNames) {
        let Placement { arena, offset, size, generation } = self;
        let _ = write!(out, "{size} bytes at {arena}+{offset} generation {generation}");
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        let size = cursor.number("a size in bytes")?;
        cursor.expect("bytes")?;
        cursor.expect("at")?;
        let arena = ArenaId::parse(cursor, ops)?;
        cursor.expect("+")?;
        let offset = cursor.number("an offset in bytes")?;
        cursor.expect("generation")?;
        Ok(Placement { arena, offset, size, generation: cursor.number("a generation")? })
    }
}

impl Field for TensorSpec {
    fn print(&self, out: &mut String, _: &OpNames) {
        let _ = write!(out, "{self}");
    }
    fn parse(cursor: &mut Cursor<'_>, _: &mut OpNames) -> Result<Self, TextError> {
        let lengths = |c: &mut Cursor<'_>| -> Result<Dims, TextError> {
            c.expect("[")?;
            Ok(c.items("]", |c| c.number("a length"))?.into())
        };
        let start = cursor.clone();
        let name = cursor.word("a dtype")?;
        let refused = |e: millstream_types::Error| start.error(e.to_string());
        let dtype: DType = name.parse().map_err(refused)?;
        let shape = lengths(cursor)?;
        let strides = if cursor.eat("strides") { Some(lengths(cursor)?) } else { None };
        let offset = if cursor.eat("offset") { cursor.number("an offset")? } else { 0 };
        let strides = match strides {
            Some(given) => given,
            None => millstream_types::layout::contiguous_strides(&shape).map_err(refused)?,
        };
        let layout = Layout::strided(&shape, &strides, offset).map_err(refused)?;
        TensorSpec::new(dtype, layout).map_err(refused)
    }
}

impl Field for Via {
    fn print(&self, out: &mut String, _: &OpNames) {
        match self {
            Via::Host => out.push_str("by-host"),
            Via::Device(event) => {
                let _ = write!(out, "by-device {event}");
            }
        }
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        if cursor.eat("by-host") {
            Ok(Via::Host)
        } else if cursor.eat("by-device") {
            EventId::parse(cursor, ops).map(Via::Device)
        } else {
            Err(cursor.expected("by-host or by-device"))
        }
    }
}

impl Field for Resolution {
    fn print(&self, out: &mut String, _: &OpNames) {
        out.push_str(self.name());
        if let Resolution::Implied(point) = self {
            let _ = write!(out, " {point}");
        }
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        let plain = [Resolution::Device, Resolution::Host, Resolution::Known, Resolution::Fenced];
        if let Some(found) = plain.into_iter().find(|r| cursor.eat(r.name())) {
            return Ok(found);
        }
        if cursor.eat("elided-implied") {
            return Point::parse(cursor, ops).map(Resolution::Implied);
        }
        Err(cursor.expected("by-device, by-host, elided-known, elided-fenced or elided-implied"))
    }
}

impl Field for Attrs {
    fn print(&self, out: &mut String, _: &OpNames) {
        out.push('{');
        print_attrs(self, ", ", out);
        out.push('}');
    }
    fn parse(cursor: &mut Cursor<'_>, _: &mut OpNames) -> Result<Self, TextError> {
        cursor.expect("{")?;
        parse_attrs(cursor, "}")
    }
}

impl<T: Field> Field for Box<T> {
    fn print(&self, out: &mut String, ops: &OpNames) {
        (**self).print(out, ops);
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        T::parse(cursor, ops).map(Box::new)
    }
}

impl<T: Field> Field for Arc<T> {
    fn print(&self, out: &mut String, ops: &OpNames) {
        (**self).print(out, ops);
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        T::parse(cursor, ops).map(Arc::new)
    }
}

impl Field for Priority {
    fn print(&self, out: &mut String, _: &OpNames) {
        let _ = write!(out, "{}", self.0);
    }
    fn parse(cursor: &mut Cursor<'_>, _: &mut OpNames) -> Result<Self, TextError> {
        let sign = if cursor.eat("-") { -1 } else { 1 };
        let priority = cursor.number::<i64>("a priority")?;
        let priority = priority.checked_mul(sign).and_then(|p| i32::try_from(p).ok());
        priority.map(Priority).ok_or_else(|| cursor.expected("a priority of 32 bits"))
    }
    fn print_labelled(&self, label: &str, out: &mut String, ops: &OpNames) {
        if *self != Priority::default() {
            let _ = write!(out, " {label} ");
            self.print(out, ops);
        }
    }
    /// Reads the default if the label is missing.
    fn parse_labelled(
        label: &str,
        cursor: &mut Cursor<'_>,
        ops: &mut OpNames,
    ) -> Result<Self, TextError> {
        if cursor.eat(label) { Priority::parse(cursor, ops) } else { Ok(Priority::default()) }
    }
}

impl<T: Field> Field for Option<T> {
    fn print(&self, out: &mut String, ops: &OpNames) {
        if let Some(value) = self {
            value.print(out, ops);
        }
    }
    fn parse(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Self, TextError> {
        T::parse(cursor, ops).map(Some)
    }
    fn print_labelled(&self, label: &str, out: &mut String, ops: &OpNames) {
        if let Some(value) = self {
            value.print_labelled(label, out, ops);
        }
    }
    /// Reads none if the label is missing or, for a field without a label, the brace of arguments.
    fn parse_labelled(
        label: &str,
        cursor: &mut Cursor<'_>,
        ops: &mut OpNames,
    ) -> Result<Self, TextError> {
        let present = if label.is_empty() { cursor.peek() == Some('{') } else { cursor.eat(label) };
        if present { T::parse(cursor, ops).map(Some) } else { Ok(None) }
    }
}
