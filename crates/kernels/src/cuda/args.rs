//! The argument block of a kernel: the memory of its operands, the iteration space, and scalars.
//! `prelude.cu` declares the same types in CUDA C.

use std::mem::offset_of;

use anyhow::Result;

use super::Unsupported;
use crate::context::RawTensor;

/// The maximal number of dimensions, after merging those that can be iterated as one.
pub const MAX_RANK: usize = 8;

/// The maximal number of operands.
pub const MAX_OPERANDS: usize = 4;

/// The maximal number of scalars: three arguments, and three in place of tensors.
pub const MAX_SCALARS: usize = 6;

/// The bytes of the widest load or store that a thread executes.
pub const VECTOR_BYTES: usize = 16;

/// The header of every argument block. The tests' stand-in for the driver reads it to find the
/// memory that a kernel uses, without knowing the kernel.
///
/// A kernel takes one argument block by value, or none. The first operand starts `offset` bytes
/// into the block, and operands are `stride` bytes apart. Each starts with a [`MemoryRange`]. The
/// block contains no other address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgsHeader {
    /// The bytes of the whole block.
    pub size: u32,
    /// The number of operands.
    pub operands: u32,
    /// The offset of the first operand, in bytes.
    pub offset: u32,
    /// The distance from one operand to the next, in bytes.
    pub stride: u32,
}

/// The device memory of an operand.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRange {
    /// The address of the first element.
    pub data: u64,
    /// The bytes from there to the end of the last element; 0 if there are no elements.
    pub bytes: u64,
}

impl MemoryRange {
    /// Returns the memory of a tensor.
    pub fn of(tensor: &RawTensor<'_>) -> MemoryRange {
        let data = tensor.data.addr() as u64;
        if tensor.shape.contains(&0) {
            return MemoryRange { data, bytes: 0 };
        }
        let steps = tensor.shape.iter().zip(tensor.strides);
        let last: usize = steps.map(|(&length, &stride)| (length - 1) * stride).sum();
        MemoryRange { data, bytes: ((last + 1) * tensor.dtype.size()) as u64 }
    }
}

/// The argument block of a kernel.
///
/// # Safety
/// The type is `repr(C)` without padding and starts with an [`ArgsHeader`]. The kernels that are
/// launched with it declare the same type.
pub unsafe trait KernelArgs: Copy {
    /// Returns the header.
    fn header(&self) -> ArgsHeader;
}

/// The memory and the strides of an operand.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperandLayout {
    /// The memory.
    pub memory: MemoryRange,
    /// The stride of each dimension in elements; 0 where the operand is broadcast.
    pub strides: [u64; MAX_RANK],
}

/// The argument block of an elementwise kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ElementwiseArgs {
    /// The header.
    pub header: ArgsHeader,
    /// The number of elements.
    pub count: u64,
    /// The number of dimensions.
    pub rank: u32,
    /// Whether vector loads and stores work: each operand is either one element, or contiguous and
    /// aligned to the number of elements that fill [`VECTOR_BYTES`] in the largest dtype.
    pub dense: u32,
    /// The length of each dimension. The last one varies fastest.
    pub shape: [u64; MAX_RANK],
    /// The operands, the output last. A failure flag that the kernel may set can follow it.
    pub operand: [OperandLayout; MAX_OPERANDS],
    /// The scalars of a kernel that computes in floats. Their meaning depends on the kernel.
    pub scalars: [f64; MAX_SCALARS],
    /// The same scalars for a kernel that computes in integers.
    pub integers: [i64; MAX_SCALARS],
}

// SAFETY: `repr(C)`, and the sizes of the fields leave no padding, as a test checks.
unsafe impl KernelArgs for ElementwiseArgs {
    fn header(&self) -> ArgsHeader {
        self.header
    }
}

