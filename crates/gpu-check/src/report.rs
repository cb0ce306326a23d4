//! The report as JSON and as text. The types here and in `section` define the JSON.

use std::fmt::Write as _;

use anyhow::Result;
use millstream_files::Outputs;
use serde::Serialize;

use super::section::{Measurement, Section};
use millstream_terminal::table::{new_table, width};

/// The least width in which all columns fit side by side.
const WIDE: u16 = 90;

/// The results of all parts.
#[derive(Serialize)]
pub(super) struct Report {
    /// Whether the device was the tests' stand-in, whose results say nothing about GPUs.
    pub(super) stand_in: bool,
    /// The time of the report in seconds since 1970.
    pub(super) time: u64,
    /// Millstream's version.
    pub(super) version: &'static str,
    /// The seed of the ops' inputs.
    pub(super) seed: u64,
    /// The device's name.
    pub(super) device: String,
    /// Its compute capability.
    pub(super) capability: (i32, i32),
    /// Its memory in bytes.
    pub(super) memory: u64,
    /// The version of the driver's interface: 13000 for CUDA 13.0.
    pub(super) driver: i32,
    /// The time of all parts together, in seconds.
    pub(super) seconds: f64,
    /// The parts that were not requested, and are missing here.
    pub(super) not_asked_for: Vec<&'static str>,
    /// The parts, in the order in which they ran.
    pub(super) parts: Vec<Section>,
}

impl Report {
    /// Returns whether nothing failed.
    pub(super) fn ok(&self) -> bool {
        self.parts.iter().all(|part| part.failed.is_empty())
    }

    /// The names of the files that are written.
    pub(super) const FILES: [&str; 2] = ["report.json", "report.txt"];

    /// Writes the files.
    pub(super) fn write(&self, outputs: &Outputs) -> Result<()> {
        let [json, text] = Report::FILES;
        outputs.write_in("--out", json, serde_json::to_string_pretty(self)? + "\n");
        outputs.write_in("--out", text, self.text(false));
        Ok(outputs.finish()?)
    }

    /// Returns the report as text, as wide as the terminal if it is for one.
    pub(super) fn text(&self, terminal: bool) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut line = |line: &str| {
            let _ = writeln!(text, "{line}");
        };
        if self.stand_in {
            line("NOT A GPU: this is the tests' stand-in, and nothing here is evidence.");
        }
        let (major, minor) = self.capability;
        line(&format!("{}, compute capability {major}.{minor}", self.device));
        line(&format!("{} bytes of memory, driver for {}", self.memory, self.driver));
        line(&format!("seed {}, {:.1} s, {} s after 1970", self.seed, self.seconds, self.time));
        line(&self.overview(terminal));
        if self.parts.iter().any(|part| !part.measured.is_empty()) {
            line(&self.measurements(terminal));
        }
        for part in &self.parts {
            let name = part.name;
            part.failed.iter().for_each(|what| line(&format!("{name}: FAILED {what}")));
            part.cut.iter().for_each(|what| line(&format!("{name}: cut short, {what}")));
            part.skipped.iter().for_each(|what| line(&format!("{name}: skipped {what}")));
            part.notes.iter().for_each(|what| line(&format!("{name}: {what}")));
        }
        if !self.not_asked_for.is_empty() {
            line(&format!("not asked for: {}", self.not_asked_for.join(", ")));
        }
        text
    }

    fn overview(&self, terminal: bool) -> String {
        let header = ["part", "passed", "skipped", "failed", "seconds"];
        let mut table = new_table(terminal, &header);
        for part in &self.parts {
            let cut = if part.cut.is_some() { ", cut short" } else { "" };
            table.add_row([
                format!("{}{cut}", part.name),
                part.passed.to_string(),
                part.skipped.len().to_string(),
                part.failed.len().to_string(),
                format!("{:.1}", part.seconds),
            ]);
        }
        table.to_string()
    }

    /// Returns the table of measurements. In a narrow table the method stands below the quantity.
    fn measurements(&self, terminal: bool) -> String {
        let narrow = width(terminal) < WIDE;
        let header: &[&str] = match narrow {
            true => &["measured", "value", "target"],
            false => &["measured", "value", "target", "how"],
        };
        let mut table = new_table(terminal, header);
        for measured in self.parts.iter().flat_map(|part| &part.measured) {
            let Measurement { what, value, unit, target, why } = measured;
            let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3} {unit}"));
            let missed = if measured.is_missed() { " MISSED" } else { "" };
            let target = target.map_or_else(String::new, |target| format!(">= {target}{missed}"));
            match narrow {
                true => table.add_row([format!("{what}\n{why}"), value, target]),
                false => table.add_row([what.clone(), value, target, why.clone()]),
            };
        }
        table.to_string()
    }
}
