//! Finds the files that a command reads for a trace, without loading it.
//!
//! The result serves to protect these files from the command's outputs, so it may name too many:
//! files that do not exist yet but would be read, and files of a trace with mistakes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::et::sidecar_notes;
use crate::expand::{Entry, Format, expand, format_of_file};
use crate::load::LoadOptions;

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

/// Returns the text of every field `file`, up to the first error of syntax.
fn named(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let Ok(file) = File::open(path) else { return names };
    let mut file = BufReader::new(file);
    let zipped = file.fill_buf().is_ok_and(|start| start.starts_with(&[0x1f, 0x8b]));
    let text: Box<dyn Read> =
        if zipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let text = BufReader::new(text.take(LoadOptions::default().max_bytes));
    let mut json = serde_json::Deserializer::from_reader(text);
    // Loading the trace reports the error.
    let _ = Names { names: &mut names, is_file: false }.deserialize(&mut json);
    names
}

/// Collects the text of a value, if it is that of a field `file`, or those below it.
struct Names<'a> {
    names: &'a mut Vec<String>,
    is_file: bool,
}

impl Names<'_> {
    fn below(&mut self, key: Option<&str>) -> Names<'_> {
        Names { names: self.names, is_file: key == Some("file") }
    }
}

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(self.below(Some(&key)))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self.below(None))?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.is_file {
            self.names.push(text.to_owned());
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
