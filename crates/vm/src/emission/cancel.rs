//! Giving up what was submitted.
//!
//! # Rules
//! 1. What a thread submits belongs to the cancellations whose scopes it is in, for good. The list of
//!    instructions is the same whether they are cancelled or not, and whenever.
//! 2. A kernel, a read or a function of the host's looks when it is about to start, and not again.
//!    One that is cancelled fails there, so whatever holds of failures holds of it: what it would have
//!    written is poisoned in its turn, its point, records and waits come.
//! 3. Nothing else is cancelled. Waits still wait, records are recorded, memory is let go of, ranks
//!    meet: others rely on that.
//! 4. A worker learns of scopes by tasks in its queue, so an instruction carries nothing for it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::{Arc, OnceLock};

use millstream_types::Origin;

/// Whether something was given up, and where.
type Flag = OnceLock<Origin>;

/// A hold on work that may have to be given up: a stored list, a part of a program, all of it.
/// Clones are the same hold. It is no machine's: work of several can belong to it.
///
/// ```
/// use millstream_vm::Cancellation;
///
/// let cancellation = Cancellation::new();
/// cancellation.scope(|| {
///     // What is called, launched, read or accessed here belongs to it.
/// });
/// cancellation.cancel();
/// assert!(cancellation.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Flag>);

impl Cancellation {
    /// A hold on nothing yet.
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// Runs `work`: whatever this thread submits meanwhile, to any machine, belongs to this
    /// cancellation, and to those context it. Submitting blocks and fails as it does outside, also
    /// after [`Cancellation::cancel`]: then what is submitted never starts.
    ///
    /// A future made by `work` is polled later, outside of the scope, and another thread is in no
    /// scope of this one: give it a clone.
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<Arc<CancelScope>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                enter(self.0.take());
            }
        }
        let outer = current();
        let _restore = Restore(outer.clone());
        let own = Arc::new(CancelScope { own: self.0.clone(), outer });
        enter(Some(own));
        work()
    }

    /// Gives up all that belongs to it and has not started. What a cancelled call would have written
    /// is poisoned: who reads it, or waits for the call, gets
    /// [`Error::Cancelled`](millstream_types::Error::Cancelled). A full overwrite from outside heals.
    /// What has started runs to its end.
    ///
    /// From any thread, also from a kernel or callback; never waits; a second time does nothing.
    #[track_caller]
    pub fn cancel(&self) {
        self.cancel_from(Origin::caller());
    }

    /// As [`Cancellation::cancel`], asked for at `origin`.
    pub fn cancel_from(&self, origin: Origin) {
        // The first one is told of.
        let _ = self.0.set(origin);
    }

    /// Whether [`Cancellation::cancel`] was called. Not whether anything was left to be given up.
    pub fn is_cancelled(&self) -> bool {
        self.0.get().is_some()
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancellation({:?})", self.0.get())
    }
}

crate::sync::thread_local! {
    /// The innermost scope that this thread is in.
    static WITHIN: RefCell<Option<Arc<CancelScope>>> = const { RefCell::new(None) };
}

crate::sync::thread_local! {
    /// Its address, which is asked for at each call of a batch; 0 outside of all scopes.
    static INNERMOST: Cell<usize> = const { Cell::new(0) };
}

fn address(cancel_scope: Option<&Arc<CancelScope>>) -> usize {
    cancel_scope.map_or(0, |cancel_scope| Arc::as_ptr(cancel_scope).addr())
}

/// From now on the thread is in these scopes.
fn enter(cancel_scope: Option<Arc<CancelScope>>) {
    INNERMOST.with(|innermost| innermost.set(address(cancel_scope.as_ref())));
    WITHIN.with(|current| current.replace(cancel_scope));
}

/// The scopes that instructions were submitted in: one, and those context it.
#[derive(Debug)]
pub(crate) struct CancelScope {
    own: Arc<Flag>,
    outer: Option<Arc<CancelScope>>,
}

/// The scopes that this thread is in.
pub(crate) fn current() -> Option<Arc<CancelScope>> {
    WITHIN.with(|cancel_scope| cancel_scope.borrow().clone())
}

/// Whether `within` are the scopes that this thread is in.
#[inline]
pub(crate) fn is_current(cancel_scope: Option<&Arc<CancelScope>>) -> bool {
    // What is compared lives, so that no other has its address.
    INNERMOST.with(Cell::get) == address(cancel_scope)
}

/// Whether these are the same scopes, entered at the same time.
pub(crate) fn same(a: Option<&Arc<CancelScope>>, b: Option<&Arc<CancelScope>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Refuses to start what was given up.
///
/// # Errors
/// [`Cancelled`].
pub(crate) fn check(cancel_scope: Option<&Arc<CancelScope>>) -> Result<(), Cancelled> {
    let mut next = cancel_scope;
    while let Some(scope) = next {
        if let Some(origin) = scope.own.get() {
            return Err(Cancelled(origin.clone()));
        }
        next = scope.outer.as_ref();
    }
    Ok(())
}

/// Work was cancelled before it started. The worker finds it with `downcast_ref` in the work's error.
#[derive(Debug)]
pub(crate) struct Cancelled(Origin);

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Origin::Unknown => f.write_str("before it started"),
            origin => write!(f, "before it started, at {origin}"),
        }
    }
}

impl std::error::Error for Cancelled {}
