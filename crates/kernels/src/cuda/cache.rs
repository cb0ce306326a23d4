//! The cache of compiled kernels on disk. A program compiles each kernel once, not at every start.
//!
//! The name of a file is a hash of everything that its content depends on. Its first line is a hash
//! of the rest, so that incomplete files are detected and compiled again. The cache is optional:
//! files that cannot be written or read are ignored, and any file may be deleted at any time.

use std::ffi::{CStr, CString};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The environment variable that sets the folder; empty disables the cache. The default is
/// `millstream` in `XDG_CACHE_HOME`, or in `.cache` of `HOME`.
const FOLDER: &str = "MILLSTREAM_CACHE";

/// Everything that a compiled kernel depends on.
pub(super) struct Key<'a> {
    pub(super) source: &'a CStr,
    pub(super) capability: (i32, i32),
    /// The version of the compiler, and its options.
    pub(super) compiler: (i32, i32),
    pub(super) options: &'a str,
}

/// Returns the folder of this process.
pub(super) fn folder() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    match from(FOLDER) {
        Some(folder) => Some(folder).filter(|folder| !folder.as_os_str().is_empty()),
        None => {
            let base = from("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
            let base = base.or_else(|| Some(from("HOME")?.join(".cache")));
            base.map(|base| base.join("millstream"))
        }
    }
}

impl Key<'_> {
    fn file(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for number in [self.capability.0, self.capability.1, self.compiler.0, self.compiler.1] {
            hash.update(&number.to_le_bytes());
        }
        hash.update(&(self.options.len() as u64).to_le_bytes());
        hash.update(self.options.as_bytes()).update(self.source.to_bytes());
        format!("{}.ptx", hash.finalize().to_hex())
    }
}

/// Returns the code for `key` from the folder, or else from `compile`, and stores it in the folder.
///
/// # Errors
/// Those of `compile`.
pub(super) fn get(
    folder: &Path,
    key: &Key<'_>,
    compile: impl FnOnce() -> Result<CString>,
) -> Result<CString> {
    let file = folder.join(key.file());
    if let Ok(code) = read(&file) {
        return Ok(code);
    }
    let code = compile()?;
    // The cache is optional.
    let _ = write(folder, &file, &code);
    Ok(code)
}

/// Returns the first line of a file, which is a comment in PTX.
fn head(code: &CStr) -> String {
    format!("// {}\n", blake3::hash(code.to_bytes()).to_hex())
}

fn read(file: &Path) -> Result<CString> {
    let text = fs::read_to_string(file)?;
    let (_, code) = text.split_once('\n').context("no first line")?;
    let code = CString::new(code)?;
    anyhow::ensure!(text.starts_with(&head(&code)), "the file is incomplete");
    Ok(code)
}

/// Writes a temporary file and renames it, so that no process reads an incomplete file.
fn write(folder: &Path, file: &Path, code: &CStr) -> Result<()> {
    fs::create_dir_all(folder)?;
    let temporary = file.with_extension(format!("{}.part", std::process::id()));
    let mut text = head(code).into_bytes();
    text.extend(code.to_bytes());
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key<'_> =
        Key { source: c"kernel", capability: (9, 0), compiler: (12, 8), options: "-O" };

    #[test]
    fn a_compiled_kernel_is_read_from_disk() {
        let folder = tempfile::tempdir().unwrap();
        let never = || -> Result<CString> { panic!("the kernel is compiled again") };
        assert_eq!(get(folder.path(), &KEY, || Ok(c"code".to_owned())).unwrap(), *c"code");
        assert_eq!(get(folder.path(), &KEY, never).unwrap(), *c"code");
        // Everything that the code depends on changes the file.
        for other in [
            Key { source: c"kernels", ..KEY },
            Key { capability: (8, 0), ..KEY },
            Key { compiler: (12, 9), ..KEY },
            Key { options: "", ..KEY },
        ] {
            assert_eq!(get(folder.path(), &other, || Ok(c"other".to_owned())).unwrap(), *c"other");
        }
        assert_eq!(get(folder.path(), &KEY, never).unwrap(), *c"code");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn incomplete_files_are_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        get(folder.path(), &KEY, || Ok(c"code".to_owned())).unwrap();
        let file = folder.path().join(KEY.file());
        let whole = fs::read(&file).unwrap();
        for broken in [&whole[..whole.len() - 1], &[], b"// \nxyz", b"\xff\n\0"] {
            fs::write(&file, broken).unwrap();
            assert_eq!(get(folder.path(), &KEY, || Ok(c"new".to_owned())).unwrap(), *c"new");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(get(&file, &KEY, || Ok(c"code".to_owned())).unwrap(), *c"code");
    }
}
