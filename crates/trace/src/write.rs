//! Writes a program as a native trace, such as a shrunk or an imported program.
//!
//! The text has all statements of the program, but neither comments nor expected elements. Values
//! that share a name get unique names. Elements of sidecar files are written out, so that the trace
//! needs no other file.

use std::collections::HashSet;
use std::fmt::Write;

use half::{bf16, f16};
use millstream_types::{AttrValue, Attrs, DType, StreamMode};

use crate::data::Data;
use crate::element_iter::ElementIter;
use crate::error::Result;
use crate::number::Number;
use crate::program::{
    Action, Block, Body, Executable, Input, Launch, Program, Results, Returned, Statement, Target,
    Tensor, ValueRef,
};
use crate::random::Distribution;

/// Returns the text of a native trace with the statements of `program`.
///
/// # Errors
/// The elements of a sidecar file cannot be read.
pub fn write(program: &Program) -> Result<String> {
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
    let writer = Writer { program, names };
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
    let tensors = program.tensors.iter().zip(&writer.names);
    let tensors = tensors.map(|(t, name)| Ok(format!("{}: {}", quoted(name), tensor(t)?)));
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
        format!("{}: {{}}", quoted(name))
    });
    parts.push(block("outputs", '{', outputs));
    Ok(format!("{{\n  \"millstream\": 1,\n  {}\n}}\n", parts.join(",\n  ")))
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

fn number(number: Number) -> String {
    match number {
        Number::Bool(b) => b.to_string(),
        Number::Int(n) => n.to_string(),
        Number::Float(x) => float(x),
    }
}

fn float(x: f64) -> String {
    match (x.is_nan(), x.is_infinite()) {
        (true, _) => "\"nan\"".to_owned(),
        (_, true) if x > 0.0 => "\"inf\"".to_owned(),
        (_, true) => "\"-inf\"".to_owned(),
        _ => format!("{x:?}"),
    }
}

fn attrs(attrs: &Attrs) -> String {
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
    };
    let fields = attrs.iter().map(|(name, value)| format!("{}: {}", quoted(name), one(value)));
    format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
}

fn tensor(tensor: &Tensor) -> Result<String> {
    let spec = &tensor.spec;
    let (layout, dtype) = (&spec.layout, spec.dtype);
    let mut text = format!("{{ \"dtype\": \"{dtype}\", \"shape\": {:?}", spec.shape());
    // Writing to a string does not fail.
    if let Some(device) = &tensor.device {
        let _ = write!(text, ", \"device\": \"{device}\"");
    }
    if !layout.is_contiguous() {
        let _ = write!(text, ", \"strides\": {:?}", layout.strides());
    }
    if layout.offset() > 0 {
        let _ = write!(text, ", \"offset\": {}", layout.offset());
    }
    if tensor.storage_bytes > spec.span_bytes() {
        let _ = write!(text, ", \"storage\": {}", tensor.storage_bytes / dtype.size());
    }
    let data = match &tensor.data {
        Data::Fill(value) => format!("\"fill\": {}", number(*value)),
        Data::Values(literal) => format!("\"values\": {}", literal.line()),
        Data::Listed(_) => format!("\"values\": [{}]", elements(tensor)?.join(", ")),
        Data::Random { seed, distribution } => match distribution {
            Distribution::Uniform { low, high } => {
                let (low, high) = (float(*low), float(*high));
                format!("\"random\": {{ \"seed\": {seed}, \"low\": {low}, \"high\": {high} }}")
            }
            Distribution::Integers { .. } if dtype == DType::Bool => {
                format!("\"random\": {{ \"seed\": {seed} }}")
            }
            Distribution::Integers { low, high } => {
                format!("\"random\": {{ \"seed\": {seed}, \"low\": {low}, \"high\": {high} }}")
            }
            Distribution::Normal { mean, std } => {
                let (mean, std) = (float(*mean), float(*std));
                format!("\"normal\": {{ \"seed\": {seed}, \"mean\": {mean}, \"std\": {std} }}")
            }
        },
        Data::File(_) | Data::Hint(_) => format!("\"values\": [{}]", elements(tensor)?.join(", ")),
    };
    Ok(format!("{text}, {data} }}"))
}

/// Returns the elements in row-major order.
fn elements(tensor: &Tensor) -> Result<Vec<String>> {
    let storage = tensor.materialize()?;
    let size = tensor.spec.dtype.size();
    let offsets = ElementIter::new(&tensor.spec.layout);
    let text = |offset: usize| element(tensor.spec.dtype, &storage[offset * size..][..size]);
    Ok(offsets.map(text).collect())
}

/// Returns an element as JSON, exactly. Of numbers that JSON lacks, the name as a string.
pub fn element(dtype: DType, bytes: &[u8]) -> String {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut whole = [0; N];
        whole.copy_from_slice(bytes);
        whole
    }
    match dtype {
        DType::F32 => float(f32::from_ne_bytes(array(bytes)).into()),
        DType::F64 => float(f64::from_ne_bytes(array(bytes))),
        DType::F16 => float(f16::from_ne_bytes(array(bytes)).into()),
        DType::BF16 => float(bf16::from_ne_bytes(array(bytes)).into()),
        DType::I64 => i64::from_ne_bytes(array(bytes)).to_string(),
        DType::I32 => i32::from_ne_bytes(array(bytes)).to_string(),
        DType::I16 => i16::from_ne_bytes(array(bytes)).to_string(),
        DType::I8 => i8::from_ne_bytes(array(bytes)).to_string(),
        DType::U8 => bytes[0].to_string(),
        DType::Bool => (bytes[0] != 0).to_string(),
    }
}

struct Writer<'a> {
    program: &'a Program,
    names: Vec<String>,
}

impl Writer<'_> {
    fn name(&self, value: ValueRef) -> String {
        quoted(&self.names[value.index()])
    }

    fn executable(&self, executable: &Executable) -> String {
        let Executable { name, inputs, block, results, .. } = executable;
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
            text + " }"
        };
        let result = |result: &Returned| format!("{}: {{}}", self.name(result.value));
        let inputs = inputs.iter().map(input).collect::<Vec<_>>().join(", ");
        let results = results.iter().map(result).collect::<Vec<_>>().join(", ");
        let body = self.statements(block, &block.statements).join(", ");
        let name = quoted(name);
        format!(
            "{name}: {{ \"inputs\": {{ {inputs} }}, \"program\": [{body}], \"outputs\": {{ {results} }} }}"
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
        format!("{text}{} }}", self.on(launch.stream))
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
        statements.iter().map(|s| self.statement(all, &s.action)).collect()
    }

    fn statement(&self, all: &Block, action: &Action) -> String {
        let event = |k: crate::program::EventRef| quoted(&all.events[k.index()]);
        match action {
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
                    let _ = write!(text, ", \"attrs\": {}", attrs(&call.attrs));
                }
                if call.priority != 0 {
                    let _ = write!(text, ", \"priority\": {}", call.priority);
                }
                format!("{text}{} }}", self.on(call.stream))
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
