//! Functions that run apart from the worker of their call: on the pushing thread, or on a thread of
//! the host.
//!
//! The call enters its stream as every call does, because later uses of its variables come after
//! it. Its worker only hands over the call's completion. The call completes once the worker has
//! done that and the function has returned and ended, in any order.

use std::cell::Cell;
use std::sync::{Arc, PoisonError};

use millstream_ep::WorkResult;
use millstream_kernels::{CompletionToken, DeferredCompletion};
use millstream_types::catch_panic;

use crate::scope::cancel::{self, CancelScope};
use crate::scope::reentrancy;
use crate::sync::Mutex;
use crate::tables::functions::{Function, OnComplete};

use crate::tables::run_context::CallSite;

/// What is there of a call's completion.
#[derive(Default)]
struct Parts {
    completion: Option<OnComplete>,
    /// The result of the function itself.
    returned: Option<WorkResult>,
    /// The outcome of what it started.
    ended: Option<WorkResult>,
}

/// A function that is to run apart from its call's worker.
pub struct Apart {
    function: Function,
    parts: Arc<Mutex<Parts>>,
}

/// Adds a part, and completes the call if it was the last.
fn add(parts: &Mutex<Parts>, add: impl FnOnce(&mut Parts)) {
    let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
    add(&mut parts);
    if parts.completion.is_none() || parts.returned.is_none() || parts.ended.is_none() {
        return;
    }
    let Parts { completion, returned, ended } = std::mem::take(&mut *parts);
    drop(parts);
    if let (Some(completion), Some(returned), Some(ended)) = (completion, returned, ended) {
        completion.with(returned.and(ended));
    }
}

impl Apart {
    /// Splits a push: the function for the call, and the one for this thread.
    pub fn split(function: Function) -> (Function, Apart) {
        let parts: Arc<Mutex<Parts>> = Arc::default();
        let of_call = parts.clone();
        let hand_over = move |completion| {
            add(&of_call, |parts| parts.completion = Some(completion));
            Ok(())
        };
        (Function::Async(Box::new(hand_over)), Apart { function, parts })
    }

    /// Returns the function of a call that completes with `token`.
    pub(crate) fn new(function: Function, token: CompletionToken) -> Apart {
        let completion = Some(OnComplete::new(token));
        Apart { function, parts: Arc::new(Mutex::new(Parts { completion, ..Parts::default() })) }
    }

    /// Runs the function, unless its scope was cancelled.
    pub fn run(self, machine: u64, cancel_scope: Option<&Arc<CancelScope>>, site: CallSite<'_>) {
        let Apart { function, parts } = self;
        let source = Later { parts: parts.clone(), is_taken: Cell::new(false) };
        let call = || {
            cancel::check(cancel_scope)?;
            // Its own pushes belong to no scope of the pusher, as on any other thread.
            cancel::outside(|| function.run(Some(&source), site))
        };
        let result = reentrancy::enter(machine, || catch_panic(call));
        add(&parts, |parts| {
            parts.returned = Some(result);
            if !source.is_taken.get() {
                parts.ended = Some(Ok(()));
            }
        });
    }
}

/// The source of the completion of a function that completes later.
struct Later {
    parts: Arc<Mutex<Parts>>,
    is_taken: Cell<bool>,
}

impl DeferredCompletion for Later {
    fn take_token(&self) -> Option<CompletionToken> {
        let parts = self.parts.clone();
        let end = move |outcome| add(&parts, |parts| parts.ended = Some(outcome));
        (!self.is_taken.replace(true)).then(|| CompletionToken::new(end))
    }
}
