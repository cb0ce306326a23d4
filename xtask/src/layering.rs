//! `layering`: checks that the crates depend on one another only as [`LAYERS`] allows, and the
//! folders of a crate only as [`FOLDERS`] does.
//!
//! Tests obey the same table as the crate that they test, and may also use the crates in
//! [`TESTED_WITH`]. A crate may name itself in its dev-dependencies, to enable its own features.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::folders;
use crate::layers::{FOLDERS, LAYERS, TESTED_WITH};

/// Checks the workspace that this command belongs to.
///
/// # Errors
/// Fails if a dependency violates the table. All violations are printed to standard error.
pub(crate) fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    let crates = read_workspace(root)?;
    let violations = check(LAYERS, TESTED_WITH, &crates);
    let mut violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
    for row in FOLDERS {
        violations.extend(folders::check(root, row)?);
    }
    for violation in &violations {
        eprintln!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} violation(s) of the tables in xtask/src/layers.rs", violations.len());
    }
    println!("{} crates depend on one another as the table of layers says", crates.len());
    for row in FOLDERS {
        let upward: usize = row.upward.iter().map(|(.., count)| count).sum();
        println!("{}: {upward} references to a folder above", row.src);
    }
    Ok(())
}

/// The part of the output of `cargo metadata` that is read.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

/// A dependency as a manifest declares it.
#[derive(Clone, Debug, Deserialize)]
struct Dependency {
    name: String,
    /// The name in the manifest, if it differs from the package's.
    rename: Option<String>,
    /// None for a normal dependency.
    kind: Option<String>,
}

impl Dependency {
    fn table(&self) -> &str {
        match self.kind.as_deref() {
            Some("dev") => "dev-dependencies",
            Some("build") => "build-dependencies",
            _ => "dependencies",
        }
    }
}

/// A crate of the workspace with its manifest.
#[derive(Clone, Debug)]
struct Crate {
    name: String,
    /// The manifest's path, from the root of the workspace.
    manifest: String,
    text: String,
    dependencies: Vec<Dependency>,
}

fn read_workspace(root: &Path) -> Result<Vec<Crate>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .context("cannot parse the output of cargo metadata")?;
    let read = |package: Package| {
        let text = std::fs::read_to_string(&package.manifest_path)
            .with_context(|| package.manifest_path.display().to_string())?;
        let path = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
        let manifest = path.display().to_string();
        Ok(Crate { name: package.name, manifest, text, dependencies: package.dependencies })
    };
    metadata.packages.into_iter().map(read).collect()
}

/// A violation of the table.
#[derive(Debug, PartialEq, Eq)]
enum Violation {
    /// A dependency that the table does not allow.
    Dependency { manifest: String, line: usize, text: String, from: String, to: String },
    /// A crate that is missing from the table.
    Unlisted { manifest: String, name: String },
    /// A crate of the table that does not exist.
    Missing { name: String },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Dependency { manifest, line, text, from, to } => {
                write!(f, "{manifest}:{line}: `{text}`: {from} must not depend on {to}")
            }
            Violation::Unlisted { manifest, name } => {
                write!(f, "{manifest}: {name} is not in the table of layers")
            }
            Violation::Missing { name } => {
                write!(f, "the table of layers has {name}, which is not in the workspace")
            }
        }
    }
}

