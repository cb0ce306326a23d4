//! Captures and graphs.

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::Arc;

use super::stream::stream_name;
use super::write_result;
use crate::code;
use crate::graph::{self, Graph, GraphExec, Mode};
use crate::state::{DriverResult, State, driver_call_in_context};
use crate::stream::{Command, enqueue};

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
pub(super) struct UpdateResult {
    result: c_uint,
    error_node: *mut c_void,
    error_from_node: *mut c_void,
}

/// `CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED`.
const TOPOLOGY_CHANGED: c_uint = 2;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamBeginCapture_v2(stream: u64, mode: c_uint) -> u32 {
    driver_call_in_context("cuStreamBeginCapture_v2", |state, _| {
        if stream == 0 {
            let what = "the default stream cannot capture";
            return state.violation(what, code::STREAM_CAPTURE_UNSUPPORTED);
        }
        let name = stream_name(state, stream)?;
        let mode = match mode {
            0 => Mode::Global,
            1 => Mode::ThreadLocal,
            2 => Mode::Relaxed,
            _ => return Err(code::INVALID_VALUE),
        };
        if graph::of_stream(state, stream).is_some() {
            let what = "the stream takes part in a capture already";
            return state.violation(what, code::ILLEGAL_STATE);
        }
        graph::begin(state, stream, mode);
        Ok(format!("({name}, {mode:?})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamEndCapture(stream: u64, to: *mut u64) -> u32 {
    driver_call_in_context("cuStreamEndCapture", |state, _| {
        // SAFETY: guaranteed by the caller, see the module above.
        unsafe { write_result(to, 0)? };
        let stream_name = state.streams.get(&stream).map(|s| s.name.clone()).unwrap_or_default();
        let nodes = Arc::new(graph::end(state, stream)?);
        let (handle, name) = (state.handle(), state.name('g'));
        let text = format!("({stream_name}) = {name}, {} nodes", nodes.len());
        state.graphs.insert(handle, Graph { name, nodes });
        // SAFETY: as above.
        unsafe { write_result(to, handle)? };
        Ok(text)
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamIsCapturing(stream: u64, to: *mut c_uint) -> u32 {
    driver_call_in_context("cuStreamIsCapturing", |state, _| {
        let capture = graph::of_stream(state, stream).and_then(|id| state.captures.get(&id));
        let status = capture.map_or(0, |capture| 1 + c_uint::from(capture.is_invalid));
        // SAFETY: as above.
        unsafe { write_result(to, status)? };
        Ok(format!("() = {status}"))
    })
}

fn graph_of(state: &mut State, handle: u64) -> DriverResult<&Graph> {
    Ok(state.entry(|s| &mut s.graphs, handle, "graph", code::INVALID_VALUE)?)
}

fn exec_of(state: &mut State, handle: u64) -> DriverResult<&mut GraphExec> {
    state.entry(|s| &mut s.graph_execs, handle, "executable graph", code::INVALID_VALUE)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuGraphGetNodes(
    handle: u64,
    nodes: *mut u64,
    count: *mut usize,
) -> u32 {
    driver_call_in_context("cuGraphGetNodes", |state, _| {
        let Graph { name, nodes: found } = graph_of(state, handle)?;
        let text = format!("({name}) = {}", found.len());
        if !nodes.is_null() {
            // Nobody asks for the handles of nodes.
            return Err(code::NOT_SUPPORTED);
        }
        // SAFETY: as above.
        unsafe { write_result(count, found.len())? };
        Ok(text)
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuGraphDestroy(handle: u64) -> u32 {
    driver_call_in_context("cuGraphDestroy", |state, _| {
        let name = graph_of(state, handle)?.name.clone();
        state.graphs.remove(&handle);
        Ok(format!("({name})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuGraphInstantiateWithFlags(
    to: *mut u64,
    handle: u64,
    flags: c_ulonglong,
) -> u32 {
    driver_call_in_context("cuGraphInstantiateWithFlags", |state, _| {
        graph::refuse_unsafe(state)?;
        let Graph { name: of, nodes } = graph_of(state, handle)?;
        let (of, nodes) = (of.clone(), nodes.clone());
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let (exec, name) = (state.handle(), state.name('x'));
        let text = format!("({of}) = {name}");
        state.graph_execs.insert(exec, GraphExec { name, nodes, launched: 0, completed: 0 });
        // SAFETY: as above.
        unsafe { write_result(to, exec)? };
        Ok(text)
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuGraphExecUpdate_v2(
    exec: u64,
    handle: u64,
    to: *mut UpdateResult,
) -> u32 {
    driver_call_in_context("cuGraphExecUpdate_v2", |state, _| {
        graph::refuse_unsafe(state)?;
        let Graph { name: from, nodes } = graph_of(state, handle)?;
        let (from, nodes) = (from.clone(), nodes.clone());
        let own = exec_of(state, exec)?;
        let name = own.name.clone();
        if own.is_in_flight() {
            return state.violation(format!("{name} is in flight"), code::ILLEGAL_STATE);
        }
        let can = graph::can_update(&own.nodes, &nodes);
        let result = if can { 0 } else { TOPOLOGY_CHANGED };
        let nothing = std::ptr::null_mut();
        let info = UpdateResult { result, error_node: nothing, error_from_node: nothing };
        // SAFETY: as above.
        unsafe { write_result(to, info)? };
        if !can {
            return Err(code::GRAPH_EXEC_UPDATE_FAILURE);
        }
        own.nodes = nodes;
        Ok(format!("({name} <- {from})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuGraphLaunch(exec: u64, stream: u64) -> u32 {
    driver_call_in_context("cuGraphLaunch", |state, _| {
        let stream_name = stream_name(state, stream)?;
        // It would become a graph within the graph.
        graph::refuse(state, stream)?;
        let nodes = exec_of(state, exec)?.nodes.clone();
        let Some(ranges) = graph::ranges(&nodes) else {
            return state.violation("the graph uses memory that was freed", code::INVALID_VALUE);
        };
        let own = exec_of(state, exec)?;
        own.launched += 1;
        let (launch, name) = (own.launched, own.name.clone());
        enqueue(state, stream, Command::Graph { exec, launch, nodes }, ranges);
        Ok(format!("({name}, {stream_name})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuGraphExecDestroy(exec: u64) -> u32 {
    driver_call_in_context("cuGraphExecDestroy", |state, _| {
        let own = exec_of(state, exec)?;
        let name = own.name.clone();
        if own.is_in_flight() {
            // A real driver would keep it until its launch has completed.
            return state.violation(format!("{name} is in flight"), code::ILLEGAL_STATE);
        }
        state.graph_execs.remove(&exec);
        Ok(format!("({name})"))
    })
}
