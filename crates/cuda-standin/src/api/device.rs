//! Devices, contexts, errors' names.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::put;
use crate::memory::Kind;
use crate::state::{State, answer, answer_in_context, set_current};
use crate::{DEVICE_BYTES, DEVICE_NAME, DEVICES, code};

/// The version of the driver's interface that this stands in for: 12.0.
const VERSION: c_int = 12_000;

/// Contexts are the device's number plus this.
const CONTEXT: u64 = 1 << 62;

pub(super) fn device(number: c_int) -> Result<u32, u32> {
    u32::try_from(number).ok().filter(|&d| d < DEVICES).ok_or(code::INVALID_DEVICE)
}

/// The device whose context this is.
pub(super) fn device_of(context: u64) -> Option<u32> {
    let device = u32::try_from(context.checked_sub(CONTEXT)?).ok();
    device.filter(|&d| d < DEVICES)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(flags: c_uint) -> u32 {
    answer("cuInit", |state| {
        state.initialised = true;
        if flags == 0 { Ok("()".to_owned()) } else { Err(code::INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    answer("cuDriverGetVersion", |_| {
        // SAFETY: the caller's promise, see the module above.
        unsafe { put(version, VERSION)? };
        Ok("()".to_owned())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    answer("cuDeviceGetCount", |_| {
        // SAFETY: as above.
        unsafe { put(count, DEVICES as c_int)? };
        Ok("()".to_owned())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(handle: *mut c_int, number: c_int) -> u32 {
    answer("cuDeviceGet", |_| {
        device(number)?;
        // SAFETY: as above.
        unsafe { put(handle, number)? };
        Ok(format!("({number})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, bytes: c_int, number: c_int) -> u32 {
    answer("cuDeviceGetName", |_| {
        device(number)?;
        let room = usize::try_from(bytes).ok().filter(|&b| b > 0).ok_or(code::INVALID_VALUE)?;
        let text: Vec<u8> = DEVICE_NAME.bytes().take(room - 1).chain([0]).collect();
        if name.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the caller promises `bytes` bytes, and no more are written.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        Ok(format!("({number})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, number: c_int) -> u32 {
    answer("cuDeviceTotalMem_v2", |_| {
        device(number)?;
        // SAFETY: as above.
        unsafe { put(bytes, DEVICE_BYTES as usize)? };
        Ok(format!("({number})"))
    })
}

/// What the device says of itself: as little as a device can, and no speed of anything.
fn attribute(number: c_uint) -> Option<c_int> {
    Some(match number {
        // Threads of a block, its dimensions, those of a grid, shared memory, warp.
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
        // Addresses are the same on host and device; memory pools.
        41 | 115 => 1,
        _ => return None,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, which: c_uint, number: c_int) -> u32 {
    answer("cuDeviceGetAttribute", |_| {
        device(number)?;
        // SAFETY: as above.
        unsafe { put(value, attribute(which).ok_or(code::INVALID_VALUE)?)? };
        Ok(format!("({which}, {number})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, number: c_int) -> u32 {
    answer("cuDevicePrimaryCtxRetain", |state| {
        let device = device(number)?;
        state.retained[device as usize] += 1;
        // SAFETY: as above.
        unsafe { put(context, CONTEXT + u64::from(device))? };
        Ok(format!("({number})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(number: c_int) -> u32 {
    answer("cuDevicePrimaryCtxRelease_v2", |state| {
        let device = device(number)?;
        let Some(left) = state.retained[device as usize].checked_sub(1) else {
            return Err(state.violation("cuDevicePrimaryCtxRelease_v2", "nobody has it", 201));
        };
        state.retained[device as usize] = left;
        if left == 0 {
            last_words(state, device);
            state.peers.retain(|&(by, of)| by != device && of != device);
        }
        Ok(format!("({number})"))
    })
}

/// What is left behind when a context ends is written down: its owner should have let go of it.
fn last_words(state: &mut State, device: u32) {
    let kind = Kind::Device(device);
    let (bytes, lost) = (state.memory.in_use(kind), state.faults.has_lost(device));
    let streams = state.streams.values().filter(|s| s.device == device && !s.closed).count();
    if (bytes > 0 || streams > 0) && !lost {
        let left = format!("ends with {bytes} bytes and {streams} streams");
        state.violation("the context", &left, code::SUCCESS);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(context: u64) -> u32 {
    answer("cuCtxSetCurrent", |state| {
        let device = match (context, device_of(context)) {
            (0, _) => None,
            (_, None) => return Err(state.violation("cuCtxSetCurrent", "no context", 201)),
            (_, device) => device,
        };
        set_current(device);
        Ok(device.map_or("(0)".to_owned(), |d| format!("(device {d})")))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, most: *mut c_int) -> u32 {
    answer_in_context("cuCtxGetStreamPriorityRange", |_, _| {
        // SAFETY: as above.
        unsafe {
            put(least, 0)?;
            put(most, -5)?;
        }
        Ok("()".to_owned())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, from: c_int, to: c_int) -> u32 {
    answer("cuDeviceCanAccessPeer", |state| {
        let (from, to) = (device(from)?, device(to)?);
        let can_reach = from != to && !state.blind.contains(&(from, to));
        // SAFETY: as above.
        unsafe { put(can, c_int::from(can_reach))? };
        Ok(format!("({from}, {to})"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxEnablePeerAccess(peer: u64, flags: c_uint) -> u32 {
    answer_in_context("cuCtxEnablePeerAccess", |state, device| {
        let peer = device_of(peer).filter(|&p| p != device && flags == 0);
        let peer = peer.ok_or(code::INVALID_DEVICE)?;
        if state.blind.contains(&(device, peer)) {
            return Err(code::PEER_ACCESS_UNSUPPORTED);
        }
        if state.retained[peer as usize] == 0 {
            let what = format!("device {peer} has no context");
            return Err(state.violation("cuCtxEnablePeerAccess", &what, code::INVALID_CONTEXT));
        }
        if !state.peers.insert((device, peer)) {
            return Err(code::PEER_ACCESS_ALREADY_ENABLED);
        }
        Ok(format!("({peer} by {device})"))
    })
}

fn words(number: u32, to: *mut *const c_char, which: fn((&str, &str)) -> *const c_char) -> u32 {
    let Some(words) = code::words(number) else { return code::INVALID_VALUE };
    // SAFETY: the caller's promise, see the module above.
    match unsafe { put(to, which(words)) } {
        Ok(()) => code::SUCCESS,
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(number: u32, to: *mut *const c_char) -> u32 {
    words(number, to, |w| w.0.as_ptr().cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(number: u32, to: *mut *const c_char) -> u32 {
    words(number, to, |w| w.1.as_ptr().cast())
}

/// What addresses are: types of memory and devices alone. Of memory that the driver does not know it
/// gives zeros, as the real one does.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    which: *const c_uint,
    values: *const *mut c_void,
    address: u64,
) -> u32 {
    const MEMORY_TYPE: c_uint = 2;
    const DEVICE_ORDINAL: c_uint = 9;
    answer_in_context("cuPointerGetAttributes", |state, device| {
        let kind = state.memory.around(address).map(|(_, block)| block.kind);
        for k in 0..count as usize {
            // SAFETY: the caller gives as many attributes as values, and room for the types of both,
            // which are numbers of 32 bits.
            let (attribute, to) = unsafe { (which.add(k).read(), values.add(k).read().cast()) };
            let value: c_uint = match (attribute, kind) {
                (MEMORY_TYPE, Some(Kind::Pinned)) => 1,
                (MEMORY_TYPE, Some(Kind::Device(_))) => 2,
                (DEVICE_ORDINAL, Some(Kind::Device(owner))) => owner,
                (DEVICE_ORDINAL, Some(Kind::Pinned)) => device,
                (MEMORY_TYPE | DEVICE_ORDINAL, None) => 0,
                _ => return Err(code::INVALID_VALUE),
            };
            // SAFETY: as above.
            unsafe { put(to, value)? };
        }
        Ok(format!("({})", state.memory.name(address)))
    })
}