/// A table of crates: a name, with the names that belong to it.
type Table<'a> = &'a [(&'a str, &'a [&'a str])];

/// Returns the dependencies that the tables do not allow, in the order of the crates and their
/// manifests.
fn check(layers: Table<'_>, tested_with: Table<'_>, crates: &[Crate]) -> Vec<Violation> {
    let ours: BTreeSet<&str> = crates.iter().map(|c| c.name.as_str()).collect();
    let mut violations = Vec::new();
    for member in crates {
        let Some((_, allowed)) = layers.iter().find(|(name, _)| *name == member.name) else {
            let (manifest, name) = (member.manifest.clone(), member.name.clone());
            violations.push(Violation::Unlisted { manifest, name });
            continue;
        };
        for dependency in &member.dependencies {
            let of_tests = dependency.kind.as_deref() == Some("dev")
                && (dependency.name == member.name
                    || tested_with.iter().any(|(name, with)| {
                        *name == member.name && with.contains(&dependency.name.as_str())
                    }));
            if of_tests
                || !ours.contains(dependency.name.as_str())
                || allowed.contains(&dependency.name.as_str())
            {
                continue;
            }
            let (line, text) = declaration(&member.text, dependency);
            violations.push(Violation::Dependency {
                manifest: member.manifest.clone(),
                line,
                text,
                from: member.name.clone(),
                to: dependency.name.clone(),
            });
        }
    }
    let missing = layers.iter().filter(|(name, _)| !ours.contains(name));
    violations.extend(missing.map(|(name, _)| Violation::Missing { name: (*name).to_owned() }));
    violations
}

/// Returns the line of a manifest that declares a dependency, counted from 1, and its text. Cargo
/// has accepted the manifest, so a declaration in an unusual form is reported as the first line.
fn declaration(manifest: &str, dependency: &Dependency) -> (usize, String) {
    let key = dependency.rename.as_deref().unwrap_or(&dependency.name);
    let table = dependency.table();
    let mut within = false;
    for (at, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            // `dependencies`, or `target.'cfg(unix)'.dependencies`.
            within = header == table || header.ends_with(&format!(".{table}"));
            if header.strip_suffix(key).is_some_and(|h| h.ends_with(&format!("{table}."))) {
                return (at + 1, line.to_owned());
            }
            continue;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default().trim_matches('"');
        if within && name == key {
            return (at + 1, line.to_owned());
        }
    }
    (1, manifest.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: &[(&str, &[&str])] = &[("low", &[]), ("high", &["low"])];

    /// Returns a crate with these dependencies, as (table, name, kind).
    fn member(name: &str, text: &str, dependencies: serde_json::Value) -> Crate {
        Crate {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            text: text.to_owned(),
            dependencies: serde_json::from_value(dependencies).unwrap(),
        }
    }

    #[track_caller]
    fn expect(crates: &[Crate], expected: &[&str]) {
        let found: Vec<String> =
            check(TABLE, &[], crates).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    fn on(name: &str, kind: Option<&str>) -> serde_json::Value {
        json!({ "name": name, "rename": null, "kind": kind })
    }

    fn low() -> Crate {
        member("low", "[package]\n", json!([]))
    }

    #[test]
    fn allowed_dependencies_pass() {
        let text = "[dependencies]\nlow.workspace = true\nserde = \"1\"\n";
        let high = member("high", text, json!([on("low", None), on("serde", None)]));
        expect(&[low(), high], &[]);
    }

    #[test]
    fn an_upward_dependency_is_shown_with_its_line() {
        let text = "[package]\nname = \"low\"\n\n[dependencies]\nhigh = { path = \"../high\" }\n";
        let low = member("low", text, json!([on("high", None)]));
        expect(
            &[low, member("high", "", json!([]))],
            &["crates/low/Cargo.toml:5: `high = { path = \"../high\" }`: \
               low must not depend on high"],
        );
    }

    #[test]
    fn build_and_test_dependencies_obey_the_table_too() {
        let text = "[dependencies]\n[dev-dependencies]\nhigh.workspace = true\n\
                    [target.'cfg(unix)'.build-dependencies]\nhigh = \"1\"\n";
        let deps = json!([on("high", Some("dev")), on("high", Some("build"))]);
        expect(
            &[member("low", text, deps), member("high", "", json!([]))],
            &[
                "crates/low/Cargo.toml:3: `high.workspace = true`: low must not depend on high",
                "crates/low/Cargo.toml:5: `high = \"1\"`: low must not depend on high",
            ],
        );
    }

    #[test]
    fn a_crate_may_test_itself_with_other_features() {
        let text = "[dev-dependencies]\nlow = { path = \".\" }\n";
        let low = member("low", text, json!([on("low", Some("dev"))]));
        expect(&[low, member("high", "", json!([]))], &[]);
    }

    #[test]
    fn a_renamed_dependency_is_found() {
        let text = "[dependencies.other]\npackage = \"high\"\n";
        let renamed = json!([{ "name": "high", "rename": "other", "kind": null }]);
        expect(
            &[member("low", text, renamed), member("high", "", json!([]))],
            &["crates/low/Cargo.toml:1: `[dependencies.other]`: low must not depend on high"],
        );
    }

    #[test]
    fn table_and_workspace_have_the_same_crates() {
        expect(
            &[low(), member("new", "", json!([]))],
            &[
                "crates/new/Cargo.toml: new is not in the table of layers",
                "the table of layers has high, which is not in the workspace",
            ],
        );
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (at, (name, allowed)) in LAYERS.iter().enumerate() {
            for below in *allowed {
                let lower = LAYERS[..at].iter().any(|(n, _)| n == below);
                assert!(lower, "{name} may depend on {below}, which does not stand before it");
            }
        }
    }
}
