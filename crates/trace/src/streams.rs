//! Reads the declarations of streams.

use std::collections::{HashMap, HashSet};

use millstream_types::nearest::nearest;
use millstream_types::{StreamMode, StreamType};

use crate::error::Result;
use crate::json::{At, Raw, Reader};
use crate::program::{Stream, StreamRef};
use crate::raw_form::StreamForm;
use crate::schema_types::{Map, Name};

/// The streams by name.
pub(crate) struct StreamNames(HashMap<String, StreamRef>);

impl StreamNames {
    /// Returns the stream that this name stands for.
    pub(crate) fn find(&self, reader: &Reader<'_>, raw: Raw<'_, Name>) -> Result<StreamRef> {
        let name = reader.name(raw, "a stream's name")?;
        self.0.get(&*name).copied().ok_or_else(|| {
            let error = reader.error(raw.text, format!("unknown stream '{name}'"));
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
    for (key, raw) in reader.map(raw, "streams, by name")? {
        let StreamForm { device, ty, index, mode, .. } = reader.read(raw)?;
        let (device, ty) = (device.map(At::take), ty.map_or(StreamType::COMPUTE, At::take));
        if let Some(At { text, value: index }) = index
            && !taken.insert((device.clone(), ty, index))
        {
            let message = format!("another stream has index {index} of {ty} on this device");
            return Err(reader.error(text, message));
        }
        names.insert(key.to_string(), StreamRef(streams.len() as u32));
        let (index, mode) = (index.map(At::take), mode.map_or(StreamMode::InOrder, At::take));
        let (site, name) = (reader.site(key.text), key.take().into_owned());
        streams.push(Stream { name, device, ty, index, mode, site });
    }
    Ok((streams, StreamNames(names)))
}
