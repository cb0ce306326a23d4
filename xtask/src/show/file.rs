//! What is written to files.

use std::io::{self, Write};
use std::path::Path;

/// Writes to a file, or to standard output for `-`. A reader that has gone away has seen what it
/// wanted.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let written = match path == Path::new("-") {
        true => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        }
        false => std::fs::write(path, text),
    };
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write {}: {e}", path.display()))
        }
        _ => Ok(()),
    }
}
