//! Runs a list of instructions.
//!
//! The tensors of the trace are the externals of the list, by name. An output is an external, or a
//! tensor that the list reads, named by a comment of the list or by its id there (`%3`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use millstream_instructions::text::{TextError, parse_list};
use millstream_instructions::{Body, CheckedList, InstructionList};
use millstream_ops::OpRegistry;
use millstream_trace::{Line, Program, Span, TraceError, output_of};
use millstream_types::nearest::nearest;
use millstream_types::{DeviceId, Error, Origin, ReadId, TensorId, TensorSpec};
use millstream_vm::{Machine, Range, Tensor, accepts, with_origin};

use crate::error::{RunError, distinct};
use crate::measure::measure_list;
use crate::options::RunOptions;
use crate::program::{Round, rounds};
use crate::report::RunReport;
use crate::{recorded, upload};

/// A checked list, and the meaning of its names.
pub(crate) struct Checked {
    list: CheckedList,
    /// The tensor of the trace for each external.
    externals: Vec<usize>,
    /// The device of each tensor of the trace.
    devices: Vec<Option<DeviceId>>,
    outputs: Vec<Source>,
}

impl Checked {
    /// Returns the list.
    pub(crate) fn list(&self) -> &InstructionList {
        self.list.list()
    }

    /// Returns whether its instructions run on one compute stream of the host.
    pub(crate) fn is_serial(&self) -> bool {
        let InstructionList { streams, executables, .. } = self.list();
        let is_one = crate::is_serial(streams.iter().map(|stream| (&stream.key, stream.mode)));
        is_one && executables.is_empty()
    }
}

/// The source of an output.
enum Source {
    /// An external, by its number.
    External(usize),
    /// A read of the list.
    Read(ReadId, TensorSpec),
}

/// Reads a list and checks it against the trace, the streams and the ops.
pub(crate) fn check(
    machine: &Machine,
    ops: &OpRegistry,
    program: &Program,
    lines: &[Line],
) -> Result<Checked, RunError> {
    let policies = machine.policies();
    let (list, places) = parse(program, lines)?;
    let header = lines.first().map_or_else(|| program.source.span(0..0), |l| l.span);
    let (externals, devices) = bind(program, &list, lines)?;
    let outputs = outputs(program, &list, lines)?;
    let list = millstream_verify::check(list).map_err(|violations| {
        let errors = violations.iter().map(|violation| {
            let at = violation.index().and_then(|k| places.get(k)).copied();
            program.error(at.unwrap_or(header), format!("the list is refused: {violation}"))
        });
        RunError { errors: distinct(errors), runtime: false }
    })?;
    for (k, decl) in list.list().streams.iter().enumerate() {
        let at = || header_place(lines, "stream", k).unwrap_or(header);
        policies.check(decl).map_err(|e| RunError::at(program, at(), &e))?;
    }
    for (k, device) in list.list().arenas.iter().enumerate() {
        let at = || header_place(lines, "arena", k).unwrap_or(header);
        let probed = policies.devices().probe(device);
        probed.map_err(|e| RunError::at(program, at(), &e))?;
    }
    with_origin(&Origin::Unknown, || accepts(&list, policies, ops))
        .map_err(|e| RunError::at(program, place_of(program, &e, header), &e))?;
    Ok(Checked { list, externals, devices, outputs })
}

/// Parses a list, and returns the span of each instruction, which becomes its origin.
pub(crate) fn parse(
    program: &Program,
    lines: &[Line],
) -> Result<(InstructionList, Vec<Span>), RunError> {
    let text = lines.iter().map(|l| l.text.as_str()).collect::<Vec<_>>().join("\n");
    let starts = line_starts(lines);
    let mut list =
        parse_list(&text).map_err(|e| RunError::input(text_error(program, lines, &starts, e)))?;
    let places = instruction_places(lines, list.instructions.len());
    for (instruction, place) in list.instructions.iter_mut().zip(&places) {
        // The instruction's origin in this run is its line of this file.
        instruction.origin = program.origin(*place);
    }
    Ok((list, places))
}

/// Returns the span of an error whose origin is a line of the file.
fn place_of(program: &Program, error: &Error, otherwise: Span) -> Span {
    let Error::At { origin: millstream_types::Origin::Trace(_, line), .. } = error else {
        return otherwise;
    };
    let millstream_trace::Body::Instructions(lines) = &program.body else { return otherwise };
    lines.iter().find(|l| l.span.line == *line).map_or(otherwise, |l| l.span)
}

/// Returns the number of each entry's first line in the joined text, from 1. An entry may hold
/// several lines.
fn line_starts(lines: &[Line]) -> Vec<usize> {
    let mut next = 1;
    lines
        .iter()
        .map(|line| {
            let start = next;
            next += 1 + line.text.matches('\n').count();
            start
        })
        .collect()
}

