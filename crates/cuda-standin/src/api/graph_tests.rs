//! The rules of captures and graphs, called as the driver's functions are.

use std::ptr::null_mut;
use std::sync::{MutexGuard, PoisonError};

use super::device::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain, cuInit};
use super::event::{cuEventCreate, cuEventQuery, cuEventRecord};
use super::graph::*;
use super::memory::{cuMemAlloc_v2, cuMemFree_v2, cuMemHostAlloc, cuMemcpyAsync, cuMemsetD8Async};
use super::stream::{
    cuStreamCreateWithPriority, cuStreamQuery, cuStreamSynchronize, cuStreamWaitEvent,
};
use crate::code::*;
use crate::state::{TURN, driver};

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;
const BYTES: usize = 64;

/// Exclusive use of the driver by a thread with a context, on a clean state.
struct Driver(#[expect(dead_code, reason = "held until the test ends")] MutexGuard<'static, ()>);

impl Driver {
    fn new() -> Driver {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // A lost device leaves no objects behind.
        let mut state = driver().lock();
        state.faults.lost = Some(LAUNCH_FAILED);
        state.reset();
        drop(state);
        // SAFETY: results are written to variables, here and in all functions below.
        unsafe {
            assert_eq!(cuInit(0), SUCCESS);
            let mut context = 0;
            assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), SUCCESS);
            assert_eq!(cuCtxSetCurrent(context), SUCCESS);
        }
        Driver(turn)
    }

    fn stream(&self) -> u64 {
        let mut stream = 0;
        // SAFETY: as above.
        assert_eq!(unsafe { cuStreamCreateWithPriority(&raw mut stream, 1, 0) }, SUCCESS);
        stream
    }

    fn event(&self) -> u64 {
        let mut event = 0;
        // SAFETY: as above.
        assert_eq!(unsafe { cuEventCreate(&raw mut event, 2) }, SUCCESS);
        event
    }

    fn memory(&self) -> u64 {
        let mut memory = 0;
        // SAFETY: as above.
        assert_eq!(unsafe { cuMemAlloc_v2(&raw mut memory, BYTES) }, SUCCESS);
        memory
    }

    fn fill(&self, memory: u64, value: u8, stream: u64) -> u32 {
        // SAFETY: the memory lives until its test ends.
        unsafe { cuMemsetD8Async(memory, value, BYTES, stream) }
    }

    fn record(&self, event: u64, stream: u64) -> u32 {
        // SAFETY: handles are checked.
        unsafe { cuEventRecord(event, stream) }
    }

    fn wait(&self, stream: u64, event: u64) -> u32 {
        // SAFETY: as above.
        unsafe { cuStreamWaitEvent(stream, event, 0) }
    }

    fn begin(&self, stream: u64, mode: u32) -> u32 {
        // SAFETY: as above.
        unsafe { cuStreamBeginCapture_v2(stream, mode) }
    }

    fn end(&self, stream: u64) -> Result<u64, u32> {
        let mut graph = 0;
        // SAFETY: as above.
        match unsafe { cuStreamEndCapture(stream, &raw mut graph) } {
            SUCCESS => Ok(graph),
            code => {
                assert_eq!(graph, 0, "a failed capture has no graph");
                Err(code)
            }
        }
    }

    fn status(&self, stream: u64) -> u32 {
        let mut status = 9;
        // SAFETY: as above.
        assert_eq!(unsafe { cuStreamIsCapturing(stream, &raw mut status) }, SUCCESS);
        status
    }

    fn instantiate(&self, graph: u64) -> u64 {
        let mut exec = 0;
        // SAFETY: as above.
        assert_eq!(unsafe { cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) }, SUCCESS);
        exec
    }

    fn update(&self, exec: u64, graph: u64) -> u32 {
        let mut info = std::mem::MaybeUninit::uninit();
        // SAFETY: as above.
        unsafe { cuGraphExecUpdate_v2(exec, graph, info.as_mut_ptr()) }
    }

    fn launch(&self, exec: u64, stream: u64) -> u32 {
        // SAFETY: as above.
        unsafe { cuGraphLaunch(exec, stream) }
    }

    /// Returns the first byte of device memory, once the stream has ended.
    fn byte(&self, memory: u64, stream: u64) -> u8 {
        let mut host = 0;
        // SAFETY: as above; the copy has run before the byte is read.
        unsafe {
            assert_eq!(cuMemHostAlloc(&raw mut host, BYTES, 1), SUCCESS);
            assert_eq!(cuMemcpyAsync(host, memory, BYTES, stream), SUCCESS);
            assert_eq!(cuStreamSynchronize(stream), SUCCESS);
            (host as *const u8).read()
        }
    }

    /// Returns the violations since the last call.
    fn violations(&self) -> usize {
        std::mem::take(&mut driver().lock().violations).len()
    }
}

