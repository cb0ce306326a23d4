//! Programs of several ranks: one machine for each, on a thread of its own, that meet at every
//! GlobalSync.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use millstream_trace::Program;
use millstream_types::Error;
use millstream_vm::Rendezvous;

use crate::run::error::RunError;
use crate::run::options::RunOptions;
use crate::run::report::RunReport;
use crate::run::{Prepared, prepare};

/// Where ranks meet. A rank that ends leaves; whoever waits for it then is told so.
#[derive(Debug)]
struct Meeting {
    ranks: usize,
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    /// Counts the meetings that took place.
    round: u64,
    /// The ranks that will not come again.
    gone: Vec<usize>,
}

impl Meeting {
    fn new(ranks: usize) -> Meeting {
        Meeting { ranks, state: Mutex::default(), change: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, rank: usize) {
        self.lock().gone.push(rank);
        self.change.notify_all();
    }
}

impl Rendezvous for Meeting {
    fn meet(&self) -> anyhow::Result<()> {
        let mut state = self.lock();
        let round = state.round;
        state.arrived += 1;
        if state.arrived == self.ranks {
            state.arrived = 0;
            state.round += 1;
            self.change.notify_all();
            return Ok(());
        }
        while state.round == round {
            if let Some(rank) = state.gone.first() {
                let message = format!("rank {rank} has ended and will not come to this meeting");
                state.arrived -= 1;
                anyhow::bail!(message);
            }
            state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

/// Leaves the meeting, however a rank ends.
struct Leave(Arc<Meeting>, usize);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// Checks all ranks' programs, then runs them side by side.
///
/// # Errors
/// What is wrong with any of them. If that is so before they run, none has run.
pub fn run_ranks(
    programs: Vec<Arc<Program>>,
    options: &RunOptions,
) -> Result<Vec<RunReport>, RunError> {
    let prepared: Vec<Prepared> =
        programs.into_iter().map(|p| prepare(p, options)).collect::<Result<_, _>>()?;
    let meeting = Arc::new(Meeting::new(prepared.len()));
    let results: Vec<Result<RunReport, RunError>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (rank, prepared) in prepared.iter().enumerate() {
            let here = meeting.clone();
            let run = move || {
                let _leave = Leave(here.clone(), rank);
                prepared.run_among(here)
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
