//! Writes a program as a native trace, such as a shrunk or an imported program.
//!
//! The text has all statements of the program. Values that share a name get unique names. By
//! itself, the trace needs no other file: elements of sidecar files are written out, and expected
//! elements left out. With a sidecar of its own, long elements and expected ones lie there.

mod elements;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use millstream_types::{AttrValue, Attrs, DeviceId, Mesh, ScalarId, StreamMode};

use crate::error::{Result, TraceError};
use crate::program::{
    Action, Block, Body, Executable, Held, Input, Launch, Placement, Program, REDISTRIBUTE,
    Results, Returned, Statement, Target, ValueRef,
};
use crate::sidecar;

pub use elements::element;
use elements::{Beside, expected, float, tensor};

/// Returns the text of a native trace with the statements of `program`.
///
/// # Errors
/// The elements of a sidecar file cannot be read.
pub fn write(program: &Program) -> Result<String> {
    text(program, None)
}

/// Returns the text of a native trace with the statements and outputs of `program`, and the
/// safetensors file with its elements, which is to lie beside it under the name `file`.
///
/// # Errors
/// The elements of a sidecar file cannot be read.
pub fn write_with_sidecar(program: &Program, file: &str) -> Result<(String, Vec<u8>)> {
    let mut beside = Beside { file, tensors: BTreeMap::new() };
    let text = text(program, Some(&mut beside))?;
    let tensors = beside.tensors.iter();
    let tensors = tensors.map(|(key, (dtype, shape, elements))| {
        (key.clone(), (*dtype, shape.as_slice(), elements.as_slice()))
    });
    let bytes = sidecar::bytes(&tensors.collect());
    Ok((text, bytes.map_err(|e| TraceError::of_file(file, e))?))
}

