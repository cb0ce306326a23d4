//! Builds programs of the workspace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a program with these features and no others, and returns its path. Without optimisation
/// that takes less than half of the time. The first build, which takes minutes, shows cargo's
/// progress.
///
/// # Errors
/// The program could not be built; cargo has printed why.
pub(crate) fn build(
    package: &str,
    name: &str,
    features: &str,
    optimized: bool,
) -> Result<PathBuf, String> {
    let profile = if optimized { "release" } else { "unoptimized" };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = root.join(target).join(profile).join(file);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build
        .args(["build", "--profile", profile, "--package", package, "--bin", name])
        .args(["--no-default-features", "--features", features])
        .current_dir(root);
    if program.exists() {
        build.arg("--quiet");
    }
    let status = build.status().map_err(|e| format!("cannot run cargo: {e}"))?;
    if !status.success() {
        return Err(format!("{name} could not be built"));
    }
    Ok(program)
}

/// Builds `millstream` with these features.
///
/// # Errors
/// As for [`build`].
pub(crate) fn millstream(features: &str, optimized: bool) -> Result<PathBuf, String> {
    build("millstream-cli", "millstream", features, optimized)
}
