//! The types of fields: how they are read, and their JSON Schemas.
//!
//! Some hold no data. A form has a field of type `Raw<'a, Name>`; the reader of the field knows
//! which names there are.

use std::borrow::Cow;
use std::marker::PhantomData;

use millstream_types::nearest::nearest;
use millstream_types::{ByteCount, DType, DeviceId, Dims, StreamMode, StreamType};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::error::Result;
use crate::field::{Expected, Field};
use crate::json::{At, Raw, Reader};

/// Defines the schema of a type as that of another one.
macro_rules! same_schema {
    ($($ty:ty where T: $bound:path = $of:ty;)*) => {$(
        impl<'a, T: $bound> JsonSchema for $ty {
            fn inline_schema() -> bool {
                <$of>::inline_schema()
            }
            fn schema_name() -> Cow<'static, str> {
                <$of>::schema_name()
            }
            fn schema_id() -> Cow<'static, str> {
                <$of>::schema_id()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$of>::json_schema(generator)
            }
        }
    )*};
}

same_schema! {
    Raw<'a, T> where T: JsonSchema = T;
    At<'a, T> where T: Field<'a> = T::Schema;
}

/// An object whose values have the form `T` and whose keys are names.
pub(crate) struct Map<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for Map<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("MapOf{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "minLength": 1, "maxLength": 255 },
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

macro_rules! schema_types {
    ($($(#[$doc:meta])* $name:ident $(($of:ty))?, $inline:literal,
        $generator:pat => $schema:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name $((pub(crate) $of))?;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                $inline
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

schema_types! {
    /// A version of the format.
    Version, true, _ => json_schema!({ "enum": [1, 2] });
    /// Ranks in nested lists.
    NestedRanks, false, generator => {
        let nested = generator.subschema_for::<NestedRanks>();
        json_schema!({
            "type": "array", "minItems": 1,
            "items": { "anyOf": [{ "type": "integer", "minimum": 0 }, nested] },
        })
    };
    /// The value `true`.
    True, true, _ => json_schema!({ "const": true });
    /// A name.
    Name, true, _ => json_schema!({ "type": "string", "minLength": 1, "maxLength": 255 });
    /// The name of an op: one of ours, which editors complete, or a program's own.
    OpName, false, generator => {
        let ops = millstream_ops::families().into_iter().flat_map(|(_, ops)| ops);
        let mut ours: Vec<&str> = ops.map(|op| op.name()).collect();
        ours.sort_unstable();
        let other = generator.subschema_for::<Name>();
        json_schema!({ "anyOf": [{ "enum": ours }, other] })
    };
    /// A name or a list of names.
    Names, false, generator => {
        let name = generator.subschema_for::<Name>();
        json_schema!({ "anyOf": [name.clone(), { "type": "array", "items": name }] })
    };
    /// The name of a dtype.
    DTypeName, false, _ => {
        json_schema!({ "type": "string", "enum": DType::ALL.map(DType::name) })
    };
    /// The name of a device.
    DeviceName, false, _ => {
        json_schema!({ "type": "string", "pattern": "^[a-z0-9_-]+(:[0-9]+)?$" })
    };
    /// A number of bytes, with a unit or without.
    Bytes, false, _ => {
        json_schema!({ "type": "string", "pattern": "^[0-9.]+ ?([KMGTkmgt]i?)?[Bb]?$" })
    };
    /// The name of a stream type.
    StreamTypeName, false, _ => {
        json_schema!({
            "type": "string",
            "pattern": "^[a-z][a-z0-9_-]{0,63}$",
            "examples": StreamType::BUILT_IN.map(StreamType::name),
        })
    };
    /// The name of a stream mode.
    ModeName, false, _ => {
        json_schema!({ "type": "string", "enum": MODES.map(StreamMode::name) })
    };
    /// One element.
    Scalar, false, _ => json_schema!({ "anyOf": [
        { "type": ["number", "boolean"] },
        { "type": "string", "enum": ["inf", "-inf", "nan"] }
    ] });
    /// A floating-point number.
    Float(f64), false, _ => json_schema!({ "anyOf": [
        { "type": "number" },
        { "type": "string", "enum": ["inf", "-inf", "nan"] }
    ] });
    /// Elements, nested or flat.
    Values, false, generator => {
        let scalar = generator.subschema_for::<Scalar>();
        let nested = generator.subschema_for::<Values>();
        json_schema!({ "anyOf": [scalar, { "type": "array", "items": nested }] })
    };
    /// The attributes of an op, by name.
    Attributes, false, _ => json_schema!({
        "type": "object",
        "additionalProperties": { "anyOf": [
            { "type": ["number", "boolean", "string"] },
            { "type": "array", "items": { "anyOf": [
                { "type": "number" }, { "type": "string", "enum": ["inf", "-inf", "nan"] }
            ] } }
        ] }
    });
}

/// Every stream mode.
pub(crate) const MODES: [StreamMode; 2] = [StreamMode::InOrder, StreamMode::Pool];

/// Defines how fields are read: by a method of the reader, which gets the expectation for errors.
macro_rules! fields {
    ($($ty:ty: $schema:ty = $method:ident($what:literal);)*) => {$(
        impl<'a> Field<'a> for $ty {
            type Schema = $schema;
            const WHAT: &'static str = $what;

            fn read(reader: &Reader<'a>, raw: Raw<'a, Self>, what: Expected<'_>) -> Result<Self> {
                reader.$method(raw, what)
            }
        }
    )*};
}

fields! {
    DType: DTypeName = parse("a dtype");
    DeviceId: DeviceName = parse("a device such as cpu:0");
    StreamType: StreamTypeName = parse("a stream type");
    ByteCount: Bytes = parse("a number of bytes, as in \"512MiB\"");
    Cow<'a, str>: String = text("a string");
    StreamMode: ModeName = mode("in-order or pool");
    True: True = always_true("true");
    u32: u32 = number("a non-negative integer");
    u64: u64 = number("a non-negative integer");
    i32: i32 = number("a 32-bit integer");
    i64: i64 = number("an integer");
    f64: f64 = number("a number");
    usize: u64 = size("a non-negative integer");
    Dims: Vec<u64> = lengths("a list of integers");
}

impl<'a> Reader<'a> {
    fn mode(&self, raw: Raw<'a, StreamMode>, what: Expected<'_>) -> Result<StreamMode> {
        let text = self.text(raw, what)?;
        MODES.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let error = self.error(raw.text, format!("unknown stream mode '{text}'"));
            match nearest(&text, MODES.iter().map(|mode| mode.name())) {
                None => error.help("expected in-order or pool"),
                close => error.meant(close),
            }
        })
    }

    fn always_true(&self, raw: Raw<'a, True>, what: Expected<'_>) -> Result<True> {
        match raw.text {
            "true" => Ok(True),
            _ => Err(self.mismatch(raw.cast(), what)),
        }
    }

    fn lengths(&self, raw: Raw<'a, Dims>, what: Expected<'_>) -> Result<Dims> {
        let list = self.list(raw.cast(), what)?.into_iter();
        let of = format!("{} of non-negative integers", what.field);
        list.map(|raw| self.size(raw, &of)).collect()
    }
}
