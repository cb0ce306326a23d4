//! The files that a command's options name, and the text that it prints beside them.
//!
//! Every output is checked before the command runs. A write that fails stops no other one: all
//! failures are kept for [`Outputs::finish`].

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::console::Console;
use crate::place::{Identity, Place};
use crate::replace::{Staged, probe, stage};

/// The outputs of a command; `-` is standard output.
#[derive(Debug, Default)]
pub struct Outputs {
    files: Vec<Output>,
    failures: Mutex<Vec<String>>,
}

/// A file to be written.
#[derive(Debug)]
struct Output {
    option: &'static str,
    /// The path as the user wrote it.
    path: PathBuf,
    place: Place,
    identity: Option<Identity>,
}

impl Output {
    fn new(option: &'static str, path: PathBuf) -> Result<Output, OutputError> {
        let place = Place::of(&path).map_err(|e| cannot(option, &path, &e))?;
        let identity = place.identity();
        Ok(Output { option, path, place, identity })
    }

    fn is_standard(&self) -> bool {
        matches!(self.place, Place::Standard)
    }

    /// Returns why two outputs cannot both be written.
    fn conflict(&self, other: &Output) -> Option<String> {
        let same = format!("{} and {} cannot both write to", other.option, self.option);
        if self.is_standard() && other.is_standard() {
            return Some(format!("{same} standard output; name a file for one of them"));
        }
        let [own, others] = [self, other].map(|output| output.identity.as_ref());
        let (own, others) = own.zip(others)?;
        let path = self.path.display();
        if own == others {
            return Some(format!("{same} {path}; name two files"));
        }
        let [file, folder] = match (own.is_below(others), others.is_below(own)) {
            (true, _) => [self, other],
            (_, true) => [other, self],
            _ => return None,
        };
        let (inner, outer) = (file.path.display(), folder.path.display());
        let (of_inner, of_outer) = (file.option, folder.option);
        Some(format!(
            "{of_inner} {inner}: {of_outer} writes {outer} as a file; name another folder"
        ))
    }
}

/// Outputs that cannot be written, or were not.
#[derive(Debug)]
pub struct OutputError(Vec<String>);

impl OutputError {
    /// Returns a message for each output.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for OutputError {}

impl From<OutputError> for String {
    fn from(error: OutputError) -> String {
        error.to_string()
    }
}

fn one(message: String) -> OutputError {
    OutputError(vec![message])
}

fn cannot(option: &str, path: &Path, error: &io::Error) -> OutputError {
    let why = match error.kind() {
        io::ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is a file, not a folder".to_owned(),
        _ => error.to_string(),
    };
    one(format!("{option}: cannot write {}: {why}", path.display()))
}

impl Outputs {
    /// Returns the files of these options, of which some are not given.
    ///
    /// # Errors
    /// Two options name the same file, or standard output; a path is that of a folder or of the
    /// running program.
    pub fn new<'a>(
        options: impl IntoIterator<Item = (&'static str, Option<&'a Path>)>,
    ) -> Result<Outputs, OutputError> {
        let mut outputs = Outputs::default();
        for (option, path) in options {
            if let Some(path) = path {
                outputs.add(Output::new(option, path.to_owned())?)?;
            }
        }
        Ok(outputs)
    }

