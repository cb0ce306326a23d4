//! A compiled source: its kernels by name, and the one place by which they are told who they are.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, Result};

use super::blocks::Machine;

/// Runs one thread of a kernel.
pub(super) type Entry = unsafe extern "C" fn(*const c_void);

/// A kernel: its entry, and the bytes of its argument.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    pub(super) entry: Entry,
    pub(crate) size: u32,
}

/// A library that is loaded.
pub(crate) struct Library {
    kernels: BTreeMap<String, Kernel>,
    /// The library's variable. A launch has it for itself, as it has what blocks share.
    pub(super) machine: Mutex<At>,
    _library: libloading::Library,
}

/// Where the library's variable lies.
pub(super) struct At(pub(super) *mut Machine);

// SAFETY: the variable is the library's, which stays loaded as long as this is there, and is only used
// under the lock around this.
unsafe impl Send for At {}

impl Library {
    /// Loads a library that the compiler made. A file that is loaded already is the same library, as it
    /// is to the loader: else two launches would each think that they have its variable for themselves.
    ///
    /// # Errors
    /// It is none.
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
        // SAFETY: the library was compiled from a kernel's source; nothing in it runs at loading.
        let library = unsafe { libloading::Library::new(file) }?;
        let mut kernels = BTreeMap::new();
        for name in names {
            // SAFETY: the prelude gives every kernel these two functions, of these types.
            let (entry, size) = unsafe {
                let entry = library.get::<Entry>(format!("ms_run_{name}").as_bytes())?;
                let size = library
                    .get::<unsafe extern "C" fn() -> u32>(format!("ms_size_{name}").as_bytes())?;
                (*entry, size())
            };
            kernels.insert(name.to_owned(), Kernel { entry, size });
        }
        // SAFETY: the prelude has the variable, of the type that `Machine` repeats.
        let machine = unsafe { library.get::<*mut Machine>(b"ms_host") };
        let machine = At(*machine.context("the prelude's variable")?);
        Ok(Library { kernels, machine: Mutex::new(machine), _library: library })
    }

    /// The kernel of a name.
    pub(crate) fn kernel(&self, name: &str) -> Option<Kernel> {
        self.kernels.get(name).copied()
    }
}
