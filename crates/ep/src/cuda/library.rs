//! The search for the driver's library.
//!
//! 1. `libcuda.so.1`, then `libcuda.so`, by the loader: `LD_LIBRARY_PATH`, its cache, its own
//!    folders. Every installation of the driver puts it there.
//! 2. The folders of [`FOLDERS`]. Containers and WSL mount it outside the loader's folders.
//!
//! The binding panics if it finds no library, so [`find`] must succeed before the first call of it.

use std::error::Error as _;
use std::path::Path;

use libloading::Library;

/// The names of the driver's library, for the loader.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Folders with the driver's library that the loader does not search.
const FOLDERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
];

/// Loads the driver's library, so that the binding finds it.
///
/// # Errors
/// The library is missing. The error lists the places that were searched.
pub(super) fn find() -> Result<(), String> {
    let mut tried = Vec::new();
    let folders = FOLDERS.iter().map(|folder| Path::new(folder).join(NAMES[0]));
    let candidates = NAMES.iter().map(Into::into).chain(folders.filter(|path| path.exists()));
    for path in candidates {
        // SAFETY: loading the driver's library runs its constructors, which require nothing of
        // their caller.
        match unsafe { Library::new(&path) } {
            Ok(library) => {
                // Leaked: the binding opens the library again by name, and the loader finds a
                // library that is already loaded, in any folder.
                std::mem::forget(library);
                // SAFETY: as above.
                if unsafe { cudarc::driver::sys::is_culib_present() } {
                    return Ok(());
                }
                tried.push(format!("{}: the binding does not find it again", path.display()));
            }
            // The loader's message names the file.
            Err(error) => tried.push(match error.source() {
                Some(why) => why.to_string(),
                None => error.to_string(),
            }),
        }
    }
    Err(format!(
        "the CUDA driver's library, libcuda, was not found. Searched for {} by the loader (in \
         LD_LIBRARY_PATH, its cache and its own folders) and in {} ({}). Install the NVIDIA \
         driver, or add the folder of libcuda.so.1 to LD_LIBRARY_PATH",
        NAMES.join(" and "),
        FOLDERS.join(", "),
        tried.join("; "),
    ))
}
