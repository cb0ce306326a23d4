//! The thread that makes all calls of NCCL.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use millstream_backoff::Backoff;
use millstream_ep::cuda::nccl::{Nccl, NcclComm, NcclStream, UniqueId};
use millstream_ops::collective::{Channel, ProcessGroup};
use millstream_types::{DType, Origin};

use crate::buffer::{Buffer, Elements};
use crate::call::{Call, Collective, Slot};
use crate::communicator::Communicator;
use crate::error::CommError;
use crate::request::Request;

use super::{Launch, Message, Shared, of_nccl, plan};

/// How often the communicators are asked for errors while nothing is to be launched.
const LOOK: Duration = Duration::from_millis(20);

/// How often NCCL is queried for the end of a call before the thread sleeps between queries.
const POLLS: u32 = 1000;

/// The creation index of the groups by which the ranks exchange ids; no program names it.
const IDS: u32 = u32::MAX - 2;

/// The ranks of a communicator of NCCL, and the creation index of their group; none for messages
/// between two ranks.
type Key = (Vec<usize>, Option<u32>);

/// The thread's state.
pub(super) struct Launcher {
    nccl: Nccl,
    base: Arc<dyn Communicator>,
    shared: Arc<Shared>,
    messages: Receiver<Message>,
    /// Calls whose turn has not come, by the numbers of their meetings.
    met: BTreeMap<u64, Box<Launch>>,
    /// The number of the meeting whose turn is next.
    next: u64,
    /// In an order that is the same on all ranks, which end them in it.
    comms: BTreeMap<Key, NcclComm>,
    /// How many ids each set of ranks has exchanged.
    ids: HashMap<Vec<usize>, u64>,
}

impl Launcher {
    pub(super) fn new(
        nccl: Nccl,
        base: Arc<dyn Communicator>,
        shared: Arc<Shared>,
        messages: Receiver<Message>,
    ) -> Launcher {
        let (met, comms, ids) = (BTreeMap::new(), BTreeMap::new(), HashMap::new());
        Launcher { nccl, base, shared, messages, met, next: 0, comms, ids }
    }

