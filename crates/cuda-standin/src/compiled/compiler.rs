//! The C++ compiler: `MILLSTREAM_CXX`, a command with optional arguments, or the first of `c++`,
//! `g++` and `clang++` in `PATH`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The environment variable with the compiler's command.
pub(crate) const COMPILER: &str = "MILLSTREAM_CXX";

/// The compiler's options. They forbid contraction of products and sums, as in the host's kernels.
const OPTIONS: &[&str] = &[
    "-x",
    "c++",
    "-std=c++17",
    "-Og",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-w",
];

const PRELUDE: &str = include_str!("prelude.hpp");

/// The compiler's command, and the text of its version.
struct Compiler {
    command: Vec<OsString>,
    version: Vec<u8>,
}

impl Compiler {
    fn new(command: Vec<OsString>) -> Option<Compiler> {
        let (program, arguments) = command.split_first()?;
        let mut query = Command::new(program);
        let output = query.args(arguments).arg("--version").stdin(Stdio::null()).output().ok()?;
        output.status.success().then_some(Compiler { command, version: output.stdout })
    }
}

/// Returns the compiler of this process. The first call searches for it.
fn compiler() -> Option<&'static Compiler> {
    static COMPILERS: OnceLock<Option<Compiler>> = OnceLock::new();
    let found = COMPILERS.get_or_init(|| match std::env::var(COMPILER) {
        Ok(command) => Compiler::new(command.split_whitespace().map(OsString::from).collect()),
        Err(_) => {
            ["c++", "g++", "clang++"].iter().find_map(|name| Compiler::new(vec![name.into()]))
        }
    });
    found.as_ref()
}

/// Returns whether there is a compiler.
pub(crate) fn is_available() -> bool {
    compiler().is_some()
}

/// Returns the cache folder of compiled sources: in cargo's target folder, or in the system's
/// folder of temporary files.
fn folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let built = program.ancestors().find(|folder| folder.join(".fingerprint").exists());
    let target = built.and_then(Path::parent);
    target.map_or_else(std::env::temp_dir, Path::to_owned).join("cuda-standin")
}

/// Returns the names of a source's kernels. An attribute may precede a name.
pub(crate) fn kernels(source: &str) -> impl Iterator<Item = &str> {
    let after = source.split("extern \"C\" __global__ void ").skip(1);
    after.filter_map(|rest| rest.split_once('(')?.0.split_whitespace().last())
}

/// Returns the library of a source, from the cache or compiled now.
///
/// # Errors
/// There is no compiler, or the compiler's messages.
pub(crate) fn compile(source: &str) -> Result<PathBuf> {
    let Some(compiler) = compiler() else {
        bail!("there is no C++ compiler: set {COMPILER} to one, or add c++ to PATH")
    };
    let entries = kernels(source).map(|name| format!("MS_ENTRY({name})\n"));
    let entries: String = entries.collect();
    let whole = format!("{PRELUDE}\n#line 1 \"millstream.cu\"\n{source}\n}}\n{entries}");
    let mut hash = blake3::Hasher::new();
    for option in OPTIONS {
        hash.update(option.as_bytes()).update(b"\0");
    }
    hash.update(&compiler.version).update(b"\0").update(whole.as_bytes());
    let folder = folder();
    let file = folder.join(format!("{}.so", hash.finalize().to_hex()));
    if file.exists() {
        return Ok(file);
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // Each compilation has its own folder; the finished library is moved into the cache atomically.
    let temporary = tempfile::Builder::new().prefix("part-").tempdir_in(&folder)?;
    let folder = temporary.path();
    let (text, library) = (folder.join("millstream.cpp"), folder.join("library"));
    fs::write(&text, whole)?;
    let (program, arguments) = compiler.command.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).args(OPTIONS).arg(&text).arg("-o").arg(&library).arg("-lm");
    let output = command.stdin(Stdio::null()).output().context("the C++ compiler")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    fs::rename(&library, &file)?;
    Ok(file)
}
