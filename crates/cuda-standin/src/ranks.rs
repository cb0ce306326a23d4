//! The communicators of NCCL: ranks of one process, whose collectives are those of a local
//! communicator, on the bytes of device memory.
//!
//! A rank's collective is a command of its stream. It waits there for the other ranks, as the
//! kernel of the real library does; also for one that has given its communicator up, until its own
//! rank does so, too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_comm::{
    Buffer, Call, Channel, Collective, Communicator, Elements, LocalCommunicator, LocalGroup,
    Outcome, ProcessGroup, ReduceOp, Slot,
};
use millstream_types::{DType, Origin};

use crate::state::driver;

/// The ranks of a communicator.
pub(crate) struct Group {
    pub(crate) ranks: usize,
    /// The connections of the ranks that have not joined.
    open: Mutex<Vec<Option<LocalCommunicator>>>,
    joined: AtomicUsize,
    /// The groups that were split from this one, by their number.
    children: Mutex<BTreeMap<u64, Arc<Group>>>,
}

/// A rank's part of a communicator.
pub(crate) struct Comm {
    pub(crate) name: String,
    pub(crate) device: u32,
    pub(crate) position: usize,
    pub(crate) group: Arc<Group>,
    local: LocalCommunicator,
    /// How many collectives, and how many messages to and from each rank, were submitted.
    numbers: Mutex<BTreeMap<Numbered, u64>>,
    is_aborted: AtomicBool,
}

/// What the calls of a communicator are counted by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Numbered {
    Collectives,
    Sends(usize),
    Receives(usize),
    Splits,
}

/// A call of the library, within a group of calls.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) op: &'static str,
    pub(crate) kind: Kind,
    pub(crate) dtype: DType,
    /// The address and the number of elements that the rank gives, and that it gets.
    pub(crate) given: Option<(u64, usize)>,
    pub(crate) taken: Option<(u64, usize)>,
}

/// What is called.
#[derive(Clone)]
pub(crate) enum Kind {
    Collective(Collective),
    Send(usize),
    Receive(usize),
}

/// An operation with its place, and with addresses of the host.
pub(crate) struct Submitted {
    slot: Slot,
    collective: Collective,
    op: &'static str,
    given: Option<(usize, Elements)>,
    taken: Option<(usize, Elements)>,
}

impl Group {
    pub(crate) fn new(ranks: usize) -> Arc<Group> {
        let open = LocalGroup::communicators(ranks).into_iter().map(Some).collect();
        let (open, joined, children) = (Mutex::new(open), AtomicUsize::new(0), Mutex::default());
        Arc::new(Group { ranks, open, joined, children })
    }

    /// Returns whether all ranks have joined.
    pub(crate) fn is_complete(&self) -> bool {
        self.joined.load(Ordering::SeqCst) == self.ranks
    }

    /// Makes a rank's part; none if it has joined before.
    pub(crate) fn join(
        self: &Arc<Group>,
        position: usize,
        (name, device): (String, u32),
    ) -> Option<Comm> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let local = open.get_mut(position)?.take()?;
        self.joined.fetch_add(1, Ordering::SeqCst);
        let (numbers, is_aborted) = (Mutex::default(), AtomicBool::new(false));
        Some(Comm { name, device, position, group: self.clone(), local, numbers, is_aborted })
    }
}

impl Comm {
    fn next(&self, of: Numbered) -> u64 {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.entry(of).or_default();
        *next += 1;
        *next - 1
    }

    /// Returns the group that the communicator is split into next: all ranks, in their order.
    pub(crate) fn split(&self) -> Arc<Group> {
        let number = self.next(Numbered::Splits);
        let mut children = self.group.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.entry(number).or_insert_with(|| Group::new(self.group.ranks)).clone()
    }

    /// Ends what is under way for this rank.
    pub(crate) fn abort(&self) {
        self.is_aborted.store(true, Ordering::SeqCst);
        self.local.leave();
        driver().announce();
    }

