//! A kernel's argument and the operands in it.

use std::ffi::c_void;

use millstream_kernels::cuda::args::{ArgsHeader, MemoryRange};

use crate::memory::Range;
use crate::state::DriverResult;

/// A copy of an argument's bytes, with the operands' addresses on the host. Stored as words, which
/// aligns it.
pub(crate) struct Argument {
    pub(super) words: Vec<u64>,
    /// The ranges of the operands on the host: first address and end.
    pub(super) operands: Vec<[u64; 2]>,
}

impl Argument {
    /// Copies an argument of `size` bytes. `range` resolves an operand's address range on the host.
    ///
    /// # Errors
    /// The argument is malformed, or the error of `range`.
    ///
    /// # Safety
    /// `from` is valid for reads of `size` bytes.
    pub(crate) unsafe fn read(
        from: *const c_void,
        size: u32,
        mut range: impl FnMut(MemoryRange) -> DriverResult<Range>,
    ) -> DriverResult<Result<(Argument, Vec<Range>), String>> {
        let size = size as usize;
        let mut words = vec![0u64; size.div_ceil(8)];
        if size == 0 {
            return Ok(Ok((Argument { words, operands: Vec::new() }, Vec::new())));
        }
        // SAFETY: guaranteed by the caller; the words have room.
        unsafe { words.as_mut_ptr().cast::<u8>().copy_from(from.cast(), size) };
        let half = |k: usize| [words[k / 2] as u32, (words[k / 2] >> 32) as u32][k % 2];
        if size < size_of::<ArgsHeader>() {
            return Ok(Err(format!("an argument of {size} bytes, without a head")));
        }
        let head =
            ArgsHeader { size: half(0), operands: half(1), offset: half(2), stride: half(3) };
        let end = head.offset as usize + head.stride as usize * head.operands as usize;
        let aligned = head.offset.is_multiple_of(8) && head.stride.is_multiple_of(8);
        let fits =
            end <= size && (head.operands == 0 || head.stride as usize >= size_of::<MemoryRange>());
        if head.size as usize != size || !aligned || !fits {
            return Ok(Err(format!("the kernel's argument has {size} bytes, and {head:?}")));
        }
        let (mut operands, mut ranges) = (Vec::new(), Vec::new());
        for k in 0..head.operands as usize {
            let at = (head.offset as usize + k * head.stride as usize) / 8;
            let place = MemoryRange { data: words[at], bytes: words[at + 1] };
            // An operand without elements may have any address.
            if place.bytes > 0 {
                let found = range(place)?;
                words[at] = found.host as u64;
                operands.push([words[at], words[at] + place.bytes]);
                ranges.push(found);
            }
        }
        Ok(Ok((Argument { words, operands }, ranges)))
    }
}
