//! The current stream: the stream of calls that name none.
//!
//! # Rules
//! 1. Each thread has a list of streams, the innermost last. A scope adds a stream at its begin. At
//!    its end, what was added since then is removed.
//! 2. A stream that is set replaces an earlier one of the same device that was set in the same
//!    scope, so the list stays short.
//! 3. The list holds no machine: one whose handles are gone shuts down, whatever is set.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use millstream_runtime::engine::leases::Lease;
use millstream_runtime::engine::shared::MachineShared;
use millstream_runtime::sync::thread_local;
use millstream_types::{DeviceId, StreamId, StreamKey};

use crate::handle::machine::Machine;

use super::Stream;

/// A stream of the list.
struct Entry {
    machine: Weak<MachineShared>,
    id: StreamId,
    key: StreamKey,
    lease: Option<Arc<Lease>>,
}

impl Entry {
    fn is_of(&self, machine: &Machine) -> bool {
        // The weak reference keeps the address from being used again.
        Weak::as_ptr(&self.machine) == Arc::as_ptr(&machine.shared)
    }
}

#[derive(Default)]
struct Scopes {
    entries: Vec<Entry>,
    /// How many entries stood before the innermost scope, with its own.
    begin: usize,
}

thread_local! {
    static SCOPES: RefCell<Scopes> = RefCell::default();
}

thread_local! {
    /// Whether this thread has ever had a current stream. Every method's call reads it.
    static HAS_CURRENT: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread may have a current stream.
#[inline]
pub(crate) fn has_current() -> bool {
    HAS_CURRENT.with(Cell::get)
}

/// Runs `work` with `stream` as the current stream of its machine, on this thread. Afterwards, also
/// after a panic, the former stream is current again. With `None`, only runs `work`.
///
/// ```
/// use millstream_types::DeviceId;
/// use millstream_vm::{Machine, MachineConfig, Tensor, with_stream};
///
/// # fn main() -> millstream_types::Result<()> {
/// let machine = Machine::new(MachineConfig::default())?;
/// let side = machine.create_stream(&DeviceId::cpu(0))?;
/// let x = with_stream(&side, || Tensor::arange(0..3, &machine))?;
/// assert_eq!(x.stream()?.key(), side.key());
/// # Ok(())
/// # }
/// ```
///
/// A future made by `work` is polled later, with the current stream of its polling thread.
pub fn with_stream<'a, T>(stream: impl Into<Option<&'a Stream>>, work: impl FnOnce() -> T) -> T {
    struct Restore {
        len: usize,
        begin: usize,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            let ended = SCOPES.with(|scopes| {
                let mut scopes = scopes.borrow_mut();
                scopes.begin = self.begin;
                scopes.entries.split_off(self.len)
            });
            // The end of a lease emits, which must not happen while the list is borrowed.
            drop(ended);
        }
    }
    let Some(stream) = stream.into() else { return work() };
    let _restore = SCOPES.with(|scopes| {
        let mut scopes = scopes.borrow_mut();
        let restore = Restore { len: scopes.entries.len(), begin: scopes.begin };
        scopes.entries.push(stream.entry());
        scopes.begin = scopes.entries.len();
        restore
    });
    work()
}

impl Stream {
    fn entry(&self) -> Entry {
        HAS_CURRENT.with(|has| has.set(true));
        let machine = Arc::downgrade(&self.machine.shared);
        Entry { machine, id: self.id, key: self.key.clone(), lease: self.lease.clone() }
    }

    /// Makes this the current stream of its machine on this thread, as PyTorch's `set_stream` does:
    /// until another is set, or, within a scope of [`with_stream`], until the scope ends.
    ///
    /// ```
    /// use millstream_types::DeviceId;
    /// use millstream_vm::{Machine, MachineConfig};
    ///
    /// # fn main() -> millstream_types::Result<()> {
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let side = machine.create_stream(&DeviceId::cpu(0))?;
    /// side.set_current();
    /// assert_eq!(machine.current_stream()?.key(), side.key());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_current(&self) {
        let replaced = SCOPES.with(|scopes| {
            let scopes = &mut *scopes.borrow_mut();
            let is_replaced = |entry: &mut Entry| {
                let gone = entry.machine.strong_count() == 0;
                gone || (entry.is_of(&self.machine) && entry.key.device == self.key.device)
            };
            let replaced: Vec<Entry> =
                scopes.entries.extract_if(scopes.begin.., is_replaced).collect();
            scopes.entries.push(self.entry());
            replaced
        });
        // The end of a lease emits, which must not happen while the list is borrowed.
        drop(replaced);
    }
}

fn find(machine: &Machine, wanted: impl Fn(&StreamKey) -> bool) -> Option<Stream> {
    SCOPES.with(|scopes| {
        let scopes = scopes.borrow();
        let of = |entry: &&Entry| entry.is_of(machine) && wanted(&entry.key);
        let entry = scopes.entries.iter().rev().find(of)?;
        let Entry { id, key, lease, .. } = entry;
        let (key, lease) = (key.clone(), lease.clone());
        Some(Stream { machine: machine.clone(), id: *id, key, lease })
    })
}

/// Returns the current stream that this thread has set for `machine`, or that of its innermost
/// scope.
pub(crate) fn innermost(machine: &Machine) -> Option<Stream> {
    find(machine, |_| true)
}

/// Returns the current stream on `device`, as [`innermost`] does.
pub(crate) fn innermost_on(machine: &Machine, device: &DeviceId) -> Option<Stream> {
    find(machine, |key| key.device == *device)
}
