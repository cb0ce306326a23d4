//! Reads the declarations of streams.

use std::collections::{HashMap, HashSet};

use millstream_types::nearest::nearest;
use millstream_types::{StreamMode, StreamType};

use crate::error::{Result, Site};
use crate::json::{Raw, Reader};
use crate::program::{Stream, StreamRef};
use crate::raw_form::StreamForm;
use crate::schema_types::{MODES, Map, Name};

/// The streams by name.
pub(crate) struct StreamNames(HashMap<String, StreamRef>);

impl StreamNames {
    /// Returns the stream that this name stands for.
    pub(crate) fn find(&self, reader: &Reader<'_>, raw: Raw<'_, Name>) -> Result<StreamRef> {
        let name = reader.name(raw, "a stream's name")?;
        self.0.get(&*name).copied().ok_or_else(|| {
            let error = reader.error(raw, format!("unknown stream '{name}'"));
            match self.0.is_empty() {
                true => error.help("declare it in 'streams'"),
                false => error.meant(nearest(&name, self.0.keys().map(String::as_str))),
            }
        })
    }
}

/// Reads the declarations of streams.
pub(crate) fn streams<'a>(
    reader: &Reader<'a>,
    raw: Option<Raw<'a, Map<StreamForm<'a>>>>,
) -> Result<(Vec<Stream>, StreamNames)> {
    let (mut streams, mut names, mut taken) = (Vec::new(), HashMap::new(), HashSet::new());
    for (key, raw) in reader.optional_entries(raw, "streams, by name")? {
        let form = reader.object(raw.cast::<StreamForm<'a>>(), "a stream")?;
        let device = form.device.map(|d| reader.parse(d, "a device such as cpu:0")).transpose()?;
        let ty = match form.ty {
            Some(raw) => reader.parse(raw, "a stream type")?,
            None => StreamType::COMPUTE,
        };
        let mode = match form.mode {
            Some(raw) => {
                let text = reader.text(raw, "in-order or pool")?;
                MODES.into_iter().find(|m| m.name() == text).ok_or_else(|| {
                    let error = reader.error(raw, format!("unknown stream mode '{text}'"));
                    let close = nearest(&text, MODES.iter().map(|m| m.name()));
                    match close {
                        Some(_) => error.meant(close),
                        None => error.help("expected in-order or pool"),
                    }
                })?
            }
            None => StreamMode::InOrder,
        };
        let index = form.index.map(|i| reader.number(i, "a non-negative integer")).transpose()?;
        if let (Some(raw), Some(index)) = (form.index, index)
            && !taken.insert((device.clone(), ty, index))
        {
            let message = format!("another stream has index {index} of {ty} on this device");
            return Err(reader.error(raw, message));
        }
        names.insert(key.name.to_string(), StreamRef(streams.len() as u32));
        let site = Site { source: reader.source.clone(), span: reader.key_span(&key) };
        streams.push(Stream { name: key.name.into_owned(), device, ty, index, mode, site });
    }
    Ok((streams, StreamNames(names)))
}
