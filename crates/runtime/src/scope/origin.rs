//! Origins: the place in a program or trace that an instruction comes from.

use std::cell::{Cell, RefCell};

use millstream_types::{Origin, Result};

use crate::sync::thread_local;

thread_local! {
    /// Whether this thread is in an origin scope. Every entry point reads it.
    static IN_SCOPE: Cell<bool> = const { Cell::new(false) };
}

thread_local! {
    /// The origin of the innermost scope of this thread.
    static INNERMOST: RefCell<Option<Origin>> = const { RefCell::new(None) };
}

/// Replaces the scope's origin and returns the former one.
fn replace(origin: Option<Origin>) -> Option<Origin> {
    IN_SCOPE.with(|is_set| is_set.set(origin.is_some()));
    INNERMOST.with(|innermost| innermost.replace(origin))
}

/// Runs `work`: everything that this thread asks of a machine meanwhile comes from `origin` instead
/// of from the calling line. Errors, failures and recorded lists name it. For importers and
/// interpreters, whose calls all stand in one place of their own source. The calls of a `Batch`
/// keep their lines.
///
/// ```
/// use millstream_types::{DeviceId, Origin};
/// use millstream_vm::{Machine, MachineConfig, with_origin};
///
/// # fn main() -> millstream_types::Result<()> {
/// let machine = Machine::new(MachineConfig::default())?;
/// let stream = machine.compute(&DeviceId::cpu(0), 0)?;
/// let line = Origin::Text("program.txt:7".to_owned().into());
/// let error = with_origin(&line, || machine.call("relu", &[]).on(&stream)).unwrap_err();
/// assert!(error.to_string().contains("program.txt:7"));
/// # Ok(())
/// # }
/// ```
pub fn with_origin<T>(origin: &Origin, work: impl FnOnce() -> T) -> T {
    in_scope(Some(origin.clone()), work)
}

/// Returns the origin of the innermost scope of this thread; none outside of scopes.
pub fn scope() -> Option<Origin> {
    INNERMOST.with(|innermost| innermost.borrow().clone())
}

/// Runs `work` in the scope of this origin alone, or outside of scopes: a function of the program
/// that is called within a scope of the machine's has its own lines.
pub fn in_scope<T>(origin: Option<Origin>, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Origin>);
    impl Drop for Restore {
        fn drop(&mut self) {
            drop(replace(self.0.take()));
        }
    }
    let _restore = Restore(replace(origin));
    work()
}

/// Gives an error without a place that of [`caller`].
#[track_caller]
pub fn at_caller<T>(result: Result<T>) -> Result<T> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.at(&caller())),
    }
}

/// Returns the origin of the innermost scope of this thread, or else the place of the caller.
#[track_caller]
#[inline]
pub fn caller() -> Origin {
    if IN_SCOPE.with(Cell::get)
        && let Some(origin) = INNERMOST.with(|innermost| innermost.borrow().clone())
    {
        return origin;
    }
    Origin::caller()
}
