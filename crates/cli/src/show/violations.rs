//! Prints violations with the lines of the instructions that they concern.

use std::io::Write;

use annotate_snippets::{AnnotationKind, Group, Level, Message, Renderer, Snippet};
use millstream_files::Console;
use millstream_instructions::text::print_instruction;
use millstream_verify::{Violation, repair};

use crate::verify::Subject;
use millstream_terminal::table::{is_coloured, width};

/// The most bytes of a line that are shown.
const LONGEST: usize = 240;

/// Prints a violation to standard error.
pub(crate) fn print(subject: &Subject, violation: &Violation) {
    let sites = violation.sites();
    let title = match sites.first() {
        Some((site, _)) => {
            let line = subject.line(site.index);
            // The snippet below shows the line.
            let message = violation.brief().replace(&format!("{site}: "), "");
            format!("{}:{line}: {message}", subject.name)
        }
        None => format!("{}: {violation}", subject.name),
    };
    let mut group =
        Level::ERROR.primary_title(title.as_str()).elements(std::iter::empty::<Message<'_>>());
    for (k, (site, what)) in sites.iter().enumerate() {
        let line = subject.line(site.index);
        let text = cut(subject.text(line));
        let indent = text.len() - text.trim_start().len();
        let kind = if k == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
        let annotation = kind.span(indent..text.len()).label(what.as_str());
        let snippet = Snippet::source(text).line_start(line).path(subject.name.as_str());
        group = group.element(snippet.annotation(annotation));
    }
    if let Some(missing) = violation.missing() {
        group = group.element(Level::NOTE.message(missing.path()));
    }
    for (site, _) in &sites {
        let said = subject.text(subject.line(site.index)).contains('#');
        if let Some(origin) = subject.origin(site.index).filter(|_| !said) {
            group =
                group.element(Level::NOTE.message(format!("[{}] is from {origin}", site.index)));
        }
    }
    if let Some(repair) = repair(&subject.list, violation) {
        let wait = print_instruction(&repair.wait, &subject.list.ops);
        let line = subject.line(repair.before);
        group = group.element(Level::HELP.message(format!("put before line {line}: {wait}")));
    }
    print_group(group);
}

/// Prints an error with its notes to standard error, in colour if that is a terminal.
pub(crate) fn print_group(group: Group<'_>) {
    let colour = is_coloured(Console::Err.is_terminal());
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    // In a narrower window the renderer would cut off the markers of a long line.
    let renderer = renderer.term_width(usize::from(width(colour)).max(60));
    // Standard error is the last channel: a failure to write to it cannot be reported.
    let _ = writeln!(Console::Err, "{}", renderer.render(&[group]));
}

fn cut(line: &str) -> &str {
    let end = (0..=LONGEST.min(line.len())).rev().find(|&at| line.is_char_boundary(at));
    &line[..end.unwrap_or(0)]
}
