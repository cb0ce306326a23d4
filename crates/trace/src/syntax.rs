//! Errors of JSON's syntax, with what to write instead where the text looks like another language.

use crate::error::TraceError;
use crate::source::Source;

/// Converts an error of `serde_json` in the part of the text that begins at byte `base`.
pub(crate) fn syntax(
    source: &Source,
    (base, part): (usize, &str),
    error: &serde_json::Error,
) -> TraceError {
    let before: usize =
        part.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (before + error.column().saturating_sub(1)).min(part.len());
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(m, _)| m);
    let span = source.span(base + at..base + at + 1);
    let failed = TraceError::at(source, span, format!("not valid JSON: {message}"));
    match help(part.as_bytes(), at) {
        _ if error.is_eof() => failed.help("the file ends too early"),
        Some(help) => failed.help(help),
        None => failed,
    }
}

/// Returns what to write instead of the text at which the reader stopped.
fn help(text: &[u8], at: usize) -> Option<&'static str> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let before = text.get(..at)?.iter().rev().find(|byte| !is_space(byte));
    let rest = text.get(at..)?;
    let word = rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    // Some errors are placed at the last byte of a word.
    let start = text[..at].iter().rev().take_while(|b| b.is_ascii_alphabetic()).count();
    let word = std::str::from_utf8(&text[at - start..at + word]).unwrap_or_default();
    Some(match (before, rest.first(), word) {
        (Some(b','), Some(b'}' | b']'), _) => "remove the comma before it",
        (_, Some(b'/' | b'#'), _) => "JSON has no comments; a remark can stand in the field 'note'",
        (_, Some(b'\''), _) => "write double quotes",
        (_, _, "NaN" | "nan") => "a number that is no number is written \"nan\"",
        (Some(b'-'), _, "Infinity" | "inf" | "Inf") => "it is written \"-inf\"",
        (_, _, "Infinity" | "inf" | "Inf") => "it is written \"inf\"",
        (_, _, "True") => "write true",
        (_, _, "False") => "write false",
        (_, _, "None") => "leave the field out",
        _ => return None,
    })
}
