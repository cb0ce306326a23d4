//! Collectives of several devices by NCCL, which is searched for and loaded when a program first
//! asks for it. The library is NVIDIA's, and not part of the driver.
//!
//! # Rules
//! 1. Every communicator is one whose calls do not block. A call that is under way is asked for by
//!    [`NcclComm::is_ready`], so a rank that never comes can be given up: [`NcclComm::abort`].
//! 2. One thread makes all calls of the communicators of a rank, in an order that is the same on
//!    all ranks. The layers above guarantee it.
//! 3. Elements are moved as bytes, and have a type only where they are reduced.

mod library;

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use cudarc::driver::sys::CUstream;

use millstream_backoff::{Backoff, POLLS};
use millstream_types::DType;

use super::driver::{Context, RawStream};
use library::{IN_PROGRESS, NcclLibrary, RawComm, RawConfig, RawId};

/// `ncclUint8`: the type of elements that are only moved.
const BYTES: c_int = 1;

/// The library.
#[derive(Clone, Copy)]
pub struct Nccl(&'static NcclLibrary);

/// What the ranks of a new communicator have in common. One of them makes it and gives it to the
/// others.
#[derive(Clone, Copy)]
pub struct UniqueId(RawId);

impl UniqueId {
    /// The length of an id in bytes.
    pub const BYTES: usize = 128;

    /// Returns the id of these bytes.
    pub const fn of(bytes: [u8; UniqueId::BYTES]) -> UniqueId {
        UniqueId(RawId(bytes))
    }

    /// Returns the id as bytes.
    pub const fn bytes(&self) -> &[u8; UniqueId::BYTES] {
        &self.0.0
    }
}

/// A stream on which a collective is launched, by another thread than its owner's.
#[derive(Clone)]
pub struct NcclStream {
    raw: CUstream,
    context: Arc<Context>,
}

// SAFETY: a stream may be used from any thread; the driver synchronizes its calls.
unsafe impl Send for NcclStream {}

impl NcclStream {
    pub(super) fn of(stream: &RawStream) -> NcclStream {
        NcclStream { raw: stream.raw(), context: stream.context().clone() }
    }
}

/// Device memory that a collective reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct NcclMemory {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: an address, which no host thread follows.
unsafe impl Send for NcclMemory {}

impl NcclMemory {
    /// Returns the memory at an address.
    ///
    /// # Safety
    /// The memory is valid for `bytes` bytes, until every collective to which it is given has run;
    /// so is the stream. The collectives are ordered against all other uses of the memory.
    pub const unsafe fn new(address: *mut u8, bytes: usize) -> NcclMemory {
        NcclMemory { address, bytes }
    }

    /// Returns a part of the memory, which has at least `from + bytes` bytes.
    #[must_use]
    pub fn part(&self, from: usize, bytes: usize) -> NcclMemory {
        assert!(from <= self.bytes && bytes <= self.bytes - from, "a part of {self:?}");
        NcclMemory { address: self.address.wrapping_add(from), bytes }
    }

    /// Returns the number of bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A reduction of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NcclReduction {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The greatest element.
    Max,
    /// The least element.
    Min,
    /// The mean.
    Mean,
}

/// Returns the library's number of a dtype that it reduces.
///
/// # Errors
/// It reduces no elements of this dtype.
fn data_type(dtype: DType, reduction: NcclReduction) -> Result<c_int> {
    Ok(match dtype {
        DType::I8 => 0,
        DType::U8 => 1,
        // Its values are 0 and 1, in a byte.
        DType::Bool if matches!(reduction, NcclReduction::Max | NcclReduction::Min) => 1,
        DType::I32 => 2,
        DType::I64 => 4,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        other => bail!(
            "NCCL reduces i8, u8, i32, i64, f16, bf16, f32 and f64, not {other}: reduce a tensor \
             of one of these, or run without NCCL"
        ),
    })
}

/// A call within a group: see [`NcclComm::group`].
#[derive(Clone, Copy, Debug)]
pub enum NcclCall {
    /// Every rank gets the reduction.
    AllReduce(NcclMemory, NcclMemory, DType, NcclReduction),
    /// The rank at a position gets the reduction.
    Reduce(NcclMemory, NcclMemory, DType, NcclReduction, usize),
    /// Every rank gets the bytes of the rank at a position.
    Broadcast(NcclMemory, NcclMemory, usize),
    /// Every rank gets the bytes of all, one after the other; each gives as many.
    AllGather(NcclMemory, NcclMemory),
    /// Each rank gets its part of the reduction; each part is as long as the second memory.
    ReduceScatter(NcclMemory, NcclMemory, DType, NcclReduction),
    /// Gives bytes to the rank at a position.
    Send(NcclMemory, usize),
    /// Takes bytes from the rank at a position.
    Receive(NcclMemory, usize),
}

impl Nccl {
    /// Loads the library.
    ///
    /// # Errors
    /// It was not found, and the error lists the places searched; or it is too old.
    pub fn load() -> Result<Nccl> {
        NcclLibrary::get().map(Nccl)
    }

    /// Returns the version, as `2.30.7`.
    pub fn version(&self) -> String {
        let version = self.0.version;
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Makes an id for a new communicator.
    ///
    /// # Errors
    /// The library's error.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = RawId([0; UniqueId::BYTES]);
        // SAFETY: the library writes an id.
        self.0.check("ncclGetUniqueId", unsafe { (self.0.unique_id)(&raw mut id) })?;
        Ok(UniqueId(id))
    }
}

/// A rank's part of a communicator, on a device. It is aborted when it is dropped, unless it was
/// given to [`NcclComm::finish`].
pub struct NcclComm {
    raw: RawComm,
    library: &'static NcclLibrary,
    context: Arc<Context>,
}

// SAFETY: any thread may use a communicator, one at a time: every use borrows it mutably.
unsafe impl Send for NcclComm {}

impl NcclComm {
    /// Begins a communicator of the device of a stream, at a position of so many ranks. It is made
    /// once all ranks have begun it: see [`NcclComm::is_ready`].
    ///
    /// # Errors
    /// The library's error.
    pub fn begin(
        nccl: Nccl,
        stream: &NcclStream,
        id: &UniqueId,
        (position, ranks): (usize, usize),
    ) -> Result<NcclComm> {
        let (library, context) = (nccl.0, stream.context.clone());
        let [position, ranks] = [c_int::try_from(position)?, c_int::try_from(ranks)?];
        context.enter()?;
        let (mut raw, mut config) = (null_mut(), RawConfig::without_blocking());
        // SAFETY: the device's context is current; the library writes a handle.
        let code = unsafe { (library.init)(&raw mut raw, ranks, id.0, position, &raw mut config) };
        library.check("ncclCommInitRankConfig", code)?;
        Ok(NcclComm { raw, library, context })
    }

    /// Begins another communicator of the same ranks, which shares resources with this one. All
    /// ranks do so. `check` is called while nothing is known of it, and can end the wait.
    ///
    /// # Errors
    /// The library's error, or that of `check`.
    pub fn split(&mut self, position: usize, check: impl Fn() -> Result<()>) -> Result<NcclComm> {
        self.context.enter()?;
        // Leaked: the library may write it after an error has ended the wait.
        let raw: *mut RawComm = Box::leak(Box::new(null_mut()));
        let (mut config, key) = (RawConfig::without_blocking(), c_int::try_from(position)?);
        // SAFETY: the communicator is alive; the library writes a handle.
        let code = unsafe { (self.library.split)(self.raw, 0, key, raw, &raw mut config) };
        self.library.check("ncclCommSplit", code)?;
        let mut backoff = Backoff::new(POLLS);
        loop {
            // SAFETY: as above. Volatile, because another thread of the library may write.
            let raw = unsafe { raw.read_volatile() };
            if !raw.is_null() {
                let (library, context) = (self.library, self.context.clone());
                return Ok(NcclComm { raw, library, context });
            }
            ensure!(!self.is_ready()?, "ncclCommSplit returned no communicator");
            check()?;
            backoff.snooze();
        }
    }

    /// Returns whether this is a communicator of the stream's device.
    pub fn is_of(&self, stream: &NcclStream) -> bool {
        Arc::ptr_eq(&self.context, &stream.context)
    }

    /// Returns whether nothing of the communicator is under way on the host.
    ///
    /// # Errors
    /// The communicator has failed: [`NcclComm::abort`] is all that is left to do.
    pub fn is_ready(&mut self) -> Result<bool> {
        let mut state = 0;
        // SAFETY: the communicator is alive; the library writes a number.
        let code = unsafe { (self.library.async_error)(self.raw, &raw mut state) };
        self.library.check("ncclCommGetAsyncError", code)?;
        self.library.check("an asynchronous error of NCCL", state)?;
        Ok(state != IN_PROGRESS)
    }

    /// Launches calls together, on a stream, in its order. Those of one group progress together,
    /// so a rank may send and receive in one. They are on the stream once the communicator is
    /// ready.
    ///
    /// # Errors
    /// The library's error, or it does not reduce the dtype.
    pub fn group(&mut self, calls: &[NcclCall], stream: &NcclStream) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the context is current.
        self.library.check("ncclGroupStart", unsafe { (self.library.group_start)() })?;
        let launched = calls.iter().try_for_each(|call| self.call(*call, stream));
        // SAFETY: ends the group of above, also if a call was refused.
        let ended = self.library.check("ncclGroupEnd", unsafe { (self.library.group_end)() });
        launched.and(ended)
    }

    fn call(&mut self, call: NcclCall, stream: &NcclStream) -> Result<()> {
        let (library, comm, stream) = (self.library, self.raw, stream.raw);
        let from = |memory: NcclMemory| memory.address.cast_const().cast::<c_void>();
        let to = |memory: NcclMemory| memory.address.cast::<c_void>();
        let numel = |memory: NcclMemory, dtype: DType| memory.bytes / dtype.size();
        let operator = |reduction| match reduction {
            NcclReduction::Sum => 0,
            NcclReduction::Product => 1,
            NcclReduction::Max => 2,
            NcclReduction::Min => 3,
            NcclReduction::Mean => 4,
        };
        // SAFETY: `NcclMemory::new` promises that the memory is valid until the calls have run, and
        // that the stream is. Communicator and stream are alive.
        let (name, code) = unsafe {
            match call {
                NcclCall::AllReduce(x, out, dtype, op) => {
                    let (count, kind) = (numel(x, dtype), data_type(dtype, op)?);
                    let op = operator(op);
                    let code =
                        (library.all_reduce)(from(x), to(out), count, kind, op, comm, stream);
                    ("ncclAllReduce", code)
                }
                NcclCall::Reduce(x, out, dtype, op, root) => {
                    let (count, kind) = (numel(x, dtype), data_type(dtype, op)?);
                    let (op, root) = (operator(op), c_int::try_from(root)?);
                    let (x, out) = (from(x), to(out));
                    ("ncclReduce", (library.reduce)(x, out, count, kind, op, root, comm, stream))
                }
                NcclCall::Broadcast(x, out, root) => {
                    let (count, root) = (out.bytes, c_int::try_from(root)?);
                    let (x, out) = (from(x), to(out));
                    ("ncclBroadcast", (library.broadcast)(x, out, count, BYTES, root, comm, stream))
                }
                NcclCall::AllGather(x, out) => {
                    let (x, out, count) = (from(x), to(out), x.bytes);
                    ("ncclAllGather", (library.all_gather)(x, out, count, BYTES, comm, stream))
                }
                NcclCall::ReduceScatter(x, out, dtype, op) => {
                    let (count, kind) = (numel(out, dtype), data_type(dtype, op)?);
                    let (x, out, op) = (from(x), to(out), operator(op));
                    let code = (library.reduce_scatter)(x, out, count, kind, op, comm, stream);
                    ("ncclReduceScatter", code)
                }
                NcclCall::Send(x, peer) => {
                    let peer = c_int::try_from(peer)?;
                    let code = (library.send)(from(x), x.bytes, BYTES, peer, comm, stream);
                    ("ncclSend", code)
                }
                NcclCall::Receive(out, peer) => {
                    let peer = c_int::try_from(peer)?;
                    let code = (library.receive)(to(out), out.bytes, BYTES, peer, comm, stream);
                    ("ncclRecv", code)
                }
            }
        };
        self.library.check(name, code)
    }

    /// Ends the use of the communicator, whose collectives have all run.
    ///
    /// # Errors
    /// The library's error.
    pub fn finish(mut self) -> Result<()> {
        self.context.enter()?;
        let raw = std::mem::replace(&mut self.raw, null_mut());
        // SAFETY: the communicator is alive, and is not used again.
        self.library.check("ncclCommDestroy", unsafe { (self.library.destroy)(raw) })
    }

    /// Ends the communicator and what is under way, here and on the device.
    pub fn abort(self) {}
}

impl Drop for NcclComm {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        // An error changes nothing: the communicator is given up.
        let _ = self.context.enter();
        // SAFETY: the communicator is alive, and is not used again.
        let _ = unsafe { (self.library.abort)(self.raw) };
    }
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NCCL {}", self.version())
    }
}

impl fmt::Debug for NcclStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream for collectives")
    }
}

/// Checks that the library reduces elements of a dtype.
///
/// # Errors
/// It does not; the error names those that it reduces.
pub fn check_reduction(dtype: DType, reduction: NcclReduction) -> Result<()> {
    data_type(dtype, reduction).map(drop)
}
