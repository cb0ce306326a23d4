//! Where the driver's library is looked for.
//!
//! | # | where | why |
//! |---:|---|---|
//! | 1 | `libcuda.so.1`, then `libcuda.so`, by the loader: `LD_LIBRARY_PATH`, its cache, its own folders | where every installation of the driver puts it |
//! | 2 | the folders of [`FOLDERS`] | containers and WSL, which mount it beside the loader's folders |
//!
//! The binding panics if it finds none, so it is not touched before this has.

use std::error::Error as _;
use std::path::Path;

use libloading::Library;

/// The driver's library, by the names that the loader knows it by.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Folders in which the driver's library lies where the loader does not look.
const FOLDERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
];

/// Makes sure that the binding finds the driver's library.
///
/// # Errors
/// It is nowhere; with where it was looked for.
pub(super) fn find() -> Result<(), String> {
    let mut tried = Vec::new();
    let folders = FOLDERS.iter().map(|folder| Path::new(folder).join(NAMES[0]));
    let places = NAMES.iter().map(Into::into).chain(folders.filter(|path| path.exists()));
    for place in places {
        // SAFETY: loading the driver's library runs its constructors, which ask nothing of their
        // caller.
        match unsafe { Library::new(&place) } {
            Ok(library) => {
                // Kept for good: the binding opens it again by its name, which the loader then
                // knows wherever it lies.
                std::mem::forget(library);
                // SAFETY: as above.
                if unsafe { cudarc::driver::sys::is_culib_present() } {
                    return Ok(());
                }
                tried.push(format!("{}: the binding does not find it again", place.display()));
            }
            // The loader's own words name the file.
            Err(error) => tried.push(match error.source() {
                Some(why) => why.to_string(),
                None => error.to_string(),
            }),
        }
    }
    Err(format!(
        "the CUDA driver's library, libcuda, is not here. Looked for {} by the loader (in \
         LD_LIBRARY_PATH, its cache and its own folders) and in {} ({}). Install the NVIDIA driver, \
         or put the folder of libcuda.so.1 into LD_LIBRARY_PATH",
        NAMES.join(" and "),
        FOLDERS.join(", "),
        tried.join("; "),
    ))
}
