//! A program under many schedules: the real engine, builder and policies on one thread, each step
//! chosen by a seed.
//!
//! # Contract
//! - The same program with the same seed takes the same steps: the log's hash says so.
//! - Whatever a seed chooses, the results have to be those of the inline driver to the bit, the
//!   list of instructions has to be the inline driver's, and the checker has to accept it.
//! - A program that breaks this under some seed is shrunk: statements are left out as long as some
//!   seed still breaks it.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `faults` | a run in which a device fails |
//! | [`random`] | small random programs |
//! | [`sweep`](mod@sweep) | many seeds, on several threads |
//! | [`shrink`](mod@shrink) | the smallest program that still fails |

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
use millstream_vm::{DriverKind, Schedule};

use millstream_runner::{
    Prepared, RunError, RunOptions, RunReport, Steps, prepare, take_as_checked,
};

pub use shrink::{Shrunk, shrink};
pub use sweep::{Sweep, sweep};

/// A program, and what the inline driver makes of it.
pub struct Simulator {
    prepared: Prepared,
    options: RunOptions,
    checked: bool,
    inline: RunReport,
    refused: Option<Finding>,
}

/// How a seed went.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What was done; none if the run had no end.
    pub schedule: Option<Schedule>,
    /// What is wrong, if anything is.
    pub finding: Option<Finding>,
}

/// What a schedule has shown to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// An output has other bytes than under the inline driver.
    Differs(String),
    /// Something failed or could not move that does not fail under the inline driver.
    Failed(String),
    /// A fault of the devices has an effect that it must not have.
    Fault(String),
    /// The checker refuses the list, or it is another one than the inline driver's.
    List(String),
}

impl Finding {
    /// Whether two findings are of one kind.
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
    /// Checks the program and runs it inline. Without `checked`, lists are not given to the
    /// checker: for programs that go without protection, whose lists it refuses.
    ///
    /// # Errors
    /// The program is wrong, with the place.
    pub fn new(
        program: Arc<Program>,
        options: &RunOptions,
        checked: bool,
    ) -> Result<Simulator, RunError> {
        let (options, inline) = both(options);
        Simulator::of(prepare(program, &inline)?, options, checked)
    }

    /// The random program of a seed.
    ///
    /// # Errors
    /// As [`Simulator::new`]; none that a release should show.
    pub fn random(seed: u64, options: &RunOptions, checked: bool) -> Result<Simulator, RunError> {
        let (options, inline) = both(options);
        Simulator::of(take_as_checked(random_program(seed)?, &inline)?, options, checked)
    }

    fn of(prepared: Prepared, options: RunOptions, checked: bool) -> Result<Simulator, RunError> {
        let inline = prepared.run()?;
        let refused = inline.list.as_ref().filter(|_| checked).and_then(refused);
        Ok(Simulator { prepared, options, checked, inline, refused })
    }

    /// The inline run.
    pub const fn inline(&self) -> &RunReport {
        &self.inline
    }

    /// The program.
    pub const fn program(&self) -> &Arc<Program> {
        self.prepared.program()
    }

    /// Runs the program as the seed chooses, and compares.
    ///
    /// # Errors
    /// Something other than the schedule kept the program from running.
    pub fn seed(&self, seed: u64, keep_log: bool) -> Result<Trial, RunError> {
        let options = RunOptions {
            driver: DriverKind::Simulated,
            simulation: Steps { seed, keep_log, ..Steps::default() },
            ..self.options.clone()
        };
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

    fn compare(&self, ran: &RunReport) -> Option<Finding> {
        if let Some(failure) = ran.failures.first()
            && self.inline.failures.is_empty()
        {
            return Some(Finding::Failed(failure.to_string()));
        }
        for (output, inline) in ran.outputs.iter().zip(&self.inline.outputs) {
            if (&output.spec, &output.bytes) != (&inline.spec, &inline.bytes) {
                return Some(Finding::Differs(output.name.clone()));
            }
        }
        let (list, inline) = (ran.list.as_ref()?, self.inline.list.as_ref()?);
        // What the checker says of one list it says of the same list again.
        if same(list, inline) {
            return None;
        }
        let message = "the list is not the one that the inline driver was given".to_owned();
        refused(list).filter(|_| self.checked).or(Some(Finding::List(message)))
    }
}

/// The memory of each device for random programs: enough for all that one ever has at once.
const RANDOM_MEMORY: u64 = 64 << 10;

/// The options of random programs: only the ops that they call, so that machines are made quickly.
pub fn random_options(options: &RunOptions) -> RunOptions {
    let mut ops = OpRegistry::new();
    let mut kernels = KernelRegistry::new();
    for name in random::OPS {
        let Ok(id) = options.ops.id(name) else { continue };
        if let Some(op) = options.ops.get(id) {
            ops.register(op.clone());
        }
        if let Some(kernel) = options.kernels.get("cpu", name) {
            kernels.register("cpu", name, kernel.clone());
        }
    }
    let memory_limit = Some(RANDOM_MEMORY);
    let (ops, kernels) = (Arc::new(ops), Arc::new(kernels));
    RunOptions { ops, kernels, memory_limit, ..options.clone() }
}

/// The random program of a seed.
///
/// # Errors
/// None that a release should show: each such program is a trace.
pub fn random_program(seed: u64) -> Result<Arc<Program>, RunError> {
    // Made once: they hold a registry of all ops, which imports need.
    static OPTIONS: LazyLock<LoadOptions> = LazyLock::new(LoadOptions::default);
    let (name, text) = (format!("random-{seed}"), random::program(seed));
    Ok(Arc::new(load_bytes(&name, text.as_bytes(), None, &OPTIONS)?))
}

/// The options of simulated runs and of the inline one. Memory is limited alike on every computer,
/// as what is emitted when it is short depends on the limit.
fn both(options: &RunOptions) -> (RunOptions, RunOptions) {
    let memory_limit = options.memory_limit.or(Some(MEMORY));
    let options = RunOptions { emit: true, repeat: 1, memory_limit, ..options.clone() };
    let inline = RunOptions { driver: DriverKind::Inline, threads: Some(1), ..options.clone() };
    (options, inline)
}

/// The memory of each device unless the options say otherwise: all that a simulated one has.
const MEMORY: u64 = 1 << 30;

/// What the checker has against a list.
fn refused(list: &InstructionList) -> Option<Finding> {
    let violations = millstream_verify::check(list.clone()).err()?;
    let first = violations.first().map_or_else(String::new, ToString::to_string);
    Some(Finding::List(format!("the list is refused: {first}")))
}

/// Whether two machines with the same ops were given the same list.
fn same(a: &InstructionList, b: &InstructionList) -> bool {
    (&a.streams, &a.arenas, &a.externals) == (&b.streams, &b.arenas, &b.externals)
        && a.instructions.len() == b.instructions.len()
        && a.instructions.iter().zip(&b.instructions).all(|(a, b)| a.body == b.body)
}
