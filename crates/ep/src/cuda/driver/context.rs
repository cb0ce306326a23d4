//! A device's primary context, which all who use the device in this process share.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute_enum as Attribute};

use super::{Answer, Report, check};

/// What was made and destroyed on a device so far, by this process's use of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events made.
    pub events_created: u64,
    /// Events destroyed.
    pub events_destroyed: u64,
    /// Allocations of device memory and pinned memory.
    pub allocations: u64,
    /// What of them was freed. The driver waits for the whole device to do so, unless it goes back to a
    /// pool, and nothing else here makes it wait.
    pub frees: u64,
}

/// As [`Counts`]. Relaxed throughout: each is a number by itself.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) events_created: AtomicU64,
    pub(super) events_destroyed: AtomicU64,
    pub(super) allocations: AtomicU64,
    pub(super) frees: AtomicU64,
}

/// What the contexts of a backend do when something of theirs is destroyed.
pub(in crate::cuda) struct Ends {
    report: Report,
    /// Whether nothing is destroyed any more.
    given_up: AtomicBool,
}

impl Ends {
    /// As long as all is well everything is destroyed, and `report` is told of errors.
    pub(in crate::cuda) fn new(report: Report) -> Arc<Ends> {
        Arc::new(Ends { report, given_up: AtomicBool::new(false) })
    }
}

/// A context that is held for as long as this lives.
pub(in crate::cuda) struct Context {
    /// A number that no other context of this process ever has.
    id: u64,
    device: CUdevice,
    raw: CUcontext,
    ends: Arc<Ends>,
    pub(super) tally: Tally,
}

// SAFETY: a context may be used from any thread; the driver locks by itself.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

thread_local! {
    /// The context that this thread was given last, by number.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

impl Context {
    /// Device `index`'s, made if nobody has it yet.
    pub(in crate::cuda) fn retain(index: u32, ends: Arc<Ends>) -> Answer<Arc<Context>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (mut device, mut raw) = (0, std::ptr::null_mut());
        // SAFETY: the driver is initialised, and writes a number.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, index as c_int) })?;
        // SAFETY: as above, and writes a handle.
        let code = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut raw, device) };
        check("cuDevicePrimaryCtxRetain", code)?;
        // Relaxed: only uniqueness is wanted.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Context { id, device, raw, ends, tally: Tally::default() }))
    }

    pub(in crate::cuda) fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Tally { events_created, events_destroyed, allocations, frees } = &self.tally;
        Counts {
            events_created: of(events_created),
            events_destroyed: of(events_destroyed),
            allocations: of(allocations),
            frees: of(frees),
        }
    }

    /// Makes this the context of the thread, as every call below needs. A thread that has it
    /// already is not asked twice: a thread that works for us is given no other by anybody else.
    pub(in crate::cuda) fn enter(&self) -> Answer<()> {
        if CURRENT.get() == self.id {
            return Ok(());
        }
        // SAFETY: the context is held by this value.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.raw) })?;
        CURRENT.set(self.id);
        Ok(())
    }

    /// The driver's handle.
    pub(super) fn raw(&self) -> CUcontext {
        self.raw
    }

    /// What it does when something is destroyed.
    pub(super) fn ends(&self) -> &Arc<Ends> {
        &self.ends
    }

    /// Tells of what went wrong where nobody could be told.
    pub(super) fn complain(&self, outcome: Answer<()>) {
        match outcome {
            Err(error) if !error.is_end() => (self.ends.report)(&error),
            _ => {}
        }
    }

    /// From now on nothing of the backend's is destroyed: the driver would wait for what never ends, or
    /// take away what that would use if it did.
    pub(in crate::cuda) fn give_up(&self) {
        // Relaxed: who destroys something has heard of the stream that is stuck by other ways.
        self.ends.given_up.store(true, Ordering::Relaxed);
    }

    /// Destroys something of the context's, from any thread.
    pub(in crate::cuda) fn destroy(&self, destroy: impl FnOnce() -> Answer<()>) {
        if self.ends.given_up.load(Ordering::Relaxed) {
            return;
        }
        self.complain(self.enter().and_then(|()| destroy()));
    }

    pub(in crate::cuda) fn attribute(&self, which: Attribute) -> Answer<i32> {
        let mut value = 0;
        // SAFETY: the device was found when the context was made.
        let code = unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, self.device) };
        check("cuDeviceGetAttribute", code).map(|()| value)
    }

    pub(in crate::cuda) fn name(&self) -> Answer<String> {
        let mut text = [0u8; 256];
        let (at, room) = (text.as_mut_ptr().cast::<c_char>(), text.len() as c_int);
        // SAFETY: the driver writes at most `room` bytes, the zero that ends them included.
        check("cuDeviceGetName", unsafe { sys::cuDeviceGetName(at, room, self.device) })?;
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// The device's memory: free bytes, and all.
    pub(in crate::cuda) fn memory(&self) -> Answer<(u64, u64)> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is the thread's; the driver writes two numbers.
        let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check("cuMemGetInfo_v2", code).map(|()| (free as u64, total as u64))
    }

    /// The priorities that streams may have: the least and the most urgent, which is the lower
    /// number.
    pub(in crate::cuda) fn priorities(&self) -> Answer<(i32, i32)> {
        self.enter()?;
        let (mut least, mut most) = (0, 0);
        // SAFETY: as above.
        let code = unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut most) };
        check("cuCtxGetStreamPriorityRange", code).map(|()| (least, most))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.ends.given_up.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: retained once when this was made, and given back once. Whatever was made in it
        // holds the context and is gone.
        let code = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        self.complain(check("cuDevicePrimaryCtxRelease_v2", code));
    }
}

/// Counts one more.
pub(super) fn count(tally: &AtomicU64) {
    tally.fetch_add(1, Ordering::Relaxed);
}

/// An address as the driver writes it.
pub(super) fn address(at: *const u8) -> u64 {
    at.addr() as u64
}
