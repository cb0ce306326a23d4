//! The repository's programs. A file is read once for all tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use millstream_trace::{Entry, LoadOptions, Program, expand, load, load_bytes};

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of the native examples.
pub(super) fn folder() -> PathBuf {
    root().join("examples/traces")
}

/// Returns the programs of one rank in folders of the repository.
pub(super) fn traces<const N: usize>(folders: [&str; N]) -> impl Iterator<Item = PathBuf> {
    expand(folders.map(|f| root().join(f))).unwrap().into_iter().filter_map(|entry| match entry {
        Entry::Trace(path) => Some(path),
        _ => None,
    })
}

pub(super) fn read(path: &Path) -> Arc<Program> {
    type Files = BTreeMap<PathBuf, Arc<OnceLock<Arc<Program>>>>;
    static FILES: Mutex<Files> = Mutex::new(BTreeMap::new());
    let file = FILES.lock().unwrap().entry(path.to_owned()).or_default().clone();
    let read = || Arc::new(load(path, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}")));
    file.get_or_init(read).clone()
}

pub(super) fn example(name: &str) -> Arc<Program> {
    read(&folder().join(name))
}

pub(super) fn parse(text: &str) -> Arc<Program> {
    let program = load_bytes("t.json", text.as_bytes(), Some(&folder()), &LoadOptions::default());
    Arc::new(program.unwrap_or_else(|e| panic!("{e}\n{text}")))
}
