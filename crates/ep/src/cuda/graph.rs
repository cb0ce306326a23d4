//! CUDA graphs, captured from the streams of a device.
//!
//! # Rules
//! 1. The work of a capture uses the scratch memory, the cuBLAS workspace and the error flags of
//!    its streams. None of them may grow within a capture: [`NativeStream`] refuses it.
//! 2. The error flags of a capture belong to the graph until the next capture. The host reads them
//!    after each launch, and they are zero before the next.
//! 3. A graph with a launch outstanding is neither updated nor destroyed, and its words are not
//!    set. It is leaked if it is dropped then: its device is lost.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_types::{Error, Result, catch_panic};

use crate::cuda::device::DeviceState;
use crate::cuda::device_error::{DeviceError, DeviceErrors};
use crate::cuda::driver::{DriverResult, RawEvent, RawGraphExec};
use crate::cuda::driver_error;
use crate::cuda::graph_words::GraphWords;
use crate::cuda::native_stream::NativeStream;
use crate::device::{Work, WorkResult};
use crate::graph::{Captured, FailedWork, Graph};

/// A flag of captured work: the work's number, the flag, and the stream's flags.
type CapturedError = (usize, DeviceError, Arc<Mutex<DeviceErrors>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of a graph that the stream of a launch shares.
#[derive(Default)]
pub(super) struct GraphLaunch {
    /// Whether a launch is outstanding. One thread at a time launches; the release store of the
    /// completion pairs with the acquire loads.
    is_in_flight: AtomicBool,
    errors: Mutex<Vec<CapturedError>>,
}

impl GraphLaunch {
    fn is_in_flight(&self) -> bool {
        self.is_in_flight.load(Ordering::Acquire)
    }

    /// Returns the result of the launch, which has completed.
    pub(super) fn complete(&self) -> WorkResult {
        let failed = |(work, error, flags): &CapturedError| {
            lock(flags).take_set(error).map(|message| (*work, message))
        };
        let mut failures: Vec<(usize, String)> =
            lock(&self.errors).iter().filter_map(failed).collect();
        // One error for each piece of work: the first.
        failures.dedup_by_key(|(work, _)| *work);
        self.is_in_flight.store(false, Ordering::Release);
        if failures.is_empty() { Ok(()) } else { Err(FailedWork { failures }.into()) }
    }

    /// Gives the flags back to their streams.
    fn release_errors(&self) {
        for (_, error, flags) in lock(&self.errors).drain(..) {
            lock(&flags).release(error);
        }
    }
}

/// A graph of a device.
pub(super) struct CudaGraph {
    device: Arc<DeviceState>,
    launch: Arc<GraphLaunch>,
    /// An event for each position of a capture.
    positions: Vec<RawEvent>,
    exec: Option<RawGraphExec>,
    nodes: usize,
    words: Option<GraphWords>,
    /// The capture under way, and how many pieces of work it has.
    capture: Option<(Arc<AtomicBool>, usize)>,
}

impl CudaGraph {
    pub(super) fn new(
        device: Arc<DeviceState>,
        positions: usize,
        words: usize,
    ) -> DriverResult<CudaGraph> {
        let event = |_| RawEvent::new(device.context.clone());
        let positions = (0..positions).map(event).collect::<DriverResult<_>>()?;
        let words = GraphWords::new(&device.context, words)?;
        let launch = Arc::default();
        Ok(CudaGraph { device, launch, positions, exec: None, nodes: 0, words, capture: None })
    }

    /// Returns a graph as one of this backend, if it belongs to the device of `stream`.
    pub(super) fn of<'a>(
        graph: &'a mut dyn Graph,
        stream: &NativeStream,
    ) -> Result<&'a mut CudaGraph> {
        let own = graph.as_any().downcast_mut::<CudaGraph>();
        own.filter(|own| Arc::ptr_eq(&own.device, stream.device_state())).ok_or_else(|| {
            let message = format!("it belongs to another device than {}", stream.device());
            Error::Invalid { what: "graph", message }
        })
    }

    fn error(&self, message: &str) -> Error {
        Error::Device { device: self.device.id.clone(), message: message.to_owned() }
    }

    fn idle(&self) -> Result<()> {
        match self.launch.is_in_flight() {
            true => Err(self.error("a launch of the graph has not completed")),
            false => Ok(()),
        }
    }

    pub(super) fn begin(&mut self, stream: &NativeStream) -> Result<()> {
        self.idle()?;
        self.launch.release_errors();
        stream.raw().begin_capture().map_err(|e| driver_error(&self.device.id, &e))?;
        let active = Arc::new(AtomicBool::new(true));
        stream.join_capture(active.clone());
        self.capture = Some((active, 0));
        Ok(())
    }

    pub(super) fn add(&mut self, stream: &NativeStream, work: &mut dyn Work) -> WorkResult {
        let Some((_, works)) = &mut self.capture else {
            return Err(self.error("no capture is under way").into());
        };
        let number = *works;
        *works += 1;
        let result = catch_panic(|| work.run(stream));
        let flags = stream.device_errors();
        let launched = stream.take_device_errors();
        let launched = launched.into_iter().map(|error| (number, error, flags.clone()));
        lock(&self.launch.errors).extend(launched);
        result
    }

    fn position(&self, position: usize) -> Result<&RawEvent> {
        self.positions.get(position).ok_or_else(|| self.error("the graph has no such position"))
    }

    pub(super) fn record(&self, stream: &NativeStream, position: usize) -> Result<()> {
        let recorded = stream.raw().record(self.position(position)?);
        recorded.map_err(|e| driver_error(&self.device.id, &e))
    }

    pub(super) fn wait(&self, stream: &NativeStream, position: usize) -> Result<()> {
        let waited = stream.raw().wait(self.position(position)?);
        waited.map_err(|e| driver_error(&self.device.id, &e))?;
        if let Some((active, _)) = &self.capture {
            stream.join_capture(active.clone());
        }
        Ok(())
    }

    pub(super) fn end(&mut self, stream: &NativeStream) -> Result<Captured> {
        let ended = self.end_raw(stream);
        if ended.is_err() {
            self.exec = None;
        }
        ended.map_err(|e| driver_error(&self.device.id, &e))
    }

    fn end_raw(&mut self, stream: &NativeStream) -> DriverResult<Captured> {
        if let Some((active, _)) = self.capture.take() {
            // Relaxed: the streams of a capture belong to one thread.
            active.store(false, Ordering::Relaxed);
        }
        let raw = stream.raw();
        let graph = raw.end_capture().inspect_err(|_| {
            // If the error has not ended the capture, the stream would run nothing any more. A
            // device that refuses this, too, is lost, which the next poll finds.
            drop(raw.abort_capture());
        })?;
        self.nodes = graph.nodes()?;
        if let Some(exec) = &mut self.exec
            && exec.update(&graph)?
        {
            return Ok(Captured::Updated);
        }
        self.exec = Some(graph.instantiate()?);
        Ok(Captured::Instantiated)
    }

    pub(super) fn abort(&mut self, stream: &NativeStream) {
        if let Some((active, _)) = self.capture.take() {
            // Relaxed: as in `end_raw`.
            active.store(false, Ordering::Relaxed);
            // As in `end_raw`.
            drop(stream.raw().abort_capture());
        }
        self.exec = None;
    }

    /// Launches the graph. The stream reports the result with [`GraphLaunch::complete`].
    pub(super) fn launch(
        &mut self,
        stream: &NativeStream,
        words: &[i64],
    ) -> Result<Arc<GraphLaunch>> {
        self.idle()?;
        let none = self.error("the graph has no capture");
        let own = self.words.as_ref().map_or(0, GraphWords::len);
        if words.len() != own {
            return Err(self.error(&format!("the graph has {own} words, and gets {}", words.len())));
        }
        let exec = self.exec.as_mut().ok_or(none)?;
        if let Some(own) = &mut self.words {
            own.set(words);
        }
        stream.launch_graph(exec).map_err(|e| driver_error(&self.device.id, &e))?;
        // Relaxed: the thread that completes it gets the launch from this one.
        self.launch.is_in_flight.store(true, Ordering::Relaxed);
        Ok(self.launch.clone())
    }
}

impl Graph for CudaGraph {
    fn nodes(&self) -> usize {
        self.nodes
    }

    fn words(&self) -> Option<usize> {
        self.words.as_ref().map(GraphWords::address)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if self.launch.is_in_flight() {
            std::mem::forget(self.exec.take());
            std::mem::forget(self.words.take());
            std::mem::forget(std::mem::take(&mut *lock(&self.launch.errors)));
        }
        self.launch.release_errors();
    }
}
