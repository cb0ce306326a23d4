//! Ranks as processes, over an MPI library that is loaded at run time.
//!
//! Nothing of MPI is needed to build. [`MpiCommunicator::connect`] looks for the library of the
//! launcher (Open MPI 4 and 5, MPICH 3.4 and 4, or the interface of MPI 5), and works as a single
//! rank without a launcher. The variable `MILLSTREAM_MPI` names another library.
//!
//! One thread makes all calls of the library, so any level of thread support suffices. Calls are
//! matched on rank 0 before a rank gets data: the ranks' mistakes, skipped calls and ranks that
//! wait for one another are found as in one process, by the same code.
//!
//! | module | holds |
//! |---|---|
//! | `library` | the library: search, binary interfaces, calls |
//! | `command` | what the rank's machine tells that thread |
//! | `control` | the messages by which the processes agree on their calls |
//! | `exchange` | the exchange of a collective's data |
//! | `pieces` | operations of more bytes than the library takes at once |
//! | `presence` | whether the other processes exist |
//! | `small` | small collectives, which rank 0 combines |
//! | `progress` | the thread that makes all calls of the library, its messages; lost ranks |

mod command;
mod control;
mod exchange;
mod library;
mod pieces;
mod presence;
mod progress;
mod small;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use millstream_backoff::{Backoff, POLLS};
use millstream_ops::collective::{Channel, ProcessGroup, ReduceOp};
use millstream_types::{DType, Origin};

use crate::buffer::{Buffer, Elements, Spare};
use crate::call::{Call, Collective, Slot};
use crate::communicator::Communicator;
use crate::error::CommError;
use crate::local::skipped;
use crate::request::{Request, request};

use command::{Command, Counters};
use progress::Progress;

/// Returns whether a launcher of MPI has started this process.
pub fn is_launched() -> bool {
    const VARIABLES: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"];
    VARIABLES.iter().any(|variable| std::env::var_os(variable).is_some())
}

/// What the thread of the library tells the process about it.
struct About {
    rank: usize,
    ranks: usize,
    version: String,
    spare: Spare,
}

