//! `docs`: writes the pages that are generated from the code.

mod ops;

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use millstream_instructions::reference::reference_page;

/// The arguments of `cargo xtask docs`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail if a page is out of date
    #[arg(long)]
    check: bool,
    /// Folder of the pages
    #[arg(long, value_name = "FOLDER", default_value = default_folder())]
    folder: std::path::PathBuf,
}

fn default_folder() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")
}

/// Writes or checks docs/instructions.md and docs/ops.md.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for (name, page) in [("instructions.md", reference_page()), ("ops.md", ops::page()?)] {
        let path: &Path = &arguments.folder.join(name);
        if arguments.check {
            let found = fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            ensure!(found == page, "{} is out of date; run `cargo xtask docs`", path.display());
            continue;
        }
        fs::create_dir_all(&arguments.folder)
            .with_context(|| format!("cannot make {}", arguments.folder.display()))?;
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
