//! Events.

use std::collections::BTreeSet;
use std::ffi::c_uint;

use super::stream::stream_name;
use super::write_result;
use crate::code;
use crate::graph;
use crate::state::{DriverResult, EventState, State, driver_call_in_context};
use crate::stream::{Command, enqueue};

/// Creates an event without timing. Millstream measures times only while it records a profile.
const DISABLE_TIMING: c_uint = 2;

pub(super) fn event(state: &mut State, event: u64) -> DriverResult<&mut EventState> {
    if state.events.get(&event).is_none_or(|e| e.destroyed) {
        return state.violation("there is no such event", code::INVALID_HANDLE);
    }
    state.events.get_mut(&event).ok_or(code::INVALID_HANDLE)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuEventCreate(to: *mut u64, flags: c_uint) -> u32 {
    driver_call_in_context("cuEventCreate", |state, device| {
        if ![0, DISABLE_TIMING].contains(&flags) {
            return state.violation("unknown flags", code::INVALID_VALUE);
        }
        let timed = flags == 0;
        let (handle, name) = (state.handle(), state.name('e'));
        let text = format!("() = {name}");
        let outstanding = BTreeSet::new();
        let event = EventState {
            name,
            device,
            records: 0,
            outstanding,
            timed,
            at: None,
            captured: None,
            destroyed: false,
        };
        state.events.insert(handle, event);
        // SAFETY: guaranteed by the caller, see the module above.
        unsafe { write_result(to, handle)? };
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(handle: u64) -> u32 {
    driver_call_in_context("cuEventDestroy_v2", |state, _| {
        let event = event(state, handle)?;
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
    driver_call_in_context("cuEventRecord", |state, _| {
        let stream_name = stream_name(state, stream)?;
        let own = event(state, handle)?.device;
        let stream_device = state.streams[&stream].device;
        if own != stream_device {
            let what = format!("an event of device {own} on a stream of device {stream_device}");
            return state.violation(what, code::INVALID_HANDLE);
        }
        let captured =
            graph::of_stream(state, stream).map(|capture| graph::record(state, capture, stream));
        let is_captured = captured.is_some();
        let recorded = event(state, handle)?;
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
unsafe extern "C" fn cuEventElapsedTime_v2(to: *mut f32, from: u64, until: u64) -> u32 {
    driver_call_in_context("cuEventElapsedTime_v2", |state, _| {
        let mut at = [None; 2];
        for (at, handle) in at.iter_mut().zip([from, until]) {
            let event = event(state, handle)?;
            if !event.timed {
                return state.violation("the event measures no time", code::INVALID_HANDLE);
            }
            if event.outstanding.contains(&event.records) {
                return Err(code::NOT_READY);
            }
            *at = event.at;
        }
        let [Some(from), Some(until)] = at else {
            return state.violation("an event was never recorded", code::INVALID_HANDLE);
        };
        let later = until.saturating_duration_since(from).as_secs_f32();
        let earlier = from.saturating_duration_since(until).as_secs_f32();
        // SAFETY: guaranteed by the caller, see the module above.
        unsafe { write_result(to, (later - earlier) * 1e3)? };
        Ok("()".to_owned())
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuEventQuery(handle: u64) -> u32 {
    driver_call_in_context("cuEventQuery", |state, _| {
        let event = event(state, handle)?;
        let (name, newest) = (event.name.clone(), event.records);
        let done = !event.outstanding.contains(&newest);
        if let Some(captured) = event.captured.clone() {
            let what = format!("{name} was last recorded in a capture");
            return match graph::active(state, &captured) {
                Some(id) => graph::invalidate(state, id, &what, code::CAPTURED_EVENT),
                None => state.violation(what, code::CAPTURED_EVENT),
            };
        }
        if state.not_ready > 0 {
            state.not_ready -= 1;
            return Err(code::NOT_READY);
        }
        if done { Ok(format!("({name})")) } else { Err(code::NOT_READY) }
    })
}