#[test]
fn captured_commands_run_at_each_launch_and_not_before() {
    let d = Driver::new();
    let (s, other, memory) = (d.stream(), d.stream(), d.memory());
    let (fork, join) = (d.event(), d.event());
    assert_eq!(d.begin(s, THREAD_LOCAL), SUCCESS);
    assert_eq!((d.status(s), d.status(other)), (1, 0));
    assert_eq!(d.fill(memory, 1, s), SUCCESS);
    assert_eq!(d.record(fork, s), SUCCESS);
    assert_eq!(d.wait(other, fork), SUCCESS);
    assert_eq!(d.status(other), 1, "a wait for a captured event joins the capture");
    assert_eq!(d.fill(memory, 2, other), SUCCESS);
    assert_eq!(d.record(join, other), SUCCESS);
    assert_eq!(d.wait(s, join), SUCCESS);
    assert_eq!(d.fill(memory, 3, s), SUCCESS);
    let graph = d.end(s).unwrap();
    assert_eq!((d.status(s), d.status(other)), (0, 0));
    assert_eq!(d.byte(memory, s), 0, "nothing has run");
    let mut nodes = 0;
    // SAFETY: the number is written to a variable.
    assert_eq!(unsafe { cuGraphGetNodes(graph, null_mut(), &raw mut nodes) }, SUCCESS);
    assert_eq!(nodes, 3);
    let exec = d.instantiate(graph);
    // SAFETY: handles are checked.
    assert_eq!(unsafe { cuGraphDestroy(graph) }, SUCCESS);
    for _ in 0..2 {
        assert_eq!(d.fill(memory, 9, other), SUCCESS);
        // SAFETY: as above.
        assert_eq!(unsafe { cuStreamSynchronize(other) }, SUCCESS);
        assert_eq!(d.launch(exec, s), SUCCESS);
        assert_eq!(d.byte(memory, s), 3);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { cuGraphExecDestroy(exec) }, SUCCESS);
    assert_eq!(d.violations(), 0);
}

/// A node without an edge to an earlier one may run before it, and does.
#[test]
fn a_missing_edge_shows() {
    let d = Driver::new();
    let (s, other, memory) = (d.stream(), d.stream(), d.memory());
    let (fork, join) = (d.event(), d.event());
    assert_eq!(d.begin(s, THREAD_LOCAL), SUCCESS);
    assert_eq!(d.record(fork, s), SUCCESS);
    assert_eq!(d.wait(other, fork), SUCCESS);
    assert_eq!(d.fill(memory, 1, s), SUCCESS);
    assert_eq!(d.fill(memory, 2, other), SUCCESS);
    assert_eq!(d.record(join, other), SUCCESS);
    assert_eq!(d.wait(s, join), SUCCESS);
    let exec = d.instantiate(d.end(s).unwrap());
    assert_eq!(d.launch(exec, s), SUCCESS);
    assert_eq!(d.byte(memory, s), 1, "the later of both ran first");
}

#[test]
fn an_unjoined_stream_is_an_error() {
    let d = Driver::new();
    let (s, other, memory, fork) = (d.stream(), d.stream(), d.memory(), d.event());
    assert_eq!(d.begin(s, THREAD_LOCAL), SUCCESS);
    assert_eq!(d.record(fork, s), SUCCESS);
    assert_eq!(d.wait(other, fork), SUCCESS);
    assert_eq!(d.fill(memory, 2, other), SUCCESS);
    assert_eq!(d.end(s), Err(STREAM_CAPTURE_UNJOINED));
    assert_eq!((d.status(s), d.status(other)), (0, 0), "the capture has ended");
    assert_eq!(d.violations(), 0);
}

