//! Programs of several ranks: one machine for each, on a thread of its own, that meet at every
//! GlobalSync and at their collectives. Where the run is on a CUDA device, each has one of its own, as
//! far as there are as many.

use std::sync::Arc;
use std::thread;

use millstream_trace::Program;
use millstream_types::Error;

use crate::error::RunError;
use crate::meeting::{Meeting, Seat};
use crate::options::Rank;
use crate::options::RunOptions;
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
    let meeting = Arc::new(Meeting::new(prepared.len()));
    let results: Vec<Result<RunReport, RunError>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (rank, prepared) in prepared.iter().enumerate() {
            let here = meeting.clone();
            let run = move || {
                // Leaves the meeting, however the rank ends.
                let seat = Arc::new(Seat::new(here, rank));
                prepared.run_among(Rank { meets: seat.clone(), group: seat })
            };
            let name = format!("millstream-rank-{rank}");
            let spawned = thread::Builder::new().name(name).spawn_scoped(scope, run);
            if spawned.is_err() {
                meeting.leave(rank);
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
