//! This process among those that a launcher of MPI has started: each runs one rank's program.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millstream_comm::{CommError, Communicator, MpiCommunicator, mpi};
use millstream_trace::{Entry, TraceError};

/// The processes of a launcher.
pub(crate) struct Processes(Arc<MpiCommunicator>);

impl Processes {
    /// Connects to the other processes. Returns none without a launcher, or if it has started no
    /// other.
    ///
    /// # Errors
    /// There is no library of MPI, or it fails.
    pub(super) fn connect() -> Result<Option<Processes>, CommError> {
        if !mpi::is_launched() {
            return Ok(None);
        }
        let communicator = MpiCommunicator::connect()?;
        if communicator.ranks() == 1 {
            communicator.finish();
            return Ok(None);
        }
        Ok(Some(Processes(communicator)))
    }

    /// Sets the time without a heartbeat after which a process counts as lost.
    pub(super) fn limit_pause(&self, longest: Duration) {
        self.0.limit_pause(longest);
    }

    /// Returns this process's rank.
    pub(super) fn rank(&self) -> usize {
        self.0.rank()
    }

    /// Returns the number of processes.
    pub(super) fn ranks(&self) -> usize {
        self.0.ranks()
    }

    /// Returns the connection to the other processes.
    pub(super) fn communicator(&self) -> Arc<dyn Communicator> {
        self.0.clone()
    }

    /// Returns the trace that this process runs: its rank's, or that of all.
    ///
    /// # Errors
    /// The program has another number of ranks than there are processes.
    pub(super) fn own<'a>(&self, entry: &'a Entry) -> Result<&'a Path, TraceError> {
        let (folder, ranks) = match entry {
            Entry::Ranks { folder, ranks } => (folder, ranks),
            Entry::Trace(path) | Entry::Skipped { path, .. } => return Ok(path),
        };
        let processes = self.0.ranks();
        if ranks.len() != processes {
            let message = format!(
                "the program has {} ranks, and the launcher has started {processes} processes",
                ranks.len()
            );
            return Err(TraceError::of_file(folder.display().to_string(), message));
        }
        Ok(&ranks[self.0.rank()])
    }

    /// Returns whether all processes say yes. A process that has ended does not.
    pub(super) fn agree(&self, own: bool) -> bool {
        self.greatest(u8::from(!own)).is_ok_and(|no| no == 0)
    }

    /// Returns the greatest of the numbers that the processes give.
    ///
    /// # Errors
    /// A process has ended.
    pub(super) fn greatest(&self, own: u8) -> Result<u8, CommError> {
        self.0.greatest(own)
    }

    /// Ends a program, which every process does.
    pub(super) fn end_program(&self) {
        self.0.end_program();
    }

    /// Waits for the other processes to end, too.
    pub(super) fn finish(self) {
        self.0.finish();
    }
}
