//! `schema`: prints the JSON Schema of traces.

use std::path::Path;

use anyhow::Context;
use millstream_files::write;

/// Prints the schema to standard output.
pub(crate) fn run() -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&millstream_trace::schema())?;
    write(Path::new("-"), text + "\n").context("cannot write to standard output")
}
