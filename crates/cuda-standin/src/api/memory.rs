//! Memory: allocation, copies, fills.

use std::ffi::c_uint;

use super::device::device_of;
use super::stream::stream_name;
use super::write_result;
use crate::memory::{Block, Memory, MemoryKind, Range};
use crate::state::{DriverResult, State, current, driver_call_in_context};
use crate::stream::{Command, enqueue};
use crate::{DEVICE_BYTES, code};

/// The limit of pinned memory.
const PINNED_BYTES: u64 = 1 << 30;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    driver_call_in_context("cuMemAlloc_v2", |state, device| {
        if bytes == 0 {
            return Err(code::INVALID_VALUE);
        }
        let made = state.memory.allocate(MemoryKind::Device(device), bytes as u64, DEVICE_BYTES);
        let made = made.ok_or(code::OUT_OF_MEMORY)?;
        // SAFETY: guaranteed by the caller, see the module above.
        unsafe { write_result(address, made)? };
        Ok(format!("({bytes}) = {}", state.memory.name(made)))
    })
}

/// Frees an allocation of the right kind without users. Returns its name.
pub(super) fn take_block(
    state: &mut State,
    address: u64,
    is_right: fn(&Block) -> bool,
) -> DriverResult<String> {
    let Some(block) = state.memory.get(address) else {
        return state.violation("there is no such allocation", code::INVALID_VALUE);
    };
    let (name, users) = (block.name.clone(), block.users());
    if !is_right(block) {
        return state.violation(format!("{name} is memory of another kind"), code::INVALID_VALUE);
    }
    if users > 0 {
        return state.violation(format!("{users} commands still use {name}"), code::INVALID_VALUE);
    }
    state.memory.free(address);
    Ok(name)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    driver_call_in_context("cuMemFree_v2", |state, _| {
        let plain = |block: &Block| block.kind != MemoryKind::Pinned && block.pool.is_none();
        Ok(format!("({})", take_block(state, address, plain)?))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemHostAlloc(
    address: *mut u64,
    bytes: usize,
    flags: c_uint,
) -> u32 {
    driver_call_in_context("cuMemHostAlloc", |state, _| {
        let made = state.memory.allocate(MemoryKind::Pinned, bytes as u64, PINNED_BYTES);
        let made = made.filter(|_| bytes > 0).ok_or(code::OUT_OF_MEMORY)?;
        // SAFETY: as above.
        unsafe { write_result(address, made)? };
        Ok(format!("({bytes}, {flags}) = {}", state.memory.name(made)))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(address: u64) -> u32 {
    driver_call_in_context("cuMemFreeHost", |state, _| {
        let name = take_block(state, address, |block| block.kind == MemoryKind::Pinned)?;
        Ok(format!("({name})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    driver_call_in_context("cuMemGetInfo_v2", |state, device| {
        let used = state.memory.in_use(MemoryKind::Device(device));
        // SAFETY: as above.
        unsafe {
            write_result(free, DEVICE_BYTES.saturating_sub(used) as usize)?;
            write_result(total, DEVICE_BYTES as usize)?;
        }
        Ok("()".to_owned())
    })
}

/// Returns a range of allocated memory that the thread's device can access.
pub(super) fn range(state: &mut State, address: u64, bytes: u64) -> DriverResult<Range> {
    if let Some((_, block)) = state.memory.find(address)
        && let (MemoryKind::Device(owner), Some(device)) = (block.kind, current())
        && owner != device
        && !state.peers.contains(&(device, owner))
    {
        let what = format!("device {device} has no access to {}", block.name);
        return state.violation(what, code::INVALID_VALUE);
    }
    match state.memory.range(address, bytes) {
        Ok(range) => Ok(range),
        Err(_) if !Memory::is_device_address(address) => {
            let what = "host memory that is not pinned: the call may block";
            state.violation(what, code::INVALID_VALUE)
        }
        Err(what) => state.violation(what, code::INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemcpyAsync(
    to: u64,
    from: u64,
    bytes: usize,
    stream: u64,
) -> u32 {
    driver_call_in_context("cuMemcpyAsync", |state, _| {
        let name = stream_name(state, stream)?;
        let ranges = [range(state, to, bytes as u64)?, range(state, from, bytes as u64)?];
        let command = Command::Copy { to: ranges[0].host, from: ranges[1].host, bytes };
        enqueue(state, stream, command, ranges.into());
        let (to, from) = (state.memory.name(to), state.memory.name(from));
        Ok(format!("({to} <- {from}, {bytes}, {name})"))
    })
}

/// Returns a range in the memory of the device of `context`, which must be retained.
fn range_of(
    state: &mut State,
    context: u64,
    address: u64,
    bytes: u64,
) -> DriverResult<(Range, u32)> {
    let device = device_of(context).filter(|&d| state.retained[d as usize] > 0);
    let Some(device) = device else {
        return state.violation("there is no such context", code::INVALID_CONTEXT);
    };
    let kind = state.memory.find(address).map(|(_, block)| block.kind);
    if kind.is_some_and(|kind| kind != MemoryKind::Device(device)) {
        let what = format!("{} is not memory of device {device}", state.memory.name(address));
        return state.violation(what, code::INVALID_VALUE);
    }
    match state.memory.range(address, bytes) {
        Ok(range) => Ok((range, device)),
        Err(what) => state.violation(what, code::INVALID_VALUE),
    }
}

/// Requires no peer access: without it, a real driver copies through the host.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: u64,
    from: u64,
    from_context: u64,
    bytes: usize,
    stream: u64,
) -> u32 {
    driver_call_in_context("cuMemcpyPeerAsync", |state, device| {
        let name = stream_name(state, stream)?;
        let (to_range, to_device) = range_of(state, to_context, to, bytes as u64)?;
        let (from_range, from_device) = range_of(state, from_context, from, bytes as u64)?;
        if ![to_device, from_device].contains(&device) || state.streams[&stream].device != device {
            let what = format!("{name} or the thread's context belongs to another device");
            return state.violation(what, code::INVALID_VALUE);
        }
        let command = Command::Copy { to: to_range.host, from: from_range.host, bytes };
        enqueue(state, stream, command, vec![to_range, from_range]);
        let (to, from) = (state.memory.name(to), state.memory.name(from));
        Ok(format!("({to} of {to_device} <- {from} of {from_device}, {bytes}, {name})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemsetD8Async(
    to: u64,
    value: u8,
    count: usize,
    stream: u64,
) -> u32 {
    driver_call_in_context("cuMemsetD8Async", |state, _| {
        let name = stream_name(state, stream)?;
        let range = range(state, to, count as u64)?;
        let command = Command::Fill { to: range.host, value: vec![value], times: count };
        enqueue(state, stream, command, vec![range]);
        Ok(format!("({}, {value}, {count}, {name})", state.memory.name(to)))
    })
}
