//! The traits that a backend implements. The crate's documentation states their contract.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::graph::{Graph, GraphStream};

/// The alignment in bytes of every allocation, on every backend.
pub const MEMORY_ALIGN: usize = 512;

/// The number of a command on its stream, counted from 1.
pub type Ticket = u64;

/// The result of a piece of work.
pub type WorkResult = anyhow::Result<()>;

/// A function that a device calls, from any thread, when a stream may have completions to report.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// The state of a submitted command.
#[derive(Debug)]
pub enum Progress {
    /// The command has run to its end, with this result.
    Done(WorkResult),
    /// The device has the command. [`Stream::poll`] will report this ticket.
    Pending(Ticket),
}

/// The capabilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Commands may complete after their submission. If false, every command is
    /// [`Progress::Done`] at once, and the device has no events.
    pub asynchronous: bool,
    /// Streams of this device can wait for one another's events on the device.
    pub device_waits: bool,
    /// The device calls a stream's notify function on progress. If false, streams must be polled.
    pub notifies: bool,
    /// The host can read and write the device's memory through its addresses.
    pub host_memory: bool,
    /// The completion time of a record is available, on the host's clock, as the stream's worker
    /// observes it. If false, elapsed times are an error.
    pub timestamps: bool,
    /// Work of this device can be captured as a graph ([`Stream::graphs`]).
    pub graphs: bool,
}

/// A kind of device: finds and opens the devices of that kind.
pub trait Backend: Send + Sync {
    /// Returns the kind: `cpu` in the device id `cpu:0`.
    fn kind(&self) -> &str;

    /// Returns the number of devices. Opens none.
    ///
    /// # Errors
    /// The backend does not work on this computer. The error says what is missing and where the
    /// backend searched.
    fn count(&self) -> Result<u32>;

    /// Returns the capabilities of its devices. Opens none.
    fn capabilities(&self) -> Capabilities;

    /// Returns whether streams of device `to` copy directly from the memory of device `from`. If
    /// false, such copies go through host memory. Opens none. Default: false.
    fn copies_directly(&self, to: u32, from: u32) -> bool {
        let _ = (to, from);
        false
    }

    /// Returns whether streams of device `waiter` wait on the device for events of another device,
    /// `source`. If false, the host waits. Opens none. Default: false.
    fn waits_directly(&self, waiter: u32, source: u32) -> bool {
        let _ = (waiter, source);
        false
    }

    /// Opens device `index`.
    ///
    /// # Errors
    /// The device does not exist or cannot be opened.
    fn open(&self, index: u32) -> Result<Arc<dyn Device>>;
}

/// An open device.
pub trait Device: Send + Sync {
    /// Returns the device's id.
    fn id(&self) -> &DeviceId;

    /// Returns the device's capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Returns the kind whose kernels run on this device: `cpu` for every device that computes on
    /// the host.
    fn kernel_kind(&self) -> &str;

    /// Returns the memory in bytes that a machine may use by default.
    fn default_memory_limit(&self) -> u64;

    /// Allocates `bytes` bytes of unspecified content, aligned to [`MEMORY_ALIGN`].
    ///
    /// # Errors
    /// [`millstream_types::Error::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>>;

    /// Opens a stream. The device calls `notify` on progress if [`Capabilities::notifies`].
    ///
    /// # Errors
    /// The device refuses or is lost.
    fn create_stream(&self, notify: Notify) -> Result<Box<dyn Stream>>;

    /// Opens a stream with a priority: where commands of several streams could start, those of the
    /// highest do first. 0 and less are the priority of [`Device::create_stream`]; a device with
    /// fewer levels takes its highest for all above. Default: the device has no priorities.
    ///
    /// # Errors
    /// The device refuses or is lost.
    fn create_stream_with_priority(
        &self,
        priority: i32,
        notify: Notify,
    ) -> Result<Box<dyn Stream>> {
        let _ = priority;
        self.create_stream(notify)
    }

    /// Returns the error with which the device was lost, once a call or a poll has found it. Asks
    /// the device nothing, so any thread may look at any time. Default: the device cannot be lost.
    fn async_error(&self) -> Option<Error> {
        None
    }

    /// Creates an event without a record.
    ///
    /// # Errors
    /// The device refuses, is lost, or has no events ([`Capabilities::asynchronous`] is false).
    fn create_event(&self) -> Result<Arc<dyn Event>>;

    /// Creates an event whose records keep their times by a clock of the device ([`Event::since`]).
    /// Default: an event without times, as of all devices without such a clock.
    ///
    /// # Errors
    /// As [`Device::create_event`].
    fn create_timed_event(&self) -> Result<Arc<dyn Event>> {
        self.create_event()
    }

    /// Creates a graph with `words` words whose captures record at most `positions` positions. It
    /// has no work yet. Default: an error, as on all devices without graphs
    /// ([`Capabilities::graphs`]).
    ///
    /// # Errors
    /// The device refuses, is lost, has no graphs, or no memory for the words.
    fn create_graph(&self, positions: usize, words: usize) -> Result<Box<dyn Graph>> {
        let _ = (positions, words);
        let message = "the device has no graphs".to_owned();
        Err(Error::Device { device: self.id().clone(), message })
    }

