//! The exchange of a collective's data, in stages of operations of the library.
//!
//! Reductions do not use those of the library: their order is the library's own, and it has none of
//! 16-bit floats. Each rank gets its part of all tensors, reduces it in the order of the ranks, and
//! the parts are gathered. Two stages move about as many bytes as the best algorithms for large
//! tensors. Source: Thakur, Rabenseifner & Gropp, "Optimization of Collective Communication
//! Operations in MPICH", 2005, section 4.5.
//!
//! The ranks start the first stages of a group's calls in one order. They begin the second stages
//! in the same order, on a communicator of their own: first stages end at different times.

use std::ops::Range;

use millstream_ops::collective::ReduceOp;
use millstream_types::DType;

use crate::buffer::{Buffer, Elements, Spare};
use crate::call::{Call, Collective};
use crate::error::CommError;
use crate::reduction::reduce;

use super::library::{Comm, Library, Operation, Started};
use super::pieces;

/// Up to so many bytes of all ranks together, a reduction gathers all tensors and reduces them
/// whole, in one stage instead of two.
const WHOLE: usize = 64 << 10;

/// The exchange of one call's data.
pub(super) struct Exchange {
    call: Call,
    /// The communicators of the first and of the second stage.
    comms: [Comm; 2],
    /// The number of ranks, and this one's position.
    ranks: usize,
    position: usize,
    stage: Stage,
    /// The operations of the stage, with what has been received.
    pending: Vec<(Box<dyn Started>, Option<Buffer>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The received buffers are the results.
    Last,
    /// The received buffers are the tensors of all ranks, to be reduced whole.
    Whole(ReduceOp),
    /// The received buffers are this rank's parts of all tensors, to be reduced and gathered: by
    /// the root, or by all.
    Parts(ReduceOp, Option<usize>),
    /// As before, and the reduced part is the result.
    Part(ReduceOp),
}

/// Returns each rank's part of so many elements.
fn parts(numel: usize, ranks: usize) -> Vec<usize> {
    (0..ranks).map(|rank| numel / ranks + usize::from(rank < numel % ranks)).collect()
}

fn bytes(counts: &[usize], dtype: DType) -> Vec<usize> {
    counts.iter().map(|count| count * dtype.size()).collect()
}

impl Exchange {
    /// Starts the exchange of a collective within a communicator, at a position of so many ranks.
    ///
    ///
    /// # Errors
    /// The library refuses, or memory is exhausted.
    pub(super) fn start(
        library: &mut dyn Library,
        call: Call,
        comms: [Comm; 2],
        (position, ranks): (usize, usize),
    ) -> Result<Exchange, CommError> {
        let (stage, pending) = (Stage::Last, Vec::new());
        let mut own = Exchange { call, comms, ranks, position, stage, pending };
        own.first_stage(library)?;
        Ok(own)
    }

    /// Starts the exchange of a message, as its sender or its receiver.
    ///
    /// # Errors
    /// As [`Exchange::start`].
    pub(super) fn message(
        library: &mut dyn Library,
        call: Call,
        comm: Comm,
        (from, to): (usize, usize),
    ) -> Result<Exchange, CommError> {
        let (ranks, position, comms) = (2, 0, [comm; 2]);
        let (stage, pending) = (Stage::Last, Vec::new());
        let mut own = Exchange { call, comms, ranks, position, stage, pending };
        match own.call.collective {
            Collective::Send => {
                for buffer in own.call.given.clone() {
                    own.submit(library, &Operation::Send { to }, buffer)?;
                }
            }
            _ => {
                for elements in own.call.expected.clone() {
                    let operation = Operation::Receive { from: Some(from) };
                    own.submit_empty(library, &operation, elements)?;
                }
            }
        }
        Ok(own)
    }

