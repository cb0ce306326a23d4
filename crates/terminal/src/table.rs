//! Tables for a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// The width of tables in columns where neither `COLUMNS` nor a terminal gives one.
const DEFAULT_WIDTH: u16 = 100;

/// Returns an empty table with a header. `terminal` says whether it is printed to a terminal.
pub fn new_table(terminal: bool, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    // Names in a file or a pipe are for other programs, and stay whole.
    match terminal || std::env::var_os("COLUMNS").is_some() {
        true => table.set_width(width(terminal)),
        false => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table.set_header(header.iter().copied());
    table
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

/// Aligns the cells of a column to the right, as numbers are.
pub fn align_right(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
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
    use super::bytes;

    #[test]
    fn bytes_have_binary_units() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }
}
