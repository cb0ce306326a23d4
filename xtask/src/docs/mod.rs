//! `docs`: writes the pages and the sources that are generated from the code.

mod examples;
mod methods;
mod ops;

use std::collections::{BTreeMap, BTreeSet};
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

/// The names of PyTorch's ops that a run computes. The recorder refuses others.
const RECORDED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../python/millstream/recorder/ops.txt");

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

/// Returns the content of [`RECORDED`]. Names stay that no op here has: the importer lowers them.
fn recorded() -> anyhow::Result<String> {
    let known = fs::read_to_string(RECORDED).with_context(|| format!("cannot read {RECORDED}"))?;
    let families = families();
    let names = families.iter().flat_map(|(_, ops)| ops).map(|op| op.name());
    let names = names.map(|name| match name.contains("::") {
        true => name.to_owned(),
        false => format!("aten::{name}"),
    });
    let all: BTreeSet<String> = known.lines().map(str::to_owned).chain(names).collect();
    Ok(all.into_iter().map(|name| name + "\n").collect())
}

/// Writes or checks docs/instructions.md, docs/ops.md, the methods of tensors and the recorder's
/// names of ops.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { check, folder, methods } = arguments;
    let uses = ops::Uses::read()?;
    let pages = [("instructions.md", reference_page()), ("ops.md", ops::page(&uses)?)];
    let sources = methods::sources(&uses, examples::Examples::read()?)?;
    let gone = other_files(methods, &sources)?;
    let pages = pages.map(|(name, page)| (folder.join(name), page));
    let sources = sources.into_iter().map(|(name, source)| (methods.join(name), source));
    let names = [(PathBuf::from(RECORDED), recorded()?)];
    let files: Vec<(PathBuf, String)> = pages.into_iter().chain(sources).chain(names).collect();
    if !check {
        for (path, content) in &files {
            millstream_files::write(path, content)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        return Ok(gone.iter().try_for_each(fs::remove_file)?);
    }
    let wrong = files.iter().filter_map(|(path, content)| match fs::read_to_string(path) {
        Ok(found) if found == *content => None,
        Ok(_) => Some(format!("{} is out of date", path.display())),
        Err(error) => Some(format!("cannot read {}: {error}", path.display())),
    });
    let gone = gone.iter().map(|path| format!("{} is of no family", path.display()));
    let wrong: Vec<String> = wrong.chain(gone).collect();
    ensure!(wrong.is_empty(), "{}; run `cargo xtask docs`", wrong.join("\n"));
    Ok(())
}

/// Returns the files of a folder, if it is there, that are none of these.
fn other_files(folder: &Path, files: &BTreeMap<String, String>) -> anyhow::Result<Vec<PathBuf>> {
    let mut others = Vec::new();
    if !folder.exists() {
        return Ok(others);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(|name| files.contains_key(name)) {
            others.push(entry.path());
        }
    }
    Ok(others)
}