    fn first_stage(&mut self, library: &mut dyn Library) -> Result<(), CommError> {
        let given = self.call.given.clone();
        let expected = self.call.expected.clone();
        match self.call.collective.clone() {
            Collective::AllReduce(reduction) => self.reduce(library, reduction, None)?,
            Collective::Reduce { reduction, root } => {
                self.reduce(library, reduction, Some(root))?;
            }
            Collective::Broadcast { root } => {
                for buffer in given {
                    self.submit(library, &Operation::Broadcast { root }, buffer)?;
                }
                if self.position != root {
                    for elements in expected {
                        self.submit_empty(library, &Operation::Broadcast { root }, elements)?;
                    }
                }
            }
            Collective::AllGather { counts } => {
                let [x] = &given[..] else { return Err(lacking()) };
                let counts = bytes(&counts, x.dtype());
                self.submit(library, &Operation::AllGather { counts }, x.clone())?;
            }
            Collective::ReduceScatter { reduction, counts } => {
                let [x] = &given[..] else { return Err(lacking()) };
                self.stage = Stage::Part(reduction);
                self.scatter(library, x.clone(), &counts)?;
            }
            Collective::AllToAll { sent, received } => {
                let [x] = &given[..] else { return Err(lacking()) };
                let (sent, received) = (bytes(&sent, x.dtype()), bytes(&received, x.dtype()));
                self.exchange_pairs(library, x.clone(), (&sent, &received))?;
            }
            Collective::Gather { root, counts } => {
                let [x] = &given[..] else { return Err(lacking()) };
                let counts = bytes(&counts, x.dtype());
                self.submit(library, &Operation::Gather { root, counts }, x.clone())?;
            }
            Collective::Scatter { root, counts } => {
                let [elements] = expected[..] else { return Err(lacking()) };
                let counts = bytes(&counts, elements.dtype);
                let operation = Operation::Scatter { root, counts };
                match given.first() {
                    Some(x) => self.submit(library, &operation, x.clone())?,
                    None => self.submit_empty(library, &operation, elements)?,
                }
            }
            Collective::Barrier
            | Collective::Send
            | Collective::Receive
            | Collective::Meeting(_) => {}
        }
        Ok(())
    }

    fn reduce(
        &mut self,
        library: &mut dyn Library,
        reduction: ReduceOp,
        root: Option<usize>,
    ) -> Result<(), CommError> {
        let given = self.call.given.clone();
        let total: usize = given.iter().map(|buffer| buffer.bytes().len()).sum();
        let is_small = total * self.ranks <= WHOLE && root.is_none();
        self.stage = if is_small { Stage::Whole(reduction) } else { Stage::Parts(reduction, root) };
        for buffer in given {
            if is_small {
                let counts = vec![buffer.bytes().len(); self.ranks];
                self.submit(library, &Operation::AllGather { counts }, buffer)?;
            } else {
                let counts = parts(buffer.numel(), self.ranks);
                self.scatter(library, buffer, &counts)?;
            }
        }
        Ok(())
    }

    /// Gives each rank its part of a buffer, and takes this rank's part of all others'.
    fn scatter(
        &mut self,
        library: &mut dyn Library,
        buffer: Buffer,
        counts: &[usize],
    ) -> Result<(), CommError> {
        let sent = bytes(counts, buffer.dtype());
        let received = vec![sent[self.position]; self.ranks];
        // All ranks know this. Open MPI 4.1 confuses operations if one has nothing for some rank.
        let longest = sent.iter().copied().max().unwrap_or(0);
        let fits = longest.saturating_mul(self.ranks) <= library.most_bytes();
        match fits && !sent.contains(&0) {
            true => self.submit(library, &Operation::AllToAll { sent, received }, buffer),
            false => self.exchange_pairs(library, buffer, (&sent, &received)),
        }
    }

    /// Gives each rank a part of a buffer, and takes a part from each, as messages between each two
    /// ranks. Counts are bytes.
    fn exchange_pairs(
        &mut self,
        library: &mut dyn Library,
        given: Buffer,
        (sent, received): (&[usize], &[usize]),
    ) -> Result<(), CommError> {
        let dtype = given.dtype();
        let taken = Elements { dtype, numel: received.iter().sum::<usize>() / dtype.size() };
        let whole = library.spare().buffer(taken)?;
        let parts = (sent, received);
        let at = self.position;
        let started = pieces::all_to_all(library, self.comms[0], parts, (given, whole), at)?;
        self.pending.push((started, None));
        Ok(())
    }

