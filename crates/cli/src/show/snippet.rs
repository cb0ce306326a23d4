//! Prints errors with the line of the trace that they concern.

use std::io::{self, IsTerminal, Write};

use annotate_snippets::{AnnotationKind, Level, Snippet};
use millstream_files::eprintln;
use millstream_terminal::table::wrapped;
use millstream_trace::TraceError;

use super::violations::{has_colour, renderer};

/// Prints an error and the further ones of its file to standard error.
pub(crate) fn print(error: &TraceError) {
    let colour = has_colour();
    for error in std::iter::once(error).chain(error.others()) {
        // Standard error is the last channel: a failure to write to it cannot be reported.
        let _ = writeln!(io::stderr().lock(), "{}", render(error, colour));
    }
}

/// Prints a message without a place to standard error.
pub(crate) fn print_message(message: &str) {
    eprintln!("error: {}", title(message).replace('\n', "\n       "));
}

/// Wraps the title of an error for standard error.
pub(crate) fn title(text: &str) -> String {
    wrapped(text, "error: ".len(), io::stderr().is_terminal())
}

/// Wraps a note, or the help, of an error for standard error.
pub(crate) fn note(text: &str) -> String {
    wrapped(text, "    = help: ".len(), io::stderr().is_terminal())
}

fn render(error: &TraceError, colour: bool) -> String {
    let excerpt = error.span().zip(error.excerpt());
    // The excerpt may begin in the middle of a long line, so the title gives the position too.
    let at = excerpt.map_or_else(String::new, |(place, _)| format!(":{place}"));
    let title = title(&format!("{}{at}: {}", error.file(), error.message()));
    let hint = error.hint().map(note);
    let snippet = excerpt.map(|(_, excerpt)| {
        let end = excerpt.span.end.max(excerpt.span.start);
        let annotation = AnnotationKind::Primary.span(excerpt.span.start..end);
        let source = Snippet::source(excerpt.text.as_str());
        source.line_start(excerpt.line as usize).annotation(annotation)
    });
    let help = hint.as_deref().map(|hint| Level::HELP.message(hint));
    let group = Level::ERROR.primary_title(title.as_str()).elements(snippet).elements(help);
    renderer(colour).render(&[group]).to_string()
}
