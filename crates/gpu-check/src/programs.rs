//! Runs recorded programs on the device, with one compute stream and with four.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;

use millstream::DeviceId;
use millstream::ep::cuda::nccl::Nccl;
use millstream_runner::{RunError, RunOptions, RunReport, run_ranks};
use millstream_trace::{Entry, EtOptions, LoadOptions, Program, expand, load};

use super::Setting;
use super::section::{Section, Time};

pub(super) fn check(setting: &Setting, time: &Time, section: &mut Section) -> Result<()> {
    let all = find(setting, section)?;
    for (done, (name, ranks)) in all.iter().enumerate() {
        if time.is_up() {
            let left = all.len() - done;
            section.cut = Some(format!("{left} of {} programs were not run", all.len()));
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

/// The refusal of NCCL if several ranks have one device.
const DUPLICATE: &str = "Duplicate GPU";

/// Runs the recorded programs of several ranks with their collectives on the device, by NCCL.
pub(super) fn check_ranks(setting: &Setting, time: &Time, section: &mut Section) -> Result<()> {
    let nccl = match Nccl::load() {
        Ok(nccl) => nccl,
        Err(error) => {
            section.skipped.push(format!("all: {error:#}"));
            return Ok(());
        }
    };
    section.notes.push(format!("NCCL {}", nccl.version()));
    let all = find(setting, section)?;
    let several: Vec<_> = all.into_iter().filter(|(_, ranks)| ranks.len() > 1).collect();
    if several.is_empty() {
        section.skipped.push("all: no program has several ranks".to_owned());
    }
    for (name, ranks) in several {
        if time.is_up() {
            section.cut = Some(format!("{name} and later ones were not run"));
            break;
        }
        let ranks: Vec<Arc<Program>> =
            ranks.iter().map(|path| Ok(Arc::new(read(path)?))).collect::<Result<_>>()?;
        let device = DeviceId::cuda(setting.device);
        let options = RunOptions::default().device(device).nccl(true);
        match failure(run_ranks(ranks, &options)) {
            // Ranks take the devices in turn.
            Some(why) if why.contains(DUPLICATE) => section.skipped.push(format!(
                "{name}: it has more ranks than there are devices, which takes NCCL 2.30 and \
                 NCCL_MULTI_RANK_GPU_ENABLE=1 in the environment: {why}"
            )),
            failure => section.check(&name, failure),
        }
    }
    Ok(())
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
fn failure(reports: Result<Vec<RunReport>, RunError>) -> Option<String> {
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
