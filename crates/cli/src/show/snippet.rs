//! Prints errors with the line of the trace that they concern.

use annotate_snippets::{AnnotationKind, Level, Snippet};
use millstream_files::console::{self, Console, Problem};
use millstream_files::eprintln;
use millstream_runner::RunError;
use millstream_terminal::table::wrapped;
use millstream_trace::TraceError;

use super::violations::print_group;
use crate::BAD_INPUT;

/// Prints an error and the further ones of its file to standard error.
pub(crate) fn print(error: &TraceError) {
    std::iter::once(error).chain(error.others()).for_each(print_one);
}

/// Prints errors to standard error, and returns the exit status of bad input.
pub(crate) fn bad_input(error: impl Into<RunError>) -> u8 {
    error.into().errors.iter().for_each(print);
    BAD_INPUT
}

/// Prints a message without a place to standard error.
pub(crate) fn print_message(message: &str) {
    console::keep(Problem { message: message.to_owned(), ..Problem::default() });
    eprintln!("error: {}", title(message).replace('\n', "\n       "));
}

/// Wraps the title of an error for standard error.
pub(crate) fn title(text: &str) -> String {
    wrapped(text, "error: ".len(), Console::Err.is_terminal())
}

/// Wraps a note, or the help, of an error for standard error.
pub(crate) fn note(text: &str) -> String {
    wrapped(text, "    = help: ".len(), Console::Err.is_terminal())
}

fn print_one(error: &TraceError) {
    let excerpt = error.span().zip(error.excerpt());
    // The excerpt may begin in the middle of a long line, so the title gives the position too.
    let at = excerpt.map_or_else(String::new, |(place, _)| format!(":{place}"));
    console::keep(Problem {
        place: format!("{}{at}", error.file()),
        message: error.message().to_owned(),
        help: error.hint().map(str::to_owned),
    });
    let title = title(&format!("{}{at}: {}", error.file(), error.message()));
    let hint = error.hint().map(note);
    let snippet = excerpt.map(|(_, excerpt)| {
        let end = excerpt.span.end.max(excerpt.span.start);
        let annotation = AnnotationKind::Primary.span(excerpt.span.start..end);
        let source = Snippet::source(excerpt.text.as_str());
        source.line_start(excerpt.line as usize).annotation(annotation)
    });
    let help = hint.as_deref().map(|hint| Level::HELP.message(hint));
    print_group(Level::ERROR.primary_title(title.as_str()).elements(snippet).elements(help));
}
