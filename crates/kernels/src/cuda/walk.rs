//! The argument of kernels that walk a shape with operands which each go their own way.
//!
//! A walk has one shape. Each operand has a stride for every dimension of it, zero where it does not
//! move. What a kernel needs beyond that, such as the stride that an index steps over, is among the
//! integers, as the kernel means them. The same lies in `walk.cu`, in CUDA C.

use std::ffi::CString;
use std::mem::offset_of;

use anyhow::Result;

use millstream_ep::cuda::Native;
use millstream_ops::reduce::SUM_PART;
use millstream_types::{DType, Dims};

use super::call::{Argument, Head, Operand, Place, RANK};
use super::{Unsupported, launch, source};
use crate::context::RawTensor;

/// The most operands.
const OPERANDS: usize = 12;

/// The most numbers.
const NUMBERS: usize = 4;

/// The most integers.
const INTEGERS: usize = 24;

/// What a kernel is given, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    head: Head,
    /// How many elements, lines or whatever the kernel gives a thread each.
    pub(super) count: u64,
    rank: u32,
    /// How many of the dimensions stand before the split.
    split: u32,
    shape: [u64; RANK],
    operand: [Operand; OPERANDS],
    numbers: [f64; NUMBERS],
    integers: [i64; INTEGERS],
}

// SAFETY: `repr(C)`, and the sizes of its parts leave no gaps (see the tests).
unsafe impl Argument for Walk {
    fn head(&self) -> Head {
        self.head
    }
}

/// The word by which the kernels of a call say that it has failed.
pub(super) struct Failed(*mut u64);

impl Failed {
    /// A word for the call that is being launched, and the failure that it stands for.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn with(native: &Native, error: anyhow::Error) -> Result<Failed> {
        Ok(Failed(native.error_flag(error)?))
    }

    /// The word as an operand of a walk of so many dimensions.
    pub(super) fn step(&self, rank: usize) -> Step<'static> {
        let word = RawTensor { data: self.0.cast(), dtype: DType::I64, shape: &[], strides: &[] };
        Step::still(word, rank)
    }
}

/// An operand and how it is walked.
pub(super) struct Step<'a> {
    tensor: RawTensor<'a>,
    pub(super) strides: Dims,
}

