//! Prints errors with the line of the trace that they concern.

use std::io::{self, IsTerminal, Write};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use millstream_trace::TraceError;

use millstream_terminal::table::{is_coloured, width};

/// Prints an error and the further ones of its file to standard error.
pub(crate) fn print(error: &TraceError) {
    let colour = is_coloured(io::stderr().is_terminal());
    for error in std::iter::once(error).chain(error.others()) {
        // Standard error is the last channel: a failure to write to it cannot be reported.
        let _ = writeln!(io::stderr().lock(), "{}", render(error, colour));
    }
}

fn render(error: &TraceError, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    // In a narrower window the renderer would cut off the markers of a long line.
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
    // The excerpt may begin in the middle of a long line, so the title gives the position too.
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
