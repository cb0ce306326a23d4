//! Events.

use std::collections::BTreeSet;
use std::ffi::c_uint;

use super::put;
use super::streams::known;
use crate::code;
use crate::state::{Answer, EventState, State, answer_in_context};
use crate::stream::{Command, hand_over};

/// An event that measures no time, the only kind that Millstream asks for.
const DISABLE_TIMING: c_uint = 2;

fn event<'a>(call: &'static str, state: &'a mut State, event: u64) -> Answer<&'a mut EventState> {
    if state.events.get(&event).is_none_or(|e| e.gone) {
        return Err(state.violation(call, "there is no such event", code::INVALID_HANDLE));
    }
    state.events.get_mut(&event).ok_or(code::INVALID_HANDLE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(to: *mut u64, flags: c_uint) -> u32 {
    const CALL: &str = "cuEventCreate";
    answer_in_context(CALL, |state, device| {
        if flags != DISABLE_TIMING {
            return Err(state.violation(CALL, "the event measures time", code::INVALID_VALUE));
        }
        let (handle, name) = (state.handle(), state.name('e'));
        let text = format!("() = {name}");
        let outstanding = BTreeSet::new();
        let made = EventState { name, device, records: 0, outstanding, gone: false };
        state.events.insert(handle, made);
        // SAFETY: the caller's promise, see the module above.
        unsafe { put(to, handle)? };
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(handle: u64) -> u32 {
    const CALL: &str = "cuEventDestroy_v2";
    answer_in_context(CALL, |state, _| {
        let gone = event(CALL, state, handle)?;
        let name = gone.name.clone();
        // The driver keeps it for as long as its records are outstanding.
        gone.gone = true;
        if gone.outstanding.is_empty() {
            state.events.remove(&handle);
        }
        Ok(format!("({name})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(handle: u64, stream: u64) -> u32 {
    const CALL: &str = "cuEventRecord";
    answer_in_context(CALL, |state, _| {
        let stream_name = known(CALL, state, stream)?;
        let (own, home) = (event(CALL, state, handle)?.device, state.streams[&stream].device);
        if own != home {
            let what = format!("an event of device {own} on a stream of device {home}");
            return Err(state.violation(CALL, &what, code::INVALID_HANDLE));
        }
        let recorded = event(CALL, state, handle)?;
        recorded.records += 1;
        let record = recorded.records;
        recorded.outstanding.insert(record);
        let name = recorded.name.clone();
        hand_over(state, stream, Command::Record { event: handle, record }, Vec::new());
        Ok(format!("({name}#{record}, {stream_name})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventQuery(handle: u64) -> u32 {
    const CALL: &str = "cuEventQuery";
    answer_in_context(CALL, |state, _| {
        let asked = event(CALL, state, handle)?;
        let (name, newest) = (asked.name.clone(), asked.records);
        let done = !asked.outstanding.contains(&newest);
        if state.not_ready > 0 {
            state.not_ready -= 1;
            return Err(code::NOT_READY);
        }
        if done { Ok(format!("({name})")) } else { Err(code::NOT_READY) }
    })
}
