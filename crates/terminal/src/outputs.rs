//! Where a command writes: its tables to the terminal, its data to the files that options name.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The files that a command's options name for data; `-` is standard output.
#[derive(Clone, Debug, Default)]
pub struct Outputs(Vec<(&'static str, PathBuf)>);

impl Outputs {
    /// Returns the files of these options, of which some are not given.
    ///
    /// # Errors
    /// Two options name the same file, or standard output.
    pub fn new<'a>(
        options: impl IntoIterator<Item = (&'static str, Option<&'a Path>)>,
    ) -> Result<Outputs, String> {
        let given = options.into_iter().filter_map(|(option, path)| Some((option, path?)));
        let mut outputs = Outputs::default();
        for (option, path) in given {
            let own = identity(path);
            if let Some((other, _)) = outputs.0.iter().find(|(_, other)| identity(other) == own) {
                let file = match path == Path::new("-") {
                    true => "standard output".to_owned(),
                    false => path.display().to_string(),
                };
                return Err(format!("{other} and {option} cannot both write to {file}"));
            }
            outputs.0.push((option, path.to_owned()));
        }
        Ok(outputs)
    }

    /// Refuses to write to a file that the command reads.
    ///
    /// # Errors
    /// An option names one of `inputs`.
    pub fn refuse<'a>(&self, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), String> {
        let same = |input: &Path, path: &Path| {
            path != Path::new("-") && input.exists() && identity(input) == identity(path)
        };
        for input in inputs {
            if let Some((option, path)) = self.0.iter().find(|(_, path)| same(input, path)) {
                let path = path.display();
                return Err(format!("{option} {path} would overwrite a file that is read"));
            }
        }
        Ok(())
    }

    /// Prints to standard output, or to standard error if standard output is reserved for data. A
    /// closed pipe is no error: its reader has seen enough.
    ///
    /// # Errors
    /// The text cannot be written, for example because a disk is full.
    pub fn show(
        &self,
        print: impl FnOnce(&mut dyn Write, bool) -> io::Result<()>,
    ) -> Result<(), String> {
        let is_reserved = self.0.iter().any(|(_, path)| path == Path::new("-"));
        let shown = match is_reserved {
            true => print(&mut io::stderr().lock(), io::stderr().is_terminal()),
            false => {
                let mut out = io::stdout().lock();
                print(&mut out, io::stdout().is_terminal()).and_then(|()| out.flush())
            }
        };
        match shown {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                let stream = if is_reserved { "error" } else { "output" };
                Err(format!("cannot write to standard {stream}: {e}"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns what names the same file whatever its spelling, as far as the file exists.
fn identity(path: &Path) -> PathBuf {
    let whole = path.canonicalize();
    whole.unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            parent.canonicalize().unwrap_or_else(|_| parent.to_owned()).join(name)
        }
        _ => path.to_owned(),
    })
}
