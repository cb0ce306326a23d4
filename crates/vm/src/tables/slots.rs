//! What the emission writes and workers read without a lock: tensors, and calls made many times.
//!
//! # Rules
//! 1. A slot is written by the emission alone, under its lock, and only while no instruction that
//!    names the slot is on its way: a slot is given out again only once every instruction that named
//!    it has completed.
//! 2. A worker reads a slot only while it runs an instruction that names it, or, of a pool, puts one into
//!    the graph that does and has not completed. The instruction came
//!    through a queue after the slot was written, so the write is seen.
//! 3. Chunks are never moved or freed while the table lives.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use millstream_instructions::Priority;
use millstream_kernels::RawTensor;
use millstream_types::{Access, Attrs, OpId, TensorSpec};

/// A tensor's memory and layout.
#[derive(Clone, Debug)]
pub(crate) struct TensorSlot {
    /// The storage's first byte.
    pub(crate) base: NonNull<u8>,
    /// The bytes of the storage.
    pub(crate) bytes: u64,
    pub(crate) spec: TensorSpec,
    /// A number that no other storage of the machine ever has.
    pub(crate) storage: u64,
    /// Whether the host can use the memory through its address.
    pub(crate) on_host: bool,
}

// SAFETY: an address and plain values. Who uses the memory behind it is ordered by the list.
unsafe impl Send for TensorSlot {}
// SAFETY: as above.
unsafe impl Sync for TensorSlot {}

/// A call that is made many times, without its tensors.
#[derive(Clone, Debug)]
pub(crate) struct CallSlot {
    pub(crate) op: OpId,
    pub(crate) accesses: SmallVec<[Access; 8]>,
    pub(crate) attrs: Option<Arc<Attrs>>,
    pub(crate) priority: Priority,
}

struct Entry<T>(UnsafeCell<Option<T>>);

// SAFETY: by rules 1 and 2 an entry is never read and written at the same time. What is in it is read
// by several threads and dropped by any.
unsafe impl<T: Send + Sync> Sync for Entry<T> {}

/// The first chunk has this many slots, each further one twice as many as the one before.
const FIRST: usize = 64;
const CHUNKS: usize = 26;

/// A table of slots, by number.
pub(crate) struct Slots<T> {
    chunks: [OnceLock<Box<[Entry<T>]>>; CHUNKS],
}

const fn place(index: usize) -> (usize, usize) {
    let n = index / FIRST + 1;
    let chunk = n.ilog2() as usize;
    (chunk, index - FIRST * ((1 << chunk) - 1))
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// Sets a slot.
    ///
    /// # Safety
    /// By rule 1: no instruction that names the slot is on its way, and no other thread sets it.
    pub(crate) unsafe fn set(&self, index: usize, slot: T) {
        let (chunk, at) = place(index);
        let made = || (0..FIRST << chunk).map(|_| Entry(UnsafeCell::new(None))).collect();
        let entry = &self.chunks[chunk].get_or_init(made)[at];
        // SAFETY: the caller promises that nobody else uses the entry.
        unsafe { *entry.0.get() = Some(slot) };
    }

    /// A slot, if it was ever set.
    ///
    /// # Safety
    /// By rule 2: the caller holds the emission's lock, or runs an instruction that names the
    /// slot, and lets go of the result before either ends.
    #[inline]
    pub(crate) unsafe fn get(&self, index: usize) -> Option<&T> {
        let (chunk, at) = place(index);
        let entry = self.chunks.get(chunk)?.get()?.get(at)?;
        // SAFETY: the caller promises that nobody writes the entry meanwhile.
        unsafe { (*entry.0.get()).as_ref() }
    }
}

impl TensorSlot {
    /// The tensor as a kernel sees it.
    pub(crate) fn raw(&self) -> RawTensor<'_> {
        let layout = &self.spec.layout;
        let start = layout.offset() * self.spec.dtype.size();
        RawTensor {
            data: self.base.as_ptr().wrapping_add(start),
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
