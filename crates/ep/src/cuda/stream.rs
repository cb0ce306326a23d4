//! A CUDA stream: launches commands and reports completed ones.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{DeviceId, Error, Result, catch_panic};

use crate::cuda::command_times::CommandTimes;
use crate::cuda::device_error::DeviceError;
use crate::cuda::driver::{DriverError, DriverResult, RawEvent, RawStream, compares_times};
use crate::cuda::event::CudaEvent;
use crate::cuda::graph::{CudaGraph, GraphLaunch};
use crate::cuda::markers::{Markers, PollOutcome};
use crate::cuda::native_stream::NativeStream;
use crate::cuda::peer_waits::PeerWaits;
use crate::cuda::{CompletionMode, driver_error};
use crate::device::{Event, HostClock, Notify, Progress, Stream, Ticket, Work, WorkResult};
use crate::graph::{Captured, Graph, GraphStream};

/// The result of a command, reported once the command has completed.
enum CommandResult {
    /// The result is known since the launch.
    Known(WorkResult),
    /// The result of the launch, and the errors that its kernels may report from the device.
    Checked(WorkResult, Vec<DeviceError>),
    /// A graph, whose work may report errors from the device.
    Graph(Arc<GraphLaunch>),
    /// The result of host work, which stores it when the stream reaches it.
    Host(Arc<Mutex<Option<WorkResult>>>),
}

/// A stream of a device.
pub(super) struct CudaStream {
    native: Arc<NativeStream>,
    notify: Notify,
    last: Ticket,
    /// The commands that were not reported, in order. The last has the ticket `last`.
    commands: VecDeque<CommandResult>,
    markers: Markers,
    /// The stream on which the driver calls the notify function, if it is to. A function of the
    /// host holds up its stream until a thread of the driver has run it, so it waits for a marker
    /// on a stream of its own.
    callbacks: Option<RawStream>,
    peer_waits: PeerWaits,
    /// Whether the driver has refused the callback after the newest marker.
    callback_missing: bool,
    /// The error that lost the stream, once a poll has found it.
    lost: Option<Error>,
    /// The times of commands, while they are measured.
    times: Option<CommandTimes>,
}

impl CudaStream {
    pub(super) fn new(
        native: NativeStream,
        completion: CompletionMode,
        notify: Notify,
    ) -> DriverResult<CudaStream> {
        let context = native.raw().context();
        let callbacks = match completion {
            CompletionMode::Callback => Some(RawStream::new(context.clone(), 0)?),
            CompletionMode::Polled => None,
        };
        Ok(CudaStream {
            markers: Markers::new(context)?,
            callbacks,
            native: Arc::new(native),
            notify,
            last: 0,
            commands: VecDeque::new(),
            peer_waits: PeerWaits::default(),
            callback_missing: false,
            lost: None,
            times: None,
        })
    }

    fn device(&self) -> &DeviceId {
        self.native.device()
    }

    fn error(&self, error: &DriverError) -> Error {
        driver_error(self.device(), error)
    }

    fn pending(&mut self, outcome: CommandResult) -> Progress {
        self.last += 1;
        self.commands.push_back(outcome);
        Progress::Pending(self.last)
    }

    /// Notes the time before a command, if it is measured.
    fn time_before(&mut self) -> Option<RawEvent> {
        self.times.as_mut()?.before(self.native.raw())
    }

    /// Adds a command, with the time behind it if it is measured.
    fn measured(&mut self, outcome: CommandResult, before: Option<RawEvent>) -> Progress {
        let progress = self.pending(outcome);
        if let (Some(times), Some(before)) = (&mut self.times, before) {
            times.behind(self.native.raw(), self.last, before);
        }
        progress
    }

