//! Reads meshes, and how tensors are held by them.

use std::collections::BTreeMap;

use millstream_types::nearest::nearest;
use millstream_types::{Mesh, NdSbp, Reduction, Sbp, Sharding};

use crate::error::Result;
use crate::json::{Raw, Reader};
use crate::program::Held;
use crate::raw_form::{MeshForm, TraceForm};
use crate::schema_types::{Map, Name, Names, NestedRanks};

/// The meshes of a trace, by name.
#[derive(Default)]
pub(crate) struct Meshes(BTreeMap<String, Mesh>);

/// Reads the meshes of a trace.
pub(crate) fn meshes<'a>(
    reader: &Reader<'a>,
    raw: Option<Raw<'a, Map<MeshForm<'a>>>>,
) -> Result<Meshes> {
    let mut all = BTreeMap::new();
    for (key, raw) in reader.map(raw, "meshes, by name")? {
        let form = reader.read(raw)?;
        let (mut shape, mut ranks) = (Vec::new(), Vec::new());
        flatten(reader, form.ranks, 0, &mut shape, &mut ranks)?;
        let mesh = Mesh::of(&shape, &ranks).map_err(|e| reader.wrap(form.ranks.text, &e))?;
        let mesh = match form.axes {
            None => mesh,
            Some(raw) => {
                let what = "the names of the axes";
                let axes = reader.names(raw, what)?.into_iter();
                let axes = axes.map(|name| Ok(reader.name(name, what)?.into_owned()));
                mesh.axes(axes.collect::<Result<Vec<String>>>()?)
                    .map_err(|e| reader.wrap(raw.text, &e))?
            }
        };
        all.insert(key.take().into_owned(), mesh);
    }
    Ok(Meshes(all))
}

/// Reads nested lists of ranks.
fn flatten<'a>(
    reader: &Reader<'a>,
    raw: Raw<'a, NestedRanks>,
    axis: usize,
    shape: &mut Vec<usize>,
    ranks: &mut Vec<u32>,
) -> Result<()> {
    if raw.kind() != "a list" {
        ranks.push(reader.number(raw.cast::<u32>(), "a rank, an integer of 0 or more")?);
        return match axis == shape.len() {
            true => Ok(()),
            false => Err(reader.error(raw.text, "expected lists of one depth")),
        };
    }
    if axis == millstream_types::mesh::MAX_AXES {
        let message = format!("expected at most {axis} axes");
        return Err(reader.error(raw.text, message));
    }
    let list = reader.list(raw.cast::<Vec<NestedRanks>>(), "ranks, in nested lists")?;
    match shape.get(axis) {
        None if ranks.is_empty() => shape.push(list.len()),
        Some(length) if *length == list.len() => {}
        _ => return Err(reader.error(raw.text, "expected lists of one length and depth")),
    }
    list.into_iter().try_for_each(|part| flatten(reader, part, axis + 1, shape, ranks))
}

impl Meshes {
    /// Reads how a tensor is held, if it names a sharding. Without a mesh, it is that of the
    /// operands.
    pub(crate) fn held<'a>(
        &self,
        reader: &Reader<'a>,
        mesh: Option<Raw<'a, Name>>,
        sbp: Option<Raw<'a, Names>>,
    ) -> Result<Option<Held>> {
        let mesh = mesh.map(|raw| Ok((self.find(reader, raw)?, raw))).transpose()?;
        let Some(raw) = sbp else {
            return match mesh {
                None => Ok(None),
                Some((_, raw)) => {
                    let error =
                        reader.error(raw.text, "'mesh' needs 'sbp', one value for each axis");
                    Err(error.help("\"S0\" for parts of dimension 0, \"B\" for all elements"))
                }
            };
        };
        let list = reader.names(raw, "the sbp of each axis")?;
        let parse = |raw: Raw<'a, Name>| {
            let text = reader.text(raw, "an sbp")?;
            parsed(&text).ok_or_else(|| {
                let message = format!("expected S0, S1, …, B, P, Pmax or Pmin, got '{text}'");
                reader.error(raw.text, message)
            })
        };
        let sbp = list.into_iter().map(parse).collect::<Result<NdSbp>>()?;
        let mesh = mesh.map(|((name, mesh), _)| (name, mesh));
        if let Some((_, mesh)) = &mesh {
            Sharding::new(mesh, sbp.iter().copied()).map_err(|e| reader.wrap(raw.text, &e))?;
        }
        Ok(Some(Held { mesh, sbp, span: reader.span(raw.text) }))
    }

    fn find<'a>(&self, reader: &Reader<'a>, raw: Raw<'a, Name>) -> Result<(String, Mesh)> {
        let name = reader.name(raw, "the name of a mesh")?;
        match self.0.get(&*name) {
            Some(mesh) => Ok((name.into_owned(), mesh.clone())),
            None => {
                let close = nearest(&name, self.0.keys().map(String::as_str));
                Err(reader.error(raw.text, format!("there is no mesh '{name}'")).meant(close))
            }
        }
    }
}

/// Refuses a layout of a tensor that a mesh holds.
pub(crate) fn check_dense(
    reader: &Reader<'_>,
    held: Option<&Held>,
    layout: Option<&str>,
) -> Result<()> {
    match layout.filter(|_| held.is_some()) {
        Some(text) => {
            let message = "the parts of a tensor of a mesh are dense and row-major";
            Err(reader.error(text, message))
        }
        None => Ok(()),
    }
}

/// Parses the text of an sbp.
fn parsed(text: &str) -> Option<Sbp> {
    let digits = |digits: &str| digits.parse().ok().filter(|_| !digits.starts_with('+'));
    match text {
        "B" => Some(Sbp::Broadcast),
        "P" => Some(Sbp::Partial(Reduction::Sum)),
        "Pmax" => Some(Sbp::Partial(Reduction::Max)),
        "Pmin" => Some(Sbp::Partial(Reduction::Min)),
        _ => text.strip_prefix('S').and_then(digits).map(Sbp::Split),
    }
}

/// Refuses fields that a file of version 1 does not have.
pub(crate) fn check_version(
    reader: &Reader<'_>,
    trace: &TraceForm<'_>,
    version: u64,
) -> Result<()> {
    match trace.meshes {
        Some(raw) if version < 2 => {
            let error = reader.error(raw.text, "meshes need version 2 of the format");
            Err(error.help("begin the trace with \"millstream\": 2"))
        }
        _ => Ok(()),
    }
}
