//! The reference page docs/instructions.md, generated from the master table.

use std::fmt::Write;

use crate::table::Kind;

/// Returns the reference page of all instructions, in Markdown.
pub fn reference_page() -> String {
    let mut out = String::from("# Instructions\n");
    for paragraph in [
        "Generated from the master table in `crates/instructions/src/table.rs` by `cargo xtask \
         docs`; edit the table.",
        "In the text form an instruction is one line: its kind, then its operands in the order \
         below, then `#` and its origin. An instruction with a point of its own (`s0:5`) is the \
         fifth of stream `s0`; one without takes effect when the list is read.",
        "The row *streams* names the built-in types of streams that run an instruction. A type \
         that is not built in runs the same instructions as the built-in ones that accept the \
         same kinds of work.",
    ] {
        let _ = write!(out, "\n{}", wrapped(paragraph));
    }
    let mut group = "";
    for kind in Kind::ALL {
        let doc = kind.doc();
        if doc.group != group {
            group = doc.group;
            let _ = writeln!(out, "\n## {}{}", group[..1].to_uppercase(), &group[1..]);
        }
        let _ = writeln!(out, "\n### {}\n\n{}", kind.name(), wrapped(doc.meaning.trim()));
        let fields: Vec<String> =
            doc.fields.iter().map(|(n, d)| format!("`{n}` {}", d.trim())).collect();
        let _ = writeln!(out, "| | |\n|---|---|");
        let side_effect = if kind.has_side_effect() { ", with a side effect" } else { "" };
        for (name, text) in [
            ("operands", fields.join("; ").as_str()),
            ("accesses", doc.accesses),
            ("class", &format!("{}{side_effect}", kind.class().name())),
            ("streams", &format!("{}{}", kind.runs_on(), doc.streams)),
            ("complete when", doc.complete),
            ("errors", doc.errors),
        ] {
            let _ = writeln!(out, "| {name} | {text} |");
        }
    }
    out
}

/// Breaks a paragraph into lines of at most 100 columns, each with its line end.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 100;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(line) if last == 0 => line.push_str(word),
            Some(line) if last + 1 + word.chars().count() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}