/// A process's connection to the other processes of its program.
pub struct MpiCommunicator {
    rank: usize,
    ranks: usize,
    version: String,
    spare: Spare,
    commands: Mutex<Sender<Command>>,
    counters: Arc<Counters>,
    /// How many numbers the ranks have agreed on.
    agreements: AtomicU64,
    /// How many programs have ended.
    epoch: AtomicU64,
    /// The stall that was reported since the newest call.
    stalled: Mutex<Option<u64>>,
    aborted: OnceLock<CommError>,
    compares_calls: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl MpiCommunicator {
    /// Loads the library, initialises it and starts the thread that calls it. A process can connect
    /// once.
    ///
    /// # Errors
    /// There is no library, or it fails. The error names the libraries that were looked for.
    pub fn connect() -> Result<Arc<MpiCommunicator>, CommError> {
        let (commands, received) = channel();
        let (connected, connection) = channel();
        let counters: Arc<Counters> = Arc::default();
        let shared = counters.clone();
        let run = move || {
            // The thread that loads the library makes all its calls.
            let made = library::load().and_then(|library| {
                let about = About {
                    rank: library.rank(),
                    ranks: library.ranks(),
                    version: library.version().to_owned(),
                    spare: library.spare().clone(),
                };
                Ok((about, Progress::new(library, received, shared)?))
            });
            match made {
                Ok((about, progress)) => {
                    // The process waits for this.
                    let _ = connected.send(Ok(about));
                    progress.run();
                }
                Err(error) => {
                    let _ = connected.send(Err(error));
                }
            }
        };
        let thread = Builder::new().name("millstream-mpi".to_owned()).spawn(run);
        let thread =
            thread.map_err(|e| CommError::new(format!("no thread for the MPI library: {e}")))?;
        let gone = |_| CommError::new("the thread of the MPI library has ended");
        let About { rank, ranks, version, spare } = connection.recv().map_err(gone)??;
        Ok(Arc::new(MpiCommunicator {
            rank,
            ranks,
            version,
            spare,
            commands: Mutex::new(commands),
            counters,
            agreements: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            stalled: Mutex::new(None),
            aborted: OnceLock::new(),
            compares_calls: AtomicBool::new(true),
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Sets the time without a heartbeat after which a process counts as lost: a minute by default.
    /// A process of the same computer is seen to be gone within a fraction of a second. At least
    /// three seconds: a process sends a heartbeat each second.
    pub fn limit_pause(&self, longest: Duration) {
        let longest = longest.max(3 * presence::HEARTBEAT);
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        // Relaxed: a setting, not a message.
        self.counters.longest_pause.store(millis, Ordering::Relaxed);
    }

    /// Returns the name and version of the library.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Ends a program of this rank: the other ranks' calls that wait for it fail, and the next
    /// program numbers its calls anew. Every rank runs as many programs.
    pub fn end_program(&self) {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst);
        self.command(Command::EndProgram(epoch));
    }

    /// Returns the greatest of the numbers that the ranks give, each of which gives one between two
    /// programs. Blocks until all have.
    ///
    /// # Errors
    /// A rank has ended.
    pub fn greatest(&self, own: u8) -> Result<u8, CommError> {
        // A group that no program names.
        let group = ProcessGroup::new(&(0..self.ranks).collect::<Vec<_>>(), u32::MAX, self.ranks)?;
        let elements = Elements { dtype: DType::U8, numel: 1 };
        let number = self.agreements.fetch_add(1, Ordering::SeqCst);
        // Those of the program that is under way may have any number.
        let number = number + self.epoch.load(Ordering::SeqCst) * Slot::EPOCH;
        let (sender, outcome) = channel();
        let request = self.submit(Call {
            slot: Slot { channel: Channel::Collectives(group), number },
            collective: Collective::AllReduce(ReduceOp::Max),
            op: "the agreement of all ranks",
            given: vec![Buffer::of_words(elements, vec![u64::from_ne_bytes([own; 8])])?],
            expected: vec![elements],
            origin: Origin::Unknown,
        });
        request.then(move |outcome| drop(sender.send(outcome)));
        let gone = |_| CommError::new("the thread of the MPI library has ended");
        let greatest = outcome.recv().map_err(gone)??;
        Ok(greatest.first().and_then(|buffer| buffer.bytes().first().copied()).unwrap_or(own))
    }

    /// Starts a call, whose number counts the programs.
    fn submit(&self, call: Call) -> Request {
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(error) = self.counters.failure.get() {
            return Request::completed(Err(error.clone()));
        }
        // Relaxed: a setting, not a message.
        let compared = self.compares_calls.load(Ordering::Relaxed);
        if matches!(call.collective, Collective::Send) {
            self.command(Command::Start { call: Box::new(call), completer: None, compared });
            return Request::completed(Ok(Vec::new()));
        }
        let (request, completer) = request();
        self.counters.pending.fetch_add(1, Ordering::SeqCst);
        // A command that nobody takes is dropped, which fails the request.
        let completer = Some(completer);
        self.command(Command::Start { call: Box::new(call), completer, compared });
        request
    }

    /// Returns a slot of the program that is under way.
    fn slot(&self, slot: Slot) -> Slot {
        let number = slot.number + self.epoch.load(Ordering::SeqCst) * Slot::EPOCH;
        Slot { number, ..slot }
    }

    /// Makes the rank leave, waits until all ranks have, and ends the use of the library. Later
    /// calls fail.
    pub fn finish(&self) {
        self.command(Command::Leave);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The thread returns nothing.
        let _ = thread.map(JoinHandle::join);
    }

    fn command(&self, command: Command) -> bool {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).send(command).is_ok()
    }
}

impl Communicator for MpiCommunicator {
    fn kind(&self) -> &'static str {
        "mpi"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn buffer(&self, elements: Elements) -> Result<Buffer, CommError> {
        self.spare.buffer(elements)
    }

    fn start(&self, call: Call) -> Request {
        self.submit(Call { slot: self.slot(call.slot.clone()), ..call })
    }

    fn skip(&self, slot: Slot, op: &str, cause: &str) {
        self.command(Command::Skip(self.slot(slot), skipped(self.rank, op, cause)));
    }

    fn abort(&self, cause: &str) {
        let error = CommError::new(format!("rank {} has ended the program: {cause}", self.rank));
        self.command(Command::Abort(error.clone()));
        // The first cause stays.
        let _ = self.aborted.set(error);
    }

    fn error(&self) -> Option<CommError> {
        self.counters.failure.get().or_else(|| self.aborted.get()).cloned()
    }

    fn compare_calls(&self, compared: bool) {
        self.compares_calls.store(compared, Ordering::Relaxed);
    }

    fn deliveries(&self) -> Option<u64> {
        Some(self.counters.deliveries.load(Ordering::SeqCst))
    }

    fn report_stall(&self, deliveries: u64) {
        let mut stalled = self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        if stalled.replace(deliveries) != Some(deliveries) {
            self.command(Command::Stall(deliveries));
        }
    }

    fn wait_for_delivery(&self, deliveries: u64) -> bool {
        // Asked by a simulated machine alone, which no process of several is: a poll serves.
        let mut backoff = Backoff::new(POLLS);
        while self.counters.deliveries.load(Ordering::SeqCst) == deliveries {
            if self.counters.pending.load(Ordering::SeqCst) == 0 {
                return self.counters.deliveries.load(Ordering::SeqCst) != deliveries;
            }
            backoff.snooze();
        }
        true
    }
}

impl fmt::Debug for MpiCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MpiCommunicator { rank, ranks, version, .. } = self;
        write!(f, "MpiCommunicator({rank} of {ranks}, {version})")
    }
}
