//! Memory: allocation, copies, fills.

use std::ffi::c_uint;

use super::device::device_of;
use super::put;
use super::streams::known;
use crate::memory::{Block, Kind, Memory, Range};
use crate::state::{Answer, State, answer_in_context, current};
use crate::stream::{Command, hand_over};
use crate::{DEVICE_BYTES, code};

/// How much memory can be pinned.
const PINNED_BYTES: u64 = 1 << 30;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    answer_in_context("cuMemAlloc_v2", |state, device| {
        if bytes == 0 {
            return Err(code::INVALID_VALUE);
        }
        let made = state.memory.allocate(Kind::Device(device), bytes as u64, DEVICE_BYTES);
        let made = made.ok_or(code::OUT_OF_MEMORY)?;
        // SAFETY: the caller's promise, see the module above.
        unsafe { put(address, made)? };
        Ok(format!("({bytes}) = {}", state.memory.name(made)))
    })
}

/// Takes an allocation of the right kind away, if nobody uses it. Returns its name.
pub(super) fn taken(
    call: &'static str,
    state: &mut State,
    address: u64,
    is_right: fn(&Block) -> bool,
) -> Answer<String> {
    let Some(block) = state.memory.get(address) else {
        return Err(state.violation(call, "this was not allocated", code::INVALID_VALUE));
    };
    let (name, users) = (block.name.clone(), block.users());
    if !is_right(block) {
        let what = format!("{name} is memory of another kind");
        return Err(state.violation(call, &what, code::INVALID_VALUE));
    }
    if users > 0 {
        let what = format!("{users} commands still use {name}");
        return Err(state.violation(call, &what, code::INVALID_VALUE));
    }
    state.memory.free(address);
    Ok(name)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    const CALL: &str = "cuMemFree_v2";
    answer_in_context(CALL, |state, _| {
        let plain = |block: &Block| block.kind != Kind::Pinned && block.pool.is_none();
        Ok(format!("({})", taken(CALL, state, address, plain)?))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(address: *mut u64, bytes: usize, flags: c_uint) -> u32 {
    answer_in_context("cuMemHostAlloc", |state, _| {
        let made = state.memory.allocate(Kind::Pinned, bytes as u64, PINNED_BYTES);
        let made = made.filter(|_| bytes > 0).ok_or(code::OUT_OF_MEMORY)?;
        // SAFETY: as above.
        unsafe { put(address, made)? };
        Ok(format!("({bytes}, {flags}) = {}", state.memory.name(made)))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(address: u64) -> u32 {
    const CALL: &str = "cuMemFreeHost";
    answer_in_context(CALL, |state, _| {
        let name = taken(CALL, state, address, |block| block.kind == Kind::Pinned)?;
        Ok(format!("({name})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    answer_in_context("cuMemGetInfo_v2", |state, device| {
        let used = state.memory.in_use(Kind::Device(device));
        // SAFETY: as above.
        unsafe {
            put(free, DEVICE_BYTES.saturating_sub(used) as usize)?;
            put(total, DEVICE_BYTES as usize)?;
        }
        Ok("()".to_owned())
    })
}

/// A range of memory that the driver knows and that the thread's device can reach.
pub(super) fn range(
    call: &'static str,
    state: &mut State,
    address: u64,
    bytes: u64,
) -> Answer<Range> {
    if let Some((_, block)) = state.memory.around(address)
        && let (Kind::Device(owner), Some(device)) = (block.kind, current())
        && owner != device
        && !state.peers.contains(&(device, owner))
    {
        let what = format!("device {device} has no access to {}", block.name);
        return Err(state.violation(call, &what, code::INVALID_VALUE));
    }
    match state.memory.range(address, bytes) {
        Ok(range) => Ok(range),
        Err(_) if !Memory::is_device_address(address) => {
            let what = "memory of the host's that is not pinned: the call may block";
            Err(state.violation(call, what, code::INVALID_VALUE))
        }
        Err(what) => Err(state.violation(call, &what, code::INVALID_VALUE)),
    }
}

fn copy(
    call: &'static str,
    state: &mut State,
    to: u64,
    from: u64,
    bytes: usize,
    stream: u64,
) -> Answer<String> {
    let name = known(call, state, stream)?;
    let ranges = [range(call, state, to, bytes as u64)?, range(call, state, from, bytes as u64)?];
    let command = Command::Copy { to: ranges[0].host, from: ranges[1].host, bytes };
    hand_over(state, stream, command, ranges.into());
    let (to, from) = (state.memory.name(to), state.memory.name(from));
    Ok(format!("({to} <- {from}, {bytes}, {name})"))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: u64) -> u32 {
    const CALL: &str = "cuMemcpyAsync";
    answer_in_context(CALL, |state, _| copy(CALL, state, to, from, bytes, stream))
}

/// A range in the memory of the device of this context, which is held.
fn range_of(state: &mut State, context: u64, address: u64, bytes: u64) -> Answer<(Range, u32)> {
    const CALL: &str = "cuMemcpyPeerAsync";
    let device = device_of(context).filter(|&d| state.retained[d as usize] > 0);
    let Some(device) = device else {
        return Err(state.violation(CALL, "there is no such context", code::INVALID_CONTEXT));
    };
    let kind = state.memory.around(address).map(|(_, block)| block.kind);
    if kind.is_some_and(|kind| kind != Kind::Device(device)) {
        let what = format!("{} is no memory of device {device}", state.memory.name(address));
        return Err(state.violation(CALL, &what, code::INVALID_VALUE));
    }
    match state.memory.range(address, bytes) {
        Ok(range) => Ok((range, device)),
        Err(what) => Err(state.violation(CALL, &what, code::INVALID_VALUE)),
    }
}

/// Needs no access to be enabled: without it a real driver copies by way of the host.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: u64,
    from: u64,
    from_context: u64,
    bytes: usize,
    stream: u64,
) -> u32 {
    const CALL: &str = "cuMemcpyPeerAsync";
    answer_in_context(CALL, |state, device| {
        let name = known(CALL, state, stream)?;
        let (to_range, to_device) = range_of(state, to_context, to, bytes as u64)?;
        let (from_range, from_device) = range_of(state, from_context, from, bytes as u64)?;
        if ![to_device, from_device].contains(&device) || state.streams[&stream].device != device {
            let what = format!("{name} or the thread is of another device");
            return Err(state.violation(CALL, &what, code::INVALID_VALUE));
        }
        let command = Command::Copy { to: to_range.host, from: from_range.host, bytes };
        hand_over(state, stream, command, vec![to_range, from_range]);
        let (to, from) = (state.memory.name(to), state.memory.name(from));
        Ok(format!("({to} of {to_device} <- {from} of {from_device}, {bytes}, {name})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: u64) -> u32 {
    const CALL: &str = "cuMemsetD8Async";
    answer_in_context(CALL, |state, _| {
        let name = known(CALL, state, stream)?;
        let range = range(CALL, state, to, count as u64)?;
        let command = Command::Fill { to: range.host, value: vec![value], times: count };
        hand_over(state, stream, command, vec![range]);
        Ok(format!("({}, {value}, {count}, {name})", state.memory.name(to)))
    })
}
