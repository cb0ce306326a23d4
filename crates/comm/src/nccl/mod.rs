//! The data of NVIDIA devices, moved by NCCL, in the order of the devices' streams.
//!
//! The ranks are those of another communicator, in one process or in several: it matches the calls,
//! so mistakes, skipped calls and ranks that wait for one another are found as there, before
//! anything is launched. It also carries the ids of NCCL's communicators.
//!
//! # Rules
//! 1. A call first *meets* those of the other ranks, without data. Then it is launched on its
//!    stream, behind the stream's earlier commands. The request completes once it is launched.
//! 2. One thread makes all calls of NCCL, in the order of the numbers of the meetings, which is the
//!    same on all ranks. So communicators are created, and collectives launched, in one order,
//!    however many groups and streams there are. No worker waits for NCCL.
//! 3. A group of ranks gets a communicator at its first call: by splitting another of the same
//!    ranks, or by an id that the first rank gives to the others.
//! 4. While communicators exist, the thread asks them for errors. An error, or the end of the other
//!    communicator, aborts all of them: what is under way on the device ends, and all calls fail
//!    with the first cause, now and later, on every rank.
//! 5. Between its meeting and its launch a rank is not stalled, though nothing runs on its machine.
//!
//! NCCL reduces in an order of its own: all ranks have the same bits, but not those of the other
//! backends.
//!
//! | module | holds |
//! |---|---|
//! | `launcher` | the thread that makes all calls of NCCL |
//! | `plan` | the calls of NCCL that make a collective |

mod launcher;
mod plan;

use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};

use millstream_backoff::Backoff;
use millstream_ep::cuda::nccl::{Nccl, NcclMemory, NcclStream};
use millstream_ops::collective::Channel;
use millstream_types::Origin;

use crate::buffer::{Buffer, Elements};
use crate::call::{Call, Collective, Meeting, Slot};
use crate::communicator::Communicator;
use crate::error::CommError;
use crate::request::{Completer, Request, request};

use launcher::Launcher;

/// The kind of the devices that NCCL reaches.
const KIND: &str = millstream_ep::cuda::KIND;

/// One rank's part of a collective of tensors on a device.
pub struct DeviceCall {
    /// Its place among the calls of this rank.
    pub slot: Slot,
    /// What is called.
    pub collective: Collective,
    /// The name of the op, for errors.
    pub op: &'static str,
    /// The tensors that this rank gives.
    pub given: Vec<(Elements, NcclMemory)>,
    /// The tensors that this rank expects. A barrier has one byte of memory here.
    pub taken: Vec<(Elements, NcclMemory)>,
    /// The place in the program, for errors.
    pub origin: Origin,
    /// The stream on which it is launched.
    pub stream: NcclStream,
}

/// A call that has met those of the other ranks.
struct Launch {
    call: DeviceCall,
    completer: Completer,
}

enum Message {
    /// A call has met those of the others, as this rank's meeting of this number.
    Met(u64, Box<Launch>),
    Leave,
}

/// What the thread and the rank's machine share.
#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    /// Signalled after each launch.
    launched: Condvar,
    /// Why no call can succeed any more.
    failure: OnceLock<CommError>,
}

#[derive(Default)]
struct Counts {
    /// How many calls have met the others and are not launched yet.
    under_way: usize,
    /// How many were launched, or have failed after their meeting.
    launched: u64,
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rank's connection to the others in one program, with NCCL for the tensors of its device.
pub struct NcclCommunicator {
    base: Arc<dyn Communicator>,
    shared: Arc<Shared>,
    messages: Mutex<Sender<Message>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    version: String,
}

impl NcclCommunicator {
    /// Loads NCCL, for the ranks of another communicator. Every rank does so.
    ///
    /// # Errors
    /// The library was not found, or is too old. The error lists the places searched.
    pub fn connect(base: Arc<dyn Communicator>) -> Result<NcclCommunicator, CommError> {
        let nccl = Nccl::load().map_err(of_nccl)?;
        let shared: Arc<Shared> = Arc::default();
        let (messages, received) = channel();
        let launcher = Launcher::new(nccl, base.clone(), shared.clone(), received);
        let thread = Builder::new().name("millstream-nccl".to_owned());
        let thread = thread.spawn(move || launcher.run());
        let thread = thread.map_err(|e| CommError::new(format!("no thread for NCCL: {e}")))?;
        Ok(NcclCommunicator {
            base,
            shared,
            messages: Mutex::new(messages),
            thread: Mutex::new(Some(thread)),
            version: nccl.version(),
        })
    }

