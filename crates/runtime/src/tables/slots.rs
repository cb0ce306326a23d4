//! The slots of tensors and stored calls: written by the engine, read by workers without a lock.
//!
//! # Rules
//! 1. Only the engine writes a slot, under its lock, and only while no instruction that names the
//!    slot is pending: a slot is written again only after every instruction that named it has
//!    completed. A tensor that takes over the slot of a like one, in the same memory, leaves the
//!    slot as it is.
//! 2. A worker reads a slot only while it runs an instruction that names it, or while it puts such
//!    an instruction of a pool into the graph. The instruction came through a queue after the slot
//!    was written, so the worker sees the write.
//! 3. Chunks are never moved or freed while the table lives.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use millstream_instructions::builder::PreparedCall;
use millstream_kernels::{Kernel, KernelSpec, PlannedKernel, PreparedKernel, RawTensor};
use millstream_types::{Access, Attrs, TensorSpec};

/// A tensor's memory and layout.
#[derive(Clone, Debug)]
pub struct TensorSlot {
    /// The storage's first byte.
    pub base: NonNull<u8>,
    pub spec: Arc<TensorSpec>,
    /// The number by which the storage is poisoned. Only a storage that takes over its memory and
    /// slots, and is overwritten first, has the same.
    pub storage: u64,
    /// Whether the host can use the memory through its address.
    pub on_host: bool,
}

// SAFETY: an address and plain values. The list orders all uses of the memory behind it.
unsafe impl Send for TensorSlot {}
// SAFETY: as above.
unsafe impl Sync for TensorSlot {}

/// A stored call, without its tensors.
pub struct CallSlot {
    pub(crate) call: PreparedCall,
    /// The dtypes, shapes and layouts of all its operands.
    specs: SmallVec<[Arc<TensorSpec>; 4]>,
    /// The kernel bound to these, once a stream has made the call; none in it if the kernel has no
    /// such form.
    bound: OnceLock<Option<BoundKernel>>,
}

/// A kernel that is bound to the operands and arguments of a stored call.
pub(crate) struct BoundKernel {
    /// The kernel that was bound: other kinds of devices have others.
    of: Arc<dyn Kernel>,
    form: BoundForm,
}

/// What a kernel has chosen for a stored call.
pub(crate) enum BoundForm {
    /// For the host.
    Prepared(Arc<dyn PreparedKernel>),
    /// For a device that computes by itself.
    Planned(Arc<dyn PlannedKernel>),
}

impl CallSlot {
    /// Returns the slot of a call on operands like these.
    pub(crate) const fn new(call: PreparedCall, specs: SmallVec<[Arc<TensorSpec>; 4]>) -> CallSlot {
        CallSlot { call, specs, bound: OnceLock::new() }
    }

    /// Returns the bound form of the call's kernel, if it has one: for the host, or for the device
    /// of a native stream. The first call binds it.
    #[inline]
    pub(crate) fn bound(
        &self,
        kernel: &Arc<dyn Kernel>,
        native: Option<&dyn Any>,
    ) -> Option<&BoundForm> {
        let bound = self.bound.get_or_init(|| self.bind(kernel, native)).as_ref()?;
        Arc::ptr_eq(&bound.of, kernel).then_some(&bound.form)
    }

    #[cold]
    fn bind(&self, kernel: &Arc<dyn Kernel>, native: Option<&dyn Any>) -> Option<BoundKernel> {
        let none = Attrs::new();
        let attrs = self.call.attrs().map_or(&none, |attrs| &**attrs);
        let workspace = self.call.workspace() as usize;
        let call = KernelSpec { operands: &self.specs, attrs, workspace };
        let form = match native {
            None => BoundForm::Prepared(kernel.prepare(call)?),
            Some(native) => {
                let written = self.call.accesses().map(Access::writes);
                let written: SmallVec<[bool; 4]> = written.collect();
                BoundForm::Planned(kernel.plan(call, &written, native)?)
            }
        };
        Some(BoundKernel { of: kernel.clone(), form })
    }
}

struct Entry<T>(UnsafeCell<Option<T>>);

// SAFETY: by rules 1 and 2 an entry is never read and written at the same time. Several threads
// read its content and any thread drops it.
unsafe impl<T: Send + Sync> Sync for Entry<T> {}

/// The slots of the first chunk. Each further chunk has twice as many as the one before.
pub(crate) const FIRST: usize = 64;
pub(crate) const CHUNKS: usize = 26;

/// A table of slots, by number.
pub struct Slots<T> {
    chunks: [OnceLock<Box<[Entry<T>]>>; CHUNKS],
}

/// Returns the chunk of an entry, and its position there.
pub(crate) const fn place(index: usize) -> (usize, usize) {
    let n = index / FIRST + 1;
    let chunk = n.ilog2() as usize;
    (chunk, index - FIRST * ((1 << chunk) - 1))
}

impl<T> Slots<T> {
    pub fn new() -> Slots<T> {
        Slots { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// Sets a slot.
    ///
    /// # Safety
    /// By rule 1: no pending instruction names the slot, and no other thread sets it.
    pub(crate) unsafe fn set(&self, index: usize, slot: T) {
        // SAFETY: the caller promises the same.
        unsafe { self.replace(index, |_| slot) };
    }

    /// Sets a slot to what `slot` makes of its last content.
    ///
    /// # Safety
    /// As [`Slots::set`].
    #[inline]
    pub(crate) unsafe fn replace(&self, index: usize, slot: impl FnOnce(Option<T>) -> T) {
        let (chunk, at) = place(index);
        let made = || (0..FIRST << chunk).map(|_| Entry(UnsafeCell::new(None))).collect();
        let entry = &self.chunks[chunk].get_or_init(made)[at];
        // SAFETY: the caller promises that no other thread uses the entry.
        let entry = unsafe { &mut *entry.0.get() };
        *entry = Some(slot(entry.take()));
    }

    /// Returns a slot, if it was ever set.
    ///
    /// # Safety
    /// By rule 2: the caller holds the engine's lock, or runs an instruction that names the slot,
    /// and drops the result before either ends.
    #[inline]
    pub(crate) unsafe fn get(&self, index: usize) -> Option<&T> {
        let (chunk, at) = place(index);
        let entry = self.chunks.get(chunk)?.get()?.get(at)?;
        // SAFETY: the caller promises that no thread writes the entry meanwhile.
        unsafe { (*entry.0.get()).as_ref() }
    }
}

impl TensorSlot {
    /// Returns the address of the first element.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(self.spec.layout.offset() * self.spec.dtype.size())
    }

    /// Returns the tensor as a kernel sees it.
    pub(crate) fn raw(&self) -> RawTensor<'_> {
        let layout = &self.spec.layout;
        RawTensor {
            data: self.first(),
            dtype: self.spec.dtype,
            shape: layout.shape(),
            strides: layout.strides(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_fill_the_chunks_without_gaps() {
        let mut expected = (0, 0);
        for id in 0..FIRST * 7 {
            assert_eq!(place(id), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place(u32::MAX as usize).0 <= CHUNKS);
    }
}
