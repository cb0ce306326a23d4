//! Builds programs of the workspace, optimised.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a program with these features and no others, and returns its path.
///
/// # Errors
/// The program could not be built; cargo has printed why.
pub(crate) fn build(package: &str, name: &str, features: &str) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build
        .args(["build", "--release", "--quiet", "--package", package, "--bin", name])
        .args(["--no-default-features", "--features", features])
        .current_dir(root);
    let status = build.status().map_err(|e| format!("cannot run cargo: {e}"))?;
    if !status.success() {
        return Err(format!("{name} could not be built"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    Ok(root.join(target).join("release").join(file))
}

/// Builds `millstream` with these features.
///
/// # Errors
/// As for [`build`].
pub(crate) fn millstream(features: &str) -> Result<PathBuf, String> {
    build("millstream-cli", "millstream", features)
}
