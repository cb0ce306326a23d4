//! Runs the programs of several ranks under many seeds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_explore::ranks::RankSimulator;
use millstream_files::{Outputs, eprintln};
use millstream_runner::{Loading, RunError, RunOptions, load};
use millstream_trace::Program;

use super::arguments::Arguments;
use super::{problem, report, seeds, wrong};
use crate::show::snippet;

/// Runs the programs of all ranks under many seeds.
pub(super) fn run(
    arguments: &Arguments,
    path: &Path,
    ranks: &[PathBuf],
    options: &RunOptions,
    outputs: &Outputs,
) -> Result<bool, RunError> {
    let others = [
        ("--log", arguments.log.is_some()),
        ("--model", arguments.model.is_some()),
        ("--without", arguments.without.is_some()),
        ("--inputs", arguments.inputs.is_some()),
    ];
    if let Some((name, _)) = others.iter().find(|(_, given)| *given) {
        let message = format!("{name} is for programs of one rank");
        return Err(problem(format!("{message}, and {} has {}", path.display(), ranks.len())));
    }
    let assign = arguments.assign.files().cloned().collect();
    let loading = Loading { assign, ..Loading::default() };
    let programs = ranks
        .iter()
        .enumerate()
        .map(|(rank, path)| load(path, &loading.of_rank(rank, ranks.len()), options).map(Arc::new));
    let programs: Vec<Arc<Program>> = programs.collect::<Result<_, _>>()?;
    for program in &programs {
        outputs.refuse(program.files()).map_err(wrong)?;
    }
    let simulator = RankSimulator::new(&programs, options)?;
    for inline in simulator.inline() {
        inline.failures.iter().for_each(snippet::print);
    }
    let is_right = simulator.inline().iter().all(|inline| inline.ok());
    let (tried, seconds) = seeds(arguments, |seed| match arguments.faults {
        true => simulator.seed_with_fault(seed),
        false => simulator.seed(seed),
    })?;
    report(arguments, &path.display().to_string(), &tried, seconds, outputs);
    if let Some((seed, finding)) = tried.found {
        eprintln!("seed {seed}: {finding}");
        return Ok(false);
    }
    let line = format!(
        "the {} ranks are proven to meet; certificate of their lists:\n{}\n",
        ranks.len(),
        simulator.certificate()
    );
    outputs.show(|out, _| out.write_all(line.as_bytes()));
    Ok(is_right)
}
