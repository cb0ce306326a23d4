//! Errors of runs, with their places in the trace.

use std::collections::HashSet;
use std::fmt;

use millstream_trace::{
    Action, Body, Call, ErrorKind, Program, Results, Span, Statement, TraceError,
};
use millstream_types::{Error, Failure, Origin};

/// An error that kept a trace from running to its end.
#[derive(Clone, Debug)]
pub struct RunError {
    /// The errors: one, or all violations that the checker found in a list.
    pub errors: Vec<TraceError>,
    /// Whether the trace is valid and failed while running.
    pub runtime: bool,
}

impl RunError {
    pub(crate) fn input(error: TraceError) -> RunError {
        RunError { errors: vec![error], runtime: false }
    }

    /// Returns an error of the libraries at a span of the trace. A failed instruction has its own
    /// place.
    pub(crate) fn at(program: &Program, place: Span, error: &Error) -> RunError {
        RunError { errors: vec![placed(program, place, error)], runtime: error.is_runtime() }
    }

    /// Returns an error that belongs to no span of the trace.
    pub(crate) fn whole(program: &Program, error: &Error) -> RunError {
        let error_of = TraceError::of_file(program.source.name(), error.to_string());
        RunError { errors: vec![error_of], runtime: error.is_runtime() }
    }
}

impl From<TraceError> for RunError {
    fn from(error: TraceError) -> RunError {
        RunError { runtime: error.kind() == ErrorKind::Memory, errors: vec![error] }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, error) in self.errors.iter().enumerate() {
            let newline = if k == 0 { "" } else { "\n" };
            write!(f, "{newline}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RunError {}

/// Converts an error of the libraries. A failed instruction is shown at its own place, any other
/// error at `place`.
pub(crate) fn placed(program: &Program, place: Span, error: &Error) -> TraceError {
    match error.without_place() {
        Error::Unknown { what, name, help } => {
            let unknown = program.error(place, format!("unknown {what} '{name}'"));
            help.iter().fold(unknown, TraceError::help)
        }
        Error::Failed(failure) | Error::Cancelled(failure) => {
            let at = match failure.origin.first() {
                Origin::Trace(file, line) if file.name == program.source.name() => {
                    find(program, *line, failure.op.as_deref())
                }
                _ => None,
            };
            match at {
                Some(at) => program.error(at, with_names(program, at, failure).without_place()),
                None => program.error(place, failure.to_string()),
            }
        }
        other => program.error(place, other.to_string()),
    }
}

/// Gives the operands and the stream of a failed call the program's names. The numbers of a
/// recorded program are no names.
fn with_names(program: &Program, at: Span, failure: &Failure) -> Failure {
    let mut failure = failure.clone();
    let Body::Statements(block) = &program.body else { return failure };
    let Some(call) = call_at(&block.statements, at).filter(|_| program.imported.is_none()) else {
        return failure;
    };
    let results = match &call.results {
        Results::New(values) | Results::Into(values) => values,
    };
    let named = call.inputs.len() + results.len();
    // An op in place has no operand for its result. With other counts, some have no name.
    if [named, call.inputs.len()].contains(&failure.operands.len()) {
        let values = call.inputs.iter().chain(results);
        for (operand, value) in failure.operands.iter_mut().zip(values) {
            operand.tensor.clone_from(&program.values[value.index()].name);
        }
    }
    if let Some(stream) = call.stream.and_then(|stream| program.streams.get(stream.index())) {
        failure.stream = format!("{} ({})", stream.name, failure.stream);
    }
    failure
}

/// Returns the call with a span.
fn call_at(statements: &[Statement], at: Span) -> Option<&Call> {
    Statement::each(statements).find_map(|statement| match &statement.action {
        Action::Call(call) if statement.span == at => Some(&**call),
        _ => None,
    })
}

/// Returns the span on a line of the file: of a statement, a line of a list, a tensor or an output.
/// Of several statements, it is the one that calls `op`, if exactly one does.
fn find(program: &Program, line: u32, op: Option<&str>) -> Option<Span> {
    let statements = program.statements().filter(|s| s.span.line == line);
    let with_op = statements.map(|statement| match &statement.action {
        Action::Call(call) => (statement.span, Some(call.op.as_str())),
        _ => (statement.span, None),
    });
    let mut found: Vec<(Span, Option<&str>)> = with_op.collect();
    if let Body::Instructions(lines) = &program.body {
        let of_line = lines.iter().filter(|l| l.span.line == line);
        found.extend(of_line.map(|l| (l.span, None)));
    }
    let tensors = program.tensors.iter().map(|t| &t.site);
    let sites = tensors.chain(program.outputs.iter().map(|o| &o.site)).map(|s| s.span());
    found.extend(sites.filter(|place| place.line == line).map(|place| (place, None)));
    if found.len() > 1 {
        found.retain(|(_, called)| *called == op);
    }
    // A node of a recorded trace may be lowered to several statements with one span.
    found.dedup_by_key(|(place, _)| *place);
    match found[..] {
        [(place, _)] => Some(place),
        _ => None,
    }
}

/// Returns the errors without repetitions, by their texts.
pub(crate) fn distinct(errors: impl IntoIterator<Item = TraceError>) -> Vec<TraceError> {
    let mut seen = HashSet::new();
    errors.into_iter().filter(|e| seen.insert(e.to_string())).collect()
}
