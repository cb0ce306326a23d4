//! Recorded programs on the device, with one compute stream and with four.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;

use millstream::DeviceId;
use millstream::run::{RunOptions, prepare};
use millstream::trace::{Entry, LoadOptions, expand, load};

use super::Section;

/// What a failure says for want of a kernel; that is no failure of the device's.
const LACKS: [&str; 2] = ["has no kernel on", "does not serve this yet"];

pub(super) fn check(device: u32, places: &[PathBuf]) -> Result<Section> {
    let mut section = Section::default();
    let there = places.iter().filter(|place| place.exists());
    for entry in expand(there)? {
        let path = match entry {
            Entry::Trace(path) => path,
            Entry::Ranks { folder, .. } => {
                section.skipped.push(format!("{}: a program of several ranks", folder.display()));
                continue;
            }
            Entry::Skipped { .. } => continue,
        };
        let program = Arc::new(load(&path, &LoadOptions::default())?);
        for compute_streams in [1, 4] {
            let what = format!("{} on {compute_streams} streams", path.display());
            let device = DeviceId::cuda(device);
            let options = RunOptions { device, compute_streams, ..RunOptions::default() };
            let report = match prepare(program.clone(), &options).and_then(|ready| ready.run()) {
                Ok(report) => report,
                Err(error) => {
                    section.failed.push(format!("{what}: {error}"));
                    continue;
                }
            };
            let failure = report.failures.first().map(ToString::to_string);
            let wrong = report.outputs.iter().find(|output| !output.ok());
            match (failure, wrong) {
                (Some(why), _) if LACKS.iter().any(|lacks| why.contains(lacks)) => {
                    section.skipped.push(format!("{what}: {why}"));
                }
                (Some(why), _) => section.failed.push(format!("{what}: {why}")),
                (None, Some(output)) => {
                    let (name, comparison) = (&output.name, &output.comparison);
                    section.failed.push(format!("{what}: {name}: {comparison:?}"));
                }
                (None, None) => section.passed += 1,
            }
        }
    }
    Ok(section)
}
