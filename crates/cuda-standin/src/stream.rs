//! A stream: a queue of commands, and the thread that runs them in order.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, PoisonError};
use std::time::Instant;

use millstream_types::catch_panic;

use crate::code;
use crate::graph::{self, Nodes};
use crate::memory::Range;
use crate::state::{Driver, DriverResult, State, driver};

/// A kernel with its arguments, which a graph runs many times.
pub(crate) type Run = Arc<dyn Fn() -> anyhow::Result<()> + Send + Sync>;

/// A command of a stream.
#[derive(Clone)]
pub(crate) enum Command {
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    Fill {
        to: usize,
        value: Vec<u8>,
        times: usize,
    },
    Kernel {
        name: String,
        run: Run,
    },
    Host {
        function: unsafe extern "C" fn(*mut c_void),
        data: usize,
    },
    Record {
        event: u64,
        record: u64,
    },
    Wait {
        event: u64,
        record: u64,
    },
    /// Runs the nodes of an executable graph: its launch number `launch`.
    Graph {
        exec: u64,
        launch: u64,
        nodes: Nodes,
    },
    /// Makes an allocation available.
    MakeAvailable {
        block: u64,
    },
}

pub(crate) struct StreamState {
    pub(crate) name: String,
    pub(crate) device: u32,
    /// The pending commands, with the ranges that they use.
    queue: VecDeque<(Command, Vec<Range>)>,
    /// Whether a command is running.
    running: bool,
    /// The number of commands that have run.
    pub(crate) completed: u64,
    /// Whether the thread ends when the queue is empty.
    pub(crate) closed: bool,
    /// Wakes the thread.
    pub(crate) wake: Arc<Condvar>,
    /// Whether the thread waits for `wake`: signalling it is a system call.
    waits: bool,
}

impl StreamState {
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.running
    }
}

/// Opens a stream of a device.
pub(crate) fn open(state: &mut State, device: u32) -> DriverResult<u64> {
    let (handle, name) = (state.handle(), state.name('s'));
    let thread = std::thread::Builder::new().name(format!("stand-in-{name}"));
    let stream = StreamState {
        name,
        device,
        queue: VecDeque::new(),
        running: false,
        completed: 0,
        closed: false,
        wake: Arc::default(),
        waits: false,
    };
    let wake = stream.wake.clone();
    state.streams.insert(handle, stream);
    if thread.spawn(move || run(driver(), handle, &wake)).is_err() {
        state.streams.remove(&handle);
        return Err(code::OUT_OF_MEMORY);
    }
    Ok(handle)
}

/// Enqueues a command, which keeps the allocations of `ranges` until it has run. On a stream that
/// takes part in a capture, the command becomes a node instead.
pub(crate) fn enqueue(state: &mut State, stream: u64, command: Command, ranges: Vec<Range>) {
    if let Some(capture) = graph::of_stream(state, stream) {
        graph::add(state, capture, stream, command, &ranges);
        return;
    }
    state.needs_notify = true;
    if let Some(stream) = state.streams.get_mut(&stream) {
        stream.queue.push_back((command, ranges));
    }
}

/// Returns whether a stream's next command can run.
pub(crate) fn is_runnable(state: &State, handle: u64) -> bool {
    let Some(stream) = state.streams.get(&handle) else { return false };
    match stream.queue.front() {
        None => false,
        Some(_) if stream.running => false,
        Some((Command::Wait { event, record }, _)) => {
            // An event is removed only when it has no outstanding record.
            state.events.get(event).is_none_or(|e| !e.outstanding.contains(record))
        }
        Some((Command::Graph { exec, launch, .. }, _)) => {
            state.graph_execs.get(exec).is_none_or(|e| e.completed + 1 == *launch)
        }
        Some(_) => true,
    }
}

/// Returns whether a stream's thread waits and has something to do.
pub(crate) fn is_to_be_woken(state: &State, handle: u64) -> bool {
    let Some(stream) = state.streams.get(&handle).filter(|stream| stream.waits) else {
        return false;
    };
    if state.faults.has_lost(stream.device) {
        return !stream.queue.is_empty();
    }
    let ends = stream.closed && stream.queue.is_empty();
    let has_permit = state.holds.permits.get(&handle).is_some_and(|permits| *permits > 0);
    ends || (is_runnable(state, handle) && (!is_held(state, handle) || has_permit))
}

fn is_held(state: &State, handle: u64) -> bool {
    let named = |stream: &StreamState| state.holds.streams.contains(&stream.name);
    state.holds.all || state.streams.get(&handle).is_some_and(named)
}

fn is_permitted(state: &mut State, handle: u64) -> bool {
    if !is_held(state, handle) {
        return true;
    }
    match state.holds.permits.get_mut(&handle) {
        Some(permits) if *permits > 0 => {
            *permits -= 1;
            true
        }
        _ => false,
    }
}

