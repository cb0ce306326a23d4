//! Precompilation: work that threads call ahead of the streams, for the kernels that it needs.
//!
//! # Rules
//! 1. A stream that only compiles calls the driver never: launches, copies and the like do nothing,
//!    and the memory that work asks for has addresses of no memory.
//! 2. Its kernels are compiled, and not loaded: the first stream that launches one loads it.
//! 3. Threads are started when more work waits than threads, and end with the device.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use millstream_types::catch_unit;

use crate::cuda::device::DeviceState;
use crate::cuda::native_stream::NativeStream;
use crate::device::Precompilation;

/// The threads that precompile work for a device.
pub(super) struct Precompiler {
    device: Arc<DeviceState>,
    most: usize,
    queue: Arc<(Mutex<Queue>, Condvar)>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Precompilation>,
    /// The threads that wait for work.
    idle: usize,
    is_closed: bool,
}

impl Precompiler {
    /// Precompiles on at most `most` threads.
    pub(super) fn new(device: Arc<DeviceState>, most: usize) -> Precompiler {
        Precompiler { device, most, queue: Arc::default(), threads: Mutex::default() }
    }

    /// Calls the work on one of the threads.
    pub(super) fn push(&self, work: Precompilation) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue = lock(&self.queue.0);
        if queue.waiting.len() >= queue.idle && threads.len() < self.most {
            let (device, queue) = (self.device.clone(), self.queue.clone());
            let thread = Builder::new().name(format!("ms-compile-{}", threads.len()));
            // Without threads, kernels are compiled when they are launched.
            threads.extend(thread.spawn(move || precompile(&device, &queue)));
        }
        if !threads.is_empty() {
            queue.waiting.push_back(work);
            self.queue.1.notify_one();
        }
    }
}

impl Drop for Precompiler {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue.0);
        queue.is_closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        // Not under the lock: the works are others' values.
        drop(waiting);
        self.queue.1.notify_all();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A work's panic is caught.
            let _ = thread.join();
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn precompile(device: &Arc<DeviceState>, (queue, changed): &(Mutex<Queue>, Condvar)) {
    let native = NativeStream::only_compiling(device.clone());
    let mut all = lock(queue);
    while !all.is_closed {
        let Some(work) = all.waiting.pop_front() else {
            all.idle += 1;
            all = changed.wait(all).unwrap_or_else(PoisonError::into_inner);
            all.idle -= 1;
            continue;
        };
        drop(all);
        // The call itself gives the error.
        let _ = catch_unit(|| work(&native));
        all = lock(queue);
    }
}
