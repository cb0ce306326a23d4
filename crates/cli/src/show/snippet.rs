//! Errors with the line of the trace that they are about.

use std::io::{self, IsTerminal, Write};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use millstream_trace::TraceError;

use millstream_terminal::table::width;

/// Prints an error to standard error.
pub(crate) fn print(error: &TraceError) {
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // Nobody is left to be told if this fails.
    let _ = writeln!(io::stderr().lock(), "{}", render(error, colour));
}

fn render(error: &TraceError, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    // Narrower, the marks of a long line would be cut off.
    let renderer = renderer.term_width(usize::from(width(colour)).max(60));
    let (Some(place), Some(excerpt)) = (error.span(), error.excerpt()) else {
        let title = format!("{}: {}", error.file(), error.message());
        let mut group = Level::ERROR
            .primary_title(title.as_str())
            .elements(std::iter::empty::<annotate_snippets::Message<'_>>());
        if let Some(hint) = error.hint() {
            group = group.element(Level::HELP.message(hint));
        }
        return renderer.render(&[group]).to_string();
    };
    // The excerpt may be the middle of a long line: the place is said in words as well.
    let title = format!("{}:{place}: {}", error.file(), error.message());
    let end = excerpt.span.end.max(excerpt.span.start);
    let annotation = AnnotationKind::Primary.span(excerpt.span.start..end);
    let snippet = Snippet::source(excerpt.text.as_str())
        .line_start(excerpt.line as usize)
        .annotation(annotation);
    let mut group = Level::ERROR.primary_title(title.as_str()).element(snippet);
    if let Some(hint) = error.hint() {
        group = group.element(Level::HELP.message(hint));
    }
    renderer.render(&[group]).to_string()
}
