//! `schema`: prints the JSON Schema of traces.

use std::io::Write;

/// Prints the schema to standard output.
pub(crate) fn run() -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&millstream_trace::schema())?;
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}
