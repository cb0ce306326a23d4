//! Programs of several ranks: one machine for each, on its own thread. The ranks communicate at
//! every GlobalSync and at their collectives. On CUDA, each rank has a device of its own as long as
//! there are enough.

use std::sync::Arc;
use std::thread;

use millstream_trace::Program;
use millstream_types::Error;

use crate::error::RunError;
use crate::options::Rank;
use crate::options::RunOptions;
use crate::rank_group::{RankGroup, RankHandle};
use crate::report::RunReport;
use crate::{Prepared, prepare};

/// Checks the programs of all ranks, then runs them side by side. A single program runs on the
/// calling thread. Returns a report for each rank.
///
/// # Errors
/// A mistake in any of the programs. If the check finds it, none has run.
pub fn run_ranks(
    programs: Vec<Arc<Program>>,
    options: &RunOptions,
) -> Result<Vec<RunReport>, RunError> {
    if let [program] = programs.as_slice() {
        return Ok(vec![prepare(program.clone(), options)?.run()?]);
    }
    let prepared: Vec<Prepared> = (0..)
        .zip(programs)
        .map(|(rank, p)| prepare(p, &options.of_rank(rank)))
        .collect::<Result<_, _>>()?;
    let group = Arc::new(RankGroup::new(prepared.len()));
    let results: Vec<Result<RunReport, RunError>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (rank, prepared) in prepared.iter().enumerate() {
            let shared = group.clone();
            let run = move || {
                // The handle leaves the group when the rank ends, also by a panic.
                let handle = Arc::new(RankHandle::new(shared, rank));
                prepared.run_among(Rank { barrier: handle.clone(), communicator: handle })
            };
            let name = format!("millstream-rank-{rank}");
            let spawned = thread::Builder::new().name(name).spawn_scoped(scope, run);
            if spawned.is_err() {
                group.leave(rank);
            }
            threads.push((prepared.program(), spawned));
        }
        threads
            .into_iter()
            .map(|(program, spawned)| {
                let failed =
                    |message: String| RunError::whole(program, &Error::Internal { message });
                let thread = spawned.map_err(|e| failed(format!("no thread for the rank: {e}")))?;
                thread.join().unwrap_or_else(|_| Err(failed("the rank panicked".to_owned())))
            })
            .collect()
    });
    results.into_iter().collect()
}
