//! NCCL: communicators whose calls do not block, and the collectives that Millstream calls.
//!
//! The ranks are threads of one process. Stricter than the real library: only communicators whose
//! calls do not block, streams of the communicator's device, and memory within an allocation; and
//! the calls of all ranks have to be equal, where the real library computes nonsense.

mod collectives;

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

use super::memory::range;
use super::stream::stream_name;
use super::write_result;
use crate::graph;
use crate::memory::Range;
use crate::ranks::{Comm, Group, Operation};
use crate::state::{DriverResult, State, current, driver, library_call};
use crate::stream::{Command, enqueue};

const UNHANDLED_CUDA_ERROR: u32 = 1;
const INVALID_ARGUMENT: u32 = 4;
const INVALID_USAGE: u32 = 5;
const IN_PROGRESS: u32 = 7;

/// The version that the stand-in has: 2.18.5, the oldest that Millstream uses.
const VERSION: c_int = 21_805;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// The beginning of `ncclConfig_t`.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

/// A call within a group of calls: its communicator and its stream.
type Grouped = (u64, u64, Operation);

thread_local! {
    /// The depth of the thread's groups of calls, and the calls of the outermost one.
    static GROUP: RefCell<(u32, Vec<Grouped>)> = const { RefCell::new((0, Vec::new())) };
}

fn name_and_meaning(code: u32) -> Option<(&'static str, &'static str)> {
    Some(match code {
        0 => ("ncclSuccess\0", "no error\0"),
        UNHANDLED_CUDA_ERROR => ("ncclUnhandledCudaError\0", "unhandled cuda error\0"),
        2 => ("ncclSystemError\0", "unhandled system error\0"),
        3 => ("ncclInternalError\0", "internal error\0"),
        INVALID_ARGUMENT => ("ncclInvalidArgument\0", "invalid argument\0"),
        INVALID_USAGE => ("ncclInvalidUsage\0", "invalid usage\0"),
        6 => ("ncclRemoteError\0", "remote process exited or there was a network error\0"),
        IN_PROGRESS => ("ncclInProgress\0", "NCCL operation in progress\0"),
        _ => return None,
    })
}

/// Executes a call of the library.
fn nccl_call(name: &'static str, body: impl FnOnce(&mut State) -> DriverResult<String>) -> c_int {
    let code =
        library_call(name, name_and_meaning, |state| match state.faults.next_failure(name) {
            Some(_) if state.faults.lost.is_some() => Err(UNHANDLED_CUDA_ERROR),
            Some(code) => Err(code),
            None => body(state),
        });
    code as c_int
}

/// Returns the device of the thread's context.
fn device(state: &mut State) -> DriverResult<u32> {
    match current() {
        Some(device) if state.retained[device as usize] > 0 => Ok(device),
        _ => state.violation("the thread has no context", UNHANDLED_CUDA_ERROR),
    }
}

