//! MPI libraries: found, loaded and called.
//!
//! The three binary interfaces differ in the type of their handles and in the values of their
//! constants, which `Abi` lists. `Functions` is generic over the type of the handles. All unsafe
//! code of the crate is in this folder.
//!
//! | interface | libraries | handles |
//! |---|---|---|
//! | Open MPI | Open MPI 4 and 5 | addresses of objects in the library |
//! | MPICH | MPICH 3.4 and 4, Intel MPI, MVAPICH | `int` |
//! | MPI-5 | libraries of the standard's interface | addresses below a page |
//!
//! # Rules
//! 1. One thread makes all calls, the one that has loaded the library.
//! 2. A started operation owns its buffers until it has completed. If it is dropped before, they
//!    are leaked, since the library may still use them.

mod functions;
mod loaded;

use crate::buffer::{Buffer, Spare};
use crate::error::CommError;

pub(super) use loaded::load;

/// A communicator of the library, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comm(usize);

/// The communicator of all ranks.
pub(super) const WORLD: Comm = Comm(0);

/// An operation that is started and completes later. Ranks are positions in the communicator,
/// counts are numbers of bytes by position.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Send {
        to: usize,
    },
    /// Receives at most as many bytes as the buffer has, from one rank or from any.
    Receive {
        from: Option<usize>,
    },
    Broadcast {
        root: usize,
    },
    AllGather {
        counts: Vec<usize>,
    },
    AllToAll {
        sent: Vec<usize>,
        received: Vec<usize>,
    },
    Gather {
        root: usize,
        counts: Vec<usize>,
    },
    Scatter {
        root: usize,
        counts: Vec<usize>,
    },
}

/// A started operation.
pub(super) trait Started {
    /// Returns the buffer that was received, once the operation has completed; never blocks. Not to
    /// be called again after that.
    fn test(&mut self) -> Result<Option<Buffer>, CommError>;
}

/// A loaded and initialised library.
pub(super) trait Library {
    /// Returns this process's rank.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn ranks(&self) -> usize;

    /// Returns the name and version of the library.
    fn version(&self) -> &str;

    /// Returns the memory for what operations receive.
    fn spare(&self) -> &Spare;

    /// Returns the most bytes that an operation may give or take.
    fn most_bytes(&self) -> usize;

    /// Creates the communicator of some ranks. All of them create it at the same place of their
    /// sequence of creations; blocks until they do.
    ///
    /// # Errors
    /// The library refuses.
    fn create(&mut self, ranks: &[usize]) -> Result<Comm, CommError>;

    /// Starts an operation. A buffer that the operation does not use may be empty.
    ///
    /// # Errors
    /// The library refuses, or a count exceeds what the interface can express.
    fn start(
        &mut self,
        comm: Comm,
        operation: &Operation,
        given: Buffer,
        received: Buffer,
    ) -> Result<Box<dyn Started>, CommError>;

    /// Ends the use of the library. All ranks do so.
    fn finalize(&mut self);
}
