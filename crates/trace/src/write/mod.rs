//! Writes a program as a native trace, such as a shrunk or an imported program.
//!
//! The text has all statements of the program. Values that share a name get unique names. By
//! itself, the trace needs no other file: elements of sidecar files are written out, and expected
//! elements left out. With a sidecar of its own, long elements and expected ones lie there.

mod elements;
mod object;

use std::collections::{BTreeMap, HashSet};

use millstream_types::{AttrValue, Attrs, Mesh, ScalarId, StreamMode};

use crate::error::{Result, TraceError};
use crate::program::{
    Action, Block, Body, Executable, Input, Launch, Program, REDISTRIBUTE, Results, Statement,
    Stream, StreamRef, Target, ValueRef,
};
use crate::sidecar;

pub use elements::element;
use elements::{Beside, expected, float, tensor};
use object::{Object, list, quoted};

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
    parts.extend(program.name.as_ref().map(|name| format!("\"name\": {}", quoted(name))));
    let stream = |stream: &Stream| {
        let is_pool = stream.mode == StreamMode::Pool;
        let fields = Object::new().some("device", stream.device.as_ref().map(quoted));
        let fields = fields.with("type", quoted(stream.ty)).some("index", stream.index);
        entry(&stream.name, fields.some("mode", is_pool.then_some("\"pool\"")))
    };
    parts.extend(table("streams", program.streams.iter().map(stream).collect()));
    let meshes = meshes(program);
    let mesh = |(name, mesh): (&String, &Mesh)| {
        let axes: Vec<String> = (0..mesh.rank()).map(|axis| mesh.axis_name(axis)).collect();
        let is_named = axes.iter().enumerate().any(|(k, axis)| *axis != k.to_string());
        let axes = is_named.then(|| list(axes.iter().map(quoted)));
        entry(name, Object::new().with("ranks", mesh).some("axes", axes))
    };
    parts.extend(table("meshes", meshes.iter().map(mesh).collect()));
    let mut tensors = Vec::new();
    let wholes = program.wholes.iter().flatten();
    let own = (0..).map(ValueRef).zip(&program.tensors);
    let own = own.filter(|(value, _)| wholes.clone().all(|(whole, _)| whole != value));
    for (value, t) in own.chain(wholes.clone().map(|(value, whole)| (*value, whole))) {
        let name = &names[value.index()];
        let fields = tensor(t, beside.as_deref_mut().map(|beside| (name.as_str(), beside)))?;
        let fields = fields.some("ranks", t.ranks.as_ref().map(|placed| list(&placed.ranks)));
        tensors.push(entry(name, fields.held(t.held.as_ref())));
    }
    parts.extend(table("tensors", tensors));
    let executables = program.executables.iter().map(|e| entry(&e.name, writer.executable(e)));
    parts.extend(table("executables", executables.collect()));
    parts.push(match &program.body {
        Body::Statements(all) => block("program", "[]", writer.statements(all, &all.statements)),
        Body::Instructions(lines) => {
            block("instructions", "[]", lines.iter().map(|l| quoted(&l.text)).collect())
        }
    });
    let mut outputs = Vec::new();
    for output in &program.outputs {
        let name = output.value.map_or(&output.name, |value| &names[value.index()]);
        let fields = match beside.as_deref_mut() {
            Some(beside) => expected(output, name, beside)?,
            None => Object::new(),
        };
        outputs.push(entry(name, fields));
    }
    parts.push(block("outputs", "{}", outputs));
    let version = if meshes.is_empty() { 1 } else { 2 };
    Ok(format!("{{\n  \"millstream\": {version},\n  {}\n}}\n", parts.join(",\n  ")))
}

