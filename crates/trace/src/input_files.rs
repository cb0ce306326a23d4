//! Finds the files that a command reads for a trace, without loading it.
//!
//! The result serves to protect these files from the command's outputs, so it may name too many:
//! files that do not exist yet but would be read, and files of a trace with mistakes.

use std::path::{Path, PathBuf};

use crate::et::sidecar_notes;
use crate::expand::{Entry, Format, expand, format_of_file};
use crate::load::LoadOptions;
use crate::read::read_text;

/// Returns the file itself and all files beside it that loading it may read: the sidecar notes of
/// an execution trace, and the files of tensors that a native trace names. A directory stands for
/// its traces. Of standard input, `-`, the sidecar notes alone are known.
pub fn input_files(path: impl AsRef<Path>) -> Vec<PathBuf> {
    let path = path.as_ref();
    if path.is_dir() {
        // The command itself reports files that cannot be read.
        let mut found = expand([path]).unwrap_or_default();
        found.retain(|entry| !matches!(entry, Entry::Skipped { .. }));
        return found.iter().flat_map(Entry::paths).flat_map(input_files).collect();
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut files = vec![path.to_owned()];
    let format = match path == Path::new("-") {
        true => Ok(Format::ExecutionTrace),
        false if path.is_file() => format_of_file(path),
        // A pipe can be read once.
        false => return files,
    };
    match format {
        Ok(Format::ExecutionTrace) => {
            files.extend(sidecar_notes::FILES.iter().map(|name| folder.join(name)));
        }
        Ok(Format::Native) => {
            files.extend(named(path).into_iter().map(|name| folder.join(name)));
        }
        Err(_) => {}
    }
    files
}

/// Returns the text of every field `file`.
fn named(path: &Path) -> Vec<String> {
    let (mut names, mut is_file) = (Vec::new(), false);
    // Loading the trace reports the error.
    let Ok(source) = read_text(path, LoadOptions::default().max_bytes) else { return names };
    let mut rest = source.text();
    while let Some((before, after)) = rest.split_once('"') {
        let mut is_escaped = false;
        let end = after.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        let Some(end) = end else { break };
        let text = serde_json::from_str(&rest[before.len()..before.len() + end + 2]);
        let text: String = text.unwrap_or_default();
        let is_value = before.trim() == ":";
        if is_file && is_value {
            names.push(text.clone());
        }
        (is_file, rest) = (text == "file" && !is_value, &after[end + 1..]);
    }
    names
}
