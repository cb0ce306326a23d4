//! Text written to a file, or to standard output.

use std::io::{self, Write};
use std::path::Path;

/// Writes `text` to the file `path`, or to standard output if `path` is `-`. A closed pipe is no
/// error: its reader has seen enough.
///
/// # Errors
/// The file cannot be written. The message names it.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    write_bytes(path, text.as_bytes())
}

/// Writes bytes as [`write`] writes text.
///
/// # Errors
/// As [`write`].
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let written = match path == Path::new("-") {
        true => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        false => std::fs::write(path, bytes),
    };
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write {}: {e}", path.display()))
        }
        _ => Ok(()),
    }
}
