//! cuBLAS: handles, and the two functions for matrix products that Millstream calls.
//!
//! Stricter than the real library: a handle needs a stream of its own and a workspace that no other
//! stream uses, and a product's result may not overlap its operands.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use super::memory::range;
use super::stream::stream_name;
use super::write_result;
use crate::graph;
use crate::matrix_product::{Matrix, Product};
use crate::memory::Range;
use crate::state::{CublasHandle, DriverResult, State, current, library_call};
use crate::status;
use crate::stream::{Command, enqueue};

/// The smallest useful workspace in bytes.
const MIN_WORKSPACE: u64 = 16 << 10;

/// The alignment of workspaces in bytes.
const ALIGN: u64 = 256;

/// Executes a call of the library. `body` gets the device of the thread's context.
fn cublas_call(
    name: &'static str,
    body: impl FnOnce(&mut State, u32) -> DriverResult<String>,
) -> c_int {
    let status = library_call(name, status::name_and_meaning, |state| {
        if let Some(code) = state.faults.next_failure(name) {
            // The library has one error for every cause of a lost device.
            let lost = state.faults.lost.is_some();
            return Err(if lost { status::EXECUTION_FAILED } else { code });
        }
        match current() {
            Some(device) if state.retained[device as usize] > 0 => body(state, device),
            _ => state.violation("the thread has no context", status::NOT_INITIALIZED),
        }
    });
    status as c_int
}

