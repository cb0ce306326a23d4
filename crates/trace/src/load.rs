//! Loading a trace: its text, its version, and its parts in order.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use millstream_types::nearest::nearest;

use crate::error::{Result, Site};
use crate::et::{self, EtOptions};
use crate::expand::{Format, format_of};
use crate::form::TraceForm;
use crate::jobs::Table;
use crate::json::{At, Key, Reader};
use crate::program::{Body, Line, Program, Value, ValueRef};
use crate::read::{read_text, text_of};
use crate::sidecar::Sidecars;
use crate::source::Source;
use crate::{outputs, streams, tensors};

/// The version of the format that this crate writes about. It reads all up to it.
pub const VERSION: u64 = 1;

/// Bounds on what is read.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The most bytes of text, after decompression.
    pub max_bytes: u64,
    /// The most items: entries of objects and elements of lists, but not the elements of tensors.
    /// It bounds what a loaded trace takes beside its text.
    pub max_items: usize,
    /// How execution traces are imported.
    pub et: EtOptions,
}

impl Default for LoadOptions {
    /// 128 MiB of text and two million items: together below 1 GiB of memory, and seconds to read.
    /// Tensors too large to be written out belong into sidecar files, which are not bounded.
    fn default() -> LoadOptions {
        LoadOptions { max_bytes: 128 << 20, max_items: 2_000_000, et: EtOptions::default() }
    }
}

/// Loads a trace from a file, which may be compressed with gzip: a native one, or an execution trace
/// of PyTorch's with the files that lie beside it.
///
/// # Errors
/// The file cannot be read, or what it says is wrong; with the place of what is wrong.
pub fn load(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Program> {
    let path = path.as_ref();
    let source = read_text(path, options.max_bytes)?;
    let folder = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".")),
        parent => parent,
    };
    dispatch(source, folder, options)
}

/// Reads the format that the file is in.
fn dispatch(source: Source, folder: Option<&Path>, options: &LoadOptions) -> Result<Program> {
    match format_of(source.text().as_bytes()) {
        Ok(Format::ExecutionTrace) => et::import(&source, folder, options),
        // What is neither is told what a native trace should have.
        Ok(Format::Native) | Err(_) => resolve(&Arc::new(source), folder, options),
    }
}

/// Loads a trace from memory. Sidecar files are looked for in `folder`; without one they are
/// refused.
///
/// # Errors
/// As [`load`].
pub fn load_bytes(
    name: &str,
    bytes: &[u8],
    folder: Option<&Path>,
    options: &LoadOptions,
) -> Result<Program> {
    let source = text_of(name, bytes, options.max_bytes)?;
    dispatch(source, folder, options)
}

fn resolve(source: &Arc<Source>, folder: Option<&Path>, options: &LoadOptions) -> Result<Program> {
    let reader = &Reader::new(source, options.max_items);
    let root = reader.root::<TraceForm<'_>>()?;
    check_version(reader, root)?;
    let trace = reader.object(root, "a trace")?;
    reader.remark(trace.schema)?;
    reader.remark(trace.note)?;
    let name = trace.name.map(|n| reader.name(n, "a name")).transpose()?;

    let mut sidecars = Sidecars::new(folder);
    let (streams, stream_names) = streams::streams(reader, trace.streams)?;
    let (mut tensors, mut values) = (Vec::new(), Vec::new());
    for (key, at) in reader.optional_entries(trace.tensors, "tensors, by name")? {
        let place = reader.key_place(&key);
        let site = Site { source: source.clone(), place };
        tensors.push(tensors::tensor(reader, &mut sidecars, &key.name, at.cast(), site)?);
        values.push(Value { name: key.name.into_owned(), place, recorded: None });
    }
    let outputs = reader.optional_entries(trace.outputs, "outputs, by name")?;

    let (body, jobs, ends) = match (trace.program, trace.instructions) {
        (Some(_), Some(both)) => {
            return Err(reader.error(both, "a trace has a program or instructions, not both"));
        }
        (None, None) => {
            return Err(reader.error(root, "the trace has neither 'program' nor 'instructions'"));
        }
        (Some(program), None) => {
            let mut table = Table { reader, streams: &stream_names, initial: values.len(), values };
            let jobs = table.jobs(trace.jobs)?;
            let (block, ends) = table.program(program, &jobs, &outputs)?;
            values = table.values;
            (Body::Statements(block), jobs.list, ends)
        }
        (None, Some(list)) => {
            let streams = trace.streams.map(|at| (at.cast::<()>(), "streams"));
            if let Some((at, what)) = streams.or(trace.jobs.map(|at| (at.cast(), "jobs"))) {
                let message = format!("a list of instructions brings its own {what}");
                return Err(reader.error(at, message));
            }
            let named = |k: &Key<'_>| values.iter().position(|v: &Value| v.name == k.name);
            let ends = outputs.iter().map(|(k, _)| named(k).map(|n| ValueRef(n as u32)));
            let ends = ends.collect();
            (Body::Instructions(lines(reader, list)?), Vec::new(), ends)
        }
    };

    let default = outputs::default_tolerance(reader, trace.default_tolerance)?;
    let outputs = outputs.into_iter().zip(ends).map(|((key, at), value)| {
        outputs::output(reader, &mut sidecars, &key, at.cast(), value, default)
    });
    let outputs = outputs.collect::<Result<_>>()?;
    let (name, source) = (name.map(Cow::into_owned), source.clone());
    let mut program = Program {
        name,
        streams,
        tensors,
        values,
        jobs,
        body,
        outputs,
        source,
        spread: true,
        imported: None,
    };
    program.spread = !program.names_streams();
    Ok(program)
}

/// Reads the version before anything else, so that a file of a later version is not refused for
/// what that version adds.
fn check_version(reader: &Reader<'_>, root: At<'_, TraceForm<'_>>) -> Result<()> {
    let entries = reader.entries(root, "a trace, which is an object")?;
    let Some((_, at)) = entries.iter().find(|(k, _)| k.name == "millstream") else {
        let error = reader.error(root, "this is no Millstream trace: it has no 'millstream'");
        let close = nearest("millstream", entries.iter().map(|(k, _)| &*k.name));
        return Err(error.help(match close {
            Some(name) => format!("did you misspell it as '{name}'?"),
            None => format!("begin it with \"millstream\": {VERSION}"),
        }));
    };
    let error = |message: String| Err(reader.error(*at, message));
    match reader.number::<u64>(at.cast(), "the version of the format, a whole number")? {
        VERSION => Ok(()),
        0 => error("there is no version 0 of the format; the first is 1".to_owned()),
        later => match error(format!("version {later} of the format is newer than this program")) {
            Err(e) => Err(e.help(format!("it reads version {VERSION}"))),
            ok => ok,
        },
    }
}

fn lines(reader: &Reader<'_>, list: At<'_, Vec<String>>) -> Result<Vec<Line>> {
    let lines = reader.list(list, "a list of instructions, one text for each line")?;
    let line = |at: At<'_, String>| {
        let text = reader.text(at, "an instruction in its text form")?.into_owned();
        Ok(Line { text, place: reader.place(at) })
    };
    lines.into_iter().map(line).collect()
}
