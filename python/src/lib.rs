//! The module `millstream._native`: the commands of Millstream as functions, and the tensors that
//! they save. All else of the Python package is Python, in `millstream`.
//!
//! # Contract
//! A command runs on a thread of its own, without the lock of the interpreter. Ctrl-C cancels it.
//! It prints nothing: its output is returned, with its errors.

#![deny(missing_docs)]

use std::ffi::{CStr, OsString};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use millstream_files::console::{Held, Problem};
use millstream_types::Error;
use millstream_vm::{Cancellation, DlPack, DriverKind, Machine, MachineConfig};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyTuple};

/// The stack of a command's thread, in bytes: that of a program's first thread.
const STACK: usize = 8 << 20;
/// How often a waiting call looks for Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);
/// How long a cancelled command may take to end before it is left alone.
const ENDING: Duration = Duration::from_secs(5);
/// The name of a capsule with a tensor that nobody has taken yet.
const UNTAKEN: &CStr = c"dltensor";
/// DLPack's number of the host's memory.
const CPU: u32 = 1;

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::{Tensor, command, load, main};
}

/// Runs a command of the command line, the first of whose arguments is the program's name, as a
/// program does: it prints. Returns its exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| millstream_cli::run(arguments))
}

/// A command that has ended.
#[pyclass(frozen, get_all)]
struct Ended {
    status: u8,
    /// Its output, and its standard error.
    out: String,
    err: String,
    /// Each error's place, message and help.
    errors: Vec<(String, String, Option<String>)>,
}

/// Runs a command of the command line, as `main`, and returns its output.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Ended> {
    let cancellation = Cancellation::new();
    let (ended, end) = channel();
    let own = cancellation.clone();
    let work = move || drop(ended.send(millstream_cli::hold(arguments, &own)));
    let thread = thread::Builder::new().name("ms-command".to_owned()).stack_size(STACK);
    thread.spawn(work)?;
    let (status, Held { out, err, errors }) = py.detach(move || wait(&end, &cancellation))?;
    let [out, err] = [out, err].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let told = |Problem { place, message, help }| (place, message, help);
    Ok(Ended { status, out, err, errors: errors.into_iter().map(told).collect() })
}

/// Waits for a command, and cancels it at Ctrl-C.
fn wait(end: &Receiver<(u8, Held)>, cancellation: &Cancellation) -> PyResult<(u8, Held)> {
    loop {
        match end.recv_timeout(SIGNALS) {
            Ok(held) => return Ok(held),
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the command panicked; standard error has the place";
                return Err(PyRuntimeError::new_err(message));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(stopped) = Python::attach(|py| py.check_signals()) {
                    cancellation.cancel();
                    drop(end.recv_timeout(ENDING));
                    return Err(stopped);
                }
            }
        }
    }
}

/// Returns the tensors of a safetensors file by name. The format has no complex numbers of f64:
/// tensors of these names have their parts.
#[pyfunction]
fn load(py: Python<'_>, path: PathBuf, complex: Vec<String>) -> PyResult<Bound<'_, PyDict>> {
    let tensors = millstream_vm::Tensor::load(path, &machine()?).map_err(value_error)?;
    let by_name = PyDict::new(py);
    for (name, mut tensor) in tensors {
        if complex.contains(&name) {
            tensor = tensor.view_as_complex().map_err(value_error)?;
        }
        by_name.set_item(name, Tensor(tensor))?;
    }
    Ok(by_name)
}

/// Returns the machine of this process that holds tensors: without threads, so that any may use it.
fn machine() -> PyResult<Machine> {
    // The interpreter's lock is held meanwhile, also by a fork, so no child finds it locked.
    static MACHINE: Mutex<Option<(u32, Machine)>> = Mutex::new(None);
    let mut known = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((_, machine)) = known.as_ref().filter(|(of, _)| *of == process) {
        return Ok(machine.clone());
    }
    let made = Machine::new(MachineConfig::default().driver(DriverKind::Inline));
    let made = made.map_err(value_error)?;
    // That of the process that has forked this one is not ended here.
    std::mem::forget(known.replace((process, made.clone())));
    Ok(made)
}

fn value_error(error: Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A tensor in host memory. `torch.from_dlpack` and `numpy.from_dlpack` take it without a copy.
#[pyclass(frozen, module = "millstream")]
struct Tensor(millstream_vm::Tensor);

#[pymethods]
impl Tensor {
    /// The name of the dtype, as in `f32`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.dtype().name()
    }

    /// The lengths of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape())
    }

    /// Returns the elements in row-major order, in the machine's byte order.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.read()).map_err(value_error)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Lends the memory as a capsule of DLPack's, which keeps the tensor.
    #[pyo3(signature = (**_options))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        _options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let lent = py.detach(|| self.0.to_dlpack()).map_err(value_error)?;
        let raw = NonNull::new(lent.into_raw())
            .ok_or_else(|| PyRuntimeError::new_err("DLPack gave no structure"))?;
        // SAFETY: the structure lives until its deleter is called, by the taker or by the capsule.
        unsafe { PyCapsule::new_with_pointer_and_destructor(py, raw, UNTAKEN, Some(give_back)) }
    }

    /// Returns the kind and the number of the device: the host's memory.
    fn __dlpack_device__(&self) -> (u32, u32) {
        (CPU, 0)
    }

    fn __repr__(&self) -> String {
        format!("millstream.Tensor({})", self.0.spec())
    }
}

/// Gives a structure back that nobody has taken: a taker gives the capsule another name.
///
/// # Safety
/// The interpreter calls it once, with a capsule of `__dlpack__`.
unsafe extern "C" fn give_back(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is alive during the call. While its name is ours, nobody has taken the
    // structure.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNTAKEN.as_ptr()) == 1 {
            drop(DlPack::from_raw(ffi::PyCapsule_GetPointer(capsule, UNTAKEN.as_ptr())));
        }
    }
}
