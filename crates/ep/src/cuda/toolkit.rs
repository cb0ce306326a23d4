//! The search for libraries of the CUDA toolkit, which are not part of the driver.
//!
//! 1. The file that the library's environment variable names. If it is set, the search ends here.
//! 2. The loader: the names for CUDA 13, then for CUDA 12. NCCL has one name for both.
//! 3. `lib64` of `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, with the same names.
//! 4. NVIDIA's Python packages: `nvidia/*/lib` in the `site-packages` and `dist-packages` of
//!    `VIRTUAL_ENV`, `CONDA_PREFIX`, `/usr/local` and `/usr`.
//!
//! With a driver for CUDA 12, the search ignores libraries of CUDA 13: they could produce code that
//! the driver refuses.

use std::error::Error as _;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use libloading::Library;

/// A library of the toolkit.
pub(super) struct ToolkitLibrary {
    /// The library's purpose, for errors.
    pub(super) purpose: &'static str,
    /// The file name without the version, as `libnvrtc.so`.
    pub(super) name: &'static str,
    /// The version in the file name, for a library that has the same for every CUDA version.
    pub(super) version: Option<u32>,
    /// The environment variable that overrides the search with a file.
    pub(super) variable: &'static str,
    /// The Python package with the library, for errors.
    pub(super) package: &'static str,
}

/// Returns the folders of steps 3 and 4.
fn folders() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut folders = Vec::new();
    for home in [variable("CUDA_HOME"), variable("CUDA_PATH"), Some("/usr/local/cuda".into())] {
        folders.extend(home.map(|home| home.join("lib64")));
    }
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        found.sort();
        found
    };
    let environments = [variable("VIRTUAL_ENV"), variable("CONDA_PREFIX")];
    let prefixes = environments.into_iter().flatten().chain(["/usr/local".into(), "/usr".into()]);
    for library in prefixes.flat_map(|prefix| entries(&prefix.join("lib"))) {
        for packages in ["site-packages", "dist-packages"] {
            for package in entries(&library.join(packages).join("nvidia")) {
                folders.push(package.join("lib"));
            }
        }
    }
    folders
}

impl ToolkitLibrary {
    /// Returns the file names for a driver of this version.
    fn names(&self, driver: i32) -> Vec<String> {
        let versions = match &self.version {
            Some(version) => std::slice::from_ref(version),
            None if driver >= 13_000 => &[13, 12],
            None => &[12],
        };
        versions.iter().map(|version| format!("{}.{version}", self.name)).collect()
    }

    /// Loads the library for a driver of version `driver` (13000 for CUDA 13.0). Also returns its
    /// file, or the name by which the loader found it. The library is never unloaded: threads that
    /// have used it may call it when they end.
    ///
    /// # Errors
    /// None was found. The error lists the candidates that were searched.
    pub(super) fn open(&self, driver: i32) -> Result<(ManuallyDrop<Library>, PathBuf)> {
        let names = self.names(driver);
        let mut candidates: Vec<PathBuf> = Vec::new();
        match std::env::var_os(self.variable) {
            Some(file) => candidates.push(file.into()),
            None => {
                candidates.extend(names.iter().map(PathBuf::from));
                let folders = folders();
                let files = names.iter().flat_map(|n| folders.iter().map(move |f| f.join(n)));
                candidates.extend(files.filter(|file| file.exists()));
            }
        }
        let mut tried = Vec::new();
        for path in candidates {
            // SAFETY: loading a library of the toolkit runs its constructors, which require nothing
            // of their caller.
            match unsafe { Library::new(&path) } {
                Ok(library) => return Ok((ManuallyDrop::new(library), path)),
                // The loader's message names the file and the problem.
                Err(error) => tried.push(match error.source() {
                    Some(why) => why.to_string(),
                    None => error.to_string(),
                }),
            }
        }
        let ToolkitLibrary { purpose, variable, package, .. } = self;
        bail!(
            "{purpose}, {}, was not found. Searched the loader's folders, lib64 of CUDA_HOME, \
             CUDA_PATH and /usr/local/cuda, and Python's packages ({}). Install the package \
             {package}, or set {variable} to the file",
            names.join(" or "),
            tried.join("; "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: ToolkitLibrary = ToolkitLibrary {
        purpose: "the library of nothing",
        name: "libmillstream_nothing.so",
        version: None,
        variable: "MILLSTREAM_NOTHING",
        package: "nothing-cu12",
    };

    #[test]
    fn the_error_of_a_missing_library_lists_the_search() {
        let error = MISSING.open(13_000).unwrap_err().to_string();
        for part in [
            "the library of nothing, libmillstream_nothing.so.13 or libmillstream_nothing.so.12,",
            "CUDA_HOME",
            "libmillstream_nothing.so.12: cannot open",
            "Install the package nothing-cu12, or set MILLSTREAM_NOTHING to the file",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn a_driver_gets_no_later_library() {
        assert_eq!(MISSING.names(12_080), ["libmillstream_nothing.so.12"]);
        assert_eq!(MISSING.names(13_000).len(), 2);
        let with_own_version = ToolkitLibrary { version: Some(2), ..MISSING };
        assert_eq!(with_own_version.names(12_080), ["libmillstream_nothing.so.2"]);
    }
}
