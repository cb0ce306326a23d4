//! The results that functions may have.

/// The result of a function that is pushed: nothing, a `Result<(), E>`, or none, as the function
/// panics or never returns.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let engine = machine.dependency_engine()?;
/// # let a = engine.var()?;
/// engine.push(|| ()).writes(&[&a]).spawn()?;
/// engine.push(|| "12".parse::<u8>().map(drop)).writes(&[&a]).spawn()?;
/// engine.wait_for(&a)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait ClosureResult {
    /// Returns the outcome of the push.
    ///
    /// # Errors
    /// The function's error.
    fn into_result(self) -> anyhow::Result<()>;
}

impl ClosureResult for () {
    fn into_result(self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The type of a function that never returns, which has no name of its own in stable Rust.
type Never = <fn() -> ! as Returns>::Output;

// The results of functions, by the types of the functions.
pub trait Returns {
    type Output;
}

impl<T> Returns for fn() -> T {
    type Output = T;
}

impl ClosureResult for Never {
    fn into_result(self) -> anyhow::Result<()> {
        self
    }
}

impl<E: Into<anyhow::Error>> ClosureResult for Result<(), E> {
    fn into_result(self) -> anyhow::Result<()> {
        self.map_err(Into::into)
    }
}
