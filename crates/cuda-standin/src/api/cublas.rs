//! cuBLAS: handles, and the two functions for products that Millstream calls.
//!
//! Stricter than the real one: a handle needs a stream of its own and a workspace that no other
//! handle's stream has, and a product's result may lie over nothing that it reads.

use std::ffi::{c_char, c_int, c_void};

use super::memory::range;
use super::put;
use super::streams::known;
use crate::memory::Range;
use crate::product::{Matrix, Product};
use crate::state::{Answer, Products, State, answer_by, current};
use crate::status;
use crate::stream::{Command, hand_over};

/// The least workspace that is worth giving, in bytes.
const LEAST: u64 = 16 << 10;

/// How workspaces are aligned, in bytes.
const ALIGN: u64 = 256;

/// Answers a call of the library; `body` is given the device of the thread's context.
fn answer(name: &'static str, body: impl FnOnce(&mut State, u32) -> Answer<String>) -> c_int {
    let answered = answer_by(name, status::words, |state| {
        if let Some(code) = state.faults.strike(name) {
            // Of a lost device the library says no more than that.
            let lost = state.faults.lost.is_some();
            return Err(if lost { status::EXECUTION_FAILED } else { code });
        }
        match current() {
            Some(device) if state.retained[device as usize] > 0 => body(state, device),
            _ => Err(state.violation(name, "the thread has no context", status::NOT_INITIALIZED)),
        }
    });
    answered as c_int
}

