//! The one argument of our kernels: where the operands are and how they are walked.

use std::mem::offset_of;

use anyhow::Result;

use super::Unsupported;
use crate::context::RawTensor;

/// The most dimensions, once those that can be walked as one are one.
pub const RANK: usize = 8;

/// The most operands.
pub const OPERANDS: usize = 4;

/// The most numbers: three arguments, and three in place of tensors.
pub const NUMBERS: usize = 6;

/// The bytes that a thread moves at once: the most that a device does.
pub const PACK: usize = 16;

/// What the argument of every kernel of ours begins with, so that whoever runs kernels for a device,
/// as the tests' stand-in does, finds the memory that one uses without knowing the kernel.
///
/// A kernel takes one argument by value, or none. Its operands lie `at` bytes from its start, `step`
/// bytes from one to the next, and each begins with a [`Place`]. No other address is in an argument.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The bytes of the whole argument.
    pub size: u32,
    /// How many operands there are.
    pub operands: u32,
    /// Where the first lies.
    pub at: u32,
    /// How far it is to the next.
    pub step: u32,
}

/// Where an operand lies.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The address of its first element.
    pub data: u64,
    /// The bytes from there to the end of its last; none if it has no elements.
    pub bytes: u64,
}

impl Place {
    /// Where a tensor lies.
    pub fn of(tensor: &RawTensor<'_>) -> Place {
        let data = tensor.data.addr() as u64;
        if tensor.shape.contains(&0) {
            return Place { data, bytes: 0 };
        }
        let steps = tensor.shape.iter().zip(tensor.strides);
        let last: usize = steps.map(|(&length, &stride)| (length - 1) * stride).sum();
        Place { data, bytes: ((last + 1) * tensor.dtype.size()) as u64 }
    }
}

/// The argument of a kernel.
///
/// # Safety
/// The type is `repr(C)` without padding and begins with a [`Head`], and the kernels that are launched
/// with it are written for it.
pub unsafe trait Argument: Copy {
    /// Its beginning.
    fn head(&self) -> Head;
}

/// An operand: where it is, and how far the next element is in each dimension, in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// Where it is.
    pub place: Place,
    /// The strides; zero where the operand is broadcast.
    pub strides: [u64; RANK],
}

/// What an elementwise kernel is given, by value. The same lies in `prelude.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Call {
    /// Where the operands are.
    pub head: Head,
    /// How many elements there are.
    pub count: u64,
    /// How many dimensions.
    pub rank: u32,
    /// Whether each operand's elements lie one behind the other, so aligned that as many as fill
    /// [`PACK`] bytes in the largest dtype can be moved at once, or are one element.
    pub dense: u32,
    /// Their lengths, the last varying fastest.
    pub shape: [u64; RANK],
    /// The operands, of which the last is written; a word may follow that the kernel sets.
    pub operand: [Operand; OPERANDS],
    /// Numbers, as the kernel means them.
    pub numbers: [f64; NUMBERS],
    /// The same of kernels that compute in integers.
    pub integers: [i64; NUMBERS],
}

// SAFETY: `repr(C)`, and the sizes of its parts leave no gaps (see the tests).
unsafe impl Argument for Call {
    fn head(&self) -> Head {
        self.head
    }
}

