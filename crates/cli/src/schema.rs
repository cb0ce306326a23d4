//! `schema`: prints the JSON Schema of traces.

use std::path::Path;

use millstream_terminal::file;

/// Prints the schema to standard output.
pub(crate) fn run() -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&millstream_trace::schema())?;
    file::write(Path::new("-"), text + "\n").map_err(anyhow::Error::msg)
}
