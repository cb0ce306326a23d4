//! A compiled source: its kernels by name, and the variable with the state of the running thread.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, Result};

use super::blocks::LaunchState;

/// Runs one thread of a kernel.
pub(super) type Entry = unsafe extern "C" fn(*const c_void);

/// A kernel: its entry, and the bytes of its argument.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    pub(super) entry: Entry,
    pub(crate) size: u32,
}

/// A loaded library.
pub(crate) struct Library {
    kernels: BTreeMap<String, Kernel>,
    /// The library's variable `ms_host`. A launch holds the lock, which also gives it exclusive use
    /// of the library's shared memory.
    pub(super) machine: Mutex<MachineAddress>,
    _library: libloading::Library,
}

/// The address of the library's variable `ms_host`.
pub(super) struct MachineAddress(pub(super) *mut LaunchState);

// SAFETY: the `Library` that holds this address keeps the variable loaded, and the variable is used
// only under the lock around the address.
unsafe impl Send for MachineAddress {}

impl Library {
    /// Loads a compiled library. A file that is already loaded gives the same `Library`, because
    /// the loader maps it once: two values would have two locks for one variable.
    ///
    /// # Errors
    /// The file is not a compiled library.
    pub(crate) fn load<'a>(
        file: &Path,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Arc<Library>> {
        static LOADED: Mutex<BTreeMap<PathBuf, Weak<Library>>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = loaded.get(file).and_then(Weak::upgrade) {
            return Ok(library);
        }
        let library = Arc::new(Library::open(file, names)?);
        loaded.insert(file.to_owned(), Arc::downgrade(&library));
        Ok(library)
    }

    fn open<'a>(file: &Path, names: impl Iterator<Item = &'a str>) -> Result<Library> {
        // SAFETY: the library was compiled from the source of kernels; loading it runs no code.
        let library = unsafe { libloading::Library::new(file) }?;
        let mut kernels = BTreeMap::new();
        for name in names {
            // SAFETY: the prelude defines these two functions, of these types, for every kernel.
            let (entry, size) = unsafe {
                let entry = library.get::<Entry>(format!("ms_run_{name}").as_bytes())?;
                let size = library
                    .get::<unsafe extern "C" fn() -> u32>(format!("ms_size_{name}").as_bytes())?;
                (*entry, size())
            };
            kernels.insert(name.to_owned(), Kernel { entry, size });
        }
        // SAFETY: the prelude defines the variable; `LaunchState` has the layout of its type.
        let machine = unsafe { library.get::<*mut LaunchState>(b"ms_host") };
        let machine = MachineAddress(*machine.context("the prelude's variable")?);
        Ok(Library { kernels, machine: Mutex::new(machine), _library: library })
    }

    /// Returns the kernel of this name.
    pub(crate) fn kernel(&self, name: &str) -> Option<Kernel> {
        self.kernels.get(name).copied()
    }
}
