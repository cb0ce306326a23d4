//! The one argument of our kernels: where the operands are and how they are walked.

use anyhow::Result;

use super::Unsupported;
use crate::context::RawTensor;

/// The most dimensions, once those that can be walked as one are one.
pub const RANK: usize = 8;

/// The most operands.
pub const OPERANDS: usize = 4;

/// The most numbers.
pub const NUMBERS: usize = 4;

/// An operand: the address of its first element, and how far the next one is in each dimension, in
/// elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// The address.
    pub data: u64,
    /// The strides; zero where the operand is broadcast.
    pub strides: [u64; RANK],
}

/// What a kernel is given, by value. The same lies in `source`, in CUDA C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Call {
    /// How many elements there are.
    pub count: u64,
    /// How many dimensions.
    pub rank: u32,
    /// How many operands.
    pub operands: u32,
    /// Their lengths, the last varying fastest.
    pub shape: [u64; RANK],
    /// The operands; the last is written.
    pub operand: [Operand; OPERANDS],
    /// Numbers, as the kernel means them.
    pub numbers: [f64; NUMBERS],
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
        let mut call =
            Call { count: out.numel() as u64, operands: operands.len() as u32, ..Call::default() };
        call.numbers[..numbers.len()].copy_from_slice(numbers);
        for (to, from) in call.operand.iter_mut().zip(operands) {
            to.data = from.data.addr() as u64;
        }
        for dim in 0..out.shape.len() {
            let length = out.shape[dim] as u64;
            if length == 1 {
                continue;
            }
            let strides = operands.iter().map(|tensor| stride(tensor, out.shape, dim));
            call.push(length, &strides.collect::<Vec<u64>>())?;
        }
        Ok(call)
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
    fn the_kernels_see_the_same_bytes() {
        assert_eq!((size_of::<Operand>(), size_of::<Call>()), (72, 400));
    }

    #[test]
    fn too_many_dimensions_are_not_supported() {
        let (shape, strides) = ([2; 9], [512, 2, 256, 4, 128, 8, 64, 16, 1]);
        let dense: Vec<usize> = (0..9).rev().map(|k| 1 << k).collect();
        let error = Call::new(&[raw(&shape, &strides), raw(&shape, &dense)], &[]).unwrap_err();
        assert!(error.is::<Unsupported>(), "{error}");
    }
}
