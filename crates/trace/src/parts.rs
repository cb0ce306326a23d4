//! The parts of a statement of a file, for errors that are found after loading.

use crate::json::{Raw, Reader};
use crate::program::Program;
use crate::raw_form::OpForm;
use crate::schema_types::Names;
use crate::source::Span;

/// A part of an op call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The op's name.
    Op,
    /// The tensors.
    Inputs,
    /// The tensor at this position.
    Input(usize),
    /// The argument of this name.
    Argument(&'a str),
    /// The name of the argument of this name.
    ArgumentName(&'a str),
}

impl Program {
    /// Returns the span of a part of the op call at `statement`, if the call has it. Spans of a
    /// recorded trace stand for nodes, which have no parts.
    pub fn part(&self, statement: Span, part: Part<'_>) -> Option<Span> {
        let text = self.source.text().get(statement.range())?;
        let reader = Reader::new(&self.source, usize::MAX);
        let form: OpForm<'_> = serde_json::from_str(text).ok()?;
        match part {
            Part::Op => Some(reader.span(form.op?)),
            Part::Inputs => Some(reader.span(form.input?)),
            Part::Input(position) => {
                let inputs = form.input?;
                if inputs.kind() == "a string" {
                    return (position == 0).then(|| reader.span(inputs));
                }
                let list: Raw<'_, Vec<Names>> = inputs.cast();
                Some(reader.span(*reader.list(list, "tensors").ok()?.get(position)?))
            }
            Part::Argument(name) | Part::ArgumentName(name) => {
                let entries = reader.entries(form.attrs?, "arguments").ok()?;
                let (key, value) = entries.into_iter().find(|(key, _)| key.name == name)?;
                Some(match part {
                    Part::ArgumentName(_) => reader.key_span(&key),
                    _ => reader.span(value),
                })
            }
        }
    }
}
