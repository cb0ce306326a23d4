//! Devices, contexts, names of errors.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::write_result;
use crate::memory::MemoryKind;
use crate::state::{State, driver_call, driver_call_in_context, set_current};
use crate::{DEVICE_BYTES, DEVICE_NAME, DEVICES, code};

/// The version of the driver's interface: 12.8, the first that compares the times of events.
const VERSION: c_int = 12_080;

/// A context's handle is the device's index plus this.
const CONTEXT: u64 = 1 << 62;

pub(super) fn device(number: c_int) -> Result<u32, u32> {
    u32::try_from(number).ok().filter(|&d| d < DEVICES).ok_or(code::INVALID_DEVICE)
}

/// Returns the device of a context.
pub(super) fn device_of(context: u64) -> Option<u32> {
    let device = u32::try_from(context.checked_sub(CONTEXT)?).ok();
    device.filter(|&d| d < DEVICES)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuInit(flags: c_uint) -> u32 {
    driver_call("cuInit", |state| {
        state.initialised = true;
        if flags == 0 { Ok("()".to_owned()) } else { Err(code::INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    driver_call("cuDriverGetVersion", |_| {
        // SAFETY: guaranteed by the caller, see the module above.
        unsafe { write_result(version, VERSION)? };
        Ok("()".to_owned())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    driver_call("cuDeviceGetCount", |_| {
        // SAFETY: as above.
        unsafe { write_result(count, DEVICES as c_int)? };
        Ok("()".to_owned())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(handle: *mut c_int, number: c_int) -> u32 {
    driver_call("cuDeviceGet", |_| {
        device(number)?;
        // SAFETY: as above.
        unsafe { write_result(handle, number)? };
        Ok(format!("({number})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, bytes: c_int, number: c_int) -> u32 {
    driver_call("cuDeviceGetName", |_| {
        device(number)?;
        let room = usize::try_from(bytes).ok().filter(|&b| b > 0).ok_or(code::INVALID_VALUE)?;
        let text: Vec<u8> = DEVICE_NAME.bytes().take(room - 1).chain([0]).collect();
        if name.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the caller guarantees `bytes` bytes, and at most as many are written.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        Ok(format!("({number})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, number: c_int) -> u32 {
    driver_call("cuDeviceTotalMem_v2", |_| {
        device(number)?;
        // SAFETY: as above.
        unsafe { write_result(bytes, DEVICE_BYTES as usize)? };
        Ok(format!("({number})"))
    })
}

/// Returns an attribute of the devices: the minimum of real devices, and no speeds.
fn attribute(number: c_uint) -> Option<c_int> {
    Some(match number {
        // The limits of threads per block, block dimensions and grid dimensions, the shared memory
        // per block, the warp size.
        1 => 1024,
        2 | 3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => 49152,
        10 => 32,
        // Multiprocessors.
        16 => 1,
        // Copy engines.
        40 => 2,
        // Compute capability 7.0.
        75 => 7,
        76 => 0,
        // Unified addressing; memory pools.
        41 | 115 => 1,
        _ => return None,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, which: c_uint, number: c_int) -> u32 {
    driver_call("cuDeviceGetAttribute", |_| {
        device(number)?;
        // SAFETY: as above.
        unsafe { write_result(value, attribute(which).ok_or(code::INVALID_VALUE)?)? };
        Ok(format!("({which}, {number})"))
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, number: c_int) -> u32 {
    driver_call("cuDevicePrimaryCtxRetain", |state| {
        let device = device(number)?;
        state.retained[device as usize] += 1;
        // SAFETY: as above.
        unsafe { write_result(context, CONTEXT + u64::from(device))? };
        Ok(format!("({number})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(number: c_int) -> u32 {
    driver_call("cuDevicePrimaryCtxRelease_v2", |state| {
        let device = device(number)?;
        let Some(left) = state.retained[device as usize].checked_sub(1) else {
            return state.violation("the context is not retained", code::INVALID_CONTEXT);
        };
        state.retained[device as usize] = left;
        if left == 0 {
            report_leaks(state, device);
            state.peers.retain(|&(by, of)| by != device && of != device);
        }
        Ok(format!("({number})"))
    })
}

/// Records a violation if a context ends with memory or streams, which their owner must free first.
fn report_leaks(state: &mut State, device: u32) {
    let kind = MemoryKind::Device(device);
    let (bytes, lost) = (state.memory.in_use(kind), state.faults.has_lost(device));
    let streams = state.streams.values().filter(|s| s.device == device && !s.closed).count();
    if (bytes > 0 || streams > 0) && !lost {
        let left = format!("the context: ends with {bytes} bytes and {streams} streams");
        state.violations.push(left);
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuCtxSetCurrent(context: u64) -> u32 {
    driver_call("cuCtxSetCurrent", |state| {
        let device = match (context, device_of(context)) {
            (0, _) => None,
            (_, None) => return state.violation("no context", 201),
            (_, device) => device,
        };
        set_current(device);
        Ok(device.map_or("(0)".to_owned(), |d| format!("(device {d})")))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, most: *mut c_int) -> u32 {
    driver_call_in_context("cuCtxGetStreamPriorityRange", |_, _| {
        // SAFETY: as above.
        unsafe {
            write_result(least, 0)?;
            write_result(most, -5)?;
        }
        Ok("()".to_owned())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, from: c_int, to: c_int) -> u32 {
    driver_call("cuDeviceCanAccessPeer", |state| {
        let (from, to) = (device(from)?, device(to)?);
        let can_reach = from != to && !state.denied_peer_access.contains(&(from, to));
        // SAFETY: as above.
        unsafe { write_result(can, c_int::from(can_reach))? };
        Ok(format!("({from}, {to})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxEnablePeerAccess(peer: u64, flags: c_uint) -> u32 {
    driver_call_in_context("cuCtxEnablePeerAccess", |state, device| {
        let peer = device_of(peer).filter(|&p| p != device && flags == 0);
        let peer = peer.ok_or(code::INVALID_DEVICE)?;
        if state.denied_peer_access.contains(&(device, peer)) {
            return Err(code::PEER_ACCESS_UNSUPPORTED);
        }
        if state.retained[peer as usize] == 0 {
            return state.violation(format!("device {peer} has no context"), code::INVALID_CONTEXT);
        }
        if !state.peers.insert((device, peer)) {
            return Err(code::PEER_ACCESS_ALREADY_ENABLED);
        }
        Ok(format!("({peer} by {device})"))
    })
}

fn error_text(code: u32, to: *mut *const c_char, choose: fn((&str, &str)) -> *const c_char) -> u32 {
    let Some(texts) = code::name_and_meaning(code) else { return code::INVALID_VALUE };
    // SAFETY: guaranteed by the caller, see the module above.
    match unsafe { write_result(to, choose(texts)) } {
        Ok(()) => code::SUCCESS,
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(number: u32, to: *mut *const c_char) -> u32 {
    error_text(number, to, |texts| texts.0.as_ptr().cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(number: u32, to: *mut *const c_char) -> u32 {
    error_text(number, to, |texts| texts.1.as_ptr().cast())
}

/// Supports only the memory type and the device. Returns zeros for memory that the driver has not
/// allocated, as the real driver does.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    which: *const c_uint,
    values: *const *mut c_void,
    address: u64,
) -> u32 {
    const MEMORY_TYPE: c_uint = 2;
    const DEVICE_ORDINAL: c_uint = 9;
    driver_call_in_context("cuPointerGetAttributes", |state, device| {
        let kind = state.memory.find(address).map(|(_, block)| block.kind);
        for k in 0..count as usize {
            // SAFETY: the caller passes `count` attributes and values. The values of both
            // attributes are numbers of 32 bits.
            let (attribute, to) = unsafe { (which.add(k).read(), values.add(k).read().cast()) };
            let value: c_uint = match (attribute, kind) {
                (MEMORY_TYPE, Some(MemoryKind::Pinned)) => 1,
                (MEMORY_TYPE, Some(MemoryKind::Device(_))) => 2,
                (DEVICE_ORDINAL, Some(MemoryKind::Device(owner))) => owner,
                (DEVICE_ORDINAL, Some(MemoryKind::Pinned)) => device,
                (MEMORY_TYPE | DEVICE_ORDINAL, None) => 0,
                _ => return Err(code::INVALID_VALUE),
            };
            // SAFETY: as above.
            unsafe { write_result(to, value)? };
        }
        Ok(format!("({})", state.memory.name(address)))
    })
}
