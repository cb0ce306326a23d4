//! Stored lists.
//!
//! A stored list runs on streams of its own, with events, memory and tensors of its own, all
//! assigned when it is stored and reused by every run. Runs of one list follow one another, since
//! their launcher's stream is in-order.
//!
//! | module | holds |
//! |---|---|
//! | `recorder` | lists recorded to be stored |
//! | `foreign` | lists made elsewhere, and their checks |
//! | `store` | the rewriting of a list's ids to the machine's |

mod foreign;
mod recorder;
mod store;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::{Instruction, Outcome, StreamDecl, TensorRef};
use millstream_stream_policy::PrivateArena;
use millstream_types::{
    Access, DeviceId, Error, ListId, Point, ReadId, Result, StreamKey, StreamType,
};

use crate::api::handle::{Completion, Stream, Tensor};
use crate::api::machine::Machine;
use crate::emission::origin;
use crate::emission::router::StreamScope;
use crate::emission::{Emission, Release};

pub use foreign::accepts;
pub use recorder::{JobRecorder, JobTensor};

/// A list with the machine's ids. Its sequence numbers are offset at each run.
pub(crate) struct StoredJob {
    pub(crate) instructions: Vec<Instruction>,
    /// The streams that the list declares.
    pub(crate) decls: Vec<StreamDecl>,
    /// Its private streams, opened at its first run.
    pub(crate) scope: StreamScope,
    /// The storages that live within a run.
    pub(crate) storages: Arc<[u64]>,
    /// The union of its accesses to tensors from outside.
    pub(crate) uses: Vec<(TensorRef, Access)>,
    /// Its host reads, by the ids of the list.
    pub(crate) list_reads: HashMap<ReadId, ReadId>,
    pub(crate) reads: Vec<ReadId>,
    /// The tensors made for it.
    pub(crate) tensors: Vec<TensorRef>,
    /// The last run.
    pub(crate) launched: Point,
    /// Its memory.
    pub(crate) _arenas: Vec<PrivateArena>,
}

/// The ended lists, each with its last run, after which its memory and slots are free.
pub(crate) type Ended = SmallVec<[(Point, StoredJob); 2]>;

/// A list stored in a machine, with the tensors that it works on.
pub struct Job {
    machine: Machine,
    list: ListId,
    /// Its operands live as long as it does.
    _bound: Vec<Tensor>,
}

impl Job {
    /// Runs the list as one instruction.
    ///
    /// # Errors
    /// One of its operands was released or is held, or a stream is refused.
    #[track_caller]
    pub fn launch(&self) -> Result<Completion> {
        let key = StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, 0);
        let stream = self.machine.stream(&key)?;
        self.launch_on(&stream)
    }

    /// Runs the list as [`Job::launch`] does, on a given stream of type lazy-job.
    ///
    /// # Errors
    /// As [`Job::launch`], or the stream is of another type or another machine's.
    #[track_caller]
    pub fn launch_on(&self, stream: &Stream) -> Result<Completion> {
        let origin = origin::caller();
        if !Arc::ptr_eq(&stream.machine.shared, &self.machine.shared) {
            return Err(Error::Foreign { what: "the stream".to_owned() }.at(&origin));
        }
        let point = self.machine.shared.emit(&origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = e;
            let Some(job) = router.jobs.get(&self.list) else {
                return Err(Error::Internal {
                    message: "a stored list no longer exists".to_owned(),
                });
            };
            let uses = job.uses.clone();
            let decls = job.scope.is_empty().then(|| job.decls.clone());
            if let Some(decls) = decls {
                let scope = router.private_scope(&decls)?;
                if let Some(job) = router.jobs.get_mut(&self.list) {
                    job.scope = scope;
                }
            }
            let at = builder.launch_job(router, stream.id, self.list, &uses, None, &origin);
            at.map(Outcome::Done)
        })?;
        Ok(self.machine.completion_of(point))
    }

    /// Takes the result of a host read in the last run; none if there is no such read, if that run
    /// has not reached it, or if it was taken.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn take_read(&self, read: ReadId) -> Result<Option<Result<Vec<u8>>>> {
        let emission = self.machine.shared.lock()?;
        let job = emission.router.jobs.get(&self.list);
        let id = job.and_then(|j| j.list_reads.get(&read)).copied();
        Ok(id.and_then(|id| self.machine.shared.tables.host.take_read(id)))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.machine.shared.release(Release::Job(self.list));
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({})", self.list)
    }
}