impl<'a> Step<'a> {
    /// A tensor with these strides, one for each dimension of the walk.
    pub(super) fn by(tensor: RawTensor<'a>, strides: impl IntoIterator<Item = usize>) -> Step<'a> {
        Step { tensor, strides: strides.into_iter().collect() }
    }

    /// A tensor of the walk's own shape.
    pub(super) fn own(tensor: RawTensor<'a>) -> Step<'a> {
        Step::by(tensor, tensor.strides.iter().copied())
    }

    /// A tensor that does not move by itself.
    pub(super) fn still(tensor: RawTensor<'a>, rank: usize) -> Step<'a> {
        Step::by(tensor, (0..rank).map(|_| 0))
    }

    /// The same in a walk whose dimensions stand in another order.
    pub(super) fn in_order(mut self, order: &[usize]) -> Step<'a> {
        self.strides = order.iter().map(|&dim| self.strides[dim]).collect();
        self
    }

    /// How many elements the tensor has.
    pub(super) fn numel(&self) -> usize {
        self.tensor.numel()
    }

    /// A tensor that is broadcast to the walk's shape.
    pub(super) fn broadcast(tensor: RawTensor<'a>, shape: &[usize]) -> Step<'a> {
        let missing = shape.len().saturating_sub(tensor.shape.len());
        let stride = |dim: usize| match dim.checked_sub(missing) {
            Some(own) if tensor.shape[own] != 1 => tensor.strides[own],
            _ => 0,
        };
        Step::by(tensor, (0..shape.len()).map(stride))
    }
}

impl Walk {
    /// A walk over `shape`. Dimensions that can be walked as one are one, but never those before and
    /// after `split`, and none where `split` is [`Walk::WHOLE`].
    ///
    /// # Errors
    /// [`Unsupported`]: too many dimensions or operands.
    pub(super) fn new(shape: &[usize], split: usize, steps: &[Step<'_>]) -> Result<Walk> {
        if steps.len() > OPERANDS {
            return Err(Unsupported::of("so many operands"));
        }
        let head = Head {
            size: size_of::<Walk>() as u32,
            operands: steps.len() as u32,
            at: offset_of!(Walk, operand) as u32,
            step: size_of::<Operand>() as u32,
        };
        let count = shape.iter().product::<usize>() as u64;
        let mut walk = Walk { head, count, ..Walk::default() };
        for (to, from) in walk.operand.iter_mut().zip(steps) {
            to.place = Place::of(&from.tensor);
        }
        for (dim, &length) in shape.iter().enumerate() {
            if dim == split {
                walk.split = walk.rank;
            }
            if length == 1 && split != Walk::WHOLE {
                continue;
            }
            let floor = if dim < split { 0 } else { walk.split };
            walk.push(length as u64, steps, dim, floor, split == Walk::WHOLE)?;
        }
        if split >= shape.len() {
            walk.split = walk.rank;
        }
        Ok(walk)
    }

    /// For `split`: every dimension stays its own.
    pub(super) const WHOLE: usize = usize::MAX;

    /// Adds a dimension that varies faster than all so far: to the last one if both can be walked as
    /// one and that is not below `floor`.
    fn push(
        &mut self,
        length: u64,
        steps: &[Step<'_>],
        dim: usize,
        floor: u32,
        alone: bool,
    ) -> Result<()> {
        let rank = self.rank as usize;
        let all = || steps.iter().map(|step| step.strides[dim] as u64).enumerate();
        let joins =
            |(k, stride): (usize, u64)| self.operand[k].strides[rank - 1] == stride * length;
        if !alone && self.rank > floor && all().all(joins) {
            self.shape[rank - 1] *= length;
            all().for_each(|(k, stride)| self.operand[k].strides[rank - 1] = stride);
            return Ok(());
        }
        if rank == RANK {
            return Err(Unsupported::of("so many dimensions"));
        }
        self.shape[rank] = length;
        all().for_each(|(k, stride)| self.operand[k].strides[rank] = stride);
        self.rank += 1;
        Ok(())
    }

    /// The same with integers.
    ///
    /// # Errors
    /// [`Unsupported`]: too many.
    pub(super) fn integers(mut self, integers: &[i64]) -> Result<Walk> {
        let Some(to) = self.integers.get_mut(..integers.len()) else {
            return Err(Unsupported::of("so many operands"));
        };
        to.copy_from_slice(integers);
        Ok(self)
    }

    /// The same with numbers, of which the first four count.
    pub(super) fn numbers(mut self, numbers: &[f64]) -> Walk {
        self.numbers.iter_mut().zip(numbers).for_each(|(to, &from)| *to = from);
        self
    }
}

/// A kernel of a text in CUDA C, in which `KERNEL` stands for its name, `E` is the type of its
/// elements and `T` the one that they are computed in.
#[derive(Clone, Copy)]
pub(super) struct Text {
    /// What the kernel is called, before the dtype.
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

impl Text {
    fn kernel(&self, element: &str) -> String {
        format!("ms_{}__{element}", self.name)
    }

    fn source(&self, element: &str, (e, t): (&str, &str)) -> Result<CString> {
        let sizes = format!(
            "#define WALKED {OPERANDS}\n#define WALK_NUMBERS {NUMBERS}\n\
             #define WALK_INTEGERS {INTEGERS}\n#define RANK {RANK}\n\
             #define BLOCK {}\n#define PART {SUM_PART}\n",
            launch::THREADS
        );
        let types = format!("typedef {e} E;\ntypedef {t} T;\n");
        let own = self.text.replace("KERNEL", &self.kernel(element));
        let all = [source::prelude(), &*sizes, include_str!("walk.cu"), &*types, &*own];
        Ok(CString::new(all.concat())?)
    }

    /// The sources for elements of these dtypes, by the kernels' names.
    pub(super) fn typed(&self, dtypes: &[DType]) -> Vec<(String, CString)> {
        let of = |dtype: &DType| {
            let source = self.source(dtype.name(), types(*dtype)).ok()?;
            Some((self.kernel(dtype.name()), source))
        };
        dtypes.iter().filter_map(of).collect()
    }

    /// The sources for elements of all sizes, by the kernels' names.
    pub(super) fn sized(&self) -> Vec<(String, CString)> {
        let of = |bytes: usize| {
            let element = bytes.to_string();
            Some((self.kernel(&element), self.source(&element, bits(bytes)).ok()?))
        };
        [1, 2, 4, 8].into_iter().filter_map(of).collect()
    }

    /// Launches the kernel for elements of a dtype, one thread for each of the walk's count.
    ///
    /// # Errors
    /// The compiler's or the driver's.
    ///
    /// # Safety
    /// As for [`launch::blocks`].
    pub(super) unsafe fn of_dtype(&self, native: &Native, dtype: DType, walk: Walk) -> Result<()> {
        let element = dtype.name();
        // SAFETY: the caller's promise.
        unsafe { self.launch(native, element, types(dtype), threads(native, walk.count), walk) }
    }

    /// Launches the kernel for elements of a dtype's size, which are moved as they are.
    ///
    /// # Errors
    /// The compiler's or the driver's.
    ///
    /// # Safety
    /// As for [`launch::blocks`].
    pub(super) unsafe fn of_size(&self, native: &Native, dtype: DType, walk: Walk) -> Result<()> {
        let bytes = dtype.size();
        let blocks = threads(native, walk.count);
        // SAFETY: the caller's promise.
        unsafe { self.launch(native, &bytes.to_string(), bits(bytes), blocks, walk) }
    }

    /// Launches the kernel for elements of a dtype in so many blocks.
    ///
    /// # Errors
    /// The compiler's or the driver's.
    ///
    /// # Safety
    /// As for [`launch::blocks`].
    pub(super) unsafe fn in_blocks(
        &self,
        native: &Native,
        dtype: DType,
        blocks: u64,
        walk: Walk,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(native, dtype.name(), types(dtype), grid(native, blocks), walk) }
    }

    /// Launches the kernel for elements of a dtype in one block.
    ///
    /// # Errors
    /// The compiler's or the driver's.
    ///
    /// # Safety
    /// As for [`launch::blocks`].
    pub(super) unsafe fn in_one_block(
        &self,
        native: &Native,
        dtype: DType,
        walk: Walk,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.in_blocks(native, dtype, 1, walk) }
    }

    /// The same for elements of a dtype's size, which are moved as they are.
    ///
    /// # Errors
    /// The compiler's or the driver's.
    ///
    /// # Safety
    /// As for [`launch::blocks`].
    pub(super) unsafe fn in_one_block_of_size(
        &self,
        native: &Native,
        dtype: DType,
        walk: Walk,
    ) -> Result<()> {
        let bytes = dtype.size();
        // SAFETY: the caller's promise.
        unsafe { self.launch(native, &bytes.to_string(), bits(bytes), 1, walk) }
    }

    unsafe fn launch(
        &self,
        native: &Native,
        element: &str,
        types: (&str, &str),
        blocks: u32,
        walk: Walk,
    ) -> Result<()> {
        let name = self.kernel(element);
        // SAFETY: the caller's promise.
        unsafe { launch::blocks(native, &name, || self.source(element, types), blocks, walk) }
    }
}

/// The type of a dtype's elements, and the one that they are computed in.
fn types(dtype: DType) -> (&'static str, &'static str) {
    let element = match dtype {
        DType::F32 => return ("float", "float"),
        DType::F64 => return ("double", "double"),
        DType::F16 => return ("f16", "float"),
        DType::BF16 => return ("bf16", "float"),
        DType::I64 => "long long",
        DType::I32 => "int",
        DType::I16 => "short",
        DType::I8 => "signed char",
        DType::U8 => "unsigned char",
        DType::Bool => "boolean",
    };
    (element, "long long")
}

/// The types of elements that are moved as they are.
fn bits(bytes: usize) -> (&'static str, &'static str) {
    let element = match bytes {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned",
        _ => "u64",
    };
    (element, element)
}

/// Blocks for so many threads; with fewer than that, each thread takes several elements.
fn threads(native: &Native, count: u64) -> u32 {
    grid(native, count.div_ceil(launch::THREADS))
}

/// At most as many blocks as keep a device busy: kernels go through all that there is to do by
/// however many there are.
fn grid(native: &Native, blocks: u64) -> u32 {
    blocks.min(launch::BLOCKS * native.properties().multiprocessors.max(1) as u64) as u32
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
        let walk = Walk::new(&shape, split, &[Step::own(dense(&shape, &strides))]).unwrap();
        assert_eq!((&walk.shape[..walk.rank as usize], walk.split), (expected, before));
        assert_eq!(walk.count, 24);
    }

    #[test]
    fn dimensions_are_one_on_either_side_of_the_split() {
        check(4, &[24], 1);
        check(0, &[24], 0);
        check(1, &[2, 12], 1);
        check(3, &[6, 4], 1);
        check(Walk::WHOLE, &[2, 3, 1, 4], 4);
    }

    #[test]
    fn the_kernels_see_the_same_bytes() {
        assert_eq!(size_of::<Walk>(), 16 + 16 + 64 + OPERANDS * 80 + 8 * (NUMBERS + INTEGERS));
    }

    #[test]
    fn too_much_is_not_supported() {
        let (shape, strides) = ([2; 9], [0; 9]);
        let error = Walk::new(&shape, Walk::WHOLE, &[Step::own(dense(&shape, &strides))]);
        assert!(error.unwrap_err().is::<Unsupported>());
        assert!(Walk::default().integers(&[0; INTEGERS + 1]).unwrap_err().is::<Unsupported>());
    }
}