impl ElementwiseArgs {
    /// Describes an iteration over the elements of the last operand. The others are broadcast to
    /// its shape.
    ///
    /// # Errors
    /// [`Unsupported`]: too many dimensions or operands.
    pub fn new(operands: &[RawTensor<'_>], scalars: &[f64]) -> Result<ElementwiseArgs> {
        let Some(out) = operands.last() else { return Err(Unsupported::of("no operands")) };
        if operands.len() > MAX_OPERANDS || scalars.len() > MAX_SCALARS {
            return Err(Unsupported::of("too many operands"));
        }
        let header = ArgsHeader {
            size: size_of::<ElementwiseArgs>() as u32,
            operands: operands.len() as u32,
            offset: offset_of!(ElementwiseArgs, operand) as u32,
            stride: size_of::<OperandLayout>() as u32,
        };
        let mut args =
            ElementwiseArgs { header, count: out.numel() as u64, ..ElementwiseArgs::default() };
        args.scalars[..scalars.len()].copy_from_slice(scalars);
        for (to, from) in args.operand.iter_mut().zip(operands) {
            to.memory = MemoryRange::of(from);
        }
        for dim in 0..out.shape.len() {
            let length = out.shape[dim] as u64;
            if length == 1 {
                continue;
            }
            let strides = operands.iter().map(|tensor| stride(tensor, out.shape, dim));
            args.push(length, &strides.collect::<Vec<u64>>())?;
        }
        args.dense = u32::from(args.is_dense(operands));
        Ok(args)
    }

    /// Appends the address of a failure flag, which the kernel sets to fail the call.
    ///
    /// # Errors
    /// [`Unsupported`]: too many operands.
    pub(super) fn with_failure_flag(mut self, flag: *mut u64) -> Result<ElementwiseArgs> {
        let Some(to) = self.operand.get_mut(self.header.operands as usize) else {
            return Err(Unsupported::of("too many operands"));
        };
        let bytes = size_of::<u64>() as u64;
        to.memory = MemoryRange { data: flag.addr() as u64, bytes };
        self.header.operands += 1;
        Ok(self)
    }

    fn is_dense(&self, operands: &[RawTensor<'_>]) -> bool {
        let largest = operands.iter().map(|x| x.dtype.size()).max().unwrap_or(1);
        let fits = |(layout, x): (&OperandLayout, &RawTensor<'_>)| match layout.strides[0] {
            0 => true,
            1 => x.data.addr().is_multiple_of(VECTOR_BYTES / largest * x.dtype.size()),
            _ => false,
        };
        // The kernel handles operands of one element by their stride of 0.
        self.rank == 1 && self.operand.iter().zip(operands).all(fits)
    }

    /// Returns whether element numbers, and the distances between elements, fit into 32 bits.
    pub fn is_narrow(&self) -> bool {
        let most = u64::from(u32::MAX);
        let span = |operand: &OperandLayout| {
            let steps = self.shape.iter().zip(operand.strides).take(self.rank as usize);
            steps
                .map(|(&length, stride)| length.saturating_sub(1).saturating_mul(stride))
                .max()
                .unwrap_or(0)
        };
        let fits =
            |operand: &OperandLayout| span(operand).saturating_mul(u64::from(self.rank)) <= most;
        // A thread adds the number of all threads to its index, which must not overflow either.
        self.count <= most / 2 && self.operand.iter().take(self.header.operands as usize).all(fits)
    }

    /// Adds a dimension that varies faster than all earlier ones. Merges it with the last one if
    /// both can be iterated as one.
    fn push(&mut self, length: u64, strides: &[u64]) -> Result<()> {
        let rank = self.rank as usize;
        let merges = |k: usize, stride: u64| self.operand[k].strides[rank - 1] == stride * length;
        if rank > 0 && strides.iter().enumerate().all(|(k, &stride)| merges(k, stride)) {
            self.shape[rank - 1] *= length;
            for (k, &stride) in strides.iter().enumerate() {
                self.operand[k].strides[rank - 1] = stride;
            }
            return Ok(());
        }
        if rank == MAX_RANK {
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

/// Returns the stride along dimension `dim` of a shape to which the tensor is broadcast.
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
        let args = ElementwiseArgs::new(operands, &[]).unwrap();
        let rank = args.rank as usize;
        assert_eq!(&args.shape[..rank], shape);
        for (operand, strides) in args.operand.iter().zip(strides) {
            assert_eq!(&operand.strides[..rank], *strides);
        }
    }

    #[test]
    fn mergeable_dimensions_are_merged() {
        let dense = raw(&[2, 3, 4], &[12, 4, 1]);
        check(&[dense, dense], &[24], &[&[1], &[1]]);
        let transposed = raw(&[2, 3, 4], &[12, 1, 3]);
        check(&[transposed, dense], &[2, 3, 4], &[&[12, 1, 3], &[12, 4, 1]]);
        let row = raw(&[4], &[1]);
        check(&[row, dense], &[6, 4], &[&[0, 1], &[4, 1]]);
        let one = raw(&[1, 1], &[7, 9]);
        check(&[one, dense], &[24], &[&[0], &[1]]);
        check(&[raw(&[], &[]), raw(&[], &[])], &[], &[&[], &[]]);
    }

    #[test]
    fn is_narrow_detects_indices_beyond_32_bits() {
        let narrow = |x: RawTensor<'_>| ElementwiseArgs::new(&[x], &[]).unwrap().is_narrow();
        assert!(narrow(raw(&[0, 3], &[3, 1])) && narrow(raw(&[], &[])));
        assert!(narrow(raw(&[1 << 30], &[1])) && !narrow(raw(&[1 << 32], &[1])));
        assert!(narrow(raw(&[3], &[1 << 30])) && !narrow(raw(&[3, 2], &[1 << 31, 1])));
    }

    #[test]
    fn the_layout_has_no_padding() {
        assert_eq!((size_of::<OperandLayout>(), size_of::<ElementwiseArgs>()), (80, 512));
    }

    #[test]
    fn too_many_dimensions_are_not_supported() {
        let (shape, strides) = ([2; 9], [512, 2, 256, 4, 128, 8, 64, 16, 1]);
        let dense: Vec<usize> = (0..9).rev().map(|k| 1 << k).collect();
        let error =
            ElementwiseArgs::new(&[raw(&shape, &strides), raw(&shape, &dense)], &[]).unwrap_err();
        assert!(error.is::<Unsupported>(), "{error}");
    }
}
