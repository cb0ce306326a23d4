//! Runs the programs of several ranks under many schedules, with faults of ranks and of calls.
//!
//! # Contract
//! - The same programs with the same seed take the same steps, over all ranks. The hash of the log
//!   proves it.
//! - Under every seed each rank's results equal those of its inline run, its list is the same, the
//!   checker accepts it, and the ranks' lists are proven to meet.
//! - With a fault every output is right or missing, and a failure on another rank names the rank of
//!   the fault. No rank waits for ever.
//!
//! | module | contents |
//! |---|---|
//! | `turns` | ranks that take turns, late outcomes, faults |

mod turns;

use std::sync::Arc;
use std::thread;

use millstream_instructions::InstructionList;
use millstream_runner::{
    Prepared, RunError, RunOptions, RunReport, Steps, certificate, prepare, run_ranks,
};
use millstream_trace::{Program, TraceError};
use millstream_verify::{CommunicatorRules, verify_ranks};
use millstream_vm::{Cancellation, DriverKind, MachineConfig, Schedule};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::simulate::{Finding, Trial, both, compare, compare_faulty, refused};

use turns::{Fault, Kind, Seen, Turns};

/// The programs of several ranks with the results of their inline run.
pub struct RankSimulator {
    prepared: Vec<Prepared>,
    options: RunOptions,
    inline: Vec<RunReport>,
    refused: Option<Finding>,
}

/// The reports of a run, one for each rank that could be run, and what was seen of the turns.
struct Ran {
    reports: Vec<Result<RunReport, RunError>>,
    seen: Seen,
}

impl RankSimulator {
    /// Checks the programs and runs them inline.
    ///
    /// # Errors
    /// A mistake in one of the programs, or in their collectives.
    pub fn new(programs: &[Arc<Program>], options: &RunOptions) -> Result<RankSimulator, RunError> {
        let (options, inline) = both(options);
        let (_, communicators) = Turns::communicators(programs.len(), 0, None);
        let prepared = programs.iter().zip(&communicators).map(|(program, communicator)| {
            let own = |config: MachineConfig| config.communicator(communicator.clone());
            prepare(program.clone(), &inline.clone().machine(own))
        });
        let prepared = prepared.collect::<Result<_, _>>()?;
        let inline = run_ranks(programs.to_vec(), &inline)?;
        let refused = first_refusal(&inline);
        Ok(RankSimulator { prepared, options, inline, refused })
    }

    /// Returns the reports of the inline run.
    pub fn inline(&self) -> &[RunReport] {
        &self.inline
    }

