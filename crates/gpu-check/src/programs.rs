//! Runs recorded programs on the device, with one compute stream and with four.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;

use millstream::DeviceId;
use millstream_runner::{RunError, RunOptions, RunReport, run_ranks};
use millstream_trace::{Entry, EtOptions, LoadOptions, Program, expand, load};

use super::Setting;
use super::section::Section;

pub(super) fn check(setting: &Setting, section: &mut Section) -> Result<()> {
    let all = find(setting, section)?;
    for (done, (name, ranks)) in all.iter().enumerate() {
        if section.is_over(|| not_run(done, all.len())) {
            break;
        }
        let ranks = ranks.iter().map(|path| Ok(Arc::new(read(path)?)));
        let ranks = match ranks.collect::<Result<Vec<Arc<Program>>>>() {
            Ok(ranks) => ranks,
            Err(error) => {
                section.failed.push(format!("{name}: {error:#}"));
                continue;
            }
        };
        for compute_streams in [1, 4] {
            let device = DeviceId::cuda(setting.device);
            let options = RunOptions::default().device(device).in_turn(compute_streams);
            let what = format!("{name} on {compute_streams} streams");
            section.check(&what, failure(run_ranks(ranks.clone(), &options)));
        }
    }
    Ok(())
}

/// Says how many programs the time did not suffice for.
pub(super) fn not_run(done: usize, all: usize) -> String {
    format!("{} of {all} programs were not run", all - done)
}

/// Returns the name of each program, and the file of each of its ranks.
pub(super) fn find(
    setting: &Setting,
    section: &mut Section,
) -> Result<Vec<(String, Vec<PathBuf>)>> {
    let there: Vec<_> = setting.programs.iter().filter(|place| place.exists()).collect();
    if there.is_empty() {
        section.skipped.push(format!("{:?}: there are none here", setting.programs));
        return Ok(Vec::new());
    }
    let named = |entry| match entry {
        Entry::Trace(path) => Some((path.display().to_string(), vec![path])),
        Entry::Ranks { folder, ranks } => Some((folder.display().to_string(), ranks)),
        Entry::Skipped { .. } => None,
    };
    Ok(expand(there)?.into_iter().filter_map(named).collect())
}

/// Reads a program. Elements of tensors that no file beside it holds are made up.
pub(super) fn read(path: &Path) -> Result<Program> {
    let whole = LoadOptions::default();
    let has_elements = path.with_file_name("tensors.safetensors").exists();
    let et = EtOptions { structural: !has_elements, ..EtOptions::default() };
    Ok(load(path, &LoadOptions { et, ..whole })?)
}

/// Returns a message about a run that failed or gave other results.
pub(super) fn failure(reports: Result<Vec<RunReport>, RunError>) -> Option<String> {
    let reports = match reports {
        Ok(reports) => reports,
        Err(error) => return Some(error.to_string()),
    };
    if let Some(failure) = reports.iter().flat_map(|report| &report.failures).next() {
        return Some(failure.to_string());
    }
    let mut outputs = reports.iter().flat_map(|report| &report.outputs);
    let wrong = outputs.find(|output| !output.ok())?;
    Some(format!("{}: {:?}", wrong.name, wrong.comparison))
}