    /// Returns `event` as an event of any CUDA device, and whether it belongs to this stream's.
    fn event_of<'a>(&self, event: &'a Arc<dyn Event>) -> Result<(&'a CudaEvent, bool)> {
        let event = event.as_any().downcast_ref::<CudaEvent>().ok_or_else(|| Error::Invalid {
            what: "event",
            message: "it belongs to another backend".to_owned(),
        })?;
        Ok((event, event.is_of(self.native.device_state())))
    }

    /// Makes the host run work when the stream reaches it.
    fn submit_to_host(&mut self, work: &mut dyn Work) -> Result<CommandResult> {
        let result = Arc::new(Mutex::new(None));
        let (mut work, to) = (work.detach(), result.clone());
        let run = move || {
            let result = catch_panic(|| work.run(&()));
            // The work releases its operands before its completion can be observed.
            drop(work);
            *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        };
        self.native.raw().call_host(Box::new(run)).map_err(|e| self.error(&e))?;
        Ok(CommandResult::Host(result))
    }

    /// Makes the driver call the notify function after a new marker. If the driver refuses the
    /// callback or the marker, notifies the worker now: it then keeps polling.
    fn request_callback(&mut self, polled: &PollOutcome) -> Result<()> {
        if polled.completed.is_some() {
            self.callback_missing = false;
        }
        let Some(callbacks) = &self.callbacks else { return Ok(()) };
        if let Some(marker) = self.markers.newest().filter(|_| polled.recorded) {
            let notify = self.notify.clone();
            let call = |()| callbacks.call_host(Box::new(move || notify()));
            if let Err(error) = callbacks.wait(marker).and_then(call) {
                self.native.raw().query().map_err(|_| self.error(&error))?;
                self.callback_missing = true;
            }
        }
        if self.callback_missing || polled.refused {
            (self.notify)();
        }
        Ok(())
    }

    /// Polls the markers and reports the commands that they cover.
    fn poll_markers(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        let polled = self.markers.poll(self.native.raw(), self.last).map_err(|e| self.error(&e))?;
        self.request_callback(&polled)?;
        if let Some(ticket) = polled.completed {
            self.peer_waits.remove_completed(ticket);
            if let Some(times) = &mut self.times {
                times.complete(ticket);
            }
            self.report(ticket, done);
        }
        Ok(())
    }

    /// Reports completed commands. Returns the error that lost the stream, if it is lost.
    fn poll_for_loss(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Option<Error> {
        if let Err(error) = self.poll_markers(done) {
            // Read by `PeerWaits::stall_error` of the streams that wait for this device.
            let _ = self.native.device_state().lost.set(error.clone());
            return Some(error);
        }
        let stalled = self.peer_waits.stall_error(self.native.device())?;
        // To free memory, the driver would wait for this stream.
        self.native.raw().context().disable_teardown();
        Some(stalled)
    }

    /// Reports all commands up to `ticket`.
    fn report(&mut self, ticket: Ticket, done: &mut dyn FnMut(Ticket, WorkResult)) {
        let mut next = self.last - self.commands.len() as Ticket + 1;
        while next <= ticket {
            let Some(outcome) = self.commands.pop_front() else { return };
            let result = match outcome {
                CommandResult::Known(result) => result,
                CommandResult::Checked(launch, errors) => {
                    let device = self.native.check_device_errors(errors);
                    launch.and(device)
                }
                CommandResult::Graph(launch) => launch.complete(),
                CommandResult::Host(result) => {
                    let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
                    result.unwrap_or_else(|| Err(anyhow::anyhow!("the driver never ran host work")))
                }
            };
            done(next, result);
            next += 1;
        }
    }
}

