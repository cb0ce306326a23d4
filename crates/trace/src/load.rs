//! Loads a trace: its text, its version, then its parts in order.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use millstream_types::nearest::nearest;

use crate::error::{Result, TraceError};
use crate::et::{self, EtOptions};
use crate::executables::Table;
use crate::expand::{Format, TIMELINE, format_of};
use crate::field::{Fields, Form};
use crate::json::{At, Key, Raw, Reader};
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
    let root = reader.root()?;
    let fields = reader.fields(root, "a trace, which is an object")?;
    let version = check_version(reader, root, &fields)?;
    if let Some((key, _)) = fields.entries.iter().find(|(key, _)| key.name() == "jobs") {
        let error = reader.error(key.text, "jobs have become executables");
        return Err(
            error.help("rename 'jobs' to 'executables', and launch one with { \"launch\": NAME }")
        );
    }
    let trace = TraceForm::of(&fields)?;
    meshes::check_version(reader, &trace, version)?;
    let meshes = meshes::meshes(reader, trace.meshes)?;
    let name = trace.name.map(|n| reader.name(n, "a name")).transpose()?;

    let mut sidecars = Sidecars::new(folder);
    let (streams, stream_names) = streams::streams(reader, trace.streams)?;
    let (mut tensors, mut values) = (Vec::new(), Vec::new());
    // A program cannot do without a tensor; its names are checked all the same.
    let mut failed = None;
    for (key, raw) in reader.map(trace.tensors, "tensors, by name")? {
        let site = reader.site(key.text);
        values.push(Value { name: key.to_string(), span: site.span, recorded: None });
        match tensors::tensor(reader, &mut sidecars, &meshes, &key, raw, site) {
            Ok(tensor) => tensors.push(tensor),
            Err(error) if failed.is_none() => failed = Some(error),
            Err(error) => drop(reader.recover::<()>(Err(error))?),
        }
    }
    let outputs = reader.map(trace.outputs, "outputs, by name")?;

    let (body, executables, finals) = match (trace.program, trace.instructions) {
        (Some(_), Some(both)) => {
            return Err(reader.error(both.text, "a trace has a program or instructions, not both"));
        }
        (None, None) => {
            let message = "the trace has neither 'program' nor 'instructions'";
            return Err(reader.error(root.text, message));
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
            let streams = trace.streams.map(|raw| (raw.text, "streams"));
            let executables = trace.executables.map(|raw| (raw.text, "executables"));
            if let Some((text, what)) = streams.or(executables) {
                let message =
                    format!("a list of instructions has its own {what}: remove them here");
                return Err(reader.error(text, message));
            }
            let named = |k: &Key<'_>| values.iter().position(|v: &Value| v.name == k.name());
            let finals = outputs.iter().map(|(k, _)| named(k).map(|n| ValueRef(n as u32)));
            let finals = finals.collect();
            (Body::Instructions(lines(reader, list)?), Vec::new(), finals)
        }
    };

    let default = trace.default_tolerance.map(At::take);
    let default = default.map(|form| outputs::tolerance(reader, form.rtol, form.atol));
    let default = default.transpose()?.unwrap_or_default();
    let outputs = outputs.into_iter().zip(finals).map(|((key, raw), value)| {
        let output = outputs::output(reader, &mut sidecars, &key, raw, value, default);
        reader.recover(output)
    });
    let outputs = outputs.filter_map(Result::transpose).collect::<Result<_>>()?;
    let name = name.map(Cow::into_owned);
    let program = Program {
        name,
        streams,
        tensors,
        values,
        executables,
        outputs,
        ..Program::new(source, body)
    };
    let spread = !program.names_streams();
    failed.map_or(Ok(Program { spread, ..program }), Err)
}

/// Checks the version before anything else, so that a file of a later version is refused for its
/// version and not for a field that the version adds.
fn check_version<'a>(
    reader: &Reader<'a>,
    root: Raw<'a, TraceForm<'a>>,
    fields: &Fields<'_, 'a>,
) -> Result<u64> {
    let mut entries = fields.entries.iter();
    let Some((_, raw)) = entries.find(|(key, _)| key.name() == "millstream") else {
        let error = "this is no Millstream trace: it has no 'millstream'";
        let close = nearest("millstream", fields.entries.iter().map(|(key, _)| key.name()));
        return Err(reader.error(root.text, error).help(match close {
            Some(name) => format!("is it misspelt as '{name}'?"),
            None => "begin it with \"millstream\": 1".to_owned(),
        }));
    };
    let error = |message: String| reader.error(raw.text, message);
    match reader.number::<u64>(raw.cast(), "the version of the format, an integer")? {
        version @ 1..=VERSION => Ok(version),
        0 => Err(error("there is no version 0 of the format; the first is 1".to_owned())),
        later => {
            let later = format!("version {later} of the format is newer than this program");
            Err(error(later).help(format!("this program reads up to version {VERSION}")))
        }
    }
}

fn lines(reader: &Reader<'_>, list: Raw<'_, Vec<String>>) -> Result<Vec<Line>> {
    let lines = reader.list(list, "a list of instructions, one string for each line")?;
    let line = |raw: Raw<'_, String>| {
        let text = reader.text(raw, "an instruction in its text form")?.into_owned();
        Ok(Line { text, span: reader.span(raw.text) })
    };
    lines.into_iter().map(line).collect()
}