fn text_error(program: &Program, lines: &[Line], starts: &[usize], error: TextError) -> TraceError {
    let at = starts.partition_point(|s| *s <= error.line).saturating_sub(1);
    let Some(line) = lines.get(at) else {
        return program.error(program.source.span(0..0), error.message);
    };
    let mut place = line.span;
    // A line of a list's own file is its text. In a string without escapes, each character of the
    // text is one character of the file.
    let raw = &program.source.text()[place.range()];
    let quote = usize::from(raw != line.text);
    if raw.get(quote..raw.len().saturating_sub(quote)) == Some(line.text.as_str()) {
        let before: usize =
            line.text.chars().take(error.column.saturating_sub(1)).map(char::len_utf8).sum();
        let from = place.offset + quote + before;
        let rest = line.text[before..].find([' ', ',']).unwrap_or(line.text.len() - before);
        place = program.source.span(from..from + rest.max(1));
    }
    program.error(place, error.message)
}

/// Returns the span of each instruction: that of the entry that holds its text.
fn instruction_places(lines: &[Line], instructions: usize) -> Vec<Span> {
    let mut places = Vec::with_capacity(instructions);
    let mut headed = false;
    for line in lines {
        for text in line.text.split('\n') {
            let word = text.split_whitespace().next().unwrap_or("#");
            if word.starts_with('#') {
                continue;
            }
            if !std::mem::replace(&mut headed, true)
                || ["stream", "arena", "external"].contains(&word)
            {
                continue;
            }
            places.push(line.span);
        }
    }
    places
}

/// Returns the span of the header line that declares the `k`th stream or arena.
pub(crate) fn header_place(lines: &[Line], word: &str, k: usize) -> Option<Span> {
    let declares = |text: &str| text.split_whitespace().next() == Some(word);
    let texts = lines.iter().flat_map(|l| l.text.split('\n').map(move |text| (text, l.span)));
    texts.filter(|(text, _)| declares(text)).nth(k).map(|(_, place)| place)
}

type Bindings = (Vec<usize>, Vec<Option<DeviceId>>);

/// Returns the tensor of the trace for each external.
fn bind(program: &Program, list: &InstructionList, lines: &[Line]) -> Result<Bindings, RunError> {
    let names: HashMap<&str, usize> =
        program.tensors.iter().enumerate().map(|(k, t)| (t.name.as_str(), k)).collect();
    let mut devices = vec![None; program.tensors.len()];
    let mut externals = Vec::new();
    for (k, external) in list.externals.iter().enumerate() {
        let refused = |message: String| {
            let place = header_place(lines, "external", k);
            program.error(place.unwrap_or_else(|| program.source.span(0..0)), message)
        };
        let Some(&at) = names.get(external.name.as_str()) else {
            let message =
                format!("the list needs a tensor '{}', which the trace lacks", external.name);
            let close = nearest(&external.name, names.keys().copied());
            return Err(RunError::input(refused(message).meant(close)));
        };
        let tensor = &program.tensors[at];
        let Some(device) = list.arenas.get(external.arena.index()) else {
            let message = format!("{} is not declared", external.arena);
            return Err(RunError::input(refused(message)));
        };
        let wrong = if tensor.spec != external.spec {
            Some(format!("is {} in the list and {} in the trace", external.spec, tensor.spec))
        } else if (tensor.storage_bytes as u64) < external.bytes {
            let (wanted, got) = (external.bytes, tensor.storage_bytes);
            Some(format!("has {wanted} bytes in the list and {got} in the trace"))
        } else {
            let other = tensor.device.as_ref().filter(|d| *d != device);
            other.map(|other| format!("lies on {device} in the list and on {other} in the trace"))
        };
        if let Some(wrong) = wrong {
            let message = format!("the tensor '{}' {wrong}", external.name);
            return Err(RunError::input(refused(message)));
        }
        devices[at] = Some(device.clone());
        externals.push(at);
    }
    Ok((externals, devices))
}

