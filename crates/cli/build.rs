//! Passes the commit on to `millstream --version`, where the sources are a clone.

use std::path::Path;
use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // Not the commit of another project in whose clone these sources lie.
    let own = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).filter(|_| own);
    let commit = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    println!("cargo::rustc-env=MILLSTREAM_COMMIT={commit}");
    // Every commit and checkout adds a line there.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    println!("cargo::rerun-if-changed={}", log.as_deref().unwrap_or("build.rs"));
}
