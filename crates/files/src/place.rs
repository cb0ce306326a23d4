//! Where a path leads, and whether two paths lead to one file.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

/// The most symbolic links that are followed, as in Linux.
const MAX_LINKS: usize = 40;

/// The target of a write.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Standard output.
    Standard,
    /// A device, a pipe, or an open file of this process: written as it is.
    Special(PathBuf),
    /// A file, which may not exist yet. All links are followed.
    File(PathBuf),
}

impl Place {
    /// Follows the links of a path.
    pub(crate) fn of(path: &Path) -> io::Result<Place> {
        if path == Path::new("-") {
            return Ok(Place::Standard);
        }
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            // The link to an open file leads to a name that another file may have by now.
            if let Some(place) = open_file(&path) {
                return Ok(place);
            }
            let found = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Place::File(path));
                }
                found => found?.file_type(),
            };
            if found.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if !found.is_symlink() {
                return Ok(if found.is_file() { Place::File(path) } else { Place::Special(path) });
            }
            let target = fs::read_link(&path)?;
            path = path.parent().map_or(target.clone(), |folder| folder.join(target));
        }
        Err(io::Error::other("too many symbolic links"))
    }

    /// Returns the identity of a file or pipe. A terminal and other character devices have none:
    /// several outputs may share them.
    pub(crate) fn identity(&self) -> Option<Identity> {
        match self {
            Place::Standard => Identity::of_open(io::stdout()),
            Place::File(path) => Some(Identity::of(path)),
            Place::Special(path) => {
                let found = fs::metadata(path).ok()?;
                (!found.file_type().is_char_device()).then(|| Identity::of(path))
            }
        }
    }
}

/// Returns the place of `/dev/stdout`, `/dev/fd/N` and `/proc/self/fd/N`.
fn open_file(path: &Path) -> Option<Place> {
    let folder = path.parent()?.canonicalize().ok()?;
    let own = [Path::new("/proc/self/fd"), Path::new("/dev/fd")];
    let is_own = own.into_iter().any(|own| own.canonicalize().is_ok_and(|own| own == folder));
    is_own.then(|| match path.file_name() {
        Some(name) if name == "1" => Place::Standard,
        _ => Place::Special(path.to_owned()),
    })
}

/// A file, whatever the path that names it.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Device and inode, if the file exists.
    inode: Option<(u64, u64)>,
    /// The path without links, as far as it exists.
    path: PathBuf,
}

impl Identity {
    /// Returns the identity of the file that a path names, links followed.
    pub(crate) fn of(path: &Path) -> Identity {
        let inode = fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let mut whole = PathBuf::new();
        for ancestor in path.ancestors() {
            let existing = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
            let Ok(existing) = existing.canonicalize() else { continue };
            whole = existing;
            // No part of the rest exists, so none is a link.
            for part in path.strip_prefix(ancestor).into_iter().flat_map(Path::components) {
                match part {
                    Component::Normal(name) => whole.push(name),
                    Component::ParentDir => drop(whole.pop()),
                    _ => {}
                }
            }
            break;
        }
        Identity { inode, path: whole }
    }

    /// Returns the identity of standard input or output where it is a regular file.
    pub(crate) fn of_open(file: impl AsFd) -> Option<Identity> {
        let found = rustix::fs::fstat(file).ok()?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        let inode = Some((found.st_dev, found.st_ino));
        is_file.then_some(Identity { inode, path: PathBuf::new() })
    }

    /// Returns whether the other path is that of a folder above this file.
    pub(crate) fn is_below(&self, other: &Identity) -> bool {
        let is_known = !other.path.as_os_str().is_empty();
        is_known && self.path != other.path && self.path.starts_with(&other.path)
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        match (self.inode, other.inode) {
            (None, None) => self.path == other.path,
            (own, other) => own == other,
        }
    }
}
