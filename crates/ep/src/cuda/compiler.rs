//! NVRTC, the compiler of kernels. `toolkit` has the search for its library.
//!
//! This module looks up NVRTC's few functions itself, because the binding accepts the library of
//! only one version of CUDA.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::null;

use anyhow::{Context, Result, bail, ensure};
use libloading::{Library, Symbol};

use super::toolkit::ToolkitLibrary;

const LIBRARY: ToolkitLibrary = ToolkitLibrary {
    purpose: "the compiler of kernels",
    name: "libnvrtc.so",
    version: None,
    variable: "MILLSTREAM_NVRTC",
    package: "nvidia-cuda-nvrtc-cu12",
};

type Program = *mut std::ffi::c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type Count = unsafe extern "C" fn(*mut c_int) -> c_int;
type List = unsafe extern "C" fn(*mut c_int) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// What a compilation makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Code of one architecture.
    Binary,
    /// Text that the driver translates for the architecture, or a later one. It ends with a zero.
    Ptx,
}

/// A loaded compiler.
pub struct Compiler {
    library: ManuallyDrop<Library>,
    path: PathBuf,
}

impl Compiler {
    /// The options of every compilation, in addition to the architecture.
    const OPTIONS: &[&CStr] = &[c"--std=c++17"];

    /// A further option of compilers that know it: without declarations that no kernel uses, a
    /// small source takes three quarters of the time.
    const MINIMAL: (&CStr, (i32, i32)) = (c"--minimal", (12, 8));

    /// Loads a compiler whose code a driver of version `driver` accepts (13000 for CUDA 13.0).
    ///
    /// # Errors
    /// None was found. The error lists the places that were searched.
    pub fn find(driver: i32) -> Result<Compiler> {
        let (library, path) = LIBRARY.open(driver)?;
        Ok(Compiler { library, path })
    }

    /// Returns the library's file, or the name by which the loader found it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the compiler's version, as `(12, 8)`. None if the compiler reports none.
    pub fn version(&self) -> Option<(i32, i32)> {
        let version = self.function::<Version>("nvrtcVersion").ok()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the compiler writes two numbers.
        let code = unsafe { version(&raw mut major, &raw mut minor) };
        (code == 0).then_some((major, minor))
    }

    fn function<T>(&self, name: &str) -> Result<Symbol<'_, T>> {
        // SAFETY: the callers below use the functions' types in `nvrtc.h`, which are the same in
        // CUDA 12 and 13.
        unsafe { self.library.get(name.as_bytes()) }
            .with_context(|| format!("{}: no {name}", self.path.display()))
    }

    fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let error_string = self.function::<ErrorString>("nvrtcGetErrorString")?;
        // SAFETY: the function returns a static text for any number.
        let text = unsafe { CStr::from_ptr(error_string(code)) };
        bail!("{call}: {}", text.to_string_lossy())
    }

    /// Returns an output of a program: its log (`ProgramLog`), `PTX`, each with its final zero, or
    /// `CUBIN`.
    fn output(&self, program: Program, what: &str) -> Result<Vec<u8>> {
        let (size, get) = (format!("nvrtcGet{what}Size"), format!("nvrtcGet{what}"));
        let mut bytes = 0;
        // SAFETY: the program is alive, and the compiler writes a number.
        let code = unsafe { self.function::<Size>(&size)?(program, &raw mut bytes) };
        self.check(&size, code)?;
        let mut output = vec![0u8; bytes];
        // SAFETY: the buffer has the size that the compiler has returned.
        let code = unsafe { self.function::<Get>(&get)?(program, output.as_mut_ptr().cast()) };
        self.check(&get, code)?;
        Ok(output)
    }

    /// Returns whether the compiler makes the binary code of a compute capability. Else it makes
    /// PTX, which the driver translates when it loads it, one kernel after another.
    fn makes_binaries(&self, (major, minor): (i32, i32)) -> bool {
        let all = || {
            let count = self.function::<Count>("nvrtcGetNumSupportedArchs").ok()?;
            let get = self.function::<List>("nvrtcGetSupportedArchs").ok()?;
            let mut length = 0;
            // SAFETY: the compiler writes a number, and that many into the list.
            unsafe {
                (count(&raw mut length) == 0).then_some(())?;
                let mut all = vec![0; usize::try_from(length).ok()?];
                (get(all.as_mut_ptr()) == 0).then_some(all)
            }
        };
        all().is_some_and(|all| all.contains(&(major * 10 + minor)))
    }

    /// Returns the options of a compilation for devices of a compute capability, as `(9, 0)`.
    pub fn options(&self, (major, minor): (i32, i32), output: Output) -> Vec<CString> {
        let kind = if output == Output::Binary { "sm" } else { "compute" };
        let architecture = CString::new(format!("--gpu-architecture={kind}_{major}{minor}"));
        let options = Compiler::OPTIONS.iter().map(|&option| option.to_owned());
        let (minimal, since) = Compiler::MINIMAL;
        let minimal =
            self.version().filter(|version| *version >= since).map(|_| minimal.to_owned());
        architecture.into_iter().chain(options).chain(minimal).collect()
    }

    /// Returns the output that devices of a compute capability load in the least time.
    pub fn output_for(&self, capability: (i32, i32)) -> Output {
        if self.makes_binaries(capability) { Output::Binary } else { Output::Ptx }
    }

    /// Compiles `source` with [`options`](Compiler::options). Several threads may compile at once.
    ///
    /// # Errors
    /// The compiler's error, with its log.
    pub fn compile(&self, source: &CStr, options: &[CString], output: Output) -> Result<Vec<u8>> {
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let create = self.function::<Create>("nvrtcCreateProgram")?;
        let compile = self.function::<Compile>("nvrtcCompileProgram")?;
        let destroy = self.function::<Destroy>("nvrtcDestroyProgram")?;
        let mut program: Program = std::ptr::null_mut();
        let (name, headers) = (c"millstream.cu".as_ptr(), null());
        // SAFETY: source and name end with a zero, and the number of headers is zero.
        let code = unsafe { create(&raw mut program, source.as_ptr(), name, 0, headers, headers) };
        self.check("nvrtcCreateProgram", code)?;
        // SAFETY: the program is alive, and the number of options is the array's length.
        let code = unsafe { compile(program, options.len() as c_int, options.as_ptr()) };
        let image = match self.check("nvrtcCompileProgram", code) {
            Ok(()) => self.output(program, if output == Output::Binary { "CUBIN" } else { "PTX" }),
            Err(error) => {
                let log = self.output(program, "ProgramLog").unwrap_or_default();
                let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
                Err(error.context(log))
            }
        };
        // SAFETY: created above, and destroyed once.
        let code = unsafe { destroy(&raw mut program) };
        self.check("nvrtcDestroyProgram", code)?;
        let image = image?;
        ensure!(image.len() > 1, "the compiler produced no code");
        Ok(image)
    }
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compiler({})", self.path.display())
    }
}
