//! The JSON Schema of the native trace.

use serde_json::Value;

use crate::form::TraceForm;

/// The JSON Schema (draft 2020-12) that native traces of this version keep. It cannot say all that
/// loading checks: that names are known, that layouts fit, that events are recorded.
pub fn schema() -> Value {
    schemars::generate::SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<TraceForm<'_>>()
        .to_value()
}