fn run(driver: &'static Driver, handle: u64, wake: &Condvar) {
    let mut state = driver.lock();
    loop {
        let Some(device) = state.streams.get(&handle).map(|s| s.device) else { return };
        let lost = state.faults.has_lost(device);
        let Some(stream) = state.streams.get_mut(&handle) else { return };
        if lost {
            // No command of a lost device runs any more. Its records stay outstanding.
            stream.queue.clear();
        } else if stream.queue.is_empty() && stream.closed {
            state.streams.remove(&handle);
            driver.announce_and_unlock(state);
            return;
        }
        if !is_runnable(&state, handle) || !is_permitted(&mut state, handle) {
            let set = |state: &mut State, waits| {
                state.streams.get_mut(&handle).into_iter().for_each(|s| s.waits = waits);
            };
            set(&mut state, true);
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            set(&mut state, false);
            continue;
        }
        let Some(stream) = state.streams.get_mut(&handle) else { return };
        let Some((command, ranges)) = stream.queue.pop_front() else { continue };
        stream.running = true;
        let graph = match &command {
            Command::Graph { exec, .. } => Some(*exec),
            _ => None,
        };
        let record = match command {
            Command::Record { event, record } => Some((event, record)),
            Command::MakeAvailable { block } => {
                if let Some(block) = state.memory.get_mut(block) {
                    block.is_available = true;
                }
                None
            }
            command => {
                drop(state);
                let failed = execute(&command);
                state = driver.lock();
                if !state.streams.contains_key(&handle) {
                    // `State::reset` has removed the stream, so the result is dropped.
                    return;
                }
                if let Err(error) = failed {
                    state.calls.push_back(format!("a kernel failed: {error:#}"));
                    state.faults.lost = Some(code::ASSERT);
                }
                None
            }
        };
        if let Some((handle, record)) = record
            && let Some(event) = state.events.get_mut(&handle)
        {
            event.outstanding.remove(&record);
            event.at = event.timed.then(Instant::now);
            if event.destroyed && event.outstanding.is_empty() {
                state.events.remove(&handle);
            }
        }
        if let Some(exec) = graph.and_then(|exec| state.graph_execs.get_mut(&exec)) {
            exec.completed += 1;
        }
        drop(ranges);
        if let Some(stream) = state.streams.get_mut(&handle) {
            stream.running = false;
            stream.completed += 1;
        }
        driver.announce_and_unlock(state);
        state = driver.lock();
    }
}

fn execute(command: &Command) -> anyhow::Result<()> {
    match *command {
        Command::Copy { to, from, bytes } => {
            // SAFETY: the submission checked that both ranges are within allocations, which are
            // not freed while a command uses them. The ranges may overlap.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        }
        Command::Fill { to, ref value, times } => {
            for k in 0..times {
                // SAFETY: as above; the range has `times` times the value's length.
                unsafe {
                    let target = (to as *mut u8).add(k * value.len());
                    std::ptr::copy_nonoverlapping(value.as_ptr(), target, value.len());
                }
            }
        }
        Command::Kernel { ref name, ref run } => {
            return catch_panic(|| run()).map_err(|error| error.context(name.clone()));
        }
        Command::Host { function, data } => {
            // SAFETY: the caller of `cuLaunchHostFunc` guarantees that the function can be called
            // with its data, once for each launch, on any thread.
            unsafe { function(data as *mut c_void) };
        }
        Command::Graph { ref nodes, .. } => {
            for node in graph::order(nodes) {
                execute(&nodes[node].command)?;
            }
        }
        Command::Record { .. } | Command::Wait { .. } | Command::MakeAvailable { .. } => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::memory::MemoryKind;
    use crate::state::TURN;

    const BYTES: usize = 4096;
    const LIMIT: u64 = 1 << 20;

    #[test]
    fn a_running_command_keeps_its_memory_when_a_lost_device_is_reset() {
        let (started, has_started) = channel();
        let (release, is_released) = channel::<()>();
        let is_released = Mutex::new(is_released);
        let (finished, has_finished) = channel();
        let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut state = driver().lock();
        let stream = open(&mut state, 0).unwrap();
        let block = state.memory.allocate(MemoryKind::Device(0), BYTES as u64, LIMIT).unwrap();
        let range = state.memory.range(block, BYTES as u64).unwrap();
        let written = range.host;
        let run = Arc::new(move || {
            started.send(())?;
            is_released.lock().unwrap().recv()?;
            // SAFETY: the stream keeps the range until the command has run.
            unsafe { (written as *mut u8).write_bytes(0xff, BYTES) };
            Ok(finished.send(())?)
        });
        let command = Command::Kernel { name: "slow".to_owned(), run };
        enqueue(&mut state, stream, command, vec![range]);
        drop(state);
        driver().announce();
        has_started.recv().unwrap();
        // The device is lost while the command runs, and the next test takes its turn.
        let mut state = driver().lock();
        state.faults.lost = Some(code::LAUNCH_FAILED);
        state.reset();
        let mut others = Vec::new();
        for _ in 0..64 {
            let other = state.memory.allocate(MemoryKind::Device(0), BYTES as u64, LIMIT).unwrap();
            others.push(state.memory.range(other, BYTES as u64).unwrap());
        }
        drop(state);
        release.send(()).unwrap();
        has_finished.recv().unwrap();
        for Range { host, .. } in others {
            // SAFETY: only the test has the block, and no command uses it.
            let bytes = unsafe { std::slice::from_raw_parts(host as *const u8, BYTES) };
            assert!(bytes.iter().all(|&byte| byte == 0), "the command wrote into another block");
        }
    }
}
