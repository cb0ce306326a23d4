//! Stored lists.
//!
//! A stored list runs on streams of its own, with events, memory and tensors of its own, each
//! given when it is stored and used again by every run. Runs of one list follow one another, since
//! their launcher's stream is in-order.
//!
//! | module | holds |
//! |---|---|
//! | `recorder` | lists recorded to be stored |
//! | `foreign` | lists made elsewhere, and what is checked of them here |
//! | `store` | from a list's numbers to the machine's |

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
    Access, DeviceId, Error, ListId, Origin, Point, ReadId, Result, StreamKey, StreamType,
};

use crate::emission::{Emission, Release};
use crate::handle::{Completion, Stream, Tensor};
use crate::machine::Machine;
use crate::router::Scope;

pub use recorder::{JobRecorder, JobTensor};

/// A list in the machine's own numbers, but for places, which are moved at each run.
pub(crate) struct StoredJob {
    pub(crate) instructions: Vec<Instruction>,
    /// The streams that the list declares.
    pub(crate) decls: Vec<StreamDecl>,
    /// Its private streams, opened at its first run.
    pub(crate) scope: Scope,
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

/// A few runs' ends that memory or slots wait for.
pub(crate) type Ended = SmallVec<[(Point, StoredJob); 2]>;

/// A list stored in a machine, with the tensors that it works on.
pub struct Job {
    machine: Machine,
    list: ListId,
    /// What it works on lives as long as it does.
    _bound: Vec<Tensor>,
}

impl Job {
    /// Runs the list as one instruction.
    ///
    /// # Errors
    /// A tensor that it works on was released or is held, or a stream cannot be had.
    #[track_caller]
    pub fn launch(&self) -> Result<Completion> {
        self.launch_from(Origin::caller())
    }

    /// As [`Job::launch`], asked for at `origin`.
    ///
    /// # Errors
    /// As [`Job::launch`].
    pub fn launch_from(&self, origin: Origin) -> Result<Completion> {
        let key = StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, 0);
        let stream = self.machine.any_stream(&key)?;
        self.launch_on(&stream, origin)
    }

    /// As [`Job::launch`], on a given stream of type lazy-job, asked for at `origin`.
    ///
    /// # Errors
    /// As [`Job::launch`], or the stream is of another type or another machine's.
    pub fn launch_on(&self, stream: &Stream, origin: Origin) -> Result<Completion> {
        if !Arc::ptr_eq(&stream.machine.shared, &self.machine.shared) {
            return Err(Error::Foreign { what: "the stream".to_owned() }.at(&origin));
        }
        let point = self.machine.shared.emit(&origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = e;
            let Some(job) = router.jobs.get(&self.list) else {
                return Err(Error::Internal { message: "a stored list is gone".to_owned() });
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

    /// Takes what a host read of the list got in the last run; none if there is no such read, if
    /// that run has not come to it, or if it was taken.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn take_read(&self, read: ReadId) -> Result<Option<Result<Vec<u8>>>> {
        let emission = self.machine.shared.lock()?;
        let job = emission.router.jobs.get(&self.list);
        let id = job.and_then(|j| j.list_reads.get(&read)).copied();
        Ok(id.and_then(|id| self.machine.shared.engine.host.take_read(id)))
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
