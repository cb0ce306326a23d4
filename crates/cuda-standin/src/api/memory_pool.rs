//! Memory pools.

use std::ffi::{c_int, c_uint, c_void};

use super::device::device;
use super::memory::take_block;
use super::stream::stream_name;
use super::write_result;
use crate::graph;
use crate::memory::MemoryKind;
use crate::state::{DriverResult, State, driver_call_in_context};
use crate::stream::{Command, enqueue};
use crate::{DEVICE_BYTES, code};

/// The first fields of `CUmemPoolProps`. The stand-in reads no others.
#[repr(C)]
struct PoolProperties {
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

/// Returns the device of a location.
fn device_at(location: &Location) -> DriverResult<u32> {
    if location.kind == 1 { device(location.device) } else { Err(code::INVALID_VALUE) }
}

/// Returns the device of a memory pool.
fn device_of(state: &mut State, pool: u64) -> DriverResult<u32> {
    state.entry(|s| &mut s.pools, pool, "pool", code::INVALID_VALUE).copied()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolCreate(pool: *mut u64, properties: *const PoolProperties) -> u32 {
    driver_call_in_context("cuMemPoolCreate", |state, _| {
        // SAFETY: guaranteed by the caller, see the module above.
        let properties = unsafe { properties.as_ref() }.ok_or(code::INVALID_VALUE)?;
        if properties.allocation != 1 || properties.handles != 0 {
            return Err(code::INVALID_VALUE);
        }
        let device = device_at(&properties.location)?;
        let handle = state.handle();
        state.pools.insert(handle, device);
        // SAFETY: as above.
        unsafe { write_result(pool, handle)? };
        Ok(format!("(device {device})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolDestroy(pool: u64) -> u32 {
    driver_call_in_context("cuMemPoolDestroy", |state, _| {
        let device = device_of(state, pool)?;
        let left = state.memory.of_pool(pool);
        if left > 0 {
            // A real driver would keep the pool for them.
            let _ = state.violation::<()>(format!("{left} allocations are left"), code::SUCCESS);
        }
        state.pools.remove(&pool);
        Ok(format!("(device {device})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAttribute(pool: u64, which: c_uint, value: *mut c_void) -> u32 {
    const RELEASE_THRESHOLD: c_uint = 4;
    driver_call_in_context("cuMemPoolSetAttribute", |state, _| {
        if which != RELEASE_THRESHOLD || value.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the attribute is a number of 64 bits.
        let threshold = unsafe { value.cast::<u64>().read() };
        let device = device_of(state, pool)?;
        Ok(format!("(device {device}, release threshold {threshold})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAccess(pool: u64, list: *const Access, count: usize) -> u32 {
    driver_call_in_context("cuMemPoolSetAccess", |state, _| {
        let of = device_of(state, pool)?;
        let mut peers = Vec::new();
        for k in 0..count {
            // SAFETY: the caller guarantees `count` entries.
            let access = unsafe { &*list.add(k) };
            let by = device_at(&access.location)?;
            if access.flags != 3 || by == of || state.denied_peer_access.contains(&(by, of)) {
                return Err(code::INVALID_DEVICE);
            }
            peers.push(by.to_string());
        }
        Ok(format!("(device {of}, for {})", peers.join(", ")))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocFromPoolAsync(
    address: *mut u64,
    bytes: usize,
    pool: u64,
    stream: u64,
) -> u32 {
    driver_call_in_context("cuMemAllocFromPoolAsync", |state, _| {
        let name = stream_name(state, stream)?;
        graph::refuse(state, stream)?;
        let device = device_of(state, pool)?;
        if bytes == 0 || state.streams[&stream].device != device {
            return Err(code::INVALID_VALUE);
        }
        let made = state.memory.allocate(MemoryKind::Device(device), bytes as u64, DEVICE_BYTES);
        let made = made.ok_or(code::OUT_OF_MEMORY)?;
        if let Some(block) = state.memory.get_mut(made) {
            (block.pool, block.is_available) = (Some(pool), false);
        }
        enqueue(state, stream, Command::MakeAvailable { block: made }, Vec::new());
        // SAFETY: as above.
        unsafe { write_result(address, made)? };
        Ok(format!("({bytes}, {name}) = {}", state.memory.name(made)))
    })
}

/// Frees the memory at once: the caller guarantees that no command uses it any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: u64) -> u32 {
    driver_call_in_context("cuMemFreeAsync", |state, _| {
        let name = stream_name(state, stream)?;
        graph::refuse(state, stream)?;
        let stream = name;
        let name = take_block(state, address, |block| block.pool.is_some())?;
        Ok(format!("({name}, {stream})"))
    })
}
