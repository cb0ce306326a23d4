//! Data written to a file, or to standard output.

use std::io::{self, Write};
use std::path::Path;

/// Writes text or bytes to the file `path`, or to standard output if `path` is `-`. A closed pipe
/// is no error: its reader has seen enough.
///
/// # Errors
/// The file cannot be written. The message names it.
pub fn write(path: &Path, data: impl AsRef<[u8]>) -> Result<(), String> {
    let data = data.as_ref();
    let written = match path == Path::new("-") {
        true => {
            let mut out = io::stdout().lock();
            out.write_all(data).and_then(|()| out.flush())
        }
        false => std::fs::write(path, data),
    };
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write {}: {e}", path.display()))
        }
        _ => Ok(()),
    }
}
