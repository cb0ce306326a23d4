//! Calls that complete after their kernel has returned.

use std::fmt;

use anyhow::{Result, anyhow};

/// The function that receives the outcome of a call.
type Callback = Box<dyn FnOnce(Result<()>) + Send + Sync>;

/// A token that completes a call, also after its kernel has returned. Its holder may use the memory
/// of the call's operands until it completes or drops the token. An in-order stream starts its next
/// instruction only then.
#[must_use = "dropping the token fails the call"]
pub struct CompletionToken {
    callback: Option<Callback>,
}

impl CompletionToken {
    /// Creates a token that passes the outcome of the call to `callback`.
    pub fn new(callback: impl FnOnce(Result<()>) + Send + Sync + 'static) -> CompletionToken {
        CompletionToken { callback: Some(Box::new(callback)) }
    }

    /// Completes the call with `result`.
    pub fn complete(mut self, result: Result<()>) {
        if let Some(callback) = self.callback.take() {
            callback(result);
        }
    }
}

impl Drop for CompletionToken {
    fn drop(&mut self) {
        if let Some(callback) = self.callback.take() {
            callback(Err(anyhow!("the call's completion token was dropped before it completed")));
        }
    }
}

impl fmt::Debug for CompletionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionToken").finish_non_exhaustive()
    }
}

/// The source of a call's completion token.
pub trait DeferredCompletion {
    /// Takes the token. Returns none if it was taken before.
    fn take_token(&self) -> Option<CompletionToken>;
}
