//! Operands that overlap the written tensor. As on the host, a call reads them in full before it
//! writes anything. So overlapping operands are copied to the stream's scratch memory first.

use std::cell::{OnceCell, RefCell};

use anyhow::Result;

use millstream_ep::cuda::{NativeStream, Scratch};
use millstream_types::Dims;
use millstream_types::layout::contiguous_strides;

use super::{Unsupported, gemm};
use crate::context::RawTensor;
use crate::cpu::memory::may_overlap;

/// The maximal number of copied operands of a call.
const MAX_COPIES: usize = 8;

/// The copies of operands that overlap the tensor that a call writes.
pub(super) struct OverlapCopies<'a> {
    native: &'a NativeStream,
    written: RawTensor<'a>,
    /// The memory of the copies. The first copy acquires it; it is held until the kernels that read
    /// copies are launched.
    scratch: RefCell<Option<Scratch<'a>>>,
    /// The strides of the copies.
    strides: [OnceCell<Dims>; MAX_COPIES],
}

impl<'a> OverlapCopies<'a> {
    /// Copies operands that overlap `written`.
    pub(super) fn new(native: &'a NativeStream, written: RawTensor<'a>) -> OverlapCopies<'a> {
        let strides = [const { OnceCell::new() }; MAX_COPIES];
        OverlapCopies { native, written, scratch: RefCell::new(None), strides }
    }

    /// Returns the operand, or a copy of it if it overlaps the written tensor.
    ///
    /// # Errors
    /// [`Unsupported`]: too many copies. Also errors of the compiler or the driver.
    ///
    /// # Safety
    /// The operand is valid until the copy has run, and the copy is ordered after all writes of the
    /// operand. Nothing else holds the stream's scratch memory.
    pub(super) unsafe fn resolve<'b>(&'b self, x: RawTensor<'b>) -> Result<RawTensor<'b>> {
        if !may_overlap(&x, &self.written) {
            return Ok(x);
        }
        let Some(cell) = self.strides.iter().find(|cell| cell.get().is_none()) else {
            return Err(Unsupported::of("too many operands that overlap the written tensor"));
        };
        let dense = contiguous_strides(x.shape)?;
        let mut scratch = self.scratch.borrow_mut();
        let scratch = scratch.get_or_insert_with(|| self.native.scratch());
        // SAFETY: the caller's promise.
        let data = unsafe { gemm::dense(self.native, scratch, &x)? };
        Ok(RawTensor { data, strides: cell.get_or_init(|| dense), ..x })
    }
}
