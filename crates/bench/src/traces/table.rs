//! The tables of `bench traces`.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use millstream_files::println;

use super::super::quantile;
use super::Row;

/// The rows that others are compared with.
const REFERENCES: [&str; 2] = ["PyTorch calls", "PyTorch modules"];

/// Prints a table of times, and one of ratios for each reference that was measured.
pub(super) fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    println!("Milliseconds per step, median [lowest-highest round], {} thread(s):", first.threads);
    println!("{}", times(rows));
    for reference in REFERENCES {
        if rows.iter().any(|row| row.row == reference) {
            println!("\nTimes as fast as {reference}, median [lowest-highest round]:");
            println!("{}", ratios(rows, reference));
        }
    }
    for row in rows.iter().filter(|row| row.steps < 30) {
        println!("{}, {}: {} steps", row.case, row.row, row.steps);
    }
}

/// Returns the distinct values of a field, in their first order.
fn distinct<'r>(rows: &'r [Row], field: impl Fn(&'r Row) -> &'r str) -> Vec<&'r str> {
    let mut found = Vec::new();
    for row in rows {
        if !found.contains(&field(row)) {
            found.push(field(row));
        }
    }
    found
}

fn spread(median: f64, rounds: &[f64]) -> String {
    let digits = |value: f64| match value {
        v if v < 1.0 => 3,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    let (mut all, digits) = (rounds.to_vec(), digits(median));
    let (low, high) = (quantile(&mut all, 0.0), quantile(&mut all, 1.0));
    format!("{median:.digits$} [{low:.digits$}-{high:.digits$}]")
}

fn times(rows: &[Row]) -> Table {
    let names = distinct(rows, |row| &row.row);
    let header = ["case", "calls", "walk"].iter().chain(&names);
    table(header.map(|name| (*name).to_owned()), rows, |case| {
        let of = || rows.iter().filter(|row| row.case == case);
        let walk = of().find_map(|row| row.walk_ms);
        let mut cells = vec![of().next().map_or(0, |row| row.calls).to_string()];
        cells.push(walk.map_or_else(|| "-".to_owned(), |walk| format!("{walk:.3}")));
        cells.extend(names.iter().map(|name| match of().find(|row| row.row == *name) {
            Some(row) => spread(row.ms, &row.rounds),
            None => "-".to_owned(),
        }));
        cells
    })
}

fn ratios(rows: &[Row], reference: &str) -> Table {
    let mut names = distinct(rows, |row| &row.row);
    names.retain(|name| !REFERENCES.contains(name));
    let header = ["case"].iter().chain(&names).map(|name| (*name).to_owned());
    table(header, rows, |case| {
        let row = |name: &str| rows.iter().find(|row| row.case == case && row.row == name);
        let ratio = |name: &&str| {
            let (Some(ours), Some(theirs)) = (row(name), row(reference)) else {
                return "-".to_owned();
            };
            let rounds: Vec<f64> = ours
                .rounds
                .iter()
                .zip(&theirs.rounds)
                .map(|(ours, theirs)| theirs / ours)
                .collect();
            spread(theirs.ms / ours.ms, &rounds)
        };
        names.iter().map(ratio).collect()
    })
}

fn table(
    header: impl Iterator<Item = String>,
    rows: &[Row],
    cells: impl Fn(&str) -> Vec<String>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for case in distinct(rows, |row| &row.case) {
        table.add_row([case.to_owned()].into_iter().chain(cells(case)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
