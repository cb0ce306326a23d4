//! Where a command prints: on standard output and standard error, or in memory for a program that
//! runs commands as functions.
//!
//! A command prints on the thread that runs it, so each thread holds its own output.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// The output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// On standard output.
    pub out: Vec<u8>,
    /// On standard error.
    pub err: Vec<u8>,
    /// The errors, in the order in which they were printed.
    pub errors: Vec<Problem>,
}

/// An error of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Where it occurred: a file, and behind colons the line and column if they are known.
    pub place: String,
    /// The message.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// Runs `command`, and returns its result and its output.
pub fn hold<R>(command: impl FnOnce() -> R) -> (R, Held) {
    let outer = HELD.replace(Some(Held::default()));
    let result = command();
    (result, HELD.replace(outer).unwrap_or_default())
}

/// Keeps an error that is printed, if the command is held.
pub fn keep(problem: Problem) {
    HELD.with_borrow_mut(|held| held.iter_mut().for_each(|held| held.errors.push(problem.clone())));
}

/// A stream of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Console {
    /// Returns whether it is a terminal.
    pub fn is_terminal(self) -> bool {
        HELD.with_borrow(Option::is_none)
            && match self {
                Console::Out => io::stdout().is_terminal(),
                Console::Err => io::stderr().is_terminal(),
            }
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        HELD.with_borrow_mut(|held| match (self, held) {
            (Console::Out, Some(held)) => held.out.write(bytes),
            (Console::Err, Some(held)) => held.err.write(bytes),
            (Console::Out, None) => io::stdout().write(bytes),
            (Console::Err, None) => io::stderr().write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        match (self, HELD.with_borrow(Option::is_some)) {
            (_, true) => Ok(()),
            (Console::Out, false) => io::stdout().flush(),
            (Console::Err, false) => io::stderr().flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Console, Problem, hold, keep};

    #[test]
    fn what_is_held_is_the_innermost_commands() {
        let print = |stream: &mut Console, text: &str| write!(stream, "{text}").is_ok();
        let ((printed, inner), outer) = hold(|| {
            print(&mut Console::Out, "a");
            keep(Problem { message: "b".to_owned(), ..Problem::default() });
            (print(&mut Console::Err, "c"), hold(|| print(&mut Console::Out, "d")))
        });
        assert!(printed && inner.0);
        assert_eq!([&outer.out, &outer.err, &inner.1.out], [b"a", b"c", b"d"]);
        assert_eq!((outer.errors[0].message.as_str(), inner.1.errors.len()), ("b", 0));
    }
}
