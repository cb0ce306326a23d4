//! Operands that share memory with what a call changes. As on the host they count as read in full before
//! anything is written: what shares memory is copied to the stream's scratch memory first.

use std::cell::{OnceCell, RefCell};

use anyhow::Result;

use millstream_ep::cuda::{Native, Scratch};
use millstream_types::Dims;
use millstream_types::layout::contiguous_strides;

use super::{Unsupported, matrices};
use crate::context::RawTensor;
use crate::cpu::memory::may_overlap;

/// The most operands of a call that are copied.
const COPIES: usize = 8;

/// Makes operands lie apart from the tensor that a call changes.
pub(super) struct Apart<'a> {
    native: &'a Native,
    changed: RawTensor<'a>,
    /// Taken with the first copy, and kept until all is launched that reads one.
    scratch: RefCell<Option<Scratch<'a>>>,
    /// Those of the copies.
    strides: [OnceCell<Dims>; COPIES],
}

impl<'a> Apart<'a> {
    /// Apart from `changed`.
    pub(super) fn from(native: &'a Native, changed: RawTensor<'a>) -> Apart<'a> {
        let strides = [const { OnceCell::new() }; COPIES];
        Apart { native, changed, scratch: RefCell::new(None), strides }
    }

    /// An operand, or a copy of it if it shares memory with what is changed.
    ///
    /// # Errors
    /// [`Unsupported`]: too many copies. The compiler's or the driver's.
    ///
    /// # Safety
    /// The operand is valid until the copy has run, which is ordered after all writes of it. Nobody else
    /// holds the stream's scratch memory.
    pub(super) unsafe fn of<'b>(&'b self, x: RawTensor<'b>) -> Result<RawTensor<'b>> {
        if !may_overlap(&x, &self.changed) {
            return Ok(x);
        }
        let Some(cell) = self.strides.iter().find(|cell| cell.get().is_none()) else {
            return Err(Unsupported::of("so many operands that share memory with what is changed"));
        };
        let dense = contiguous_strides(x.shape)?;
        let mut scratch = self.scratch.borrow_mut();
        let scratch = scratch.get_or_insert_with(|| self.native.scratch());
        // SAFETY: the caller's promise.
        let data = unsafe { matrices::dense(self.native, scratch, &x)? };
        Ok(RawTensor { data, strides: cell.get_or_init(|| dense), ..x })
    }
}