    /// Returns the certificate of the lists of all ranks.
    pub fn certificate(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for report in &self.inline {
            let of_rank = report.list.as_ref().map(certificate);
            hasher.update(of_rank.unwrap_or_default().as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Runs the programs with the schedule that the seed chooses, and compares the results.
    ///
    /// # Errors
    /// No thread for a rank.
    pub fn seed(&self, seed: u64) -> Result<Trial, RunError> {
        let ran = self.run(seed, None)?;
        let finding = self.refused.clone().or_else(|| self.compare(&ran));
        Ok(Trial { schedule: Some(ran.schedule()), finding })
    }

    /// Runs the programs with the schedule and the fault that the seed chooses: a rank that is lost
    /// at one of its calls, a call that fails, or a rank that is cancelled.
    ///
    /// # Errors
    /// As [`RankSimulator::seed`].
    pub fn seed_with_fault(&self, seed: u64) -> Result<Trial, RunError> {
        let healthy = self.run(seed, None)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Differs from the generator streams of the schedules and of the turns.
        rng.set_stream(2);
        let rank = rng.next_u32() as usize % self.prepared.len();
        let calls = healthy.seen.calls[rank];
        let kind = [Kind::Lost, Kind::Fails, Kind::Cancelled][rng.next_u32() as usize % 3];
        let kind = if calls == 0 { Kind::Cancelled } else { kind };
        let count = match kind {
            Kind::Lost | Kind::Fails => calls,
            Kind::Cancelled => {
                let schedule =
                    healthy.reports[rank].as_ref().ok().and_then(|r| r.schedule.as_ref());
                schedule.map_or(0, |schedule| schedule.steps) + 1
            }
        };
        let fault = Fault { rank, at: 1 + u64::from(rng.next_u32()) % count, kind };
        let ran = self.run(seed, Some(fault))?;
        let finding = self.check(&ran, fault);
        let finding = finding.map(|found| Finding::Fault(format!("{fault:?}: {found}")));
        Ok(Trial { schedule: Some(ran.schedule()), finding })
    }

    fn run(&self, seed: u64, fault: Option<Fault>) -> Result<Ran, RunError> {
        let ranks = self.prepared.len();
        let (turns, communicators) = Turns::communicators(ranks, seed, fault);
        let reports = thread::scope(|scope| {
            let mut threads = Vec::new();
            for (rank, communicator) in communicators.iter().enumerate() {
                let (mut steps, mut cancellation) = (Steps::default(), None);
                // Each rank has a schedule of its own.
                steps.seed = seed.wrapping_mul(ranks as u64).wrapping_add(rank as u64);
                if let Some(Fault { rank: chosen, at, kind: Kind::Cancelled }) = fault
                    && chosen == rank
                {
                    (steps.cancel_at, cancellation) = (Some(at), Some(Cancellation::new()));
                }
                let mut options = self.options.clone().simulation(steps);
                options.cancellation = cancellation;
                let options = options.machine(|config| {
                    config.driver(DriverKind::Simulated).communicator(communicator.clone())
                });
                let prepared = &self.prepared[rank];
                threads.push(scope.spawn(move || {
                    let _leaving = Leaving(communicator);
                    communicator.enter();
                    prepared.run_with(&options)
                }));
            }
            turns.begin();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join();
            threads.into_iter().map(join).collect::<Result<Vec<_>, _>>()
        });
        let panicked = |_| TraceError::of_file("simulate", "a rank panicked".to_owned());
        Ok(Ran { reports: reports.map_err(panicked)?, seen: turns.seen() })
    }

    /// Compares a run without a fault with the inline one.
    fn compare(&self, ran: &Ran) -> Option<Finding> {
        for (rank, (ran, inline)) in ran.reports.iter().zip(&self.inline).enumerate() {
            let found = match ran {
                Ok(ran) => compare(ran, inline),
                Err(error) => Some(Finding::Failed(error.to_string())),
            };
            if let Some(found) = found {
                return Some(found.of_rank(rank));
            }
        }
        None
    }

    /// Checks a run with a fault.
    fn check(&self, ran: &Ran, fault: Fault) -> Option<String> {
        let culprit = format!("rank {}", fault.rank);
        for (rank, (ran, inline)) in ran.reports.iter().zip(&self.inline).enumerate() {
            // A host read that fails may end the program.
            let Ok(ran) = ran else { continue };
            if let Some(found) = compare_faulty(ran, inline) {
                return Some(format!("rank {rank}: {found}"));
            }
            let is_other = rank != fault.rank && inline.failures.is_empty();
            let unnamed = ran.failures.iter().find(|failure| {
                let text = failure.to_string();
                is_other && !text.contains(&culprit)
            });
            if let Some(failure) = unnamed {
                return Some(format!("rank {rank} is not told of {culprit}: {failure}"));
            }
            if let Some(found) = ran.list.as_ref().and_then(refused) {
                return Some(found.of_rank(rank).to_string());
            }
        }
        None
    }
}

impl Ran {
    /// Returns the steps of all ranks, and the hash of their logs and of the turns.
    fn schedule(&self) -> Schedule {
        let (mut steps, mut hasher) = (self.seen.steps, blake3::Hasher::new());
        hasher.update(self.seen.hash.as_bytes());
        for schedule in self.reports.iter().flatten().filter_map(|r| r.schedule.as_ref()) {
            steps += schedule.steps;
            hasher.update(schedule.hash.as_bytes());
        }
        Schedule { steps, hash: hasher.finalize().to_hex().to_string(), log: None }
    }
}

/// Ends a rank's part when its thread ends, also by a panic.
struct Leaving<'a>(&'a turns::SteppedCommunicator);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Returns the first objection to the lists of all ranks.
fn first_refusal(reports: &[RunReport]) -> Option<Finding> {
    let lists: Vec<&InstructionList> = reports.iter().filter_map(|r| r.list.as_ref()).collect();
    let of_rank = |(rank, list): (usize, &&_)| Some(refused(list)?.of_rank(rank));
    if let Some(found) = lists.iter().enumerate().find_map(of_rank) {
        return Some(found);
    }
    let verdict = verify_ranks(&lists, CommunicatorRules::Own);
    let first = verdict.violations.first()?;
    Some(Finding::List(format!("the ranks are not proven to meet: {first}")))
}
