//! Files to read: compressed or not, with what they are.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use crate::{Result, TimelineError};

/// The first two bytes of a gzip file. Source: RFC 1952, section 2.3.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How much of a file decides what it is.
const START: usize = 64 << 10;

/// A file that is open for reading, decompressed.
pub(crate) struct Input {
    path: PathBuf,
    start: Vec<u8>,
    from: usize,
    rest: Box<dyn Read + Send>,
}

impl Input {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> Result<Input> {
        let cannot = |e: io::Error| TimelineError::of_file(path, format!("cannot read it: {e}"));
        let file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_dir() {
            return Err(TimelineError::of_file(path, "cannot read it: it is a directory"));
        }
        Input::unpacked(path, BufReader::with_capacity(1 << 18, file))
    }

    /// Returns an input of bytes in memory.
    pub(crate) fn of(name: &str, bytes: Arc<[u8]>) -> Result<Input> {
        Input::unpacked(Path::new(name), Cursor::new(bytes))
    }

    fn unpacked(path: &Path, mut from: impl BufRead + Send + 'static) -> Result<Input> {
        let cannot = |e: io::Error| TimelineError::of_file(path, format!("cannot read it: {e}"));
        let is_packed = from.fill_buf().map_err(cannot)?.starts_with(&GZIP);
        let mut rest: Box<dyn Read + Send> = match is_packed {
            true => Box::new(MultiGzDecoder::new(from)),
            false => Box::new(from),
        };
        let mut start = Vec::new();
        if let Err(e) = rest.by_ref().take(START as u64).read_to_end(&mut start) {
            let error = TimelineError::of_file(path, format!("broken gzip data: {e}"));
            return Err(error.help("the file was cut off or damaged: copy or record it again"));
        }
        Ok(Input { path: path.to_owned(), start, from: 0, rest })
    }

    /// Returns the first bytes.
    pub(crate) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Returns an error about the file.
    pub(crate) fn error(&self, message: &str) -> TimelineError {
        TimelineError::of_file(&self.path, message)
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = &self.start[self.from..];
        if left.is_empty() {
            return self.rest.read(out);
        }
        let count = left.len().min(out.len());
        out[..count].copy_from_slice(&left[..count]);
        self.from += count;
        Ok(count)
    }
}