    /// Runs until the rank leaves.
    pub(super) fn run(mut self) {
        loop {
            match self.messages.recv_timeout(LOOK) {
                Ok(Message::Met(number, launch)) => {
                    self.met.insert(number, launch);
                    while let Some(launch) = self.met.remove(&self.next) {
                        self.next += 1;
                        self.launch(*launch);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.look_for_errors(),
                Ok(Message::Leave) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if self.shared.failure.get().is_some() {
            return;
        }
        for (_, comm) in std::mem::take(&mut self.comms) {
            // The rank needs it no more, whatever the library says.
            let _ = comm.finish();
        }
    }

    fn launch(&mut self, launch: Launch) {
        let Launch { call, completer } = launch;
        let launched = match self.failure() {
            Some(error) => Err(error),
            None => self.try_launch(&call),
        };
        if let Err(error) = &launched {
            self.fail(error);
        }
        completer.complete(launched.map(|()| Vec::new()));
        let mut counts = self.shared.counts();
        counts.under_way -= 1;
        counts.launched += 1;
        self.shared.launched.notify_all();
    }

    fn try_launch(&mut self, call: &super::DeviceCall) -> Result<(), CommError> {
        let rank = self.base.rank();
        let (key, peer) = match &call.slot.channel {
            Channel::Collectives(group) => ((group.ranks().to_vec(), Some(group.index())), None),
            Channel::Barriers => (((0..self.base.ranks()).collect(), Some(0)), None),
            Channel::Send { to: peer, .. } | Channel::Receive { from: peer, .. } => {
                ((vec![rank.min(*peer), rank.max(*peer)], None), Some(*peer))
            }
        };
        let position = |of: usize| key.0.iter().position(|rank| *rank == of).unwrap_or_default();
        let calls = plan::calls(call, position(rank), peer.map_or(0, position))?;
        if calls.is_empty() {
            return Ok(());
        }
        if !self.comms.contains_key(&key) {
            let comm = self.create(&key, &call.stream)?;
            self.comms.insert(key.clone(), comm);
        }
        let Launcher { comms, base, .. } = self;
        let Some(comm) = comms.get_mut(&key) else { return Ok(()) };
        if !comm.is_of(&call.stream) {
            return Err(CommError::new(format!(
                "{}: a rank's tensors are on one device: the group's earlier ones were on another",
                call.op
            )));
        }
        comm.group(&calls, &call.stream).map_err(of_nccl)?;
        wait_until_ready(comm, &**base)
    }

    /// Creates the communicator of a group, as its other ranks do in the same turn.
    fn create(&mut self, key: &Key, stream: &NcclStream) -> Result<NcclComm, CommError> {
        let (ranks, _) = key;
        let rank = self.base.rank();
        let position = ranks.iter().position(|other| *other == rank).unwrap_or_default();
        // All ranks of the group have it, or none: they create them together.
        let parent = self.comms.iter_mut().find(|(key, _)| key.0 == *ranks);
        let mut comm = match parent {
            Some((_, parent)) => {
                let check = || self.base.error().map_or(Ok(()), |error| Err(error.into()));
                let child = parent.split(position, check).map_err(of_nccl)?;
                wait_until_ready(parent, &*self.base)?;
                child
            }
            None => {
                let id = self.exchange_id(ranks, position)?;
                let at = (position, ranks.len());
                NcclComm::begin(self.nccl, stream, &id, at).map_err(of_nccl)?
            }
        };
        wait_until_ready(&mut comm, &*self.base)?;
        Ok(comm)
    }

    /// Returns the id of a new communicator, which the first of its ranks makes.
    fn exchange_id(&mut self, ranks: &[usize], position: usize) -> Result<UniqueId, CommError> {
        let group = ProcessGroup::new(ranks, IDS, self.base.ranks())?;
        let number = self.ids.entry(ranks.to_vec()).or_default();
        let slot = Slot { channel: Channel::Collectives(group), number: *number };
        *number += 1;
        let elements = Elements { dtype: DType::U8, numel: UniqueId::BYTES };
        let own = match position {
            0 => Some(self.nccl.unique_id().map_err(of_nccl)?),
            _ => None,
        };
        let (mut given, mut expected) = (Vec::new(), Vec::new());
        match &own {
            Some(id) => {
                let mut buffer = Buffer::zeros(elements)?;
                buffer.bytes_mut().copy_from_slice(id.bytes());
                given.push(buffer);
            }
            None => expected.push(elements),
        }
        let exchanged = self.base.start(Call {
            slot,
            collective: Collective::Broadcast { root: 0 },
            op: "the exchange of an id of NCCL",
            given,
            expected,
            origin: Origin::Unknown,
        });
        let received = wait(exchanged)?;
        let received = received.first().and_then(|buffer| buffer.bytes().try_into().ok());
        own.or(received.map(UniqueId::of)).ok_or_else(lacking)
    }

    /// Returns why no call can succeed any more.
    fn failure(&self) -> Option<CommError> {
        self.shared.failure.get().cloned().or_else(|| self.base.error())
    }

    /// Asks the communicators for errors.
    fn look_for_errors(&mut self) {
        if self.shared.failure.get().is_some() {
            return;
        }
        let mut found = self.base.error();
        for comm in self.comms.values_mut() {
            found = found.or_else(|| comm.is_ready().err().map(of_nccl));
        }
        if let Some(error) = found {
            self.fail(&error);
        }
    }

    /// Ends all communicators of NCCL, here and on the other ranks.
    fn fail(&mut self, error: &CommError) {
        if self.shared.failure.set(error.clone()).is_err() {
            return;
        }
        // Its error is not this rank's own.
        if self.base.error().is_none() {
            self.base.abort(&error.to_string());
        }
        for (_, comm) in std::mem::take(&mut self.comms) {
            comm.abort();
        }
    }
}

/// Waits until a call of NCCL has ended, or the ranks have failed.
fn wait_until_ready(comm: &mut NcclComm, base: &dyn Communicator) -> Result<(), CommError> {
    let mut backoff = Backoff::yielding(POLLS);
    while !comm.is_ready().map_err(of_nccl)? {
        if let Some(error) = base.error() {
            return Err(error);
        }
        backoff.snooze();
    }
    Ok(())
}

/// Waits for the outcome of a request, which every communicator gives in the end.
fn wait(request: Request) -> Result<Vec<Buffer>, CommError> {
    let (sender, outcome) = channel();
    request.then(move |outcome| drop(sender.send(outcome)));
    outcome.recv().map_err(|_| lacking())?
}

fn lacking() -> CommError {
    CommError::new("the communicator gave no outcome")
}
