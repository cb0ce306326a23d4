//! The argument block of kernels over an iteration space in which every operand has strides of its
//! own. Their sources are [`KernelTemplate`](super::template::KernelTemplate)s.
//!
//! The argument block holds one shape. Each operand has one stride per dimension of that shape, 0
//! where it does not advance. Other parameters, such as the stride of an indexed dimension, are
//! passed as integers whose meaning depends on the kernel. `strided.cu` declares the same types in
//! CUDA C.

use std::mem::offset_of;

use anyhow::Result;

use millstream_ep::cuda::NativeStream;
use millstream_types::{DType, Dims};

use super::Unsupported;
use super::args::{ArgsHeader, KernelArgs, MAX_RANK, MemoryRange, OperandLayout};
use crate::context::RawTensor;

/// The maximal number of operands.
pub(super) const MAX_OPERANDS: usize = 12;

/// The maximal number of scalars.
pub(super) const MAX_SCALARS: usize = 4;

/// The maximal number of integers.
pub(super) const MAX_INTEGERS: usize = 24;

/// The argument block, passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StridedArgs {
    header: ArgsHeader,
    /// The number of work items that the kernel assigns to threads: elements or lines.
    pub(super) count: u64,
    rank: u32,
    /// The number of dimensions before the split.
    split: u32,
    shape: [u64; MAX_RANK],
    operand: [OperandLayout; MAX_OPERANDS],
    scalars: [f64; MAX_SCALARS],
    integers: [i64; MAX_INTEGERS],
}

// SAFETY: `repr(C)`, and the sizes of the fields leave no padding, as a test checks.
unsafe impl KernelArgs for StridedArgs {
    fn header(&self) -> ArgsHeader {
        self.header
    }
}

/// The word that the kernels of a call set to fail the call.
pub(super) struct FailureFlag(*mut u64);

impl FailureFlag {
    /// Reserves the flag of the call that is being launched. If a kernel sets it, the call fails
    /// with `error` when it completes.
    ///
    /// # Errors
    /// An error of the driver.
    pub(super) fn new(native: &NativeStream, error: anyhow::Error) -> Result<FailureFlag> {
        Ok(FailureFlag(native.error_flag(error)?))
    }

    /// Returns the flag as an operand of an iteration space of `rank` dimensions.
    pub(super) fn operand(&self, rank: usize) -> StridedOperand<'static> {
        let flag = RawTensor { data: self.0.cast(), dtype: DType::I64, shape: &[], strides: &[] };
        StridedOperand::fixed(flag, rank)
    }
}

/// A tensor with one stride per dimension of the iteration space.
pub(super) struct StridedOperand<'a> {
    tensor: RawTensor<'a>,
    pub(super) strides: Dims,
}

impl<'a> StridedOperand<'a> {
    /// Iterates over a tensor with these strides, one per dimension.
    pub(super) fn with_strides(
        tensor: RawTensor<'a>,
        strides: impl IntoIterator<Item = usize>,
    ) -> StridedOperand<'a> {
        StridedOperand { tensor, strides: strides.into_iter().collect() }
    }

    /// Iterates over a tensor that has the shape of the iteration space.
    pub(super) fn new(tensor: RawTensor<'a>) -> StridedOperand<'a> {
        StridedOperand::with_strides(tensor, tensor.strides.iter().copied())
    }

    /// Passes a tensor whose address does not depend on the iteration.
    pub(super) fn fixed(tensor: RawTensor<'a>, rank: usize) -> StridedOperand<'a> {
        StridedOperand::with_strides(tensor, (0..rank).map(|_| 0))
    }

    /// Returns the operand for an iteration space with its dimensions in another order.
    pub(super) fn permuted(mut self, order: &[usize]) -> StridedOperand<'a> {
        self.strides = order.iter().map(|&dim| self.strides[dim]).collect();
        self
    }

    /// Returns the number of elements of the tensor.
    pub(super) fn numel(&self) -> usize {
        self.tensor.numel()
    }

    /// Broadcasts a tensor to the shape of the iteration space.
    pub(super) fn broadcast(tensor: RawTensor<'a>, shape: &[usize]) -> StridedOperand<'a> {
        let missing = shape.len().saturating_sub(tensor.shape.len());
        let stride = |dim: usize| match dim.checked_sub(missing) {
            Some(own) if tensor.shape[own] != 1 => tensor.strides[own],
            _ => 0,
        };
        StridedOperand::with_strides(tensor, (0..shape.len()).map(stride))
    }
}

/// A tensor of `N` dimensions, or a part of one, with a layout of its own.
#[derive(Clone, Copy)]
pub(super) struct TensorView<const N: usize> {
    pub(super) data: *mut u8,
    pub(super) dtype: DType,
    pub(super) shape: [usize; N],
    /// In elements.
    pub(super) strides: [usize; N],
}

impl<const N: usize> TensorView<N> {
    pub(super) fn raw(&self) -> RawTensor<'_> {
        RawTensor { data: self.data, dtype: self.dtype, shape: &self.shape, strides: &self.strides }
    }

    /// Returns the view whose first element is the one at these indices.
    pub(super) fn offset_by(&self, at: [usize; N]) -> TensorView<N> {
        let offset: usize = at.iter().zip(self.strides).map(|(at, stride)| at * stride).sum();
        TensorView { data: self.data.wrapping_add(offset * self.dtype.size()), ..*self }
    }
}

