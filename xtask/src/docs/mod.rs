//! `docs`: writes the pages and the sources that are generated from the code.

mod examples;
mod methods;
mod ops;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use millstream_instructions::reference::reference_page;
use millstream_ops::{Op, composite};

/// The arguments of `cargo xtask docs`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail if a file is out of date
    #[arg(long)]
    check: bool,
    /// Folder of the pages
    #[arg(long, value_name = "FOLDER", default_value = default_folder())]
    folder: PathBuf,
    /// Folder of the sources of tensors' methods
    #[arg(long, value_name = "FOLDER", default_value = default_methods())]
    methods: PathBuf,
}

fn default_folder() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")
}

fn default_methods() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/vm/src/tensor/methods")
}

/// The titles of families, and their ops.
type Families = Vec<(&'static str, Vec<&'static dyn Op>)>;

/// Returns the families with their composites.
fn families() -> Families {
    let mut families = millstream_ops::families();
    for (title, ops) in composite::families() {
        let ops = ops.map(|op| op as &dyn Op);
        match families.iter_mut().find(|(known, _)| *known == title) {
            Some((_, known)) => known.extend(ops),
            None => families.push((title, ops.collect())),
        }
    }
    families
}

/// Writes or checks docs/instructions.md, docs/ops.md and the methods of tensors.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let uses = ops::Uses::read()?;
    for (name, page) in [("instructions.md", reference_page()), ("ops.md", ops::page(&uses)?)] {
        write_or_check(&arguments.folder.join(name), &page, arguments.check)?;
    }
    let examples = examples::Examples::read()?;
    methods::run(&uses, examples, &arguments.methods, arguments.check)
}

/// Writes a file, or checks that it has this content.
fn write_or_check(path: &Path, content: &str, check: bool) -> anyhow::Result<()> {
    if check {
        let found =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(found == content, "{} is out of date; run `cargo xtask docs`", path.display());
        return Ok(());
    }
    millstream_files::write(path, content)
        .with_context(|| format!("cannot write {}", path.display()))
}
