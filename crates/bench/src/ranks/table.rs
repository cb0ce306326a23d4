//! The table of `bench ranks`.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::super::quantile;
use super::Row;

/// Prints the rows.
pub(super) fn print(rows: &[Row], library: &str) {
    let ranks = rows.first().map_or(0, |row| row.ranks);
    let library = library.split(',').next().unwrap_or(library);
    println!("{ranks} ranks, {library}; medians in microseconds, ratio [lowest-highest round]:");
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["", "bytes", "here", "compared with", "ratio", "GB/s", "messages"]);
    for row in rows {
        let mut rounds = row.rounds.clone();
        let (low, high) = (quantile(&mut rounds, 0.0), quantile(&mut rounds, 1.0));
        let rate = match row.test {
            "collective" => format!("{:.2}", row.bytes as f64 / row.us / 1e3),
            _ => "-".to_owned(),
        };
        table.add_row([
            row.what.clone(),
            row.bytes.to_string(),
            format!("{:.1}", row.us),
            format!("{:.1}", row.against_us),
            format!("{:.2} [{low:.2}-{high:.2}]", row.ratio),
            rate,
            row.messages.map_or_else(|| "-".to_owned(), |messages| format!("{messages:.1}")),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
