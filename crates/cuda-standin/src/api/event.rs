//! Events.

use std::collections::BTreeSet;
use std::ffi::c_uint;

use super::stream::stream_name;
use super::write_result;
use crate::code;
use crate::graph;
use crate::state::{DriverResult, EventState, State, driver_call_in_context};
use crate::stream::{Command, enqueue};

/// Creates an event without timing, the only kind that Millstream uses.
const DISABLE_TIMING: c_uint = 2;

fn event<'a>(
    call: &'static str,
    state: &'a mut State,
    event: u64,
) -> DriverResult<&'a mut EventState> {
    if state.events.get(&event).is_none_or(|e| e.destroyed) {
        return Err(state.violation(call, "there is no such event", code::INVALID_HANDLE));
    }
    state.events.get_mut(&event).ok_or(code::INVALID_HANDLE)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuEventCreate(to: *mut u64, flags: c_uint) -> u32 {
    const CALL: &str = "cuEventCreate";
    driver_call_in_context(CALL, |state, device| {
        if flags != DISABLE_TIMING {
            return Err(state.violation(CALL, "the event measures time", code::INVALID_VALUE));
        }
        let (handle, name) = (state.handle(), state.name('e'));
        let text = format!("() = {name}");
        let outstanding = BTreeSet::new();
        let event =
            EventState { name, device, records: 0, outstanding, captured: None, destroyed: false };
        state.events.insert(handle, event);
        // SAFETY: guaranteed by the caller, see the module above.
        unsafe { write_result(to, handle)? };
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(handle: u64) -> u32 {
    const CALL: &str = "cuEventDestroy_v2";
    driver_call_in_context(CALL, |state, _| {
        let event = event(CALL, state, handle)?;
        let name = event.name.clone();
        // The driver keeps the event until its records have completed.
        event.destroyed = true;
        if event.outstanding.is_empty() {
            state.events.remove(&handle);
        }
        Ok(format!("({name})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuEventRecord(handle: u64, stream: u64) -> u32 {
    const CALL: &str = "cuEventRecord";
    driver_call_in_context(CALL, |state, _| {
        let stream_name = stream_name(CALL, state, stream)?;
        let own = event(CALL, state, handle)?.device;
        let stream_device = state.streams[&stream].device;
        if own != stream_device {
            let what = format!("an event of device {own} on a stream of device {stream_device}");
            return Err(state.violation(CALL, &what, code::INVALID_HANDLE));
        }
        let captured =
            graph::of_stream(state, stream).map(|capture| graph::record(state, capture, stream));
        let is_captured = captured.is_some();
        let recorded = event(CALL, state, handle)?;
        recorded.records += 1;
        recorded.captured = captured;
        let record = recorded.records;
        if is_captured {
            return Ok(format!("({}#{record}, {stream_name})", recorded.name));
        }
        recorded.outstanding.insert(record);
        let name = recorded.name.clone();
        enqueue(state, stream, Command::Record { event: handle, record }, Vec::new());
        Ok(format!("({name}#{record}, {stream_name})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuEventQuery(handle: u64) -> u32 {
    const CALL: &str = "cuEventQuery";
    driver_call_in_context(CALL, |state, _| {
        let event = event(CALL, state, handle)?;
        let (name, newest) = (event.name.clone(), event.records);
        let done = !event.outstanding.contains(&newest);
        if let Some(captured) = event.captured.clone() {
            let what = format!("{name} was last recorded in a capture");
            return Err(match graph::active(state, &captured) {
                Some(id) => graph::invalidate(state, CALL, id, &what, code::CAPTURED_EVENT),
                None => state.violation(CALL, &what, code::CAPTURED_EVENT),
            });
        }
        if state.not_ready > 0 {
            state.not_ready -= 1;
            return Err(code::NOT_READY);
        }
        if done { Ok(format!("({name})")) } else { Err(code::NOT_READY) }
    })
}
