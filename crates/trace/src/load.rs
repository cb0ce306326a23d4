//! Loads a trace: its text, its version, then its parts in order.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use millstream_types::nearest::nearest;

use crate::error::{Result, Site, TraceError};
use crate::et::{self, EtOptions};
use crate::executables::Table;
use crate::expand::{Format, TIMELINE, format_of};
use crate::json::{Entries, Key, Raw, Reader};
use crate::program::{Body, Line, Program, Value, ValueRef};
use crate::raw_form::TraceForm;
use crate::read::{read_text, text_of};
use crate::sidecar::Sidecars;
use crate::source::Source;
use crate::{meshes, outputs, streams, tensors};

/// The newest version of the native format. The loader reads all versions up to it.
pub const VERSION: u64 = 2;

/// The bounds and options of a load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The maximum size of the text in bytes, after decompression.
    pub max_bytes: u64,
    /// The maximum number of items: entries of objects and elements of lists, without the elements
    /// of tensors. This bounds the memory of a loaded trace in addition to its text.
    pub max_items: usize,
    /// The options of the import of execution traces.
    pub et: EtOptions,
}

impl Default for LoadOptions {
    /// Returns bounds of 128 MiB of text and two million items: together less than 1 GiB of memory,
    /// read within seconds. Large tensors belong in sidecar files, which have no bound.
    fn default() -> LoadOptions {
        LoadOptions { max_bytes: 128 << 20, max_items: 2_000_000, et: EtOptions::default() }
    }
}

/// Loads a native trace, or a PyTorch execution trace with its sidecar notes, from a file, or from
/// standard input for `-`. The text may be compressed with gzip.
///
/// # Errors
/// The file cannot be read, or its content is invalid; the error has the span of the invalid part.
pub fn load(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Program> {
    let path = path.as_ref();
    let source = read_text(path, options.max_bytes)?;
    let folder = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".")),
        parent => parent,
    };
    dispatch(source, folder, options)
}

/// Returns what remains of a native trace without the statements and outputs that [`load`] refuses,
/// to be checked for further mistakes. None if too little remains for that.
pub fn load_partial(path: impl AsRef<Path>, options: &LoadOptions) -> Option<Program> {
    let path = path.as_ref();
    // Standard input can be read once.
    if path == Path::new("-") {
        return None;
    }
    let source = Arc::new(read_text(path, options.max_bytes).ok()?);
    let Ok(Format::Native) = format_of(source.text().as_bytes()) else { return None };
    let read = read(&Reader::new(&source, options.max_items), path.parent()).ok()?;
    Some(Program { is_partial: true, ..read })
}

/// Detects the format and reads it.
fn dispatch(source: Source, folder: Option<&Path>, options: &LoadOptions) -> Result<Program> {
    match format_of(source.text().as_bytes()) {
        Ok(Format::ExecutionTrace) => et::import(&source, folder, options),
        Err(why) if why == TIMELINE => {
            let error = TraceError::of_file(source.name(), why);
            let help = "`millstream profile` shows it; `millstream record-help` says how to record a \
                        program that can run";
            Err(error.help(help))
        }
        // The errors of the native reader say what a trace must have.
        Ok(Format::Native) | Err(_) => resolve(&Arc::new(source), folder, options),
    }
}

/// Loads a trace from memory. Sidecar files lie in `folder`; without a folder they are refused.
///
/// # Errors
/// The same as those of [`load`].
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
    reader.finish(read(reader, folder))
}