/// Each call that a capture forbids, with its error: it invalidates the capture, so that every
/// later call on its streams fails, and its end returns no graph.
#[test]
fn illegal_calls_invalidate_a_capture() {
    type Illegal = fn(&Driver, u64, u64, u64) -> u32;
    let illegal: [(&str, u32, Illegal); 7] = [
        ("an allocation", STREAM_CAPTURE_UNSUPPORTED, |_, _, _, _| {
            // SAFETY: the address is written to a variable.
            unsafe { cuMemAlloc_v2(&mut 0, BYTES) }
        }),
        ("pinned memory", STREAM_CAPTURE_UNSUPPORTED, |_, _, _, _| {
            // SAFETY: as above.
            unsafe { cuMemHostAlloc(&mut 0, BYTES, 1) }
        }),
        ("a free", STREAM_CAPTURE_UNSUPPORTED, |_, _, memory, _| {
            // SAFETY: no command uses the memory.
            unsafe { cuMemFree_v2(memory) }
        }),
        ("a query of the stream", STREAM_CAPTURE_UNSUPPORTED, |_, s, _, _| {
            // SAFETY: handles are checked, here and below.
            unsafe { cuStreamQuery(s) }
        }),
        ("a synchronization", STREAM_CAPTURE_UNSUPPORTED, |_, s, _, _| {
            // SAFETY: as above.
            unsafe { cuStreamSynchronize(s) }
        }),
        ("a query of a captured event", CAPTURED_EVENT, |d, s, _, event| {
            assert_eq!(d.record(event, s), SUCCESS);
            // SAFETY: as above.
            unsafe { cuEventQuery(event) }
        }),
        ("a wait for uncaptured work", STREAM_CAPTURE_ISOLATION, |d, s, _, event| {
            assert_eq!(d.record(event, d.stream()), SUCCESS);
            d.wait(s, event)
        }),
    ];
    for (what, code, call) in illegal {
        let d = Driver::new();
        let (s, memory, event) = (d.stream(), d.memory(), d.event());
        assert_eq!(d.begin(s, THREAD_LOCAL), SUCCESS, "{what}");
        assert_eq!(call(&d, s, memory, event), code, "{what}");
        assert_eq!(d.status(s), 2, "{what}");
        assert_eq!(d.fill(memory, 1, s), STREAM_CAPTURE_INVALIDATED, "{what}");
        assert_eq!(d.end(s), Err(STREAM_CAPTURE_INVALIDATED), "{what}");
        assert_eq!(d.status(s), 0, "{what}");
        assert!(d.violations() > 0, "{what}");
    }
}

#[test]
fn the_mode_says_which_threads_may_allocate() {
    for (mode, own, other) in [
        (GLOBAL, STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_UNSUPPORTED),
        (THREAD_LOCAL, STREAM_CAPTURE_UNSUPPORTED, SUCCESS),
        (RELAXED, SUCCESS, SUCCESS),
    ] {
        let d = Driver::new();
        let s = d.stream();
        let allocate = || {
            // SAFETY: results are written to variables.
            unsafe {
                let mut context = 0;
                assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), SUCCESS);
                assert_eq!(cuCtxSetCurrent(context), SUCCESS);
                cuMemAlloc_v2(&mut 0, BYTES)
            }
        };
        assert_eq!(d.begin(s, mode), SUCCESS);
        let elsewhere = std::thread::scope(|scope| scope.spawn(allocate).join().unwrap());
        assert_eq!(elsewhere, other, "mode {mode}");
        assert_eq!(allocate(), own, "mode {mode}");
    }
}

