//! `docs`: writes the pages that are made from the code.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use millstream::instructions::reference::reference_page;

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail if the page is not what it would be.
    #[arg(long)]
    check: bool,
    /// The folder of the pages.
    #[arg(long, value_name = "FOLDER", default_value = default_folder())]
    folder: std::path::PathBuf,
}

fn default_folder() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")
}

/// Writes or checks docs/instructions.md.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path: &Path = &arguments.folder.join("instructions.md");
    let page = reference_page();
    if !arguments.check {
        fs::create_dir_all(&arguments.folder)
            .with_context(|| format!("cannot make {}", arguments.folder.display()))?;
        return fs::write(path, page).with_context(|| format!("cannot write {}", path.display()));
    }
    let found =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(found == page, "{} is out of date; run `cargo xtask docs`", path.display());
    Ok(())
}