    /// Gives an operation its place. `given` and `taken` are its addresses on the host.
    pub(crate) fn submit(
        &self,
        operation: Operation,
        (given, taken): (Option<usize>, Option<usize>),
    ) -> Submitted {
        let Operation { op, kind, dtype, .. } = operation;
        let elements = |host: Option<usize>, of: Option<(u64, usize)>| {
            host.zip(of).map(|(host, (_, numel))| (host, Elements { dtype, numel }))
        };
        let (given, taken) = (elements(given, operation.given), elements(taken, operation.taken));
        // A message is described by its receipt.
        let op = if matches!(kind, Kind::Receive(_)) { "recv_" } else { op };
        let (channel, of, collective) = match kind {
            Kind::Collective(collective) => {
                let group = ProcessGroup::all(self.group.ranks);
                (Channel::Collectives(group), Numbered::Collectives, collective)
            }
            Kind::Send(to) => (Channel::Send { to, tag: 0 }, Numbered::Sends(to), Collective::Send),
            Kind::Receive(from) => {
                (Channel::Receive { from, tag: 0 }, Numbered::Receives(from), Collective::Receive)
            }
        };
        let slot = Slot { channel, number: self.next(of) };
        Submitted { slot, collective, op, given, taken }
    }

    /// Runs the operations of a group of calls, on the thread of their stream.
    pub(crate) fn run(&self, operations: &[Submitted]) -> anyhow::Result<()> {
        let mut waiting = Vec::new();
        for Submitted { slot, collective, op, given, taken } in operations {
            let given = given.iter().map(|(host, elements)| read(*host, *elements));
            let request = self.local.start(Call {
                slot: slot.clone(),
                collective: collective.clone(),
                op,
                given: given.collect::<Result<_, _>>()?,
                expected: taken.iter().map(|(_, elements)| *elements).collect(),
                origin: Origin::Unknown,
            });
            let (sender, outcome) = channel();
            request.then(move |got| drop(sender.send(got)));
            waiting.push((outcome, taken));
        }
        for (outcome, taken) in waiting {
            let outcome: Outcome = outcome.recv()?;
            match (outcome, taken) {
                (Ok(received), Some((host, _))) => {
                    received.first().into_iter().for_each(|buffer| write(*host, buffer));
                }
                (Ok(_), None) => {}
                (Err(error), _) => self.give_up(&error.to_string()),
            }
        }
        Ok(())
    }

    /// Waits until the rank aborts its communicator: the other ranks will not come. Different calls
    /// of the ranks are a violation.
    fn give_up(&self, error: &str) {
        let driver = driver();
        let mut state = driver.lock();
        if !error.contains("has ended") {
            state.violations.push(format!("{}: {error}", self.name));
        }
        while !self.is_aborted.load(Ordering::SeqCst) {
            state = driver.wait(state);
        }
    }
}

fn read(host: usize, elements: Elements) -> anyhow::Result<Buffer> {
    let mut buffer = Buffer::zeros(elements)?;
    let bytes = buffer.bytes_mut();
    // SAFETY: the submission checked that the range is within an allocation, which is not freed
    // while the command uses it.
    unsafe {
        std::ptr::copy_nonoverlapping(host as *const u8, bytes.as_mut_ptr(), bytes.len());
    }
    Ok(buffer)
}

fn write(host: usize, buffer: &Buffer) {
    let bytes = buffer.bytes();
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), host as *mut u8, bytes.len()) };
}

/// Returns the type of the library's elements.
pub(crate) const fn dtype(number: i32) -> Option<DType> {
    Some(match number {
        0 => DType::I8,
        1 => DType::U8,
        2 => DType::I32,
        4 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        9 => DType::BF16,
        _ => return None,
    })
}

/// Returns the library's reduction of a number.
pub(crate) const fn reduction(number: i32) -> Option<ReduceOp> {
    Some(match number {
        0 => ReduceOp::Sum,
        1 => ReduceOp::Product,
        2 => ReduceOp::Max,
        3 => ReduceOp::Min,
        4 => ReduceOp::Mean,
        _ => return None,
    })
}