/// The handle's entry, which has to be of the thread's device.
fn entry<'a>(
    call: &str,
    state: &'a mut State,
    device: u32,
    handle: u64,
) -> Answer<&'a mut Products> {
    match state.products.get(&handle).map(|products| products.device) {
        Some(of) if of == device => {}
        Some(of) => {
            let what = format!("a handle of device {of} in a context of device {device}");
            return Err(state.violation(call, &what, status::INVALID_VALUE));
        }
        None => {
            return Err(state.violation(call, "there is no such handle", status::NOT_INITIALIZED));
        }
    }
    state.products.get_mut(&handle).ok_or(status::INTERNAL_ERROR)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasCreate_v2(handle: *mut u64) -> c_int {
    answer("cublasCreate_v2", |state, device| {
        let (made, name) = (state.handle(), state.name('b'));
        // SAFETY: the caller's promise, see the module above.
        unsafe { put(handle, made) }.map_err(|_| status::INVALID_VALUE)?;
        let text = format!("() = {name}");
        state.products.insert(made, Products { name, device, stream: None, workspace: None });
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasDestroy_v2(handle: u64) -> c_int {
    const CALL: &str = "cublasDestroy_v2";
    answer(CALL, |state, device| {
        let text = format!("({})", entry(CALL, state, device, handle)?.name);
        state.products.remove(&handle);
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasSetStream_v2(handle: u64, stream: u64) -> c_int {
    const CALL: &str = "cublasSetStream_v2";
    answer(CALL, |state, device| {
        let to = known(CALL, state, stream).map_err(|_| status::INVALID_VALUE)?;
        let products = entry(CALL, state, device, handle)?;
        // As the real one does, whatever the stream was.
        (products.stream, products.workspace) = (Some(stream), None);
        Ok(format!("({}, {to})", products.name))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasSetWorkspace_v2(handle: u64, at: u64, bytes: usize) -> c_int {
    const CALL: &str = "cublasSetWorkspace_v2";
    answer(CALL, |state, device| {
        let stream = entry(CALL, state, device, handle)?.stream;
        let bytes = bytes as u64;
        if !at.is_multiple_of(ALIGN) {
            return Err(status::INVALID_VALUE);
        }
        range(CALL, state, at, bytes).map_err(|_| status::INVALID_VALUE)?;
        if bytes < LEAST {
            let what = format!("{bytes} bytes are too few");
            return Err(state.violation(CALL, &what, status::INVALID_VALUE));
        }
        let shared = state.products.iter().find(|(other, products)| {
            let apart = |(from, length): (u64, u64)| at + bytes <= from || from + length <= at;
            **other != handle && products.stream != stream && !products.workspace.is_none_or(apart)
        });
        if let Some(name) = shared.map(|(_, products)| products.name.clone()) {
            let what = format!("{name} has the same memory, on another stream");
            return Err(state.violation(CALL, &what, status::INVALID_VALUE));
        }
        let place = state.memory.name(at);
        let products = entry(CALL, state, device, handle)?;
        products.workspace = Some((at, bytes));
        Ok(format!("({}, {place}, {bytes})", products.name))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasSetMathMode(handle: u64, mode: c_int) -> c_int {
    const CALL: &str = "cublasSetMathMode";
    answer(CALL, |state, device| {
        Ok(format!("({}, {mode})", entry(CALL, state, device, handle)?.name))
    })
}

/// Hands a product over to the handle's stream.
fn launch(
    call: &'static str,
    state: &mut State,
    device: u32,
    handle: u64,
    product: Result<Product, u32>,
) -> Answer<String> {
    let products = entry(call, state, device, handle)?;
    let (stream, workspace) = (products.stream, products.workspace);
    let Some(stream) = stream else {
        return Err(state.violation(call, "the handle has no stream", status::NOT_INITIALIZED));
    };
    let Some(workspace) = workspace else {
        return Err(state.violation(call, "the handle has no workspace", status::NOT_INITIALIZED));
    };
    let name = known(call, state, stream).map_err(|_| status::EXECUTION_FAILED)?;
    let product = product?;
    let text = format!("({product}, {name})");
    if product.is_empty() {
        return Ok(text);
    }
    if let Some(what) = product.undefined() {
        return Err(state.violation(call, &what, status::INVALID_VALUE));
    }
    let mut find = |(at, bytes): (u64, u64)| -> Answer<Range> {
        range(call, state, at, bytes).map_err(|_| status::EXECUTION_FAILED)
    };
    let mut ranges = Vec::new();
    for matrix in product.matrices() {
        ranges.push(find(product.span(matrix))?);
    }
    let addresses = [ranges[0].host, ranges[1].host, ranges[2].host];
    ranges.push(find(workspace)?);
    let run = Box::new(move || product.run(addresses));
    hand_over(state, stream, Command::Kernel { name: call.to_owned(), run }, ranges);
    Ok(text)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGemmEx_64(
    handle: u64,
    turn_a: c_int,
    turn_b: c_int,
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
    const CALL: &str = "cublasGemmEx_64";
    answer(CALL, |state, device| {
        let a = Matrix::new(a, a_type, a_leading, 0, turn_a);
        let b = Matrix::new(b, b_type, b_leading, 0, turn_b);
        let c = Matrix::new(c, c_type, c_leading, 0, 0);
        // SAFETY: the caller's promise: the factors are of the type that is computed in.
        let product = unsafe { Product::new([m, n, k, 1], [a, b, c], [alpha, beta], compute) };
        launch(CALL, state, device, handle, product)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGemmStridedBatchedEx_64(
    handle: u64,
    turn_a: c_int,
    turn_b: c_int,
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
    const CALL: &str = "cublasGemmStridedBatchedEx_64";
    answer(CALL, |state, device| {
        let a = Matrix::new(a, a_type, a_leading, a_step, turn_a);
        let b = Matrix::new(b, b_type, b_leading, b_step, turn_b);
        let c = Matrix::new(c, c_type, c_leading, c_step, 0);
        // SAFETY: as above.
        let product = unsafe { Product::new([m, n, k, batch], [a, b, c], [alpha, beta], compute) };
        launch(CALL, state, device, handle, product)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGetStatusName(code: c_int) -> *const c_char {
    let words = status::words(code as u32).map_or("CUBLAS_STATUS_UNKNOWN\0", |words| words.0);
    words.as_ptr().cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGetStatusString(code: c_int) -> *const c_char {
    let words = status::words(code as u32).map_or("unknown\0", |words| words.1);
    words.as_ptr().cast()
}
