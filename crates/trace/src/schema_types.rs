//! Marker types for the fields of forms, with their JSON Schemas.
//!
//! These types hold no data. A form has a field of type `Raw<'a, DTypeName>`; the reader of the
//! field parses the dtype.

use std::borrow::Cow;
use std::marker::PhantomData;

use millstream_types::{DType, StreamMode, StreamType};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::json::Raw;

impl<T: JsonSchema> JsonSchema for Raw<'_, T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
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
    ($($(#[$doc:meta])* $name:ident, $inline:literal, $generator:pat => $schema:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

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
    Float, false, _ => json_schema!({ "anyOf": [
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
