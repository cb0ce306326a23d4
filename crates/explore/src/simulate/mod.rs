//! Runs a program under many schedules: the real machine, builder and policies on one thread, each
//! step chosen by a seed.
//!
//! # Contract
//! - The same program with the same seed takes the same steps. The hash of the log proves it.
//! - Under every seed the results equal the inline driver's to the bit, the list of instructions
//!   equals the inline driver's, and the checker accepts it.
//! - A program that violates the contract under some seed is shrunk: statements are removed as long
//!   as some seed still shows the violation.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | `faults` | runs in which a device fails |
//! | [`random`] | small random programs |
//! | [`sweep`](mod@sweep) | many seeds, on several threads |
//! | [`shrink`](mod@shrink) | a locally minimal program that still fails |

mod faults;
pub mod random;
pub mod shrink;
pub mod sweep;

use std::fmt;
use std::sync::{Arc, LazyLock};

use millstream_instructions::InstructionList;
use millstream_kernels::KernelRegistry;
use millstream_ops::OpRegistry;
use millstream_trace::{LoadOptions, Program, load_bytes};
use millstream_vm::{DriverKind, MachineConfig, Schedule};

use millstream_runner::{
    OutputReport, Prepared, RunError, RunOptions, RunReport, Steps, prepare, take_as_checked,
};

pub use shrink::{Shrunk, shrink};
pub use sweep::{Sweep, sweep};

/// A program with the results of its inline run.
pub struct Simulator {
    prepared: Prepared,
    options: RunOptions,
    checked: bool,
    inline: RunReport,
    refused: Option<Finding>,
}

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The steps taken; none if the run did not end.
    pub schedule: Option<Schedule>,
    /// The violation that the run shows, if any.
    pub finding: Option<Finding>,
}

/// A violation that a schedule shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// An output has other bytes than under the inline driver.
    Differs(String),
    /// An instruction failed or could not proceed that succeeds under the inline driver.
    Failed(String),
    /// A fault of a device has an effect that it must not have.
    Fault(String),
    /// The checker refuses the list, or the list differs from the inline driver's.
    List(String),
}

impl Finding {
    /// Returns the finding as one of a rank.
    pub(crate) fn of_rank(mut self, rank: usize) -> Finding {
        let (Finding::Differs(text)
        | Finding::Failed(text)
        | Finding::Fault(text)
        | Finding::List(text)) = &mut self;
        *text = format!("rank{rank}/{text}");
        self
    }

    /// Returns whether both findings are of the same kind.
    pub fn is_like(&self, other: &Finding) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Differs(output) => {
                write!(f, "the output '{output}' is not what the inline driver gives")
            }
            Finding::Failed(message) => write!(f, "it fails under this schedule: {message}"),
            Finding::Fault(message) | Finding::List(message) => f.write_str(message),
        }
    }
}

impl Simulator {
    /// Checks the program and runs it inline. Without `checked`, lists skip the checker: it would
    /// refuse the lists of programs that give up protection.
    ///
    /// # Errors
    /// Fails if the program is wrong, with the position of the mistake.
    pub fn new(
        program: Arc<Program>,
        options: &RunOptions,
        checked: bool,
    ) -> Result<Simulator, RunError> {
        let (options, inline) = both(options);
        Simulator::of(prepare(program, &inline)?, options, checked)
    }

    /// Returns the simulator of a seed's random program.
    ///
    /// # Errors
    /// As [`Simulator::new`]. Random programs are valid, so an error is a bug.
    pub fn random(seed: u64, options: &RunOptions, checked: bool) -> Result<Simulator, RunError> {
        let (options, inline) = both(options);
        Simulator::of(take_as_checked(random_program(seed)?, &inline)?, options, checked)
    }

    fn of(prepared: Prepared, options: RunOptions, checked: bool) -> Result<Simulator, RunError> {
        let inline = prepared.run()?;
        let refused = inline.list.as_ref().filter(|_| checked).and_then(refused);
        Ok(Simulator { prepared, options, checked, inline, refused })
    }

    /// Returns the report of the inline run.
    pub const fn inline(&self) -> &RunReport {
        &self.inline
    }

    /// Returns the program.
    pub const fn program(&self) -> &Arc<Program> {
        self.prepared.program()
    }

    /// Runs the program with the schedule that the seed chooses, and compares the results.
    ///
    /// # Errors
    /// Fails if the run could not be made for a reason other than the schedule.
    pub fn seed(&self, seed: u64, keep_log: bool) -> Result<Trial, RunError> {
        let options = self.simulated(Steps { seed, keep_log, ..Steps::default() });
        let ran = match self.prepared.run_with(&options) {
            Ok(ran) => ran,
            Err(error) if error.runtime => {
                let finding = Some(Finding::Failed(error.to_string()));
                return Ok(Trial { schedule: None, finding });
            }
            Err(error) => return Err(error),
        };
        let finding = self.refused.clone().or_else(|| self.compare(&ran));
        Ok(Trial { schedule: ran.schedule, finding })
    }

