//! Where the libraries of the CUDA toolkit are looked for, those that the driver does not bring.
//!
//! | # | where |
//! |---:|---|
//! | 1 | the file that the library's own environment variable names; if that is set, nowhere else |
//! | 2 | by the loader: the names for CUDA 13, then for CUDA 12 |
//! | 3 | `lib64` of `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, by the same names |
//! | 4 | Python's packages of NVIDIA's: `nvidia/*/lib` of the `site-packages` and `dist-packages` of `VIRTUAL_ENV`, `CONDA_PREFIX`, `/usr/local` and `/usr` |
//!
//! With a driver for CUDA 12 the libraries of CUDA 13 are passed over: they may give code that the
//! driver does not take.

use std::error::Error as _;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use libloading::Library;

/// A library of the toolkit.
pub(super) struct Wanted {
    /// What it is, for errors.
    pub(super) what: &'static str,
    /// Its name without the version, as `libnvrtc.so`.
    pub(super) name: &'static str,
    /// Names the file, if none other is to be taken.
    pub(super) variable: &'static str,
    /// The package that has it.
    pub(super) package: &'static str,
}

/// The folders of step 3 and 4.
fn folders() -> Vec<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut folders = Vec::new();
    for home in [from("CUDA_HOME"), from("CUDA_PATH"), Some("/usr/local/cuda".into())] {
        folders.extend(home.map(|home| home.join("lib64")));
    }
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        found.sort();
        found
    };
    let prefixes =
        [from("VIRTUAL_ENV"), from("CONDA_PREFIX"), Some("/usr/local".into()), Some("/usr".into())];
    for library in prefixes.into_iter().flatten().flat_map(|prefix| below(&prefix.join("lib"))) {
        for packages in ["site-packages", "dist-packages"] {
            for package in below(&library.join(packages).join("nvidia")) {
                folders.push(package.join("lib"));
            }
        }
    }
    folders
}

impl Wanted {
    /// The names for a driver of this version of its interface.
    fn names(&self, driver: i32) -> Vec<String> {
        let versions: &[u32] = if driver >= 13_000 { &[13, 12] } else { &[12] };
        versions.iter().map(|version| format!("{}.{version}", self.name)).collect()
    }

    /// Looks for the library that suits a driver of this version (13000 for CUDA 13.0). Gives also
    /// where it was found: a file, or a name that the loader knows. It is never closed: threads that
    /// have used it may have to call it when they end.
    ///
    /// # Errors
    /// There is none, with where it was looked for.
    pub(super) fn open(&self, driver: i32) -> Result<(ManuallyDrop<Library>, PathBuf)> {
        let names = self.names(driver);
        let mut places: Vec<PathBuf> = Vec::new();
        match std::env::var_os(self.variable) {
            Some(file) => places.push(file.into()),
            None => {
                places.extend(names.iter().map(PathBuf::from));
                let folders = folders();
                let files = names.iter().flat_map(|n| folders.iter().map(move |f| f.join(n)));
                places.extend(files.filter(|file| file.exists()));
            }
        }
        let mut tried = Vec::new();
        for place in places {
            // SAFETY: loading a library of the toolkit's runs its constructors, which ask nothing
            // of their caller.
            match unsafe { Library::new(&place) } {
                Ok(library) => return Ok((ManuallyDrop::new(library), place)),
                // The loader's own words name the file, and what that lacks.
                Err(error) => tried.push(match error.source() {
                    Some(why) => why.to_string(),
                    None => error.to_string(),
                }),
            }
        }
        let Wanted { what, variable, package, .. } = self;
        bail!(
            "{what}, {}, is not here. Looked for it in the loader's folders, in lib64 of CUDA_HOME, \
             CUDA_PATH and /usr/local/cuda, and in Python's packages ({}). Install the package \
             {package}, or name the file in {variable}",
            names.join(" or "),
            tried.join("; "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Wanted = Wanted {
        what: "the library of nothing",
        name: "libmillstream_nothing.so",
        variable: "MILLSTREAM_NOTHING",
        package: "nothing-cu12",
    };

    #[test]
    fn what_is_not_there_is_told() {
        let error = NOWHERE.open(13_000).unwrap_err().to_string();
        for words in [
            "the library of nothing, libmillstream_nothing.so.13 or libmillstream_nothing.so.12,",
            "CUDA_HOME",
            "libmillstream_nothing.so.12: cannot open",
            "Install the package nothing-cu12, or name the file in MILLSTREAM_NOTHING",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn a_driver_is_given_no_later_library() {
        assert_eq!(NOWHERE.names(12_080), ["libmillstream_nothing.so.12"]);
        assert_eq!(NOWHERE.names(13_000).len(), 2);
    }
}
