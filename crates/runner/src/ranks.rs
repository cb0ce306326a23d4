//! Programs of several ranks: one machine for each, on its own thread. The ranks communicate at
//! every GlobalSync and at their collectives. On CUDA, each rank has a device of its own as long as
//! there are enough.

use std::sync::Arc;
use std::thread;

use millstream_comm::{Communicator, LocalCommunicator, LocalGroup};
use millstream_trace::Program;
use millstream_types::Error;
use millstream_verify::CommunicatorRules;
use millstream_vm::MachineConfig;

use crate::error::RunError;
use crate::options::{CollectiveChecks, RunOptions};
use crate::report::RunReport;
use crate::{Prepared, comparison, prepare};

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
    let communicators = LocalGroup::communicators(programs.len()).into_iter().map(Arc::new);
    let communicators: Vec<Arc<LocalCommunicator>> = communicators.collect();
    let prepared: Vec<Prepared> = (0..)
        .zip(programs)
        .zip(&communicators)
        .map(|((rank, program), communicator)| {
            let options = options.of_rank(rank);
            let connected = connected(&options, communicator.clone());
            let connected = connected.map_err(|e| RunError::whole(&program, &e))?;
            prepare(program, &options.machine(|config| of_one_thread(config, connected)))
        })
        .collect::<Result<_, _>>()?;
    let results: Vec<Result<RunReport, RunError>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (rank, (prepared, communicator)) in prepared.iter().zip(&communicators).enumerate() {
            let run = move || {
                let _leaving = Leaving(communicator);
                compare(prepared, &**communicator)?;
                prepared.run()
            };
            let name = format!("millstream-rank-{rank}");
            let spawned = thread::Builder::new().name(name).spawn_scoped(scope, run);
            if spawned.is_err() {
                communicator.leave();
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

/// Checks the program of this process's rank, then runs it beside the other processes' programs.
/// `agree` tells all of them whether the check has succeeded here, and returns whether it has on
/// every rank.
///
/// # Errors
/// A mistake in this rank's program, or in that of another rank. Then none has run.
pub fn run_rank(
    program: Arc<Program>,
    options: &RunOptions,
    communicator: Arc<dyn Communicator>,
    agree: impl FnOnce(bool) -> bool,
) -> Result<RunReport, RunError> {
    let rank = u32::try_from(communicator.rank()).unwrap_or_default();
    let of_rank = options.of_rank(rank);
    let connected = connected(&of_rank, communicator.clone());
    let prepared = connected.map_err(|e| RunError::whole(&program, &e)).and_then(|connected| {
        prepare(program.clone(), &of_rank.machine(|config| of_one_thread(config, connected)))
    });
    if agree(prepared.is_ok()) {
        let prepared = prepared?;
        compare(&prepared, &*communicator)?;
        return prepared.run();
    }
    prepared?;
    let message = "another rank's program has a mistake, so that no rank has run".to_owned();
    Err(RunError::whole(&program, &Error::Invalid { what: "program", message }))
}

/// Checks that NCCL is there for the device, if the options ask for it.
///
/// # Errors
/// It is not, and the error lists the places searched.
pub(crate) fn check_nccl(options: &RunOptions) -> Result<(), Error> {
    match (options.nccl, options.device.kind()) {
        (false, _) => Ok(()),
        #[cfg(feature = "cuda")]
        (true, "cuda") => {
            millstream_ep::cuda::nccl::Nccl::load().map(drop).map_err(|e| refused(format!("{e:#}")))
        }
        (true, _) => {
            Err(refused(format!("expected a device of kind cuda, got {}", options.device)))
        }
    }
}

fn refused(message: String) -> Error {
    Error::Invalid { what: "NCCL", message }
}

/// Returns a rank's connection to the others, with NCCL if the options ask for it.
///
/// # Errors
/// NCCL is asked for and not there, or not for this device.
fn connected(
    options: &RunOptions,
    base: Arc<dyn Communicator>,
) -> Result<Arc<dyn Communicator>, Error> {
    check_nccl(options)?;
    #[cfg(feature = "cuda")]
    if options.nccl {
        let connected = millstream_comm::NcclCommunicator::connect(base);
        return Ok(Arc::new(connected.map_err(|e| refused(e.to_string()))?));
    }
    Ok(base)
}

/// Returns the configuration of a rank's machine, all of whose calls one thread makes.
fn of_one_thread(config: MachineConfig, communicator: Arc<dyn Communicator>) -> MachineConfig {
    config.communicator(communicator).submitters(Some(1))
}

/// Compares the collectives of all ranks as the options ask for. Every rank calls this, and blocks
/// until all have.
fn compare(prepared: &Prepared, communicator: &dyn Communicator) -> Result<(), RunError> {
    let checks = prepared.options.collective_checks;
    communicator.compare_calls(checks != CollectiveChecks::None);
    if checks != CollectiveChecks::Programs {
        return Ok(());
    }
    let rules = match prepared.options.nccl {
        true => CommunicatorRules::Nccl,
        false => CommunicatorRules::Own,
    };
    let (program, list) = (prepared.program(), prepared.own_list());
    comparison::compare(communicator, program, list.as_deref(), rules).map_err(|error| {
        let message = error.to_string();
        RunError::whole(program, &Error::Invalid { what: "collectives", message })
    })
}

/// Makes a rank leave its group when it ends, also by a panic. The others then do not wait for it.
struct Leaving<'a>(&'a LocalCommunicator);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
