//! The values that forms are made of: how each reads in the JSON Schema.
//!
//! These types hold nothing. A form says `At<'a, DTypeName>`, and the code that reads the field
//! asks for a dtype there.

use std::borrow::Cow;
use std::marker::PhantomData;

use millstream_types::{DType, StreamMode, StreamType};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::json::At;

impl<T: JsonSchema> JsonSchema for At<'_, T> {
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

/// Objects of the form `T`, by name.
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

macro_rules! words {
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

words! {
    /// The version of the format.
    Version, true, _ => json_schema!({ "const": 1 });
    /// The value `true`.
    True, true, _ => json_schema!({ "const": true });
    /// A name.
    Name, true, _ => json_schema!({ "type": "string", "minLength": 1, "maxLength": 255 });
    /// A name or a list of names.
    Names, false, generator => {
        let name = generator.subschema_for::<Name>();
        json_schema!({ "anyOf": [name.clone(), { "type": "array", "items": name }] })
    };
    /// A dtype's name.
    DTypeName, false, _ => {
        json_schema!({ "type": "string", "enum": DType::ALL.map(DType::name) })
    };
    /// A device's name.
    DeviceName, false, _ => {
        json_schema!({ "type": "string", "pattern": "^[a-z0-9_-]+(:[0-9]+)?$" })
    };
    /// A stream type's name.
    StreamTypeName, false, _ => {
        json_schema!({
            "type": "string",
            "pattern": "^[a-z][a-z0-9_-]{0,63}$",
            "examples": StreamType::BUILT_IN.map(StreamType::name),
        })
    };
    /// A stream mode's name.
    ModeName, false, _ => {
        json_schema!({ "type": "string", "enum": MODES.map(StreamMode::name) })
    };
    /// One element.
    Scalar, false, _ => json_schema!({ "anyOf": [
        { "type": ["number", "boolean"] },
        { "type": "string", "enum": ["inf", "-inf", "nan"] }
    ] });
    /// Elements, nested or flat.
    Values, false, generator => {
        let scalar = generator.subschema_for::<Scalar>();
        let nested = generator.subschema_for::<Values>();
        json_schema!({ "anyOf": [scalar, { "type": "array", "items": nested }] })
    };
    /// Arguments of an op, by name.
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
