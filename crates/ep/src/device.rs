//! The traits that a backend implements. The crate's contract says what each promises.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use millstream_types::{DeviceId, Result};

/// The alignment in bytes of every allocation, on every backend.
pub const MEMORY_ALIGN: usize = 512;

/// The number of a command on its stream, counted from 1.
pub type Ticket = u64;

/// What became of a piece of work.
pub type WorkResult = anyhow::Result<()>;

/// Called by a device, from any thread, when a stream may have something new to report.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// How far a command has come.
#[derive(Debug)]
pub enum Progress {
    /// It has run to its end, with this result.
    Done(WorkResult),
    /// It has been handed to the device; [`Stream::poll`] will report this ticket.
    Pending(Ticket),
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Commands may complete after they were handed over. If not, every command is
    /// [`Progress::Done`] at once, and events are of no use.
    pub asynchronous: bool,
    /// Streams of this device can wait for one another's events on the device.
    pub device_waits: bool,
    /// The notify function given to a stream is called on progress. If not, streams are polled.
    pub notifies: bool,
    /// The device's memory can be read and written through its addresses on the host.
    pub host_memory: bool,
    /// When a record completed can be told, by the host's clock as its worker hears of it. If not,
    /// elapsed times are an error.
    pub timestamps: bool,
}

/// A kind of device: finds and opens the devices of that kind.
pub trait Backend: Send + Sync {
    /// The kind, as in the device id `cpu:0`.
    fn kind(&self) -> &str;

    /// How many devices there are. Opens none.
    ///
    /// # Errors
    /// The backend cannot be used here at all, with what was looked for and where.
    fn count(&self) -> Result<u32>;

    /// What its devices can do. Opens none.
    fn capabilities(&self) -> Capabilities;

    /// Whether streams of device `to` copy from device `from`'s memory where it lies. If not, such
    /// copies go by way of the host. Opens none. No, unless overridden.
    fn copies_directly(&self, to: u32, from: u32) -> bool {
        let _ = (to, from);
        false
    }

    /// Whether streams of device `waiter` wait on the device for events of device `source`, another
    /// one. If not, the host waits. Opens none. No, unless overridden.
    fn waits_directly(&self, waiter: u32, source: u32) -> bool {
        let _ = (waiter, source);
        false
    }

    /// Opens device `index`.
    ///
    /// # Errors
    /// It is not there or cannot be opened.
    fn open(&self, index: u32) -> Result<Arc<dyn Device>>;
}

/// An open device.
pub trait Device: Send + Sync {
    /// Its id.
    fn id(&self) -> &DeviceId;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// The kind whose kernels run here: `cpu` for every device that computes on the host.
    fn kernel_kind(&self) -> &str;

    /// The memory in bytes that a machine may take by default.
    fn default_memory_limit(&self) -> u64;

    /// Allocates `bytes` bytes, aligned to [`MEMORY_ALIGN`], of unspecified content.
    ///
    /// # Errors
    /// [`millstream_types::Error::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>>;

    /// Opens a stream. `notify` is called on progress if the device can.
    ///
    /// # Errors
    /// The device refuses or is lost.
    fn create_stream(&self, notify: Notify) -> Result<Box<dyn Stream>>;

    /// Opens a stream whose commands go before those of others, on devices that know of that; as
    /// [`Device::create_stream`] on all others.
    ///
    /// # Errors
    /// The device refuses or is lost.
    fn create_urgent_stream(&self, notify: Notify) -> Result<Box<dyn Stream>> {
        self.create_stream(notify)
    }

    /// Makes an event, not yet recorded.
    ///
    /// # Errors
    /// The device refuses, is lost, or has no events ([`Capabilities::asynchronous`] is false).
    fn create_event(&self) -> Result<Arc<dyn Event>>;

    /// The device itself, for tools that know its backend.
    fn as_any(&self) -> &dyn Any;
}

/// Device memory, freed when dropped.
pub trait Memory: Send + Sync {
    /// Its first byte, in the device's address space.
    fn base(&self) -> NonNull<u8>;

    /// Its size in bytes.
    fn bytes(&self) -> usize;
}

/// A mark in a stream's order.
pub trait Event: Send + Sync {
    /// Whether the newest record has completed; true if there never was one. Never blocks.
    ///
    /// # Errors
    /// The device is lost. "Not yet" is `Ok(false)`.
    fn query(&self) -> Result<bool>;

    /// The event itself, for the stream of the same backend.
    fn as_any(&self) -> &dyn Any;
}

/// Something a stream runs: a kernel with its operands.
pub trait Work: Send {
    /// Runs it, or launches it on the native stream that `native` holds. Called once.
    ///
    /// # Errors
    /// The kernel's own.
    fn run(&mut self, native: &dyn Any) -> WorkResult;

    /// Whether the host does all of it, and nothing is launched: a read of host memory, say. On a
    /// device that does not compute on the host, it runs when the stream gets there.
    fn runs_on_host(&self) -> bool {
        false
    }

    /// An owned copy to be run later in its stead, for devices that start work by themselves.
    fn detach(&mut self) -> Box<dyn Work>;
}

/// An in-order queue of a device. One worker owns it.
pub trait Stream: Send {
    /// Hands work to the device. A panic of the work is the work's error.
    ///
    /// # Errors
    /// The device refuses the launch; the work has not run and will not.
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress>;

    /// Records `event` behind all that was handed over before.
    ///
    /// # Errors
    /// The device refuses, or the event is another device's.
    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress>;

    /// Orders all that follows behind the newest record of `event`.
    ///
    /// # Errors
    /// The device refuses or cannot ([`Capabilities::device_waits`]), the event is another
    /// backend's or that of a device that it cannot wait for ([`Backend::waits_directly`]), or it has
    /// never been recorded.
    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress>;

    /// Reports every command that has completed since the last call, in order. Also a record or a wait
    /// that is reported as failed has recorded or waited: a device that cannot promise it is lost.
    ///
    /// # Errors
    /// The device is lost.
    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()>;
}
