//! The parts of a statement of a file, for errors that are found after loading.

use crate::json::{Raw, Reader};
use crate::program::Program;
use crate::raw_form::OpForm;
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
        let reader = &Reader::new(&self.source, usize::MAX);
        let form: OpForm<'_> = reader.read(Raw::new(text)).ok()?;
        match part {
            Part::Op => Some(reader.span(form.op.text)),
            Part::Inputs => Some(reader.span(form.input?.text)),
            Part::Input(position) => {
                Some(reader.span(reader.names(form.input?, "tensors").ok()?.get(position)?.text))
            }
            Part::Argument(name) | Part::ArgumentName(name) => {
                let entries = reader.entries(form.attrs?.cast(), "arguments").ok()?;
                let (key, value) = entries.into_iter().find(|(key, _)| key.name() == name)?;
                Some(match part {
                    Part::ArgumentName(_) => reader.span(key.text),
                    _ => reader.span(value.text),
                })
            }
        }
    }
}
