//! A file is replaced whole, with its permissions, links and readers undisturbed.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use millstream_files::write;

#[test]
fn files_are_replaced_with_their_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    let read = |path: &str| fs::read_to_string(at(path)).unwrap();
    let mode = |path: &str| fs::metadata(at(path)).unwrap().permissions().mode() & 0o777;
    fs::write(at("plain"), "").unwrap();
    write(&at("new/folder/file"), "new").unwrap();
    assert_eq!(mode("new/folder/file"), mode("plain"), "as any other new file");

    fs::write(at("file"), "a longer old text").unwrap();
    fs::set_permissions(at("file"), Permissions::from_mode(0o640)).unwrap();
    let mut reader = fs::File::open(at("file")).unwrap();
    symlink("file", at("link")).unwrap();
    fs::hard_link(at("file"), at("hard")).unwrap();
    write(&at("link"), "new").unwrap();
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
    assert_eq!((read("file").as_str(), mode("file")), ("new", 0o640));
    // Those that hold the old file keep all of it.
    assert_eq!(read("hard"), "a longer old text");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "a longer old text");
    symlink("new/later", at("dangling")).unwrap();
    write(&at("dangling"), "through").unwrap();
    assert_eq!(read("new/later"), "through");
    // No temporary file is left.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);
}

#[test]
fn an_open_file_is_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "before ").unwrap();
    let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let open = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    write(Path::new(&open), "after").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before after");
}

#[test]
fn read_only_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    let written = write(&path, "new");
    // Root may write everywhere.
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    assert_eq!(written.is_ok(), is_root);
    assert_eq!(fs::read_to_string(&path).unwrap(), if is_root { "new" } else { "old" });
}
