//! Cancellation of submitted work.
//!
//! # Rules
//! 1. Work belongs to the cancellations whose scopes its submitting thread is in, permanently. The
//!    list of instructions is the same whether and whenever they are cancelled.
//! 2. A kernel, a read or a host function checks its scopes before it starts, and not again. A
//!    cancelled one fails at that moment, so all rules of failures hold: its outputs are poisoned
//!    in their turn, its point, records and waits complete.
//! 3. Nothing else is cancelled. Waits still wait, records are recorded, memory is released, ranks
//!    synchronize: others rely on that.
//! 4. A worker learns scopes from tasks in its queue, so instructions carry none.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::{Arc, OnceLock};

use millstream_types::Origin;

use crate::scope::origin;

/// Set once work was cancelled, to the place of the call.
type Flag = OnceLock<Origin>;

/// A hold on work that may have to be cancelled: a launch, a part of a program, all of it.
/// Clones are the same hold. It belongs to no machine: work of several machines can share it.
///
/// ```
/// use millstream_vm::Cancellation;
///
/// let cancellation = Cancellation::new();
/// cancellation.scope(|| {
///     // Calls, launches, reads and accesses made here belong to it.
/// });
/// cancellation.cancel();
/// assert!(cancellation.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Flag>);

impl Cancellation {
    /// Creates a hold without any work yet.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let cancellation = Cancellation::new();
    /// cancellation.cancel();
    /// let x = cancellation.scope(|| Tensor::arange(0..3, &machine))?;
    /// assert!(x.to_vec::<i64>().is_err()); // it was not computed
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// Runs `work`: everything that this thread submits meanwhile, to any machine, belongs to this
    /// cancellation and to the enclosing ones. Submitting blocks and fails as it does outside, also
    /// after [`Cancellation::cancel`]: then the submitted work never starts.
    ///
    /// A future made by `work` is polled later, outside of the scope, and another thread is in no
    /// scope of this one: give it a clone.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let cancellation = Cancellation::new();
    /// let y = cancellation.scope(|| x.relu())?; // cancelled with the scope, if it has not started
    /// y.synchronize()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        within(Some(Arc::new(CancelScope { own: self.0.clone(), outer: current() })), work)
    }

    /// Cancels all work of this hold that has not started. Outputs of a cancelled call are
    /// poisoned: readers of them, and waiters for the call, get
    /// [`Error::Cancelled`](millstream_types::Error::Cancelled). A full overwrite from outside
    /// heals them. Work that has started runs to its end.
    ///
    /// May be called from any thread, also from a kernel or callback. Never waits; a second call
    /// does nothing.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let cancellation = Cancellation::new();
    /// cancellation.cancel();
    /// let y = cancellation.scope(|| x.relu())?;
    /// assert!(y.synchronize().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cancel(&self) {
        self.cancel_at(origin::caller());
    }

    /// Cancels as [`Cancellation::cancel`], asked for at `origin`.
    pub(crate) fn cancel_at(&self, origin: Origin) {
        // Errors name the first call.
        let _ = self.0.set(origin);
    }

    /// Returns whether [`Cancellation::cancel`] was called, even if no work was left to cancel.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let cancellation = Cancellation::new();
    /// assert!(!cancellation.is_cancelled());
    /// cancellation.cancel();
    /// assert!(cancellation.is_cancelled());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// The innermost scope of this thread.
    static WITHIN: RefCell<Option<Arc<CancelScope>>> = const { RefCell::new(None) };
}

crate::sync::thread_local! {
    /// The address of the innermost scope, which every call of a batch compares; 0 outside of all
    /// scopes.
    static INNERMOST: Cell<usize> = const { Cell::new(0) };
}

fn address(cancel_scope: Option<&Arc<CancelScope>>) -> usize {
    cancel_scope.map_or(0, |cancel_scope| Arc::as_ptr(cancel_scope).addr())
}

/// Sets the scopes of this thread.
fn enter(cancel_scope: Option<Arc<CancelScope>>) {
    INNERMOST.with(|innermost| innermost.set(address(cancel_scope.as_ref())));
    WITHIN.with(|current| current.replace(cancel_scope));
}

/// Runs `work` in these scopes instead of those of this thread.
fn within<T>(cancel_scope: Option<Arc<CancelScope>>, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<CancelScope>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            enter(self.0.take());
        }
    }
    let _restore = Restore(current());
    enter(cancel_scope);
    work()
}

/// Runs `work` outside of all scopes.
#[inline]
pub fn outside<T>(work: impl FnOnce() -> T) -> T {
    if is_current(None) { work() } else { within(None, work) }
}

/// The scopes that instructions were submitted in: the innermost, linked to the enclosing ones.
#[derive(Debug)]
pub struct CancelScope {
    own: Arc<Flag>,
    outer: Option<Arc<CancelScope>>,
}

/// Returns the scopes of this thread.
#[inline]
pub fn current() -> Option<Arc<CancelScope>> {
    if is_current(None) {
        return None;
    }
    WITHIN.with(|cancel_scope| cancel_scope.borrow().clone())
}

/// Returns whether `cancel_scope` are the scopes of this thread.
#[inline]
pub fn is_current(cancel_scope: Option<&Arc<CancelScope>>) -> bool {
    // Both are alive while they are compared, so equal addresses mean the same scope.
    INNERMOST.with(Cell::get) == address(cancel_scope)
}

/// Returns whether both are the same scopes, entered at the same time.
#[inline]
pub fn same(a: Option<&Arc<CancelScope>>, b: Option<&Arc<CancelScope>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Returns an error if one of the scopes was cancelled.
///
/// # Errors
/// [`Cancelled`].
pub fn check(cancel_scope: Option<&Arc<CancelScope>>) -> Result<(), Cancelled> {
    let mut next = cancel_scope;
    while let Some(scope) = next {
        if let Some(origin) = scope.own.get() {
            return Err(Cancelled(origin.clone()));
        }
        next = scope.outer.as_ref();
    }
    Ok(())
}

/// Work was cancelled before it started. The worker finds this with `downcast_ref` in the work's
/// error.
#[derive(Debug)]
pub struct Cancelled(Origin);

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Origin::Unknown => f.write_str("before it started"),
            origin => write!(f, "before it started, at {origin}"),
        }
    }
}

impl std::error::Error for Cancelled {}