    /// Returns the options of a simulated run.
    fn simulated(&self, steps: Steps) -> RunOptions {
        let simulated = |config: MachineConfig| config.driver(DriverKind::Simulated);
        self.options.clone().machine(simulated).simulation(steps)
    }

    fn compare(&self, ran: &RunReport) -> Option<Finding> {
        let found = compare(ran, &self.inline)?;
        let list = ran.list.as_ref().filter(|_| self.checked && matches!(found, Finding::List(_)));
        list.and_then(refused).or(Some(found))
    }
}

/// Compares a run without a fault with the inline one.
pub(crate) fn compare(ran: &RunReport, inline: &RunReport) -> Option<Finding> {
    if let Some(failure) = ran.failures.first()
        && inline.failures.is_empty()
    {
        return Some(Finding::Failed(failure.to_string()));
    }
    let mut both = ran.outputs.iter().zip(&inline.outputs);
    if let Some((output, _)) = both.find(|(a, b)| (&a.spec, &a.bytes) != (&b.spec, &b.bytes)) {
        return Some(Finding::Differs(output.name.clone()));
    }
    // The checker is deterministic: it says the same of the same list.
    let (list, inline) = (ran.list.as_ref()?, inline.list.as_ref()?);
    let message = "the list is not the one that the inline driver was given".to_owned();
    (!same(list, inline)).then_some(Finding::List(message))
}

/// Compares a run with a fault with the inline one: each output is right or missing, and missing
/// only if something failed.
pub(crate) fn compare_faulty(ran: &RunReport, inline: &RunReport) -> Option<String> {
    let mut both = ran.outputs.iter().zip(&inline.outputs);
    let is_wrong = |(a, b): &(&OutputReport, &OutputReport)| {
        a.spec.is_some() && (&a.spec, &a.bytes) != (&b.spec, &b.bytes)
    };
    if let Some((output, _)) = both.find(is_wrong) {
        return Some(format!("the output '{}' is wrong and passes as right", output.name));
    }
    let is_missing = ran.outputs.iter().any(|output| output.spec.is_none());
    (is_missing && ran.failures.is_empty())
        .then(|| "an output is missing, and nothing failed".to_owned())
}

/// The memory of each device for random programs: enough for all tensors that one has at once.
const RANDOM_MEMORY: u64 = 64 << 10;

/// Returns the options of random programs, with only the ops that they call, so that machines are
/// made quickly.
pub fn random_options(options: &RunOptions) -> RunOptions {
    let mut ops = OpRegistry::new();
    let mut kernels = KernelRegistry::new();
    for name in random::OPS {
        let Some(id) = options.machine.ops.find(name) else { continue };
        if let Some(op) = options.machine.ops.get(id) {
            ops.register(op.clone());
        }
        if let Some(kernel) = options.machine.kernels.get("cpu", name) {
            kernels.register("cpu", name, kernel.clone());
        }
    }
    let few = |config: MachineConfig| config.ops(ops).kernels(kernels);
    options.clone().machine(few).memory_limit(Some(RANDOM_MEMORY))
}

/// Returns the random program of a seed.
///
/// # Errors
/// Every random program is a valid trace, so an error is a bug.
pub fn random_program(seed: u64) -> Result<Arc<Program>, RunError> {
    // Made once: the options hold a registry of all ops, which imports need.
    static OPTIONS: LazyLock<LoadOptions> = LazyLock::new(LoadOptions::default);
    let (name, text) = (format!("random-{seed}"), random::program(seed));
    Ok(Arc::new(load_bytes(&name, text.as_bytes(), None, &OPTIONS)?))
}

/// Returns the options of simulated runs and of the inline run. Both get the same memory limit on
/// every computer, because the list of a program that is short of memory depends on the limit.
pub(crate) fn both(options: &RunOptions) -> (RunOptions, RunOptions) {
    let memory_limit = options.memory_limit.or(Some(MEMORY));
    let options = options.clone().emit(true).repeat(1).memory_limit(memory_limit);
    let inline = options.clone().threads(1).machine(|config| config.driver(DriverKind::Inline));
    (options, inline)
}

/// The memory of each device unless the options set one: all memory of a simulated device.
const MEMORY: u64 = 1 << 30;

/// Returns the checker's first objection to a list.
pub(crate) fn refused(list: &InstructionList) -> Option<Finding> {
    let violations = millstream_verify::check(list.clone()).err()?;
    let first = violations.first().map_or_else(String::new, ToString::to_string);
    Some(Finding::List(format!("the list is refused: {first}")))
}

/// Returns whether two lists of machines with the same ops are equal.
fn same(a: &InstructionList, b: &InstructionList) -> bool {
    (&a.streams, &a.arenas, &a.externals) == (&b.streams, &b.arenas, &b.externals)
        && a.instructions.len() == b.instructions.len()
        && a.instructions.iter().zip(&b.instructions).all(|(a, b)| a.body == b.body)
}
