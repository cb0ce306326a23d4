//! The C++ compiler: `MILLSTREAM_CXX`, a command that may have arguments, or the first of `c++`, `g++`
//! and `clang++` in `PATH`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// Names the compiler.
pub(crate) const COMPILER: &str = "MILLSTREAM_CXX";

/// What it is told. Products and sums are not joined, since the host's kernels do not join them.
const OPTIONS: &[&str] = &[
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
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

/// The command of the compiler of this process, with its version's words.
struct Compiler {
    command: Vec<OsString>,
    version: Vec<u8>,
}

impl Compiler {
    fn new(command: Vec<OsString>) -> Option<Compiler> {
        let (program, arguments) = command.split_first()?;
        let mut asked = Command::new(program);
        let asked = asked.args(arguments).arg("--version").stdin(Stdio::null()).output().ok()?;
        asked.status.success().then_some(Compiler { command, version: asked.stdout })
    }
}

/// The compiler of this process, looked for once.
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

/// Whether there is one.
pub(crate) fn is_there() -> bool {
    compiler().is_some()
}

/// Where compiled sources are kept: beside what cargo builds, or with the system's temporary files.
fn folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let built = program.ancestors().find(|folder| folder.join(".fingerprint").exists());
    let target = built.and_then(Path::parent);
    target.map_or_else(std::env::temp_dir, Path::to_owned).join("cuda-standin")
}

/// The names of a source's kernels; a word before one may say how it is compiled.
pub(crate) fn kernels(source: &str) -> impl Iterator<Item = &str> {
    let after = source.split("extern \"C\" __global__ void ").skip(1);
    after.filter_map(|rest| rest.split_once('(')?.0.split_whitespace().last())
}

/// The library of a source, compiled unless it is there.
///
/// # Errors
/// There is no compiler, or the compiler's words.
pub(crate) fn compile(source: &str) -> Result<PathBuf> {
    let Some(compiler) = compiler() else {
        bail!("there is no C++ compiler: name one in {COMPILER}, or put c++ into PATH")
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
    // Each compilation has files of its own, and what is done is moved to its place at once.
    let beside = tempfile::Builder::new().prefix("part-").tempdir_in(&folder)?;
    let (text, library) = (beside.path().join("millstream.cpp"), beside.path().join("library"));
    fs::write(&text, whole)?;
    let (program, arguments) = compiler.command.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).args(OPTIONS).arg(&text).arg("-o").arg(&library).arg("-lm");
    let told = command.stdin(Stdio::null()).output().context("the C++ compiler")?;
    if !told.status.success() {
        bail!("{}", String::from_utf8_lossy(&told.stderr));
    }
    fs::rename(&library, &file)?;
    Ok(file)
}
