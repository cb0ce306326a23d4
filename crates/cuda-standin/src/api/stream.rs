//! Streams.

use std::ffi::{c_int, c_uint, c_void};

use super::event::event;
use super::write_result;
use crate::code;
use crate::graph;
use crate::state::{DriverResult, State, driver, driver_call_in_context};
use crate::stream::{Command, enqueue, open};

/// Returns the name of an open stream.
///
/// # Errors
/// There is no such stream, or it takes part in a capture that is invalid.
pub(super) fn stream_name(state: &mut State, stream: u64) -> DriverResult<String> {
    match state.streams.get(&stream) {
        Some(open) if !open.closed => {
            let name = open.name.clone();
            let capture = graph::of_stream(state, stream).and_then(|id| state.captures.get(&id));
            match capture.is_some_and(|capture| capture.is_invalid) {
                true => Err(code::STREAM_CAPTURE_INVALIDATED),
                false => Ok(name),
            }
        }
        _ => state.violation("there is no such stream", code::INVALID_HANDLE),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut u64,
    flags: c_uint,
    priority: c_int,
) -> u32 {
    driver_call_in_context("cuStreamCreateWithPriority", |state, device| {
        if flags != 1 {
            // This project opens no stream that synchronizes with the default stream.
            return state.violation("the stream is blocking", code::INVALID_VALUE);
        }
        let handle = open(state, device)?;
        // SAFETY: guaranteed by the caller, see the module above.
        unsafe { write_result(stream, handle)? };
        Ok(format!("({priority}) = {}", state.streams[&handle].name))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    driver_call_in_context("cuStreamDestroy_v2", |state, _| {
        let name = stream_name(state, stream)?;
        graph::refuse(state, stream)?;
        if let Some(open) = state.streams.get_mut(&stream) {
            open.closed = true;
        }
        state.needs_notify = true;
        Ok(format!("({name})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamQuery(stream: u64) -> u32 {
    driver_call_in_context("cuStreamQuery", |state, _| {
        let name = stream_name(state, stream)?;
        graph::refuse(state, stream)?;
        if state.not_ready > 0 {
            state.not_ready -= 1;
            return Err(code::NOT_READY);
        }
        match state.streams[&stream].is_idle() {
            true => Ok(format!("({name})")),
            false => Err(code::NOT_READY),
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    let code = driver_call_in_context("cuStreamSynchronize", |state, _| {
        let name = stream_name(state, stream)?;
        graph::refuse(state, stream)?;
        Ok(format!("({name})"))
    });
    let mut state = driver().lock();
    while code == code::SUCCESS && state.streams.get(&stream).is_some_and(|s| !s.is_idle()) {
        if let Some(lost) = state.faults.lost {
            return lost;
        }
        state = driver().wait(state);
    }
    code
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamWaitEvent(stream: u64, handle: u64, flags: c_uint) -> u32 {
    driver_call_in_context("cuStreamWaitEvent", |state, _| {
        let name = stream_name(state, stream)?;
        let awaited = event(state, handle)?;
        let (records, event_name) = (awaited.records, awaited.name.clone());
        let captured = awaited.captured.clone();
        if records == 0 || flags != 0 {
            let what = format!("{event_name} was never recorded: the wait would have no effect");
            return state.violation(what, code::ILLEGAL_STATE);
        }
        if !graph::wait(state, stream, captured)? {
            enqueue(state, stream, Command::Wait { event: handle, record: records }, Vec::new());
        }
        Ok(format!("({name}, {event_name}#{records})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchHostFunc(
    stream: u64,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> u32 {
    driver_call_in_context("cuLaunchHostFunc", |state, _| {
        let name = stream_name(state, stream)?;
        let function = function.ok_or(code::INVALID_VALUE)?;
        enqueue(state, stream, Command::Host { function, data: data as usize }, Vec::new());
        Ok(format!("({name})"))
    })
}
