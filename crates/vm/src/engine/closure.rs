//! The results that functions may have.

/// The result of a function that is pushed: nothing, or a `Result<(), E>`.
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

impl<E: Into<anyhow::Error>> ClosureResult for Result<(), E> {
    fn into_result(self) -> anyhow::Result<()> {
        self.map_err(Into::into)
    }
}