fn comm_of(state: &mut State, comm: u64) -> DriverResult<Arc<Comm>> {
    state.entry(|s| &mut s.comms, comm, "communicator", INVALID_ARGUMENT).cloned()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    nccl_call("ncclGetVersion", |_| {
        // SAFETY: guaranteed by the caller, see the module above; here and below.
        unsafe { write_result(version, VERSION) }.map_err(|_| INVALID_ARGUMENT)?;
        Ok(format!("() = {VERSION}"))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    let text = name_and_meaning(code as u32).map_or("unknown result code\0", |text| text.1);
    text.as_ptr().cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetLastError(_comm: u64) -> *const c_char {
    c"".as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    nccl_call("ncclGetUniqueId", |state| {
        let number = state.handle();
        let mut bytes = [0; 128];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
        // SAFETY: as above.
        unsafe { write_result(id, UniqueId(bytes)) }.map_err(|_| INVALID_ARGUMENT)?;
        Ok("()".to_owned())
    })
}

/// Checks that a communicator's calls do not block.
///
/// # Safety
/// `config` is null or valid for a read.
unsafe fn check_config(state: &mut State, config: *const Config) -> DriverResult<()> {
    // SAFETY: guaranteed by the caller.
    match unsafe { config.as_ref() } {
        Some(Config { magic: 0xcafe_beef, blocking: 0, size, version: 21_700.. })
            if *size >= size_of::<Config>() =>
        {
            Ok(())
        }
        Some(Config { blocking: 0, .. }) => Err(INVALID_ARGUMENT),
        _ => state.violation("the communicator's calls would block", INVALID_USAGE),
    }
}

/// Makes a rank's part of a group.
///
/// # Safety
/// `comm` is null or valid for a write.
unsafe fn join(
    state: &mut State,
    device: u32,
    group: &Arc<Group>,
    position: usize,
    comm: *mut u64,
) -> DriverResult<String> {
    let (handle, name) = (state.handle(), state.name('c'));
    let made = group.join(position, (name.clone(), device)).ok_or(INVALID_USAGE)?;
    // SAFETY: guaranteed by the caller.
    unsafe { write_result(comm, handle) }.map_err(|_| INVALID_ARGUMENT)?;
    state.comms.insert(handle, Arc::new(made));
    Ok(format!("({position} of {}) = {name}", group.ranks))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommInitRankConfig(
    comm: *mut u64,
    ranks: c_int,
    id: UniqueId,
    position: c_int,
    config: *const Config,
) -> c_int {
    nccl_call("ncclCommInitRankConfig", |state| {
        let device = device(state)?;
        // SAFETY: as above.
        unsafe { check_config(state, config)? };
        let number = u64::from_le_bytes(id.0[..8].try_into().unwrap_or_default());
        if id.0[8..12] != std::process::id().to_le_bytes() {
            let what = "the stand-in connects ranks of one process alone";
            return state.violation(what, INVALID_USAGE);
        }
        let ranks = usize::try_from(ranks).map_err(|_| INVALID_ARGUMENT)?;
        let position = usize::try_from(position).map_err(|_| INVALID_ARGUMENT)?;
        let group = state.comm_groups.entry(number).or_insert_with(|| Group::new(ranks)).clone();
        if group.ranks != ranks || position >= ranks {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: as above.
        unsafe { join(state, device, &group, position, comm) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommSplit(
    parent: u64,
    color: c_int,
    key: c_int,
    comm: *mut u64,
    config: *const Config,
) -> c_int {
    nccl_call("ncclCommSplit", |state| {
        let device = device(state)?;
        // SAFETY: as above.
        unsafe { check_config(state, config)? };
        let parent = comm_of(state, parent)?;
        let position = usize::try_from(key).map_err(|_| INVALID_ARGUMENT)?;
        if color != 0 || position != parent.position || parent.device != device {
            let what = "the stand-in splits into all ranks, in their order, alone";
            return state.violation(what, INVALID_ARGUMENT);
        }
        let group = parent.split();
        // SAFETY: as above.
        let text = unsafe { join(state, device, &group, position, comm)? };
        Ok(format!("({}){text}", parent.name))
    })
}

/// Not in the list of calls: it is called until nothing is under way. A planned failure is one of
/// the communicator, which the call reports without failing.
#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommGetAsyncError(comm: u64, error: *mut c_int) -> c_int {
    let (code, found) = {
        let state = &mut *driver().lock();
        state.call = "ncclCommGetAsyncError";
        match (state.faults.next_failure(state.call), state.comms.get(&comm)) {
            (Some(code), _) => (0, code),
            (None, Some(comm)) if comm.group.is_complete() => (0, 0),
            (None, Some(_)) => (0, IN_PROGRESS),
            (None, None) => {
                let _ = state.violation::<()>("there is no such communicator", INVALID_ARGUMENT);
                (INVALID_ARGUMENT, 0)
            }
        }
    };
    // SAFETY: as above.
    match unsafe { write_result(error, found as c_int) } {
        Ok(()) => code as c_int,
        Err(_) => INVALID_ARGUMENT as c_int,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommAbort(comm: u64) -> c_int {
    let mut ended = None;
    let code = nccl_call("ncclCommAbort", |state| {
        let comm_of = comm_of(state, comm)?;
        state.comms.remove(&comm);
        let text = format!("({})", comm_of.name);
        ended = Some(comm_of);
        Ok(text)
    });
    // Without the lock: it completes the requests of other ranks.
    if let Some(comm) = ended {
        comm.abort();
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommDestroy(comm: u64) -> c_int {
    let mut ended = None;
    let code = nccl_call("ncclCommDestroy", |state| {
        ended = Some(comm_of(state, comm)?);
        state.comms.remove(&comm);
        Ok(format!("({})", ended.as_ref().map_or("", |comm| &comm.name)))
    });
    // As above: the last handle's drop makes the rank leave.
    drop(ended);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|(depth, _)| *depth += 1);
    nccl_call("ncclGroupStart", |_| Ok("()".to_owned()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGroupEnd() -> c_int {
    let grouped = GROUP.with_borrow_mut(|(depth, calls)| {
        *depth = depth.saturating_sub(1);
        if *depth == 0 { std::mem::take(calls) } else { Vec::new() }
    });
    nccl_call("ncclGroupEnd", |state| {
        submit(state, grouped)?;
        Ok("()".to_owned())
    })
}

/// Enqueues calls: those of one communicator and one stream are a command.
fn submit(state: &mut State, calls: Vec<Grouped>) -> DriverResult<()> {
    let mut rest = calls;
    while let Some((comm, stream, _)) = rest.first() {
        let (comm, stream) = (*comm, *stream);
        let (these, others): (Vec<Grouped>, Vec<Grouped>) =
            rest.into_iter().partition(|(of, on, _)| (*of, *on) == (comm, stream));
        rest = others;
        let comm = comm_of(state, comm)?;
        let (mut ranges, mut operations) = (Vec::<Range>::new(), Vec::new());
        for (_, _, operation) in these {
            let mut find = |of: Option<(u64, usize)>| -> DriverResult<Option<usize>> {
                let Some((address, numel)) = of else { return Ok(None) };
                let bytes = (numel * operation.dtype.size()) as u64;
                let found = range(state, address, bytes).map_err(|_| INVALID_ARGUMENT)?;
                let host = found.host;
                ranges.push(found);
                Ok(Some(host))
            };
            let addresses = (find(operation.given)?, find(operation.taken)?);
            operations.push(comm.submit(operation, addresses));
        }
        let run = Arc::new(move || comm.run(&operations));
        enqueue(state, stream, Command::Kernel { name: state.call.to_owned(), run }, ranges);
    }
    Ok(())
}

/// Takes a call of a communicator on a stream: enqueues it, or adds it to the thread's group.
fn take(name: &'static str, comm: u64, stream: u64, operation: Option<Operation>) -> c_int {
    nccl_call(name, |state| {
        let device = device(state)?;
        let made = comm_of(state, comm)?;
        let on = stream_name(state, stream).map_err(|_| INVALID_ARGUMENT)?;
        let of_stream = state.streams.get(&stream).map(|stream| stream.device);
        if made.device != device || of_stream != Some(device) {
            let what = format!("a stream or a context of another device than {}'s", made.name);
            return state.violation(what, INVALID_USAGE);
        }
        if graph::of_stream(state, stream).is_some() {
            return state.violation("a collective in a capture", INVALID_USAGE);
        }
        if !made.group.is_complete() {
            return state.violation(format!("{} is not ready", made.name), INVALID_USAGE);
        }
        let operation = operation.ok_or(INVALID_ARGUMENT)?;
        let is_grouped = GROUP.with_borrow_mut(|(depth, calls)| {
            if *depth > 0 {
                calls.push((comm, stream, operation.clone()));
            }
            *depth > 0
        });
        if !is_grouped {
            submit(state, vec![(comm, stream, operation)])?;
        }
        Ok(format!("({}, {on})", made.name))
    })
}