fn text(program: &Program, mut beside: Option<&mut Beside<'_>>) -> Result<String> {
    let mut names = Vec::with_capacity(program.values.len());
    let mut taken = HashSet::new();
    for value in &program.values {
        let mut name = value.name.clone();
        let mut count = 1;
        while !taken.insert(name.clone()) {
            count += 1;
            name = format!("{}_{count}", value.name);
        }
        names.push(name);
    }
    let writer = Writer { program, names: &names, scalars: &[] };
    let mut parts = Vec::new();
    if let Some(name) = &program.name {
        parts.push(format!("\"name\": {}", quoted(name)));
    }
    if !program.streams.is_empty() {
        let lines = program.streams.iter().map(|stream| {
            let mut fields = Vec::new();
            fields.extend(stream.device.as_ref().map(|d| format!("\"device\": \"{d}\"")));
            fields.push(format!("\"type\": \"{}\"", stream.ty));
            fields.extend(stream.index.map(|k| format!("\"index\": {k}")));
            if stream.mode == StreamMode::Pool {
                fields.push("\"mode\": \"pool\"".to_owned());
            }
            format!("{}: {{ {} }}", quoted(&stream.name), fields.join(", "))
        });
        parts.push(block("streams", '{', lines));
    }
    let meshes = meshes(program);
    if !meshes.is_empty() {
        let lines = meshes.iter().map(|(name, mesh)| {
            let axes: Vec<String> = (0..mesh.rank()).map(|axis| mesh.axis_name(axis)).collect();
            let is_named = axes.iter().enumerate().any(|(k, axis)| *axis != k.to_string());
            let axes: Vec<String> = axes.iter().map(|axis| quoted(axis)).collect();
            let axes = format!(", \"axes\": [{}]", axes.join(", "));
            let axes = if is_named { &axes } else { "" };
            format!("{}: {{ \"ranks\": {mesh}{axes} }}", quoted(name))
        });
        parts.push(block("meshes", '{', lines));
    }
    let tensors = program.tensors.iter().zip(writer.names);
    let tensors = tensors.map(|(t, name)| {
        let mut text = tensor(t, beside.as_deref_mut().map(|beside| (name.as_str(), beside)))?;
        if let Some(Placement { ranks, .. }) = &t.ranks {
            text = format!("{}, \"ranks\": {ranks:?} }}", text.trim_end_matches('}').trim_end());
        }
        if let Some(of) = &t.held {
            text = format!("{}{} }}", text.trim_end_matches('}').trim_end(), held(of));
        }
        Ok(format!("{}: {text}", quoted(name)))
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    if !tensors.is_empty() {
        parts.push(block("tensors", '{', tensors));
    }
    if !program.executables.is_empty() {
        let executables = program.executables.iter().map(|e| writer.executable(e));
        parts.push(block("executables", '{', executables));
    }
    parts.push(match &program.body {
        Body::Statements(all) => block("program", '[', writer.statements(all, &all.statements)),
        Body::Instructions(lines) => {
            block("instructions", '[', lines.iter().map(|l| quoted(&l.text)))
        }
    });
    let outputs = program.outputs.iter().map(|output| {
        let name = output.value.map_or(&output.name, |v| &writer.names[v.index()]);
        let expected = beside.as_deref_mut().map(|beside| expected(output, name, beside));
        Ok(format!("{}: {{{}}}", quoted(name), expected.transpose()?.unwrap_or_default()))
    });
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    parts.push(block("outputs", '{', outputs));
    let version = if meshes.is_empty() { 1 } else { 2 };
    Ok(format!("{{\n  \"millstream\": {version},\n  {}\n}}\n", parts.join(",\n  ")))
}

/// Returns the meshes that a program names.
fn meshes(program: &Program) -> BTreeMap<String, Mesh> {
    let tensors = program.tensors.iter().filter_map(|tensor| tensor.held.as_ref());
    let main = match &program.body {
        Body::Statements(block) => Some(block),
        Body::Instructions(_) => None,
    };
    let blocks = program.executables.iter().map(|executable| &executable.block).chain(main);
    let calls = blocks.flat_map(|block| &block.statements).filter_map(|s| match &s.action {
        Action::Call(call) => call.held.as_ref(),
        _ => None,
    });
    let inputs = program.executables.iter().flat_map(|executable| &executable.inputs);
    let inputs = inputs.filter_map(|input| input.held.as_ref());
    tensors.chain(inputs).chain(calls).filter_map(|held| held.mesh.clone()).collect()
}

/// Returns the fields that say how a mesh holds a tensor.
fn held(held: &Held) -> String {
    let sbp: Vec<String> = held.sbp.iter().map(|sbp| format!("\"{sbp}\"")).collect();
    let sbp = format!(", \"sbp\": [{}]", sbp.join(", "));
    match &held.mesh {
        Some((name, _)) => format!(", \"mesh\": {}{sbp}", quoted(name)),
        None => sbp,
    }
}

/// Formats a field with one entry per line.
fn block(name: &str, open: char, lines: impl IntoIterator<Item = String>) -> String {
    let close = if open == '{' { '}' } else { ']' };
    let lines: Vec<String> = lines.into_iter().collect();
    if lines.is_empty() {
        return format!("\"{name}\": {open}{close}");
    }
    format!("\"{name}\": {open}\n    {}\n  {close}", lines.join(",\n    "))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn attrs(attrs: &Attrs, scalars: &[(String, f64)]) -> String {
    let one = |value: &AttrValue| match value {
        AttrValue::Int(n) => n.to_string(),
        AttrValue::Float(x) => float(*x),
        AttrValue::Bool(b) => b.to_string(),
        AttrValue::Str(s) => quoted(s),
        AttrValue::Ints(list) => format!("{list:?}"),
        AttrValue::Floats(list) => {
            format!("[{}]", list.iter().map(|x| float(*x)).collect::<Vec<_>>().join(", "))
        }
        AttrValue::DType(dtype) => quoted(&dtype.to_string()),
        AttrValue::Scalar(used) => quoted(&match scalars.get(used.scalar.index()) {
            Some((name, _)) => format!("{}{name}", ScalarId::MARK),
            None => used.to_string(),
        }),
    };
    let fields = attrs.iter().map(|(name, value)| format!("{}: {}", quoted(name), one(value)));
    format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
}

/// Formats the field `scalars`; nothing if no number is given.
fn named_numbers(scalars: &[(String, f64)], given: impl Iterator<Item = (usize, f64)>) -> String {
    let field = |(at, value): (usize, f64)| {
        Some(format!("{}: {}", quoted(&scalars.get(at)?.0), float(value)))
    };
    let fields: Vec<String> = given.filter_map(field).collect();
    match fields.is_empty() {
        true => String::new(),
        false => format!(", \"scalars\": {{ {} }}", fields.join(", ")),
    }
}

struct Writer<'a> {
    program: &'a Program,
    names: &'a [String],
    /// The scalars of the executable that is written.
    scalars: &'a [(String, f64)],
}

impl Writer<'_> {
    fn name(&self, value: ValueRef) -> String {
        quoted(&self.names[value.index()])
    }

    fn executable(&self, executable: &Executable) -> String {
        let Executable { name, inputs, scalars, block, results, remat, .. } = executable;
        let input = |input: &Input| {
            let (name, dtype) = (self.name(input.value), input.spec.dtype);
            let mut text = format!("{name}: {{ \"dtype\": \"{dtype}\"");
            // Writing to a string does not fail.
            let _ = write!(text, ", \"shape\": {:?}", input.spec.shape());
            if !input.spec.layout.is_contiguous() {
                let _ = write!(text, ", \"strides\": {:?}", input.spec.layout.strides());
            }
            if let Some(device) = &input.device {
                let _ = write!(text, ", \"device\": \"{device}\"");
            }
            text + &input.held.as_ref().map(held).unwrap_or_default() + " }"
        };
        let result = |result: &Returned| format!("{}: {{}}", self.name(result.value));
        let inputs = inputs.iter().map(input).collect::<Vec<_>>().join(", ");
        let results = results.iter().map(result).collect::<Vec<_>>().join(", ");
        let within = Writer { scalars, ..*self };
        let body = within.statements(block, &block.statements).join(", ");
        let all = 0..scalars.len();
        let given = named_numbers(scalars, all.map(|k| (k, scalars[k].1)));
        let (name, results) = (quoted(name), format!("\"outputs\": {{ {results} }}"));
        let budget = |(device, bytes): &(DeviceId, u64)| format!("\"{device}\": \"{bytes}\"");
        let budgets = remat.iter().map(budget).collect::<Vec<_>>().join(", ");
        let remat = match budgets.as_str() {
            "" => String::new(),
            _ => format!(", \"remat\": {{ {budgets} }}"),
        };
        format!(
            "{name}: {{ \"inputs\": {{ {inputs} }}{given}, \"program\": [{body}], \
             {results}{remat} }}"
        )
    }

    fn launch(&self, launch: &Launch) -> String {
        let executable = &self.program.executables[launch.executable.index()];
        let mut text = format!("{{ \"launch\": {}", quoted(&executable.name));
        let inputs = executable.inputs.iter().zip(&launch.inputs);
        let inputs = inputs.map(|(i, given)| (i.value, *given)).collect();
        let targets = || executable.results.iter().zip(&launch.outputs);
        let new = targets().filter_map(|(r, target)| match target {
            Some(Target::New(value)) => Some((r.value, *value)),
            Some(Target::Into(_)) | None => None,
        });
        let into = targets().filter_map(|(r, target)| match target {
            Some(Target::Into(value)) => Some((r.value, *value)),
            Some(Target::New(_)) | None => None,
        });
        let fields: [(&str, Vec<(ValueRef, ValueRef)>); 3] =
            [("in", inputs), ("out", new.collect()), ("into", into.collect())];
        for (field, pairs) in fields.iter().filter(|(_, pairs)| !pairs.is_empty()) {
            let pair = |(formal, given): &(ValueRef, ValueRef)| {
                format!("{}: {}", self.name(*formal), self.name(*given))
            };
            let pairs = pairs.iter().map(pair).collect::<Vec<_>>().join(", ");
            // Writing to a string does not fail.
            let _ = write!(text, ", \"{field}\": {{ {pairs} }}");
        }
        let given = named_numbers(&executable.scalars, launch.scalars.iter().copied());
        let workspace = match &launch.workspaces[..] {
            [] => String::new(),
            workspaces => format!(", \"workspace\": {}", self.list(workspaces)),
        };
        format!("{text}{given}{workspace}{} }}", self.on(launch.stream))
    }

    fn list(&self, values: &[ValueRef]) -> String {
        let names = values.iter().map(|v| quoted(&self.names[v.index()]));
        format!("[{}]", names.collect::<Vec<_>>().join(", "))
    }

    fn stream(&self, stream: crate::program::StreamRef) -> String {
        quoted(&self.program.streams[stream.index()].name)
    }

    fn on(&self, stream: Option<crate::program::StreamRef>) -> String {
        stream.map_or_else(String::new, |s| format!(", \"stream\": {}", self.stream(s)))
    }

    fn statements(&self, all: &Block, statements: &[Statement]) -> Vec<String> {
        let one = |statement: &Statement| {
            let text = self.statement(all, &statement.action);
            // The node of a recorded trace that the statement stands for.
            match self.program.source.node(&statement.span) {
                Some(node) => {
                    let text = text.strip_suffix(" }").unwrap_or(&text);
                    format!("{text}, \"note\": {} }}", quoted(&node))
                }
                None => text,
            }
        };
        statements.iter().map(one).collect()
    }

    fn statement(&self, all: &Block, action: &Action) -> String {
        let event = |k: crate::program::EventRef| quoted(&all.events[k.index()]);
        match action {
            Action::Call(call) if call.op == REDISTRIBUTE => {
                let out = match &call.results {
                    Results::New(out) | Results::Into(out) => out,
                };
                let only = |list: &[ValueRef]| {
                    list.first().map(|value| self.name(*value)).unwrap_or_default()
                };
                let (of, out) = (only(&call.inputs), only(out));
                let of_mesh = call.held.as_ref().map(held).unwrap_or_default();
                format!("{{ \"redistribute\": {of}, \"out\": {out}{of_mesh} }}")
            }
            Action::Call(call) => {
                let mut text = format!("{{ \"op\": {}", quoted(&call.op));
                let _ = write!(text, ", \"in\": {}", self.list(&call.inputs));
                match &call.results {
                    Results::New(out) if out.is_empty() => {}
                    Results::New(out) => {
                        let _ = write!(text, ", \"out\": {}", self.list(out));
                    }
                    Results::Into(into) => {
                        let _ = write!(text, ", \"into\": {}", self.list(into));
                    }
                }
                if !call.attrs.is_empty() {
                    let _ = write!(text, ", \"attrs\": {}", attrs(&call.attrs, self.scalars));
                }
                if call.priority != 0 {
                    let _ = write!(text, ", \"priority\": {}", call.priority);
                }
                if let Some(Placement { ranks, .. }) = &call.ranks {
                    let _ = write!(text, ", \"ranks\": {ranks:?}");
                }
                let of_mesh = call.held.as_ref().map(held).unwrap_or_default();
                format!("{text}{of_mesh}{} }}", self.on(call.stream))
            }
            Action::Release(values) => format!("{{ \"release\": {} }}", self.list(values)),
            Action::Record { event: e, stream } => {
                format!("{{ \"record\": {}, \"stream\": {} }}", event(*e), self.stream(*stream))
            }
            Action::Wait { event: e, stream } => {
                format!("{{ \"wait\": {}, \"stream\": {} }}", event(*e), self.stream(*stream))
            }
            Action::StreamWait { from, to } => {
                let (from, to) = (self.stream(*from), self.stream(*to));
                format!("{{ \"stream_wait\": {{ \"from\": {from}, \"to\": {to} }} }}")
            }
            Action::Read(value) => {
                format!("{{ \"read\": {} }}", self.name(*value))
            }
            Action::Touch { tensors, stream } => {
                format!("{{ \"touch\": {}{} }}", self.list(tensors), self.on(*stream))
            }
            Action::Barrier => "{ \"barrier\": true }".to_owned(),
            Action::GlobalSync => "{ \"global_sync\": true }".to_owned(),
            Action::Synchronize(stream) => {
                format!("{{ \"synchronize\": {} }}", self.stream(*stream))
            }
            Action::CriticalSection { tensors, body } => {
                let body = self.statements(all, body).join(", ");
                format!("{{ \"critical_section\": {}, \"body\": [{body}] }}", self.list(tensors))
            }
            Action::Launch(launch) => self.launch(launch),
        }
    }
}