impl Stream for CudaStream {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        let before = self.time_before();
        let outcome = match work.runs_on_host() {
            true => self.submit_to_host(work)?,
            false => {
                let result = catch_panic(|| work.run(&*self.native));
                let errors = self.native.take_device_errors();
                match errors.is_empty() {
                    true => CommandResult::Known(result),
                    false => CommandResult::Checked(result, errors),
                }
            }
        };
        Ok(self.measured(outcome, before))
    }

    fn native(&self) -> &dyn Any {
        &*self.native
    }

    fn share_native(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.native.clone())
    }

    fn measure(&mut self, clock: Option<HostClock>) -> Result<()> {
        let clock = clock.filter(|_| compares_times(self.native.properties().driver));
        let start = |clock| CommandTimes::start(self.native.raw(), clock);
        self.times = clock.map(start).transpose().map_err(|e| self.error(&e))?;
        Ok(())
    }

    fn take_times(&mut self, taken: &mut dyn FnMut(Ticket, [u64; 2])) {
        let times = self.times.as_mut().map_or_else(Vec::new, CommandTimes::take);
        times.into_iter().for_each(|(ticket, times)| taken(ticket, times));
    }

    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let (event, is_own) = self.event_of(event)?;
        if !is_own {
            let message = format!("it belongs to another device than {}", self.device());
            return Err(Error::Invalid { what: "event", message });
        }
        self.native.raw().record(event.raw()).map_err(|e| self.error(&e))?;
        event.set_recorded(self.peer_waits.devices());
        Ok(self.pending(CommandResult::Known(Ok(()))))
    }

    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let (event, _) = self.event_of(event)?;
        if !event.is_recorded() {
            let message = format!("the event of {} has never been recorded", self.device());
            return Err(Error::Invalid { what: "wait", message });
        }
        self.native.raw().wait(event.raw()).map_err(|e| self.error(&e))?;
        let progress = self.pending(CommandResult::Known(Ok(())));
        self.peer_waits.add(self.last, event.remote_devices(self.native.device_state()));
        Ok(progress)
    }

    fn graphs(&mut self) -> Option<&mut dyn GraphStream> {
        Some(self)
    }

    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        if self.commands.is_empty() {
            return Ok(());
        }
        if self.lost.is_none() {
            self.lost = self.poll_for_loss(done);
        }
        let Some(error) = &self.lost else { return Ok(()) };
        let callbacks = self.callbacks.as_ref().is_none_or(RawStream::drop_host_functions);
        if self.native.raw().drop_host_functions() && callbacks {
            return Err(error.clone());
        }
        // The loss is reported only after the running host function has returned: the layers above
        // then free the memory that the function uses. The driver does not call the notify function
        // when it returns, so the worker is notified now and polls again.
        if self.callbacks.is_some() {
            (self.notify)();
        }
        Ok(())
    }
}

impl GraphStream for CudaStream {
    fn prepare_capture(&mut self, works: usize) -> Result<()> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        self.native.reserve_error_flags(works).map_err(|e| self.error(&e))
    }

    fn begin_capture(&mut self, graph: &mut dyn Graph) -> Result<()> {
        CudaGraph::of(graph, &self.native)?.begin(&self.native)
    }

    fn capture(&mut self, graph: &mut dyn Graph, work: &mut dyn Work) -> WorkResult {
        CudaGraph::of(graph, &self.native)?.add(&self.native, work)
    }

    fn capture_record(&mut self, graph: &mut dyn Graph, position: usize) -> Result<()> {
        CudaGraph::of(graph, &self.native)?.record(&self.native, position)
    }

    fn capture_wait(&mut self, graph: &mut dyn Graph, position: usize) -> Result<()> {
        CudaGraph::of(graph, &self.native)?.wait(&self.native, position)
    }

    fn end_capture(&mut self, graph: &mut dyn Graph) -> Result<Captured> {
        CudaGraph::of(graph, &self.native)?.end(&self.native)
    }

    fn abort_capture(&mut self, graph: &mut dyn Graph) {
        if let Ok(graph) = CudaGraph::of(graph, &self.native) {
            graph.abort(&self.native);
        }
    }

    fn launch(&mut self, graph: &mut dyn Graph, words: &[i64]) -> Result<Progress> {
        let before = self.time_before();
        let launch = CudaGraph::of(graph, &self.native)?.launch(&self.native, words)?;
        Ok(self.measured(CommandResult::Graph(launch), before))
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if !self.commands.is_empty() {
            match Arc::get_mut(&mut self.native) {
                Some(native) => native.leak_resources(),
                // A function that hangs on another thread has it, too.
                None => std::mem::forget(self.native.clone()),
            }
        }
    }
}