impl StridedArgs {
    /// Describes an iteration over `shape`. Merges dimensions that can be iterated as one, but
    /// never across `split`, and none if `split` is [`StridedArgs::KEEP_DIMENSIONS`].
    ///
    /// # Errors
    /// [`Unsupported`]: too many dimensions or operands.
    pub(super) fn new(
        shape: &[usize],
        split: usize,
        operands: &[StridedOperand<'_>],
    ) -> Result<StridedArgs> {
        if operands.len() > MAX_OPERANDS {
            return Err(Unsupported::of("too many operands"));
        }
        let header = ArgsHeader {
            size: size_of::<StridedArgs>() as u32,
            operands: operands.len() as u32,
            offset: offset_of!(StridedArgs, operand) as u32,
            stride: size_of::<OperandLayout>() as u32,
        };
        let count = shape.iter().product::<usize>() as u64;
        let mut args = StridedArgs { header, count, ..StridedArgs::default() };
        for (to, from) in args.operand.iter_mut().zip(operands) {
            to.memory = MemoryRange::of(&from.tensor);
        }
        for (dim, &length) in shape.iter().enumerate() {
            if dim == split {
                args.split = args.rank;
            }
            if length == 1 && split != StridedArgs::KEEP_DIMENSIONS {
                continue;
            }
            let floor = if dim < split { 0 } else { args.split };
            args.push(length as u64, operands, dim, floor, split == StridedArgs::KEEP_DIMENSIONS)?;
        }
        if split >= shape.len() {
            args.split = args.rank;
        }
        Ok(args)
    }

    /// The value of `split` that keeps all dimensions separate.
    pub(super) const KEEP_DIMENSIONS: usize = usize::MAX;

    /// Adds a dimension that varies faster than all earlier ones. Merges it with the last one if
    /// both can be iterated as one and the last one is not below `floor`. Never merges if
    /// `separate`.
    fn push(
        &mut self,
        length: u64,
        operands: &[StridedOperand<'_>],
        dim: usize,
        floor: u32,
        separate: bool,
    ) -> Result<()> {
        let rank = self.rank as usize;
        let all = || operands.iter().map(|operand| operand.strides[dim] as u64).enumerate();
        let merges =
            |(k, stride): (usize, u64)| self.operand[k].strides[rank - 1] == stride * length;
        if !separate && self.rank > floor && all().all(merges) {
            self.shape[rank - 1] *= length;
            all().for_each(|(k, stride)| self.operand[k].strides[rank - 1] = stride);
            return Ok(());
        }
        if rank == MAX_RANK {
            return Err(Unsupported::of("too many dimensions"));
        }
        self.shape[rank] = length;
        all().for_each(|(k, stride)| self.operand[k].strides[rank] = stride);
        self.rank += 1;
        Ok(())
    }

    /// Sets the integers.
    ///
    /// # Errors
    /// [`Unsupported`]: too many.
    pub(super) fn integers(mut self, integers: &[i64]) -> Result<StridedArgs> {
        let Some(to) = self.integers.get_mut(..integers.len()) else {
            return Err(Unsupported::of("too many operands"));
        };
        to.copy_from_slice(integers);
        Ok(self)
    }

    /// Sets the scalars. Only the first four are used.
    pub(super) fn scalars(mut self, scalars: &[f64]) -> StridedArgs {
        self.scalars.iter_mut().zip(scalars).for_each(|(to, &from)| *to = from);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense<'a>(shape: &'a [usize], strides: &'a [usize]) -> RawTensor<'a> {
        RawTensor { data: std::ptr::null_mut(), dtype: DType::F32, shape, strides }
    }

    #[track_caller]
    fn check(split: usize, expected: &[u64], before: u32) {
        let (shape, strides) = ([2, 3, 1, 4], [12, 4, 4, 1]);
        let args = StridedArgs::new(&shape, split, &[StridedOperand::new(dense(&shape, &strides))])
            .unwrap();
        assert_eq!((&args.shape[..args.rank as usize], args.split), (expected, before));
        assert_eq!(args.count, 24);
    }

    #[test]
    fn dimensions_are_merged_on_either_side_of_the_split() {
        check(4, &[24], 1);
        check(0, &[24], 0);
        check(1, &[2, 12], 1);
        check(3, &[6, 4], 1);
        check(StridedArgs::KEEP_DIMENSIONS, &[2, 3, 1, 4], 4);
    }

    #[test]
    fn the_layout_has_no_padding() {
        assert_eq!(
            size_of::<StridedArgs>(),
            16 + 16 + 64 + MAX_OPERANDS * 80 + 8 * (MAX_SCALARS + MAX_INTEGERS)
        );
    }

    #[test]
    fn too_many_dimensions_or_integers_are_not_supported() {
        let (shape, strides) = ([2; 9], [0; 9]);
        let error = StridedArgs::new(
            &shape,
            StridedArgs::KEEP_DIMENSIONS,
            &[StridedOperand::new(dense(&shape, &strides))],
        );
        assert!(error.unwrap_err().is::<Unsupported>());
        assert!(
            StridedArgs::default()
                .integers(&[0; MAX_INTEGERS + 1])
                .unwrap_err()
                .is::<Unsupported>()
        );
    }
}
