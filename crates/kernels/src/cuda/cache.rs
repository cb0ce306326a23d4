//! The cache of compiled kernels on disk. A program compiles each kernel once, not at every start.
//!
//! The name of a file is a hash of everything that its content depends on. Its first line is a hash
//! of the rest, so that incomplete files are detected and compiled again. The cache is optional:
//! files that cannot be written or read are ignored, and any file may be deleted at any time.

use std::ffi::{CStr, CString};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// The environment variable that sets the folder; empty disables the cache. The default is
/// `millstream` in `XDG_CACHE_HOME`, or in `.cache` of `HOME`.
const FOLDER: &str = "MILLSTREAM_CACHE";

/// Everything that a compiled kernel depends on.
pub(super) struct Key<'a> {
    pub(super) source: &'a CStr,
    /// The version of the compiler, and its options.
    pub(super) compiler: (i32, i32),
    pub(super) options: &'a [CString],
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
        for number in [self.compiler.0, self.compiler.1] {
            hash.update(&number.to_le_bytes());
        }
        for option in self.options {
            hash.update(option.as_bytes_with_nul());
        }
        hash.update(b"\0").update(self.source.to_bytes());
        format!("{}.code", hash.finalize().to_hex())
    }
}

/// Returns the code for `key` from the folder, or else from `compile`, and stores it in the folder.
///
/// # Errors
/// Those of `compile`.
pub(super) fn get(
    folder: &Path,
    key: &Key<'_>,
    compile: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let file = folder.join(key.file());
    if let Ok(code) = read(&file) {
        return Ok(code);
    }
    let code = compile()?;
    // The cache is optional.
    let _ = write(folder, &file, &code);
    Ok(code)
}

/// Returns the first line of a file.
fn head(code: &[u8]) -> String {
    format!("// {}\n", blake3::hash(code).to_hex())
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let mut code = fs::read(file)?;
    let head_length = head(&[]).len();
    anyhow::ensure!(code.len() > head_length, "the file is incomplete");
    let first = code.drain(..head_length).collect::<Vec<u8>>();
    anyhow::ensure!(first == head(&code).as_bytes(), "the file is incomplete");
    Ok(code)
}

/// Writes a temporary file and renames it, so that no process reads an incomplete file.
fn write(folder: &Path, file: &Path, code: &[u8]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let temporary = file.with_extension(format!("{}.part", std::process::id()));
    let whole = [head(code).as_bytes(), code].concat();
    let written = fs::write(&temporary, whole).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key<'_> = Key { source: c"kernel", compiler: (12, 8), options: &[] };

    #[test]
    fn a_compiled_kernel_is_read_from_disk() {
        let folder = tempfile::tempdir().unwrap();
        let never = || -> Result<Vec<u8>> { panic!("the kernel is compiled again") };
        assert_eq!(get(folder.path(), &KEY, || Ok(b"code".to_vec())).unwrap(), b"code");
        assert_eq!(get(folder.path(), &KEY, never).unwrap(), b"code");
        // Everything that the code depends on changes the file.
        let options = [c"-O".to_owned()];
        for other in [
            Key { source: c"kernels", ..KEY },
            Key { compiler: (12, 9), ..KEY },
            Key { options: &options, ..KEY },
        ] {
            assert_eq!(get(folder.path(), &other, || Ok(b"other".to_vec())).unwrap(), b"other");
        }
        assert_eq!(get(folder.path(), &KEY, never).unwrap(), b"code");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    }

    #[test]
    fn incomplete_files_are_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        get(folder.path(), &KEY, || Ok(b"code".to_vec())).unwrap();
        let file = folder.path().join(KEY.file());
        let whole = fs::read(&file).unwrap();
        for broken in [&whole[..whole.len() - 1], &[], b"// \nxyz", b"\xff\n\0"] {
            fs::write(&file, broken).unwrap();
            assert_eq!(get(folder.path(), &KEY, || Ok(b"new".to_vec())).unwrap(), b"new");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(get(&file, &KEY, || Ok(b"code".to_vec())).unwrap(), b"code");
    }
}