/// Returns the entry of a handle, which must belong to the thread's device.
fn handle_entry(state: &mut State, device: u32, handle: u64) -> DriverResult<&mut CublasHandle> {
    let missing = status::NOT_INITIALIZED;
    let of = state.entry(|s| &mut s.cublas_handles, handle, "handle", missing)?.device;
    if of != device {
        let what = format!("a handle of device {of} in a context of device {device}");
        return state.violation(what, status::INVALID_VALUE);
    }
    state.cublas_handles.get_mut(&handle).ok_or(status::INTERNAL_ERROR)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasCreate_v2(handle: *mut u64) -> c_int {
    cublas_call("cublasCreate_v2", |state, device| {
        // It allocates.
        graph::refuse_unsafe(state).map_err(|_| status::ALLOC_FAILED)?;
        let (new, name) = (state.handle(), state.name('b'));
        // SAFETY: guaranteed by the caller, see the module above.
        unsafe { write_result(handle, new) }.map_err(|_| status::INVALID_VALUE)?;
        let text = format!("() = {name}");
        state
            .cublas_handles
            .insert(new, CublasHandle { name, device, stream: None, workspace: None });
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasDestroy_v2(handle: u64) -> c_int {
    cublas_call("cublasDestroy_v2", |state, device| {
        let text = format!("({})", handle_entry(state, device, handle)?.name);
        state.cublas_handles.remove(&handle);
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasSetStream_v2(handle: u64, stream: u64) -> c_int {
    cublas_call("cublasSetStream_v2", |state, device| {
        let to = stream_name(state, stream).map_err(|_| status::INVALID_VALUE)?;
        let entry = handle_entry(state, device, handle)?;
        // Resets the workspace, even for the same stream, as the real library does.
        (entry.stream, entry.workspace) = (Some(stream), None);
        Ok(format!("({}, {to})", entry.name))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasSetWorkspace_v2(handle: u64, at: u64, bytes: usize) -> c_int {
    cublas_call("cublasSetWorkspace_v2", |state, device| {
        let stream = handle_entry(state, device, handle)?.stream;
        let bytes = bytes as u64;
        if !at.is_multiple_of(ALIGN) {
            return Err(status::INVALID_VALUE);
        }
        range(state, at, bytes).map_err(|_| status::INVALID_VALUE)?;
        if bytes < MIN_WORKSPACE {
            return state.violation(format!("{bytes} bytes are too few"), status::INVALID_VALUE);
        }
        let shared = state.cublas_handles.iter().find(|(other, entry)| {
            let disjoint = |(from, length): (u64, u64)| at + bytes <= from || from + length <= at;
            **other != handle && entry.stream != stream && !entry.workspace.is_none_or(disjoint)
        });
        if let Some(name) = shared.map(|(_, entry)| entry.name.clone()) {
            let what = format!("{name} has the same memory, on another stream");
            return state.violation(what, status::INVALID_VALUE);
        }
        let address = state.memory.name(at);
        let entry = handle_entry(state, device, handle)?;
        entry.workspace = Some((at, bytes));
        Ok(format!("({}, {address}, {bytes})", entry.name))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasSetMathMode(handle: u64, mode: c_int) -> c_int {
    cublas_call("cublasSetMathMode", |state, device| {
        Ok(format!("({}, {mode})", handle_entry(state, device, handle)?.name))
    })
}

/// Enqueues a product on the handle's stream.
fn launch(
    state: &mut State,
    device: u32,
    handle: u64,
    product: Result<Product, u32>,
) -> DriverResult<String> {
    let entry = handle_entry(state, device, handle)?;
    let (stream, workspace) = (entry.stream, entry.workspace);
    let Some(stream) = stream else {
        return state.violation("the handle has no stream", status::NOT_INITIALIZED);
    };
    let Some(workspace) = workspace else {
        return state.violation("the handle has no workspace", status::NOT_INITIALIZED);
    };
    let name = stream_name(state, stream).map_err(|_| status::EXECUTION_FAILED)?;
    let product = product?;
    let text = format!("({product}, {name})");
    if product.is_empty() {
        return Ok(text);
    }
    if let Some(what) = product.undefined() {
        return state.violation(what, status::INVALID_VALUE);
    }
    let mut find = |(at, bytes): (u64, u64)| -> DriverResult<Range> {
        range(state, at, bytes).map_err(|_| status::EXECUTION_FAILED)
    };
    let mut ranges = Vec::new();
    for matrix in product.matrices() {
        ranges.push(find(product.span(matrix))?);
    }
    let addresses = [ranges[0].host, ranges[1].host, ranges[2].host];
    ranges.push(find(workspace)?);
    let run = Arc::new(move || product.run(addresses));
    enqueue(state, stream, Command::Kernel { name: state.call.to_owned(), run }, ranges);
    Ok(text)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGemmEx_64(
    handle: u64,
    transpose_a: c_int,
    transpose_b: c_int,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const c_void,
    a: u64,
    a_type: c_int,
    a_leading: i64,
    b: u64,
    b_type: c_int,
    b_leading: i64,
    beta: *const c_void,
    c: u64,
    c_type: c_int,
    c_leading: i64,
    compute: c_int,
    _algorithm: c_int,
) -> c_int {
    cublas_call("cublasGemmEx_64", |state, device| {
        let a = Matrix::new(a, a_type, a_leading, 0, transpose_a);
        let b = Matrix::new(b, b_type, b_leading, 0, transpose_b);
        let c = Matrix::new(c, c_type, c_leading, 0, 0);
        // SAFETY: the caller guarantees that the factors have the type of the computation.
        let product = unsafe { Product::new([m, n, k, 1], [a, b, c], [alpha, beta], compute) };
        launch(state, device, handle, product)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGemmStridedBatchedEx_64(
    handle: u64,
    transpose_a: c_int,
    transpose_b: c_int,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const c_void,
    a: u64,
    a_type: c_int,
    a_leading: i64,
    a_step: i64,
    b: u64,
    b_type: c_int,
    b_leading: i64,
    b_step: i64,
    beta: *const c_void,
    c: u64,
    c_type: c_int,
    c_leading: i64,
    c_step: i64,
    batch: i64,
    compute: c_int,
    _algorithm: c_int,
) -> c_int {
    cublas_call("cublasGemmStridedBatchedEx_64", |state, device| {
        let a = Matrix::new(a, a_type, a_leading, a_step, transpose_a);
        let b = Matrix::new(b, b_type, b_leading, b_step, transpose_b);
        let c = Matrix::new(c, c_type, c_leading, c_step, 0);
        // SAFETY: as above.
        let product = unsafe { Product::new([m, n, k, batch], [a, b, c], [alpha, beta], compute) };
        launch(state, device, handle, product)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGetStatusName(code: c_int) -> *const c_char {
    let text =
        status::name_and_meaning(code as u32).map_or("CUBLAS_STATUS_UNKNOWN\0", |text| text.0);
    text.as_ptr().cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGetStatusString(code: c_int) -> *const c_char {
    let text = status::name_and_meaning(code as u32).map_or("unknown\0", |text| text.1);
    text.as_ptr().cast()
}