    /// Calls `work` on another thread, with a native stream on which nothing runs, so that what it
    /// compiles is ready when a stream runs it. Default: drops it, as on all devices that compile
    /// nothing.
    fn precompile(&self, work: Precompilation) {
        drop(work);
    }

    /// Returns the device itself, for tools that downcast to a backend's type.
    fn as_any(&self) -> &dyn Any;
}

/// Work for [`Device::precompile`], which gets the native stream.
pub type Precompilation = Box<dyn FnOnce(&dyn Any) + Send>;

/// Device memory. Dropping the value frees it.
pub trait Memory: Send + Sync {
    /// Returns the address of the first byte, in the device's address space.
    fn base(&self) -> NonNull<u8>;

    /// Returns the size in bytes.
    fn bytes(&self) -> usize;
}

/// A marker that can be recorded in a stream's order.
pub trait Event: Send + Sync {
    /// Returns whether the newest record has completed; true if there is no record. Never blocks.
    ///
    /// # Errors
    /// The device is lost. "Not yet" is `Ok(false)`.
    fn query(&self) -> Result<bool>;

    /// Returns the milliseconds from the newest record of `earlier` to this event's, by the clock
    /// of their device. Both have completed. None if one keeps no times, or they are of two
    /// devices. Default: none.
    ///
    /// # Errors
    /// The device is lost.
    fn since(&self, earlier: &dyn Event) -> Result<Option<f64>> {
        let _ = earlier;
        Ok(None)
    }

    /// Returns the event itself, for streams of the same backend to downcast.
    fn as_any(&self) -> &dyn Any;
}

/// A clock of the host, in nanoseconds.
pub type HostClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A unit of work that a stream runs: a kernel with its operands.
pub trait Work: Send {
    /// Runs the work, or launches it on the native stream in `native`. Called once.
    ///
    /// # Errors
    /// The kernel's error.
    fn run(&mut self, native: &dyn Any) -> WorkResult;

    /// Returns whether the host does all of the work and launches nothing, as in a read of host
    /// memory. A device that does not compute on the host runs such work when the stream reaches
    /// it.
    fn runs_on_host(&self) -> bool {
        false
    }

    /// Returns an owned copy that replaces this work, for devices that run work after `submit` has
    /// returned.
    fn detach(&mut self) -> Box<dyn Work>;
}

/// An in-order command queue of a device. One worker owns it.
pub trait Stream: Send {
    /// Submits work to the device. A panic of the work becomes its error.
    ///
    /// # Errors
    /// The device refuses the launch. The work has not run and will not run.
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress>;

    /// Returns the native stream for work that the caller runs itself, instead of
    /// [`Stream::submit`], on a device that runs work inside `submit` and adds nothing to it. The
    /// caller catches the work's panics. Default: none, so all work is submitted.
    fn direct(&self) -> Option<&dyn Any> {
        None
    }

    /// Returns the native stream for work that launches later, on another thread, before anything
    /// else is submitted. Default: nothing, as for devices without such work.
    fn native(&self) -> &dyn Any {
        &()
    }

    /// Returns the native stream for another thread, which launches on it while nothing is
    /// submitted here. Default: none, as for devices without native streams.
    fn share_native(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Records `event` after all commands submitted so far.
    ///
    /// # Errors
    /// The device refuses, or the event belongs to another device.
    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress>;

    /// Orders all later commands after the newest record of `event`.
    ///
    /// # Errors
    /// The device refuses or lacks the capability ([`Capabilities::device_waits`]); the event
    /// belongs to another backend, or to a device that this one cannot wait for
    /// ([`Backend::waits_directly`]); or the event was never recorded.
    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress>;

    /// Returns the stream's part in captures and launches of graphs. Default: none, as on all
    /// devices without graphs ([`Capabilities::graphs`]).
    fn graphs(&mut self) -> Option<&mut dyn GraphStream> {
        None
    }

    /// Begins to measure when each later command of [`Stream::submit`] and each graph begins and
    /// ends on the device, or ends that. `clock` returns the host's time in nanoseconds; the
    /// device's times are mapped to it. Default: nothing is measured.
    ///
    /// # Errors
    /// The device refuses.
    fn measure(&mut self, clock: Option<HostClock>) -> Result<()> {
        let _ = clock;
        Ok(())
    }

    /// Takes the times of measured commands that [`Stream::poll`] has reported: their begin and
    /// their end, in nanoseconds of the host's clock. Default: there are none.
    fn take_times(&mut self, taken: &mut dyn FnMut(Ticket, [u64; 2])) {
        let _ = taken;
    }

    /// Reports every command that has completed since the last call, in order. A record or a wait
    /// that is reported as failed has still recorded or waited: a device that cannot guarantee it
    /// is lost.
    ///
    /// # Errors
    /// The device is lost.
    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()>;
}
