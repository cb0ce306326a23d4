//! The JSON Schema of the native trace.

use serde_json::Value;

use crate::raw_form::TraceForm;

/// Returns the JSON Schema (draft 2020-12) of native traces of this version. The loader checks more
/// than a schema can express: names are known, layouts fit their storages, events are recorded
/// before they are waited for.
pub fn schema() -> Value {
    schemars::generate::SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<TraceForm<'_>>()
        .to_value()
}