fn read(reader: &Reader<'_>, folder: Option<&Path>) -> Result<Program> {
    let source = reader.source;
    let root = reader.root::<TraceForm<'_>>()?;
    let (version, entries) = check_version(reader, root)?;
    if let Some((key, _)) = entries.iter().find(|(key, _)| key.name == "jobs") {
        let error = reader.key_error(key, "jobs have become executables");
        return Err(
            error.help("rename 'jobs' to 'executables', and launch one with { \"launch\": NAME }")
        );
    }
    let trace = reader.object(root, "a trace")?;
    meshes::check_version(reader, &trace, version)?;
    let meshes = meshes::meshes(reader, trace.meshes)?;
    let name = trace.name.map(|n| reader.name(n, "a name")).transpose()?;

    let mut sidecars = Sidecars::new(folder);
    let (streams, stream_names) = streams::streams(reader, trace.streams)?;
    let (mut tensors, mut values) = (Vec::new(), Vec::new());
    // A program cannot do without a tensor; its names are checked all the same.
    let mut failed = None;
    for (key, raw) in reader.optional_entries(trace.tensors, "tensors, by name")? {
        let span = reader.key_span(&key);
        let site = Site { source: source.clone(), span };
        match tensors::tensor(reader, &mut sidecars, &meshes, &key.name, raw.cast(), site) {
            Ok(tensor) => tensors.push(tensor),
            Err(error) if failed.is_none() => failed = Some(error),
            Err(error) => drop(reader.recover::<()>(Err(error))?),
        }
        values.push(Value { name: key.name.into_owned(), span, recorded: None });
    }
    let outputs = reader.optional_entries(trace.outputs, "outputs, by name")?;

    let (body, executables, finals) = match (trace.program, trace.instructions) {
        (Some(_), Some(both)) => {
            return Err(reader.error(both, "a trace has a program or instructions, not both"));
        }
        (None, None) => {
            return Err(reader.error(root, "the trace has neither 'program' nor 'instructions'"));
        }
        (Some(program), None) => {
            let (streams, initial) = (&stream_names, values.len());
            let mut table = Table { reader, streams, meshes: &meshes, initial, values };
            let executables = table.executables(trace.executables)?;
            let (block, finals) = table.program(program, &executables, &outputs)?;
            values = table.values;
            (Body::Statements(block), executables.list, finals)
        }
        (None, Some(list)) => {
            let streams = trace.streams.map(|raw| (raw.cast::<()>(), "streams"));
            let executables = trace.executables.map(|raw| (raw.cast(), "executables"));
            if let Some((raw, what)) = streams.or(executables) {
                let message =
                    format!("a list of instructions has its own {what}: remove them here");
                return Err(reader.error(raw, message));
            }
            let named = |k: &Key<'_>| values.iter().position(|v: &Value| v.name == k.name);
            let finals = outputs.iter().map(|(k, _)| named(k).map(|n| ValueRef(n as u32)));
            let finals = finals.collect();
            (Body::Instructions(lines(reader, list)?), Vec::new(), finals)
        }
    };

    let default = outputs::default_tolerance(reader, trace.default_tolerance)?;
    let outputs = outputs.into_iter().zip(finals).map(|((key, raw), value)| {
        let output = outputs::output(reader, &mut sidecars, &key, raw.cast(), value, default);
        reader.recover(output)
    });
    let outputs = outputs.filter_map(Result::transpose).collect::<Result<_>>()?;
    let (name, source) = (name.map(Cow::into_owned), source.clone());
    let mut program = Program {
        name,
        streams,
        tensors,
        values,
        executables,
        body,
        outputs,
        source,
        spread: true,
        is_partial: false,
        wholes: None,
        rank: None,
        imported: None,
    };
    program.spread = !program.names_streams();
    failed.map_or(Ok(program), Err)
}

/// Checks the version before anything else, so that a file of a later version is refused for its
/// version and not for a field that the version adds. Returns the entries of the trace.
fn check_version<'a>(
    reader: &Reader<'a>,
    root: Raw<'a, TraceForm<'a>>,
) -> Result<(u64, Entries<'a, ()>)> {
    let entries = reader.entries(root, "a trace, which is an object")?;
    let Some((_, raw)) = entries.iter().find(|(k, _)| k.name == "millstream") else {
        let error = reader.error(root, "this is no Millstream trace: it has no 'millstream'");
        let close = nearest("millstream", entries.iter().map(|(k, _)| &*k.name));
        return Err(error.help(match close {
            Some(name) => format!("is it misspelt as '{name}'?"),
            None => "begin it with \"millstream\": 1".to_owned(),
        }));
    };
    let error = |message: String| Err(reader.error(*raw, message));
    match reader.number::<u64>(raw.cast(), "the version of the format, an integer")? {
        version @ 1..=VERSION => Ok((version, entries)),
        0 => error("there is no version 0 of the format; the first is 1".to_owned()),
        later => match error(format!("version {later} of the format is newer than this program")) {
            Err(e) => Err(e.help(format!("this program reads up to version {VERSION}"))),
            ok => ok,
        },
    }
}

fn lines(reader: &Reader<'_>, list: Raw<'_, Vec<String>>) -> Result<Vec<Line>> {
    let lines = reader.list(list, "a list of instructions, one string for each line")?;
    let line = |raw: Raw<'_, String>| {
        let text = reader.text(raw, "an instruction in its text form")?.into_owned();
        Ok(Line { text, span: reader.span(raw) })
    };
    lines.into_iter().map(line).collect()
}
