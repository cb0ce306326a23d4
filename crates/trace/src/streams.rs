//! Reading the streams.

use std::collections::{HashMap, HashSet};

use millstream_types::nearest::nearest;
use millstream_types::{StreamMode, StreamType};

use crate::error::{Result, Site};
use crate::form::StreamForm;
use crate::json::{At, Reader};
use crate::program::{Stream, StreamRef};
use crate::words::{MODES, Map, Name};

/// The streams by name.
pub(crate) struct StreamNames(HashMap<String, StreamRef>);

impl StreamNames {
    /// The stream that is named here.
    pub(crate) fn find(&self, reader: &Reader<'_>, at: At<'_, Name>) -> Result<StreamRef> {
        let name = reader.name(at, "a stream's name")?;
        self.0.get(&*name).copied().ok_or_else(|| {
            let error = reader.error(at, format!("unknown stream '{name}'"));
            match self.0.is_empty() {
                true => error.help("declare it in 'streams'"),
                false => error.meant(nearest(&name, self.0.keys().map(String::as_str))),
            }
        })
    }
}

pub(crate) fn streams<'a>(
    reader: &Reader<'a>,
    at: Option<At<'a, Map<StreamForm<'a>>>>,
) -> Result<(Vec<Stream>, StreamNames)> {
    let (mut streams, mut names, mut taken) = (Vec::new(), HashMap::new(), HashSet::new());
    for (key, at) in reader.optional_entries(at, "streams, by name")? {
        let form = reader.object(at.cast::<StreamForm<'a>>(), "a stream")?;
        reader.remark(form.note)?;
        let device = form.device.map(|d| reader.parse(d, "a device such as cpu:0")).transpose()?;
        let ty = match form.ty {
            Some(at) => reader.parse(at, "a stream type")?,
            None => StreamType::COMPUTE,
        };
        let mode = match form.mode {
            Some(at) => {
                let text = reader.text(at, "in-order or pool")?;
                MODES.into_iter().find(|m| m.name() == text).ok_or_else(|| {
                    let error = reader.error(at, format!("unknown stream mode '{text}'"));
                    let close = nearest(&text, MODES.iter().map(|m| m.name()));
                    match close {
                        Some(_) => error.meant(close),
                        None => error.help("expected in-order or pool"),
                    }
                })?
            }
            None => StreamMode::InOrder,
        };
        let index =
            form.index.map(|i| reader.number(i, "a whole number of 0 or more")).transpose()?;
        if let (Some(at), Some(index)) = (form.index, index)
            && !taken.insert((device.clone(), ty, index))
        {
            let message = format!("another stream is number {index} of {ty} on this device");
            return Err(reader.error(at, message));
        }
        names.insert(key.name.to_string(), StreamRef(streams.len() as u32));
        let site = Site { source: reader.source.clone(), place: reader.key_place(&key) };
        streams.push(Stream { name: key.name.into_owned(), device, ty, index, mode, site });
    }
    Ok((streams, StreamNames(names)))
}