    /// Returns the version of the library, as `2.30.7`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Starts this rank's part of a collective. The request completes once the collective is on
    /// its stream, before it has run there; a failure after that is [`Communicator::error`]. A send
    /// waits for its receiver to get to the message.
    pub fn start_on_device(&self, call: DeviceCall) -> Request {
        if let Some(error) = self.shared.failure.get() {
            return Request::completed(Err(error.clone()));
        }
        if let Err(error) = self.check(&call) {
            return Request::completed(Err(error));
        }
        let elements = |tensors: &[(Elements, NcclMemory)]| -> Vec<Elements> {
            tensors.iter().map(|(elements, _)| *elements).collect()
        };
        let (given, expected) = (elements(&call.given), elements(&call.taken));
        let names = (call.op, &call.slot.channel);
        let meeting = Meeting::of(&call.collective, names, (&given, &expected), "NCCL");
        let met = self.base.start(Call {
            slot: call.slot.clone(),
            collective: Collective::Meeting(Box::new(meeting)),
            op: call.op,
            given: Vec::new(),
            expected: Vec::new(),
            origin: call.origin.clone(),
        });
        let (own, completer) = request();
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shared = self.shared.clone();
        met.then(move |outcome| {
            let number = outcome.map(|received| received.first().and_then(Buffer::number));
            match number {
                Ok(Some(number)) => {
                    shared.counts().under_way += 1;
                    // A message that nobody takes is dropped, which fails the request.
                    let _ =
                        messages.send(Message::Met(number, Box::new(Launch { call, completer })));
                }
                Ok(None) => {
                    let error = "the ranks have met, and got no number for it";
                    completer.complete(Err(CommError::new(error)));
                }
                Err(error) => completer.complete(Err(error)),
            }
        });
        own
    }

    /// Checks what is known before the ranks meet.
    fn check(&self, call: &DeviceCall) -> Result<(), CommError> {
        if let Channel::Send { to: peer, .. } | Channel::Receive { from: peer, .. } =
            call.slot.channel
            && peer == self.rank()
        {
            let message = format!("{}: NCCL sends no message from rank {peer} to itself", call.op);
            return Err(CommError::new(message));
        }
        plan::check(call)
    }
}

impl Drop for NcclCommunicator {
    fn drop(&mut self) {
        // The thread may have ended.
        let _ = self.messages.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Leave);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The thread returns nothing.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Communicator for NcclCommunicator {
    fn kind(&self) -> &'static str {
        "nccl"
    }

    fn rank(&self) -> usize {
        self.base.rank()
    }

    fn ranks(&self) -> usize {
        self.base.ranks()
    }

    fn buffer(&self, elements: Elements) -> Result<Buffer, CommError> {
        self.base.buffer(elements)
    }

    fn start(&self, call: Call) -> Request {
        self.base.start(call)
    }

    fn skip(&self, slot: Slot, op: &str, cause: &str) {
        self.base.skip(slot, op, cause);
    }

    fn abort(&self, cause: &str) {
        self.base.abort(cause);
    }

    fn error(&self) -> Option<CommError> {
        self.shared.failure.get().cloned().or_else(|| self.base.error())
    }

    fn nccl(&self) -> Option<&NcclCommunicator> {
        Some(self)
    }

    fn reaches(&self, kind: &str) -> bool {
        kind == KIND
    }

    fn compare_calls(&self, compared: bool) {
        self.base.compare_calls(compared);
    }

    fn deliveries(&self) -> Option<u64> {
        let launched = self.shared.counts().launched;
        self.base.deliveries().map(|deliveries| deliveries + launched)
    }

    fn report_stall(&self, deliveries: u64) {
        let counts = self.shared.counts();
        if counts.under_way == 0
            && let Some(of_base) = self.base.deliveries()
            && of_base + counts.launched == deliveries
        {
            drop(counts);
            self.base.report_stall(of_base);
        }
    }

    fn wait_for_delivery(&self, deliveries: u64) -> bool {
        let mut backoff = Backoff::new(0);
        loop {
            let Some(of_base) = self.base.deliveries() else { return false };
            let counts = self.shared.counts();
            if of_base + counts.launched > deliveries {
                return true;
            }
            if counts.under_way == 0 {
                drop(counts);
                return self.base.wait_for_delivery(of_base);
            }
            // A launch is signalled. A delivery of the base meanwhile is not.
            drop(self.shared.launched.wait_timeout(counts, backoff.next_nap()));
        }
    }
}

impl fmt::Debug for NcclCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NcclCommunicator({} of {}, NCCL {})", self.rank(), self.ranks(), self.version)
    }
}

/// Converts an error of the library.
fn of_nccl(error: anyhow::Error) -> CommError {
    CommError::new(format!("{error:#}"))
}
