//! Calls that complete after their kernel has returned.

use std::fmt;

use anyhow::{Result, anyhow};

/// The other end of a token.
type Tell = Box<dyn FnOnce(Result<()>) + Send + Sync>;

/// Completes a call whose kernel may have returned before. Whoever holds it may use the memory of the
/// call's operands until it is given away or dropped; the call's stream, if it runs in order, goes on
/// only then.
#[must_use = "a call fails whose token is dropped"]
pub struct OnComplete {
    tell: Option<Tell>,
}

impl OnComplete {
    /// A token that tells `tell` how the call has ended.
    pub fn new(tell: impl FnOnce(Result<()>) + Send + Sync + 'static) -> OnComplete {
        OnComplete { tell: Some(Box::new(tell)) }
    }

    /// The call has completed, or failed.
    pub fn complete(mut self, result: Result<()>) {
        if let Some(tell) = self.tell.take() {
            tell(result);
        }
    }
}

impl Drop for OnComplete {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(Err(anyhow!("nobody completed the call: its token was dropped")));
        }
    }
}

impl fmt::Debug for OnComplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnComplete").finish_non_exhaustive()
    }
}

/// Who makes the token of a call.
pub trait Later {
    /// The token. None if it was taken before.
    fn take(&self) -> Option<OnComplete>;
}
