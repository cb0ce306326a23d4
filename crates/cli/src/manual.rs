//! `completions` and `man`: what a shell and the manual know of the command line, made from the
//! command line itself.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use millstream_terminal::file;

/// The arguments of `millstream completions`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    millstream completions bash > ~/.local/share/bash-completion/completions/millstream")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The arguments of `millstream man`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  millstream man ~/.local/share/man/man1 && man millstream-run")]
pub(crate) struct Man {
    /// An existing folder, for one page for each command
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

fn command() -> Command {
    crate::Arguments::command().name("millstream")
}

/// Prints the completions for a shell.
pub(crate) fn completions(arguments: &Completions) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "millstream", &mut text);
    file::write(Path::new("-"), text).map_err(anyhow::Error::msg)
}

/// Writes a page for each command.
pub(crate) fn man(arguments: &Man) -> anyhow::Result<()> {
    let folder = &arguments.folder;
    let written = clap_mangen::generate_to(command(), folder);
    written.with_context(|| format!("cannot write manual pages to {}", folder.display()))
}
