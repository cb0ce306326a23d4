//! Compiles every CUDA kernel for the architectures of three generations. Requires NVRTC but no
//! GPU; without NVRTC, the test prints that it is skipped, unless [`REQUIRE`] is set.
#![cfg(feature = "cuda")]

use std::ffi::{CStr, CString};

use millstream_ep::cuda::{Compiler, Output};

/// The environment variable that makes a missing compiler a failure.
const REQUIRE: &str = "MILLSTREAM_REQUIRE_NVRTC";

/// Volta, Ampere and Hopper. CUDA 12 compiles for all three.
const ARCHITECTURES: [(i32, i32); 3] = [(7, 0), (8, 0), (9, 0)];

/// Returns a compiler that compiles. Tests may find the compiler of the stand-in first, which does
/// not.
fn compiler() -> Result<Compiler, String> {
    let compiler = Compiler::find(12_000).map_err(|error| format!("{error:#}"))?;
    let empty = c"extern \"C\" __global__ void empty() {}";
    match ptx(&compiler, empty, ARCHITECTURES[0]) {
        Ok(ptx) if ptx.contains(".visible .entry empty") => Ok(compiler),
        Ok(_) => Err(format!("{} does not compile", compiler.path().display())),
        Err(error) => Err(format!("{error:#}")),
    }
}

fn ptx(compiler: &Compiler, source: &CStr, architecture: (i32, i32)) -> anyhow::Result<String> {
    let options = compiler.options(architecture, Output::Ptx);
    Ok(String::from_utf8(compiler.compile(source, &options, Output::Ptx)?)?)
}

fn compiles(compiler: &Compiler, architecture: (i32, i32), (name, source): &(String, CString)) {
    let ptx = ptx(compiler, source, architecture);
    let ptx = ptx.unwrap_or_else(|e| panic!("{name} for {architecture:?}: {e:#}"));
    assert!(ptx.contains(&format!(".visible .entry {name}(")), "{name}: {ptx:.500}");
    let target = format!(".target sm_{}{}", architecture.0, architecture.1);
    assert!(ptx.contains(&target), "{name}: {ptx:.500}");
    // Kernels that claim to process several elements at once must also load them at once.
    let of = name.split_once("__").map_or("", |(_, dtypes)| dtypes);
    if of.contains("_by") {
        assert!(loads_sixteen_bytes(&ptx), "{name} for {architecture:?}: {ptx}");
    }
}

/// Returns whether a kernel has an instruction that loads 16 bytes.
fn loads_sixteen_bytes(ptx: &str) -> bool {
    let loads = ptx.lines().filter(|line| line.trim_start().starts_with("ld.global"));
    let wide = ["v4.u32", "v4.b32", "v4.f32", "v2.u64", "v2.b64", "v2.f64"];
    loads.into_iter().any(|line| wide.iter().any(|kind| line.contains(kind)))
}

#[test]
fn every_source_compiles() {
    let compiler = match compiler() {
        Ok(compiler) => compiler,
        Err(why) => {
            let required = std::env::var_os(REQUIRE).is_some_and(|v| !v.is_empty() && v != "0");
            assert!(!required, "{REQUIRE} is set: {why}");
            println!("skipped: {why}");
            return;
        }
    };
    assert!(compiler.version().is_some_and(|version| version >= (12, 0)), "{compiler:?}");
    let sources = millstream_kernels::cuda::sources();
    assert!(sources.len() > 100, "{}", sources.len());
    // One thread for each architecture.
    std::thread::scope(|scope| {
        for architecture in ARCHITECTURES {
            let (compiler, sources) = (&compiler, &sources);
            scope.spawn(move || sources.iter().for_each(|s| compiles(compiler, architecture, s)));
        }
    });
    let several = sources.iter().filter(|(name, _)| name.contains("_by")).count();
    assert!(several > 10, "{several} kernels take several elements at once");
    println!("{} kernels for {} architectures", sources.len(), ARCHITECTURES.len());
}

/// Binaries are those of an architecture that the compiler knows.
#[test]
fn binaries_are_made_of_known_architectures() {
    let Ok(compiler) = compiler() else { return println!("skipped: no compiler") };
    assert_eq!(compiler.output_for((9, 0)), Output::Binary);
    assert_eq!(compiler.output_for((99, 0)), Output::Ptx);
    let (_, source) = millstream_kernels::cuda::sources().swap_remove(0);
    let options = compiler.options((9, 0), Output::Binary);
    let binary = compiler.compile(&source, &options, Output::Binary).unwrap();
    assert!(binary.starts_with(b"\x7fELF"));
}

/// The error of a mistake holds the compiler's message and the line.
#[test]
fn errors_hold_the_message_and_the_line() {
    let Ok(compiler) = compiler() else { return println!("skipped: no compiler") };
    let error = ptx(&compiler, c"__global__ void broken() { int x = y; }", ARCHITECTURES[0]);
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("millstream.cu(1)") && error.contains('y'), "{error}");
}