    /// Submits an operation that takes elements of the given buffer's type.
    fn submit(
        &mut self,
        library: &mut dyn Library,
        operation: &Operation,
        given: Buffer,
    ) -> Result<(), CommError> {
        let (dtype, size) = (given.dtype(), given.dtype().size());
        let taken = match operation {
            Operation::AllGather { counts } => counts.iter().sum(),
            Operation::AllToAll { received, .. } => received.iter().sum(),
            Operation::Gather { root, counts } if *root == self.position => counts.iter().sum(),
            Operation::Scatter { counts, .. } => counts[self.position],
            Operation::Gather { .. }
            | Operation::Send { .. }
            | Operation::Receive { .. }
            | Operation::Broadcast { .. } => 0,
        };
        let into = library.spare().buffer(Elements { dtype, numel: taken / size })?;
        let at = (self.position, self.ranks);
        let started = pieces::start(library, self.comms[0], operation, (given, into), at)?;
        self.pending.push((started, None));
        Ok(())
    }

    /// Submits an operation to which this rank gives nothing.
    fn submit_empty(
        &mut self,
        library: &mut dyn Library,
        operation: &Operation,
        taken: Elements,
    ) -> Result<(), CommError> {
        let nothing = Buffer::zeros(Elements { numel: 0, ..taken })?;
        let into = library.spare().buffer(taken)?;
        let at = (self.position, self.ranks);
        let started = pieces::start(library, self.comms[0], operation, (nothing, into), at)?;
        self.pending.push((started, None));
        Ok(())
    }

    /// Returns whether it is in the first of two stages.
    pub(super) fn is_first_of_two(&self) -> bool {
        matches!(self.stage, Stage::Parts(..))
    }

    /// Returns the communicator of the stage.
    pub(super) fn comm(&self) -> Comm {
        self.comms[0]
    }

    /// Looks for completed operations and goes on to the next stage. Returns the buffers that this
    /// rank gets once there is no next one; never blocks.
    ///
    /// # Errors
    /// The library reports a failure, or memory is exhausted.
    pub(super) fn advance(
        &mut self,
        library: &mut dyn Library,
        may_gather: bool,
    ) -> Result<Option<Vec<Buffer>>, CommError> {
        let mut is_done = true;
        for (started, received) in &mut self.pending {
            if received.is_none() {
                *received = started.test()?;
                is_done &= received.is_some();
            }
        }
        if !is_done || (self.is_first_of_two() && !may_gather) {
            return Ok(None);
        }
        let received: Vec<Buffer> =
            self.pending.drain(..).filter_map(|(_, received)| received).collect();
        let ranks = self.ranks;
        match self.stage {
            Stage::Last => Ok(Some(self.results(received))),
            Stage::Whole(reduction) => {
                let whole = |all: &Buffer| reduced(library.spare(), all, ranks, reduction);
                received.iter().map(whole).collect::<Result<_, _>>().map(Some)
            }
            Stage::Part(reduction) => {
                let own = |all: &Buffer| reduced(library.spare(), all, ranks, reduction);
                received.iter().map(own).collect::<Result<_, _>>().map(Some)
            }
            Stage::Parts(reduction, root) => {
                let given = self.call.given.clone();
                (self.stage, self.comms[0]) = (Stage::Last, self.comms[1]);
                for (all, given) in received.iter().zip(&given) {
                    let own = reduced(library.spare(), all, ranks, reduction)?;
                    let counts = bytes(&parts(given.numel(), ranks), given.dtype());
                    let operation = match root {
                        Some(root) => Operation::Gather { root, counts },
                        None => Operation::AllGather { counts },
                    };
                    self.submit(library, &operation, own)?;
                }
                self.advance(library, true)
            }
        }
    }

    /// Returns those of the received buffers that this rank gets.
    fn results(&self, received: Vec<Buffer>) -> Vec<Buffer> {
        let gets = match self.call.collective {
            Collective::Reduce { root, .. } | Collective::Gather { root, .. } => {
                root == self.position
            }
            Collective::Broadcast { root } => root != self.position,
            Collective::Send => false,
            _ => true,
        };
        if gets { received } else { Vec::new() }
    }
}

/// Reduces the parts of all ranks, which follow one another.
fn reduced(
    spare: &Spare,
    all: &Buffer,
    ranks: usize,
    reduction: ReduceOp,
) -> Result<Buffer, CommError> {
    let numel = all.numel() / ranks;
    let each: Range<usize> = 0..ranks;
    let parts: Vec<(&Buffer, usize)> = each.map(|rank| (all, rank * numel)).collect();
    reduce(&parts, spare.buffer(Elements { dtype: all.dtype(), numel })?, reduction)
}

fn lacking() -> CommError {
    CommError::new("expected one tensor: schema and kernel disagree")
}
