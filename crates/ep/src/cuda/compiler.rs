//! The compiler of kernels, NVRTC, from whichever library of it is here: `toolkit` says where it is
//! looked for.
//!
//! The binding would look for the library of one version of CUDA alone, which is why the few
//! functions are looked up here.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::null;

use anyhow::{Context, Result, bail, ensure};
use libloading::{Library, Symbol};

use super::toolkit::Wanted;

const WANTED: Wanted = Wanted {
    what: "the compiler of kernels",
    name: "libnvrtc.so",
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
type Words = unsafe extern "C" fn(c_int) -> *const c_char;

/// A compiler that was found.
pub struct Compiler {
    library: ManuallyDrop<Library>,
    place: PathBuf,
}

impl Compiler {
    /// What it is told beside the architecture.
    pub const OPTIONS: &str = "--std=c++17";

    /// Looks for one that a driver of this version (13000 for CUDA 13.0) takes code of.
    ///
    /// # Errors
    /// There is none, with where it was looked for.
    pub fn find(driver: i32) -> Result<Compiler> {
        let (library, place) = WANTED.open(driver)?;
        Ok(Compiler { library, place })
    }

    /// Where it was found: a file, or a name that the loader knows.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Its version, as `(12, 8)`; none if it does not say.
    pub fn version(&self) -> Option<(i32, i32)> {
        let ask = self.function::<Version>("nvrtcVersion").ok()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the compiler writes two numbers.
        let code = unsafe { ask(&raw mut major, &raw mut minor) };
        (code == 0).then_some((major, minor))
    }

    fn function<T>(&self, name: &str) -> Result<Symbol<'_, T>> {
        // SAFETY: the callers below name the library's functions by their types in `nvrtc.h`,
        // which are the same in CUDA 12 and 13.
        unsafe { self.library.get(name.as_bytes()) }
            .with_context(|| format!("{}: no {name}", self.place.display()))
    }

    fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let words = self.function::<Words>("nvrtcGetErrorString")?;
        // SAFETY: the function answers any number with a text that stays.
        let words = unsafe { CStr::from_ptr(words(code)) };
        bail!("{call}: {}", words.to_string_lossy())
    }

    /// What the compiler has to say of a program: its log, or its code.
    fn text(&self, program: Program, what: &str) -> Result<CString> {
        let (size, get) = (format!("nvrtcGet{what}Size"), format!("nvrtcGet{what}"));
        let mut bytes = 0;
        // SAFETY: the program is alive, and the compiler writes a number.
        let code = unsafe { self.function::<Size>(&size)?(program, &raw mut bytes) };
        self.check(&size, code)?;
        let mut text = vec![0u8; bytes.max(1)];
        // SAFETY: there is room for as many bytes as the compiler said.
        let code = unsafe { self.function::<Get>(&get)?(program, text.as_mut_ptr().cast()) };
        self.check(&get, code)?;
        Ok(CStr::from_bytes_until_nul(&text).context("a text without an end")?.to_owned())
    }

    /// Compiles `source` for devices of a compute capability, as `(9, 0)`, to PTX.
    ///
    /// # Errors
    /// The compiler's, with its log.
    pub fn compile(&self, source: &CStr, capability: (i32, i32)) -> Result<CString> {
        let architecture = format!("--gpu-architecture=compute_{}{}", capability.0, capability.1);
        let options = [CString::new(architecture)?, CString::new(Compiler::OPTIONS)?];
        let options = options.each_ref().map(|option| option.as_ptr());
        let create = self.function::<Create>("nvrtcCreateProgram")?;
        let compile = self.function::<Compile>("nvrtcCompileProgram")?;
        let destroy = self.function::<Destroy>("nvrtcDestroyProgram")?;
        let mut program: Program = std::ptr::null_mut();
        let (name, headers) = (c"millstream.cu".as_ptr(), null());
        // SAFETY: source and name end with a zero, and there are no headers.
        let code = unsafe { create(&raw mut program, source.as_ptr(), name, 0, headers, headers) };
        self.check("nvrtcCreateProgram", code)?;
        // SAFETY: the program is alive, and the options are as many texts as said.
        let code = unsafe { compile(program, options.len() as c_int, options.as_ptr()) };
        let compiled = self.check("nvrtcCompileProgram", code);
        let ptx = match compiled {
            Ok(()) => self.text(program, "PTX"),
            Err(error) => {
                let log = self.text(program, "ProgramLog").unwrap_or_default();
                Err(error.context(log.to_string_lossy().into_owned()))
            }
        };
        // SAFETY: made above, and destroyed once.
        let code = unsafe { destroy(&raw mut program) };
        self.check("nvrtcDestroyProgram", code)?;
        let ptx = ptx?;
        ensure!(!ptx.is_empty(), "the compiler gave no code");
        Ok(ptx)
    }
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compiler({})", self.place.display())
    }
}