#[test]
fn captures_end_where_and_by_whom_they_began() {
    let d = Driver::new();
    let (s, other, event) = (d.stream(), d.stream(), d.event());
    assert_eq!(d.begin(0, THREAD_LOCAL), STREAM_CAPTURE_UNSUPPORTED, "the default stream");
    assert_eq!(d.end(s), Err(ILLEGAL_STATE), "no capture");
    assert_eq!(d.begin(s, THREAD_LOCAL), SUCCESS);
    assert_eq!(d.begin(s, THREAD_LOCAL), ILLEGAL_STATE, "twice");
    assert_eq!(d.record(event, s), SUCCESS);
    assert_eq!(d.wait(other, event), SUCCESS);
    assert_eq!(d.end(other), Err(STREAM_CAPTURE_UNMATCHED));
    assert_eq!(d.end(s), Err(STREAM_CAPTURE_INVALIDATED));
    assert_eq!(d.wait(other, event), CAPTURED_EVENT, "its capture has ended");
    assert_eq!(d.record(event, other), SUCCESS, "a new record is a record as any");
    assert_eq!(d.wait(s, event), SUCCESS);
    // By another thread.
    let end = || {
        // SAFETY: results are written to variables.
        unsafe {
            let mut context = 0;
            assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), SUCCESS);
            assert_eq!(cuCtxSetCurrent(context), SUCCESS);
            cuStreamEndCapture(s, &mut 0)
        }
    };
    for (mode, expected) in [(THREAD_LOCAL, STREAM_CAPTURE_WRONG_THREAD), (RELAXED, SUCCESS)] {
        assert_eq!(d.begin(s, mode), SUCCESS);
        let ended = std::thread::scope(|scope| scope.spawn(end).join().unwrap());
        assert_eq!(ended, expected, "mode {mode}");
    }
    // Two captures do not merge.
    assert_eq!(d.begin(s, THREAD_LOCAL), SUCCESS);
    assert_eq!(d.begin(other, THREAD_LOCAL), SUCCESS);
    assert_eq!(d.record(event, s), SUCCESS);
    assert_eq!(d.wait(other, event), STREAM_CAPTURE_MERGE);
    assert_eq!(d.end(s), Err(STREAM_CAPTURE_INVALIDATED));
    assert_eq!(d.end(other), Err(STREAM_CAPTURE_INVALIDATED));
}

/// Returns a graph that fills memory `times` times.
fn filling(d: &Driver, memory: u64, value: u8, times: usize) -> u64 {
    let s = d.stream();
    assert_eq!(d.begin(s, THREAD_LOCAL), SUCCESS);
    for _ in 0..times {
        assert_eq!(d.fill(memory, value, s), SUCCESS);
    }
    d.end(s).unwrap()
}

#[test]
fn an_update_changes_parameters_and_no_edges() {
    let d = Driver::new();
    let (s, a, b) = (d.stream(), d.memory(), d.memory());
    let exec = d.instantiate(filling(&d, a, 1, 2));
    assert_eq!(d.update(exec, filling(&d, b, 2, 2)), SUCCESS);
    assert_eq!(d.launch(exec, s), SUCCESS);
    assert_eq!((d.byte(a, s), d.byte(b, s)), (0, 2));
    assert_eq!(d.update(exec, filling(&d, a, 3, 3)), GRAPH_EXEC_UPDATE_FAILURE);
    assert_eq!(d.launch(exec, s), SUCCESS, "it is as it was");
    assert_eq!((d.byte(a, s), d.byte(b, s)), (0, 2));
    assert_eq!(d.violations(), 0);
}

/// Launches of one executable graph follow one another, also on two streams. In flight, it is
/// neither updated nor destroyed.
#[test]
fn in_flight() {
    let d = Driver::new();
    let (s, other, memory) = (d.stream(), d.stream(), d.memory());
    let exec = d.instantiate(filling(&d, memory, 1, 2));
    driver().lock().holds.all = true;
    assert_eq!(d.launch(exec, s), SUCCESS);
    assert_eq!(d.launch(exec, other), SUCCESS);
    let state = driver().lock();
    assert!(crate::stream::is_runnable(&state, s));
    assert!(!crate::stream::is_runnable(&state, other), "the first launch has not ended");
    drop(state);
    assert_eq!(d.update(exec, filling(&d, memory, 2, 2)), ILLEGAL_STATE);
    // SAFETY: handles are checked.
    assert_eq!(unsafe { cuGraphExecDestroy(exec) }, ILLEGAL_STATE);
    assert_eq!(d.violations(), 2);
    driver().lock().holds.all = false;
    driver().announce();
    // SAFETY: as above.
    unsafe {
        assert_eq!(cuStreamSynchronize(other), SUCCESS);
        assert_eq!(cuGraphExecDestroy(exec), SUCCESS);
    }
    assert_eq!(d.violations(), 0);
}

#[test]
fn a_launch_needs_the_memory_of_its_nodes() {
    let d = Driver::new();
    let (s, memory) = (d.stream(), d.memory());
    let exec = d.instantiate(filling(&d, memory, 1, 1));
    // SAFETY: no command uses the memory; a graph keeps none.
    assert_eq!(unsafe { cuMemFree_v2(memory) }, SUCCESS);
    assert_eq!(d.launch(exec, s), INVALID_VALUE);
    assert_eq!(d.violations(), 1);
}