    /// Adds files of these names in the folder that an option names.
    ///
    /// # Errors
    /// The same as those of [`Outputs::new`].
    pub fn folder<N: AsRef<Path>>(
        mut self,
        option: &'static str,
        folder: &Path,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Outputs, OutputError> {
        for name in names {
            self.add(Output::new(option, folder.join(name))?)?;
        }
        Ok(self)
    }

    fn add(&mut self, output: Output) -> Result<(), OutputError> {
        // The names of one folder differ.
        let others = self.files.iter().filter(|other| other.option != output.option);
        if let Some(message) = others.into_iter().find_map(|other| output.conflict(other)) {
            return Err(one(message));
        }
        let (option, path) = (output.option, output.path.display());
        if !output.is_standard() && output.identity.is_some() {
            let own = std::env::current_exe().ok().map(|own| Identity::of(&own));
            if output.identity == own {
                let message = format!("{option} {path} would overwrite this program");
                return Err(one(format!("{message}; name another file")));
            }
            if output.identity == Identity::of_open(io::stdout()) {
                let message =
                    format!("{option} {path}: standard output is redirected to this file");
                return Err(one(format!("{message} as well; name two files")));
            }
        }
        self.files.push(output);
        Ok(())
    }

    /// Refuses to write to a file that the command reads; `-` is standard input.
    ///
    /// # Errors
    /// An option names one of `inputs`.
    pub fn refuse<P: AsRef<Path>>(
        &self,
        inputs: impl IntoIterator<Item = P>,
    ) -> Result<(), OutputError> {
        let files: Vec<&Output> = self.files.iter().filter(|o| o.identity.is_some()).collect();
        if files.is_empty() {
            return Ok(());
        }
        for input in inputs {
            let input = input.as_ref();
            let identity = match input == Path::new("-") {
                true => Identity::of_open(io::stdin()),
                false => Place::of(input).ok().and_then(|place| place.identity()),
            };
            let is_read = |file: &&&Output| identity.is_some() && file.identity == identity;
            if let Some(Output { option, path, .. }) = files.iter().find(is_read) {
                let message =
                    format!("{option} {} would overwrite a file that is read", path.display());
                return Err(one(format!("{message}, {}; name another file", input.display())));
            }
        }
        Ok(())
    }

    /// Finds out whether all files can be written, their missing folders included. Changes nothing.
    ///
    /// # Errors
    /// A file or its folder is read-only.
    pub fn prepare(&self) -> Result<(), OutputError> {
        let failed = |file: &Output| {
            let failed = probe(&file.place).err()?;
            Some(cannot(file.option, &file.path, &failed).0)
        };
        let failures: Vec<String> = self.files.iter().filter_map(failed).flatten().collect();
        if failures.is_empty() { Ok(()) } else { Err(OutputError(failures)) }
    }

    /// Returns whether an option names a file, or standard output.
    pub fn has(&self, option: &str) -> bool {
        self.files.iter().any(|file| file.option == option)
    }

    /// Writes the file of an option, if the option is given. A failure is kept for
    /// [`Outputs::finish`].
    pub fn write<D: AsRef<[u8]>>(&self, option: &str, data: impl FnOnce() -> Result<D, String>) {
        if let Some(file) = self.files.iter().find(|file| file.option == option) {
            self.write_file(file, data());
        }
    }

    /// Writes the file of this name in the folder of an option, if the option is given. A failure
    /// is kept for [`Outputs::finish`].
    pub fn write_in<D: AsRef<[u8]>>(&self, option: &str, name: &str, data: D) {
        let is_meant = |file: &&Output| file.option == option && file.path.ends_with(name);
        if let Some(file) = self.files.iter().find(is_meant) {
            self.write_file(file, Ok(data));
        }
    }

    /// Writes the files of several options that belong together: all of them, or none if one fails.
    /// A failure is kept for [`Outputs::finish`].
    pub fn write_together(&self, all: &[(&str, &[u8])]) {
        let mut staged = Vec::new();
        for (option, data) in all {
            for file in self.files.iter().filter(|file| file.option == *option) {
                match stage(&file.place, data) {
                    Ok(complete) => staged.push((file, complete)),
                    Err(error) => return self.keep_error(file, &error),
                }
            }
        }
        for (file, complete) in staged {
            if let Err(error) = complete.commit() {
                self.keep_error(file, &error);
            }
        }
    }

    fn write_file<D: AsRef<[u8]>>(&self, file: &Output, data: Result<D, String>) {
        match data {
            Ok(data) => {
                if let Err(error) = stage(&file.place, data.as_ref()).and_then(Staged::commit) {
                    self.keep_error(file, &error);
                }
            }
            Err(message) => {
                self.keep(format!("{} {}: {message}", file.option, file.path.display()));
            }
        }
    }

    fn keep_error(&self, file: &Output, error: &io::Error) {
        let message = String::from(cannot(file.option, &file.path, error));
        let is_kept = matches!(&file.place, Place::File(path) if path.exists());
        let kept = if is_kept { "; the old file is unchanged" } else { "" };
        self.keep(format!("{message}{kept}"));
    }

    fn keep(&self, failure: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
    }

    /// Prints to standard output, or to standard error if standard output is reserved for data. A
    /// closed pipe is no error: its reader has seen enough. A failure, as of a full disk, is kept
    /// for [`Outputs::finish`].
    pub fn show(&self, print: impl FnOnce(&mut dyn Write, bool) -> io::Result<()>) {
        let is_reserved = self.files.iter().any(Output::is_standard);
        let mut console = if is_reserved { Console::Err } else { Console::Out };
        let terminal = console.is_terminal();
        let shown = print(&mut console, terminal).and_then(|()| console.flush());
        if let Err(error) = shown
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            let stream = if is_reserved { "error" } else { "output" };
            self.keep(format!("cannot write to standard {stream}: {error}"));
        }
    }

    /// Returns the failures of all writes since the last call.
    ///
    /// # Errors
    /// A file was not written, or something was not printed.
    pub fn finish(&self) -> Result<(), OutputError> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        // Every line that cannot be printed fails for the same reason.
        failures.dedup();
        match failures.is_empty() {
            true => Ok(()),
            false => Err(OutputError(std::mem::take(&mut *failures))),
        }
    }
}