impl Call {
    /// A walk over the elements of the last operand, to whose shape the others are broadcast.
    ///
    /// # Errors
    /// [`Unsupported`]: too many dimensions or operands.
    pub fn new(operands: &[RawTensor<'_>], numbers: &[f64]) -> Result<Call> {
        let Some(out) = operands.last() else { return Err(Unsupported::of("no operands")) };
        if operands.len() > OPERANDS || numbers.len() > NUMBERS {
            return Err(Unsupported::of("too many operands"));
        }
        let head = Head {
            size: size_of::<Call>() as u32,
            operands: operands.len() as u32,
            at: offset_of!(Call, operand) as u32,
            step: size_of::<Operand>() as u32,
        };
        let mut call = Call { head, count: out.numel() as u64, ..Call::default() };
        call.numbers[..numbers.len()].copy_from_slice(numbers);
        for (to, from) in call.operand.iter_mut().zip(operands) {
            to.place = Place::of(from);
        }
        for dim in 0..out.shape.len() {
            let length = out.shape[dim] as u64;
            if length == 1 {
                continue;
            }
            let strides = operands.iter().map(|tensor| stride(tensor, out.shape, dim));
            call.push(length, &strides.collect::<Vec<u64>>())?;
        }
        call.dense = u32::from(call.is_dense(operands));
        Ok(call)
    }

    /// The same with a word after the operands, for the kernel to set.
    ///
    /// # Errors
    /// [`Unsupported`]: too many operands.
    pub(super) fn with_word(mut self, word: *mut u64) -> Result<Call> {
        let Some(to) = self.operand.get_mut(self.head.operands as usize) else {
            return Err(Unsupported::of("too many operands"));
        };
        let bytes = size_of::<u64>() as u64;
        to.place = Place { data: word.addr() as u64, bytes };
        self.head.operands += 1;
        Ok(self)
    }

    fn is_dense(&self, operands: &[RawTensor<'_>]) -> bool {
        let largest = operands.iter().map(|x| x.dtype.size()).max().unwrap_or(1);
        let fits = |(call, x): (&Operand, &RawTensor<'_>)| match call.strides[0] {
            0 => true,
            1 => x.data.addr().is_multiple_of(PACK / largest * x.dtype.size()),
            _ => false,
        };
        // What has one element is walked as such.
        self.rank == 1 && self.operand.iter().zip(operands).all(fits)
    }

    /// Whether numbers of elements, and the distances between any two, fit into 32 bits.
    pub fn is_narrow(&self) -> bool {
        let most = u64::from(u32::MAX);
        let span = |operand: &Operand| {
            let steps = self.shape.iter().zip(operand.strides).take(self.rank as usize);
            steps
                .map(|(&length, stride)| length.saturating_sub(1).saturating_mul(stride))
                .max()
                .unwrap_or(0)
        };
        let fits = |operand: &Operand| span(operand).saturating_mul(u64::from(self.rank)) <= most;
        // A thread's number is increased by that of all threads.
        self.count <= most / 2 && self.operand.iter().take(self.head.operands as usize).all(fits)
    }

    /// Adds a dimension that varies faster than all so far, to the last one if both can be walked
    /// as one.
    fn push(&mut self, length: u64, strides: &[u64]) -> Result<()> {
        let rank = self.rank as usize;
        let joins = |k: usize, stride: u64| self.operand[k].strides[rank - 1] == stride * length;
        if rank > 0 && strides.iter().enumerate().all(|(k, &stride)| joins(k, stride)) {
            self.shape[rank - 1] *= length;
            for (k, &stride) in strides.iter().enumerate() {
                self.operand[k].strides[rank - 1] = stride;
            }
            return Ok(());
        }
        if rank == RANK {
            return Err(Unsupported::of("too many dimensions"));
        }
        self.shape[rank] = length;
        for (k, &stride) in strides.iter().enumerate() {
            self.operand[k].strides[rank] = stride;
        }
        self.rank += 1;
        Ok(())
    }
}

/// How far the next element is in dimension `dim` of a shape that the tensor is broadcast to.
fn stride(tensor: &RawTensor<'_>, shape: &[usize], dim: usize) -> u64 {
    let missing = shape.len() - tensor.shape.len().min(shape.len());
    match dim.checked_sub(missing) {
        Some(own) if tensor.shape[own] != 1 => tensor.strides[own] as u64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_types::DType;

    fn raw<'a>(shape: &'a [usize], strides: &'a [usize]) -> RawTensor<'a> {
        RawTensor { data: std::ptr::null_mut(), dtype: DType::F32, shape, strides }
    }

    #[track_caller]
    fn check(operands: &[RawTensor<'_>], shape: &[u64], strides: &[&[u64]]) {
        let call = Call::new(operands, &[]).unwrap();
        let rank = call.rank as usize;
        assert_eq!(&call.shape[..rank], shape);
        for (operand, strides) in call.operand.iter().zip(strides) {
            assert_eq!(&operand.strides[..rank], *strides);
        }
    }

    #[test]
    fn dimensions_that_can_be_are_walked_as_one() {
        let dense = raw(&[2, 3, 4], &[12, 4, 1]);
        check(&[dense, dense], &[24], &[&[1], &[1]]);
        let turned = raw(&[2, 3, 4], &[12, 1, 3]);
        check(&[turned, dense], &[2, 3, 4], &[&[12, 1, 3], &[12, 4, 1]]);
        let row = raw(&[4], &[1]);
        check(&[row, dense], &[6, 4], &[&[0, 1], &[4, 1]]);
        let one = raw(&[1, 1], &[7, 9]);
        check(&[one, dense], &[24], &[&[0], &[1]]);
        check(&[raw(&[], &[]), raw(&[], &[])], &[], &[&[], &[]]);
    }

    #[test]
    fn wide_indices_are_for_what_needs_them() {
        let narrow = |x: RawTensor<'_>| Call::new(&[x], &[]).unwrap().is_narrow();
        assert!(narrow(raw(&[0, 3], &[3, 1])) && narrow(raw(&[], &[])));
        assert!(narrow(raw(&[1 << 30], &[1])) && !narrow(raw(&[1 << 32], &[1])));
        assert!(narrow(raw(&[3], &[1 << 30])) && !narrow(raw(&[3, 2], &[1 << 31, 1])));
    }

    #[test]
    fn the_kernels_see_the_same_bytes() {
        assert_eq!((size_of::<Operand>(), size_of::<Call>()), (80, 512));
    }

    #[test]
    fn too_many_dimensions_are_not_supported() {
        let (shape, strides) = ([2; 9], [512, 2, 256, 4, 128, 8, 64, 16, 1]);
        let dense: Vec<usize> = (0..9).rev().map(|k| 1 << k).collect();
        let error = Call::new(&[raw(&shape, &strides), raw(&shape, &dense)], &[]).unwrap_err();
        assert!(error.is::<Unsupported>(), "{error}");
    }
}
