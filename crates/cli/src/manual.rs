//! `completions` and `man`: the command line for a shell and for the manual, made from its own
//! definition.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as Page;
use millstream_files::Outputs;

/// The arguments of `millstream completions`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    millstream completions bash ~/.local/share/bash-completion/completions/millstream")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
    /// The file to write; `-` is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

/// The arguments of `millstream man`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  millstream man ~/.local/share/man/man1 && man millstream-run")]
pub(crate) struct Man {
    /// The folder for the pages, one for each command
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

fn command() -> Command {
    crate::Arguments::command()
}

/// Writes the completions for a shell.
pub(crate) fn completions(arguments: &Completions) -> anyhow::Result<()> {
    let outputs = Outputs::new([("FILE", Some(&*arguments.file))])?;
    outputs.prepare()?;
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "millstream", &mut text);
    outputs.write("FILE", || Ok(text));
    Ok(outputs.finish()?)
}

/// Writes a page for each command.
pub(crate) fn man(arguments: &Man) -> anyhow::Result<()> {
    let mut command = command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    pages_of(&command, &mut pages);
    let names = pages.iter().map(|page| page.get_filename());
    let outputs = Outputs::default().folder("FOLDER", &arguments.folder, names)?;
    outputs.prepare()?;
    for page in &pages {
        let mut text = Vec::new();
        page.render(&mut text)?;
        outputs.write_in("FOLDER", &page.get_filename(), text);
    }
    Ok(outputs.finish()?)
}

/// Adds the pages of a command and of those below it.
fn pages_of(command: &Command, pages: &mut Vec<Page>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages_of(below, pages);
    }
    pages.push(Page::new(command.clone()));
}
