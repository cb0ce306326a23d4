//! Functions that the pushing thread runs.
//!
//! The call enters its stream as every call does, because later uses of its variables come after
//! it. Its worker only hands over the call's completion. The call completes once the worker has
//! done that and the function has returned and ended, in any order.

use std::sync::{Arc, PoisonError};

use millstream_ep::{WorkResult, catch_panic};
use millstream_kernels::{CompletionToken, DeferredCompletion};

use crate::emission::{cancel, reentrancy};
use crate::sync::Mutex;
use crate::tables::functions::{Function, OnComplete};

/// What is there of a call's completion.
#[derive(Default)]
struct Parts {
    completion: Option<OnComplete>,
    /// The result of the function itself.
    returned: Option<WorkResult>,
    /// The outcome of what it started.
    ended: Option<WorkResult>,
}

/// A function that the pushing thread is to run.
pub(super) struct OnPusher {
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

impl OnPusher {
    /// Splits a push: the function for the call, and the one for this thread.
    pub(super) fn new(function: Function) -> (Function, OnPusher) {
        let parts: Arc<Mutex<Parts>> = Arc::default();
        let of_call = parts.clone();
        let hand_over = move |completion| {
            add(&of_call, |parts| parts.completion = Some(completion));
            Ok(())
        };
        (Function::Async(Box::new(hand_over)), OnPusher { function, parts })
    }

    /// Runs the function.
    pub(super) fn run(self, machine: u64) {
        let OnPusher { function, parts } = self;
        if !function.is_async() {
            add(&parts, |parts| parts.ended = Some(Ok(())));
        }
        let source = Later(parts.clone());
        // What it pushes belongs to no scope of the pusher, as on any other thread.
        let run = || catch_panic(|| cancel::outside(|| function.run(Some(&source))));
        let result = reentrancy::enter(machine, run);
        add(&parts, |parts| parts.returned = Some(result));
    }
}

/// The source of the completion of a function that completes later.
struct Later(Arc<Mutex<Parts>>);

impl DeferredCompletion for Later {
    fn take_token(&self) -> Option<CompletionToken> {
        let parts = self.0.clone();
        let end = move |outcome| add(&parts, |parts| parts.ended = Some(outcome));
        Some(CompletionToken::new(end))
    }
}
