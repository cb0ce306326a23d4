//! Writes a file: all of it, or nothing.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::Access;
use tempfile::{Builder, NamedTempFile, TempPath};

use crate::console::Console;
use crate::place::Place;

/// Permissions of new files, before the process's mask.
const MODE: u32 = 0o666;

/// Writes data to a file, which is replaced whole or not at all, or to standard output if `path` is
/// `-`. Missing folders are made. A closed pipe is no error: its reader has seen enough.
///
/// # Errors
/// The file is a folder or read-only, its folder takes no new file, or the disk is full. The old
/// file is unchanged.
pub fn write(path: &Path, data: impl AsRef<[u8]>) -> io::Result<()> {
    stage(&Place::of(path)?, data.as_ref())?.commit()
}

/// Opens a log that another process writes as it goes. An earlier one is emptied.
///
/// # Errors
/// The file or its folder cannot be made.
pub fn write_log(path: &Path) -> io::Result<File> {
    fs::create_dir_all(folder(path))?;
    File::create(path)
}

/// Content on its way to its place.
pub(crate) enum Staged<'a> {
    /// Written as it is.
    Direct(&'a Place, &'a [u8]),
    /// Complete in a temporary file beside this file.
    Complete(TempPath, &'a Path),
}

/// Writes data beside a file, so that only the rename is left to do.
pub(crate) fn stage<'a>(place: &'a Place, data: &'a [u8]) -> io::Result<Staged<'a>> {
    match place {
        Place::Standard | Place::Special(_) => Ok(Staged::Direct(place, data)),
        Place::File(path) => Ok(Staged::Complete(complete(path, data)?, path)),
    }
}

impl Staged<'_> {
    /// Puts the content in its place.
    pub(crate) fn commit(self) -> io::Result<()> {
        let written = match self {
            Staged::Complete(temporary, path) => {
                return temporary.persist(path).map_err(|failed| failed.error);
            }
            // An open file may hold output of others, which stays.
            Staged::Direct(Place::Special(path) | Place::File(path), data) => {
                OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(data))
            }
            Staged::Direct(Place::Standard, data) => {
                Console::Out.write_all(data).and_then(|()| Console::Out.flush())
            }
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}

/// Finds out whether a place can be written. Changes nothing.
pub(crate) fn probe(place: &Place) -> io::Result<()> {
    match place {
        Place::Standard => Ok(()),
        Place::Special(path) => Ok(rustix::fs::access(path, Access::WRITE_OK)?),
        Place::File(path) => {
            old(path)?;
            // The folders below it are made by the write.
            let existing = folder(path).ancestors().find(|folder| folder.is_dir());
            let existing = existing.unwrap_or(Path::new("."));
            temporary(existing).map(drop)
        }
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the file that is to be replaced, if there is one. A rename needs no right to write to
/// it, so a read-only file is refused here.
fn old(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) => {
            rustix::fs::access(path, Access::WRITE_OK)?;
            Ok(Some(found))
        }
    }
}

/// Writes the content to a temporary file beside the file that it is to replace.
fn complete(path: &Path, data: &[u8]) -> io::Result<TempPath> {
    let old = old(path)?;
    let folder = folder(path);
    fs::create_dir_all(folder)?;
    let file = temporary(folder)?;
    fill(file.as_file(), old.as_ref(), data)?;
    Ok(file.into_temp_path())
}

/// Writes the content, with the owner and permissions of the old file. Some file systems find out
/// only in `sync_all` that there is no space left.
fn fill(mut file: &File, old: Option<&Metadata>, data: &[u8]) -> io::Result<()> {
    if let Some(old) = old {
        let new = file.metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            // Only root can give a file away; to others the new one belongs to them.
            drop(fchown(file, Some(old.uid()), Some(old.gid())));
        }
        file.set_permissions(old.permissions())?;
    }
    file.write_all(data)?;
    file.sync_all()
}

/// Returns an empty temporary file. Its name is removed with it, unless the process is killed.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(".millstream-").suffix(".part");
    builder.permissions(Permissions::from_mode(MODE)).tempfile_in(folder)
}
