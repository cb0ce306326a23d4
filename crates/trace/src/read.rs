//! Reads the text of a file, compressed or not, up to a bound.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::{Result, TraceError};
use crate::sidecar::reason;
use crate::source::Source;

/// The first two bytes of a gzip file. Source: RFC 1952, section 2.3.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads the text of a file, or of standard input for `-`.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<Source> {
    if path == Path::new("-") {
        return text("standard input", io::stdin().lock(), 0, max_bytes);
    }
    let name = path.display().to_string();
    let cannot =
        |e: io::Error| TraceError::of_file(&*name, format!("cannot read it: {}", reason(&e)));
    let file = File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if metadata.is_dir() {
        return Err(TraceError::of_file(name, "cannot read it: it is a directory"));
    }
    // Pipes and devices report a length of 0; `read_bounded` bounds them.
    if metadata.len() > max_bytes {
        return Err(too_long(&name, "it has", max_bytes));
    }
    text(&name, BufReader::new(file), metadata.len(), max_bytes)
}

/// Reads the text of these bytes.
pub(crate) fn text_of(name: &str, bytes: &[u8], max_bytes: u64) -> Result<Source> {
    text(name, bytes, bytes.len() as u64, max_bytes)
}

fn too_long(name: &str, what: &str, max_bytes: u64) -> TraceError {
    TraceError::of_file(name, format!("{what} more than {max_bytes} bytes"))
        .help("move large tensors to sidecar files")
}

fn text(name: &str, mut from: impl BufRead, length: u64, max_bytes: u64) -> Result<Source> {
    let cannot =
        |e: io::Error| TraceError::of_file(name, format!("cannot read it: {}", reason(&e)));
    let start = from.fill_buf().map_err(cannot)?;
    let mut bytes = Vec::new();
    if start.starts_with(&GZIP) {
        read_bounded(MultiGzDecoder::new(from), &mut bytes, max_bytes)
            .map_err(|e| TraceError::of_file(name, format!("broken gzip data: {e}")))?;
        if bytes.len() as u64 > max_bytes {
            return Err(too_long(name, "it expands to", max_bytes));
        }
    } else {
        let memory = |_| TraceError::of_file(name, "it does not fit in memory").of_memory();
        bytes.try_reserve_exact(length as usize).map_err(memory)?;
        read_bounded(from, &mut bytes, max_bytes).map_err(cannot)?;
        if bytes.len() as u64 > max_bytes {
            return Err(too_long(name, "it has", max_bytes));
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::new(name.to_owned(), text)),
        Err(e) => {
            let (at, bytes) = (e.utf8_error().valid_up_to(), e.into_bytes());
            let valid = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let source = Source::new(name.to_owned(), valid);
            let span = source.span(at..at);
            Err(TraceError::at(&source, span, format!("byte {at} is not UTF-8 text")))
        }
    }
}

/// Reads to the end, or to one byte past the bound, so that the caller detects an excess.
fn read_bounded(from: impl Read, bytes: &mut Vec<u8>, max_bytes: u64) -> io::Result<()> {
    from.take(max_bytes.saturating_add(1)).read_to_end(bytes).map(drop)
}
