//! Memory pools.

use std::ffi::{c_int, c_uint, c_void};

use super::device::device;
use super::memory::taken;
use super::put;
use super::streams::known;
use crate::memory::Kind;
use crate::state::{Answer, State, answer_in_context};
use crate::stream::{Command, hand_over};
use crate::{DEVICE_BYTES, code};

/// The first fields of `CUmemPoolProps`, as far as they are looked at.
#[repr(C)]
struct Wanted {
    allocation: c_uint,
    handles: c_uint,
    location: Location,
}

/// `CUmemLocation`.
#[repr(C)]
struct Location {
    kind: c_uint,
    device: c_int,
}

/// `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location: Location,
    flags: c_uint,
}

/// A location of the kind "a device".
fn place(location: &Location) -> Answer<u32> {
    if location.kind == 1 { device(location.device) } else { Err(code::INVALID_VALUE) }
}

/// The device of a pool.
fn device_of(call: &'static str, state: &mut State, pool: u64) -> Answer<u32> {
    match state.pools.get(&pool) {
        Some(&device) => Ok(device),
        None => Err(state.violation(call, "there is no such pool", code::INVALID_VALUE)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolCreate(pool: *mut u64, wanted: *const Wanted) -> u32 {
    answer_in_context("cuMemPoolCreate", |state, _| {
        // SAFETY: the caller's promise, see the module above.
        let wanted = unsafe { wanted.as_ref() }.ok_or(code::INVALID_VALUE)?;
        if wanted.allocation != 1 || wanted.handles != 0 {
            return Err(code::INVALID_VALUE);
        }
        let device = place(&wanted.location)?;
        let handle = state.handle();
        state.pools.insert(handle, device);
        // SAFETY: as above.
        unsafe { put(pool, handle)? };
        Ok(format!("(device {device})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolDestroy(pool: u64) -> u32 {
    const CALL: &str = "cuMemPoolDestroy";
    answer_in_context(CALL, |state, _| {
        let device = device_of(CALL, state, pool)?;
        let left = state.memory.of_pool(pool);
        if left > 0 {
            // A real one would keep the pool for them.
            state.violation(CALL, &format!("{left} allocations are left"), code::SUCCESS);
        }
        state.pools.remove(&pool);
        Ok(format!("(device {device})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAttribute(pool: u64, which: c_uint, value: *mut c_void) -> u32 {
    const CALL: &str = "cuMemPoolSetAttribute";
    const RELEASE_THRESHOLD: c_uint = 4;
    answer_in_context(CALL, |state, _| {
        if which != RELEASE_THRESHOLD || value.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the attribute is a number of 64 bits.
        let threshold = unsafe { value.cast::<u64>().read() };
        let device = device_of(CALL, state, pool)?;
        Ok(format!("(device {device}, release threshold {threshold})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAccess(pool: u64, list: *const Access, count: usize) -> u32 {
    const CALL: &str = "cuMemPoolSetAccess";
    answer_in_context(CALL, |state, _| {
        let of = device_of(CALL, state, pool)?;
        let mut with = Vec::new();
        for k in 0..count {
            // SAFETY: the caller gives as many as it says.
            let access = unsafe { &*list.add(k) };
            let by = place(&access.location)?;
            if access.flags != 3 || by == of || state.blind.contains(&(by, of)) {
                return Err(code::INVALID_DEVICE);
            }
            with.push(by.to_string());
        }
        Ok(format!("(device {of}, for {})", with.join(", ")))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocFromPoolAsync(
    address: *mut u64,
    bytes: usize,
    pool: u64,
    stream: u64,
) -> u32 {
    const CALL: &str = "cuMemAllocFromPoolAsync";
    answer_in_context(CALL, |state, _| {
        let name = known(CALL, state, stream)?;
        let device = device_of(CALL, state, pool)?;
        if bytes == 0 || state.streams[&stream].device != device {
            return Err(code::INVALID_VALUE);
        }
        let made = state.memory.allocate(Kind::Device(device), bytes as u64, DEVICE_BYTES);
        let made = made.ok_or(code::OUT_OF_MEMORY)?;
        if let Some(block) = state.memory.get_mut(made) {
            (block.pool, block.is_there) = (Some(pool), false);
        }
        hand_over(state, stream, Command::Arrive { block: made }, Vec::new());
        // SAFETY: as above.
        unsafe { put(address, made)? };
        Ok(format!("({bytes}, {name}) = {}", state.memory.name(made)))
    })
}

/// The memory is gone at once: whoever frees it here has seen to it that nobody uses it any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: u64) -> u32 {
    const CALL: &str = "cuMemFreeAsync";
    answer_in_context(CALL, |state, _| {
        let stream = known(CALL, state, stream)?;
        let name = taken(CALL, state, address, |block| block.pool.is_some())?;
        Ok(format!("({name}, {stream})"))
    })
}