/// Returns the meshes that a program names.
fn meshes(program: &Program) -> BTreeMap<String, Mesh> {
    let wholes = program.wholes.iter().flatten().map(|(_, whole)| whole);
    let tensors = program.tensors.iter().chain(wholes).filter_map(|tensor| tensor.held.as_ref());
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

fn entry(name: &str, fields: Object) -> String {
    format!("{}: {fields}", quoted(name))
}

/// Formats a field with one entry per line.
fn block(name: &str, brackets: &str, lines: Vec<String>) -> String {
    let (open, close) = brackets.split_at(1);
    match lines.is_empty() {
        true => format!("\"{name}\": {brackets}"),
        false => format!("\"{name}\": {open}\n    {}\n  {close}", lines.join(",\n    ")),
    }
}

/// Formats a field that is left out without entries.
fn table(name: &str, lines: Vec<String>) -> Option<String> {
    (!lines.is_empty()).then(|| block(name, "{}", lines))
}

/// Returns the numbers by the names of scalars; none if no number is given.
fn numbers(scalars: &[(String, f64)], given: impl Iterator<Item = (usize, f64)>) -> Option<Object> {
    let given = given.filter_map(|(at, value)| Some((scalars.get(at)?.0.as_str(), float(value))));
    let fields: Object = given.collect();
    (!fields.is_empty()).then_some(fields)
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

    fn list(&self, values: &[ValueRef]) -> String {
        list(values.iter().map(|value| self.name(*value)))
    }

    fn stream(&self, stream: StreamRef) -> String {
        quoted(&self.program.streams[stream.index()].name)
    }

    fn executable(&self, executable: &Executable) -> Object {
        let Executable { inputs, scalars, block, results, remat, .. } = executable;
        let input = |input: &Input| {
            let layout = &input.spec.layout;
            let strides = (!layout.is_contiguous()).then(|| list(layout.strides()));
            let fields = Object::new()
                .with("dtype", quoted(input.spec.dtype))
                .with("shape", list(input.spec.shape()))
                .some("strides", strides)
                .some("device", input.device.as_ref().map(quoted));
            (&*self.names[input.value.index()], fields.held(input.held.as_ref()))
        };
        let within = Writer { scalars, ..*self };
        let body = within.statements(block, &block.statements);
        let result = |value: ValueRef| (&*self.names[value.index()], Object::new());
        let results: Object = results.iter().map(|returned| result(returned.value)).collect();
        let budgets = remat.iter().map(|(device, bytes)| (device.to_string(), quoted(bytes)));
        let budgets = (!remat.is_empty()).then(|| budgets.collect::<Object>());
        Object::new()
            .with("inputs", inputs.iter().map(input).collect::<Object>())
            .some("scalars", numbers(scalars, scalars.iter().map(|(_, v)| *v).enumerate()))
            .with("program", list(body))
            .with("outputs", results)
            .some("remat", budgets)
    }

    fn launch(&self, launch: &Launch) -> Object {
        let executable = &self.program.executables[launch.executable.index()];
        let inputs = executable.inputs.iter().map(|input| input.value);
        let inputs = inputs.zip(launch.inputs.iter().copied()).collect();
        let (mut new, mut into) = (Vec::new(), Vec::new());
        for (result, target) in executable.results.iter().zip(&launch.outputs) {
            match target {
                Some(Target::New(value)) => new.push((result.value, *value)),
                Some(Target::Into(value)) => into.push((result.value, *value)),
                None => {}
            }
        }
        let named = |pairs: Vec<(ValueRef, ValueRef)>| {
            let pair = |(formal, given): &(ValueRef, ValueRef)| {
                (&*self.names[formal.index()], self.name(*given))
            };
            (!pairs.is_empty()).then(|| pairs.iter().map(pair).collect::<Object>())
        };
        let workspaces = &launch.workspaces;
        Object::new()
            .with("launch", quoted(&executable.name))
            .some("in", named(inputs))
            .some("out", named(new))
            .some("into", named(into))
            .some("scalars", numbers(&executable.scalars, launch.scalars.iter().copied()))
            .some("workspace", (!workspaces.is_empty()).then(|| self.list(workspaces)))
            .some("stream", launch.stream.map(|stream| self.stream(stream)))
    }

    fn statements(&self, all: &Block, statements: &[Statement]) -> Vec<String> {
        let one = |statement: &Statement| {
            // The node of a recorded trace that the statement stands for.
            let node = self.program.source.node(&statement.span);
            self.statement(all, &statement.action).some("note", node.map(quoted)).to_string()
        };
        statements.iter().map(one).collect()
    }

    fn statement(&self, all: &Block, action: &Action) -> Object {
        let event = |k: &crate::program::EventRef| quoted(&all.events[k.index()]);
        let one = |name: &str, value: String| Object::new().with(name, value);
        match action {
            Action::Call(call) if call.op == REDISTRIBUTE => {
                let (Results::New(out) | Results::Into(out)) = &call.results;
                let name = |list: &[ValueRef]| list.first().map(|value| self.name(*value));
                let fields = Object::new().some("redistribute", name(&call.inputs));
                fields.some("out", name(out)).held(call.held.as_ref())
            }
            Action::Call(call) => {
                let (out, into) = match &call.results {
                    Results::New(out) => ((!out.is_empty()).then(|| self.list(out)), None),
                    Results::Into(into) => (None, Some(self.list(into))),
                };
                Object::new()
                    .with("op", quoted(&call.op))
                    .with("in", self.list(&call.inputs))
                    .some("out", out)
                    .some("into", into)
                    .some("attrs", (!call.attrs.is_empty()).then(|| self.attrs(&call.attrs)))
                    .some("priority", (call.priority != 0).then_some(call.priority))
                    .some("ranks", call.ranks.as_ref().map(|placed| list(&placed.ranks)))
                    .held(call.held.as_ref())
                    .some("stream", call.stream.map(|stream| self.stream(stream)))
            }
            Action::Release(values) => one("release", self.list(values)),
            Action::Record { event: e, stream } => {
                one("record", event(e)).with("stream", self.stream(*stream))
            }
            Action::Wait { event: e, stream } => {
                one("wait", event(e)).with("stream", self.stream(*stream))
            }
            Action::StreamWait { from, to } => {
                let pair = one("from", self.stream(*from)).with("to", self.stream(*to));
                Object::new().with("stream_wait", pair)
            }
            Action::Read(value) => one("read", self.name(*value)),
            Action::Touch { tensors, stream } => one("touch", self.list(tensors))
                .some("stream", stream.map(|stream| self.stream(stream))),
            Action::Barrier => Object::new().with("barrier", true),
            Action::GlobalSync => Object::new().with("global_sync", true),
            Action::Synchronize(stream) => one("synchronize", self.stream(*stream)),
            Action::CriticalSection { tensors, body } => {
                let body = list(self.statements(all, body));
                one("critical_section", self.list(tensors)).with("body", body)
            }
            Action::Launch(launch) => self.launch(launch),
        }
    }

    fn attrs(&self, attrs: &Attrs) -> Object {
        let one = |value: &AttrValue| match value {
            AttrValue::Int(n) => n.to_string(),
            AttrValue::Float(x) => float(*x),
            AttrValue::Bool(b) => b.to_string(),
            AttrValue::Str(s) => quoted(s),
            AttrValue::Ints(ints) => list(ints),
            AttrValue::Floats(floats) => list(floats.iter().map(|x| float(*x))),
            AttrValue::DType(dtype) => quoted(dtype),
            AttrValue::Scalar(used) => match self.scalars.get(used.scalar.index()) {
                Some((name, _)) => quoted(format!("{}{name}", ScalarId::MARK)),
                None => quoted(used),
            },
        };
        attrs.iter().map(|(name, value)| (name, one(value))).collect()
    }
}
