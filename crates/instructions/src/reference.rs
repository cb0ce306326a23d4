//! docs/instructions.md, made from the master table.

use std::fmt::Write;

use crate::table::Kind;

/// The reference page of all instructions, in Markdown.
pub fn reference_page() -> String {
    let mut out = String::from(
        "# Instructions\n\n\
         Made from the master table in `crates/instructions/src/table.rs` by `cargo xtask docs`; \
         edit that.\n\n\
         In the text form an instruction is one line: its kind, then its operands in the order \
         below, then `#` and the place it came from. An instruction with a place of its own \
         (`s0:5`) is the fifth of stream `s0`; one without takes effect when the list is read.\n",
    );
    let mut group = "";
    for kind in Kind::ALL {
        let doc = kind.doc();
        if doc.group != group {
            group = doc.group;
            let _ = writeln!(out, "\n## {}{}", group[..1].to_uppercase(), &group[1..]);
        }
        let _ = writeln!(out, "\n### {}\n\n{}\n", kind.name(), doc.meaning.trim());
        let fields: Vec<String> =
            doc.fields.iter().map(|(n, d)| format!("`{n}` {}", d.trim())).collect();
        let _ = writeln!(out, "| | |\n|---|---|");
        for (name, text) in [
            ("operands", fields.join("; ").as_str()),
            ("accesses", doc.accesses),
            ("effect", kind.effect().name()),
            ("streams", &format!("{}{}", kind.runs_on(), doc.streams)),
            ("complete when", doc.complete),
            ("errors", doc.errors),
        ] {
            let _ = writeln!(out, "| {name} | {text} |");
        }
    }
    out
}