/// Returns the source of each output.
fn outputs(
    program: &Program,
    list: &InstructionList,
    lines: &[Line],
) -> Result<Vec<Source>, RunError> {
    let texts = lines.iter().flat_map(|line| line.text.split('\n'));
    let named: HashMap<String, &str> = texts.filter_map(output_of).collect();
    let mut specs: HashMap<TensorId, &TensorSpec> =
        list.externals.iter().map(|e| (e.tensor, &e.spec)).collect();
    let mut reads: HashMap<String, (ReadId, TensorSpec)> = HashMap::new();
    for instruction in &list.instructions {
        specs.extend(instruction.body.begins());
        if let Body::SyncRead { operand, into, .. } = &instruction.body
            && let Some(&spec) = specs.get(&operand.tensor)
        {
            // The last read of a tensor counts.
            reads.insert(operand.tensor.to_string(), (*into, spec.clone()));
        }
    }
    let find = |output: &millstream_trace::Output| {
        let tensor = named.get(&output.name).copied();
        // The output of this name may be another tensor than the external of this name.
        let external = list.externals.iter().position(|e| {
            e.name == output.name && tensor.is_none_or(|tensor| e.tensor.to_string() == tensor)
        });
        if let Some(at) = external {
            return Ok(Source::External(at));
        }
        let tensor = tensor.unwrap_or(&output.name);
        if let Some((read, spec)) = reads.get(tensor) {
            return Ok(Source::Read(*read, spec.clone()));
        }
        let names = list.externals.iter().map(|e| e.name.as_str());
        let close = nearest(&output.name, names.chain(reads.keys().map(String::as_str)));
        let message =
            format!("the list has no external '{0}' and reads no tensor {0}", output.name);
        Err(RunError::input(output.site.error(message).meant(close)))
    };
    program.outputs.iter().map(find).collect()
}

/// Runs a checked list as often as the options say.
pub(crate) fn run(
    machine: &Machine,
    program: &Arc<Program>,
    checked: &Checked,
    options: &RunOptions,
) -> Result<RunReport, RunError> {
    let mut report = RunReport { trace: program.source.name().to_owned(), ..RunReport::default() };
    let list = checked.list.list();
    let held = program.tensors.iter().map(|tensor| tensor.storage_bytes as u64);
    measure_list(list, held, &mut report);
    if options.emit {
        report.list = Some(list.clone());
    }
    rounds(machine, program, options, &mut report, |_, report| {
        let profiling = match options.profile {
            true => Some(machine.profile(&[]).map_err(|e| RunError::whole(program, &e))?),
            false => None,
        };
        let round = round(machine, program, checked, options)?;
        if let Some(profiling) = profiling {
            let times = profiling.finish().map_err(|e| RunError::whole(program, &e))?;
            recorded::keep(machine, times, report);
        }
        Ok(round)
    })?;
    Ok(report)
}

/// Runs a list once.
fn round(
    machine: &Machine,
    program: &Arc<Program>,
    checked: &Checked,
    options: &RunOptions,
) -> Result<Round, RunError> {
    let whole = |e: Error| RunError::whole(program, &e);
    let device = |k: usize| {
        let own = checked.devices[k].clone().or_else(|| program.tensors[k].device.clone());
        own.unwrap_or_else(|| options.device.clone())
    };
    let tensors = upload::all(machine, program, device)?;
    let bound: Vec<Tensor> = checked.externals.iter().map(|k| tensors[*k].clone()).collect();
    let compile = || machine.compile(&checked.list);
    let executable = with_origin(&Origin::Unknown, compile).map_err(whole)?;
    let range = machine.range(Range::PROGRAM);
    let start = Instant::now();
    let mut errors = Vec::new();
    let origin = program.origin(program.source.span(0..0));
    let names = checked.list.list().externals.iter().map(|external| &external.name);
    let launch =
        names.zip(&bound).fold(executable.launch().origin(origin), |launch, (name, tensor)| {
            launch.input(name, tensor)
        });
    let launched = options.cancellable(|| launch.run()).map_err(whole)?;
    match launched.wait() {
        Err(e) if e.failure().is_some() => errors.push(e),
        waited => waited.map_err(whole)?,
    }
    let wall = start.elapsed();
    drop(range);
    let _range = machine.range(Range::READING);
    let mut reads = Vec::with_capacity(checked.outputs.len());
    for (output, source) in program.outputs.iter().zip(&checked.outputs) {
        let place = output.site.span();
        let at = |e: Error| RunError::at(program, place, &e);
        let (spec, bytes) = match source {
            Source::External(k) => {
                let tensor = &tensors[checked.externals[*k]];
                (tensor.spec().clone(), with_origin(&program.origin(place), || tensor.read()))
            }
            Source::Read(read, spec) => {
                let none = || Error::Internal { message: "a read has no result".to_owned() };
                let taken = launched.take_read(*read).transpose();
                (spec.clone(), taken.unwrap_or_else(|| Err(none())))
            }
        };
        reads.push(match bytes {
            Ok(bytes) => {
                Some((TensorSpec::contiguous(spec.dtype, spec.shape()).map_err(at)?, bytes))
            }
            Err(e) if e.failure().is_some() => {
                errors.push(e);
                None
            }
            Err(e) => return Err(at(e)),
        });
    }
    if let Some(progress) = &options.progress {
        progress.call();
    }
    Ok(Round { reads, wall, reading: start.elapsed() - wall, failures: errors })
}
