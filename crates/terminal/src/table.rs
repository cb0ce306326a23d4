//! Tables for a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// The width of tables in columns where neither `COLUMNS` nor a terminal gives one.
const DEFAULT_WIDTH: u16 = 100;

/// Returns an empty table with a header: `>` begins the title of a column of numbers, whose cells
/// stand to the right. `terminal` says whether it is printed to a terminal.
pub fn new_table(terminal: bool, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    match is_fitted(terminal) {
        true => table.set_width(width(terminal)),
        false => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table.set_header(header.iter().map(|title| title.trim_start_matches('>')));
    for (column, title) in table.column_iter_mut().zip(header) {
        if title.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Returns whether output fits a width. Names in a file or a pipe are for other programs, and stay
/// whole.
fn is_fitted(terminal: bool) -> bool {
    terminal || std::env::var_os("COLUMNS").is_some()
}

/// Returns a message with line breaks between words where it would be wider than tables are, behind
/// `before` columns. Words are never divided.
pub fn wrapped(message: &str, before: usize, terminal: bool) -> String {
    match is_fitted(terminal) {
        true => fill(message, usize::from(width(terminal)).saturating_sub(before).max(20)),
        false => message.to_owned(),
    }
}

fn fill(message: &str, width: usize) -> String {
    let mut filled = String::with_capacity(message.len());
    for (k, line) in message.split('\n').enumerate() {
        let start = line.len() - line.trim_start().len();
        let (indent, text) = line.split_at(start);
        filled.push_str(if k > 0 { "\n" } else { "" });
        filled.push_str(indent);
        let mut column = start;
        for (k, word) in text.split(' ').enumerate() {
            let length = word.chars().count();
            if k > 0 && column + 1 + length > width {
                filled.push('\n');
                filled.push_str(indent);
                column = start;
            } else if k > 0 {
                filled.push(' ');
                column += 1;
            }
            filled.push_str(word);
            column += length;
        }
    }
    filled
}

/// Returns the width of tables in columns: what `COLUMNS` says, or the terminal's.
pub fn width(terminal: bool) -> u16 {
    let requested = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    // Some launchers of MPI give their processes terminals without a width.
    let actual = || if terminal { Table::new().width().filter(|width| *width > 0) } else { None };
    requested.or_else(actual).unwrap_or(DEFAULT_WIDTH)
}

/// Returns whether text may be coloured: on a terminal, unless the user wants none
/// (<https://no-color.org>).
pub fn is_coloured(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns a number of bytes with a binary unit: `512 B`, `1.5 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, fill};

    #[test]
    fn lines_break_between_words() {
        assert_eq!(fill("a word of text", 6), "a word\nof\ntext");
        assert_eq!(fill("inseparable\n  b c", 4), "inseparable\n  b\n  c");
        assert_eq!(fill("", 4), "");
    }

    #[test]
    fn bytes_have_binary_units() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }
}
