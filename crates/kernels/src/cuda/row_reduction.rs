//! Kernels over the rows of a tensor: which dimensions form a row, and which threads process which
//! elements. `row_reduction.cu` declares the same types in CUDA C.

use std::ffi::CString;
use std::mem::offset_of;

use anyhow::Result;
use smallvec::SmallVec;

use millstream_ep::cuda::NativeStream;
use millstream_types::DType;

use super::args::{ArgsHeader, KernelArgs, MAX_RANK, MemoryRange, VECTOR_BYTES};
use super::{Unsupported, launch, source};
use crate::context::RawTensor;

/// The threads of a block, as in `row_reduction.cu`.
const THREADS: usize = 256;

/// The maximal number of blocks per multiprocessor. With more rows, each block processes several.
const BLOCKS_PER_MULTIPROCESSOR: u64 = 32;

/// The maximal number of vectors of a row that a thread keeps in registers. They take 32 registers.
const MAX_REGISTER_LOADS: u64 = 8;

/// The threads of a warp. They synchronize without the rest of the block, and together they read
/// whole cache lines.
const WARP: usize = 32;

/// A dimension: its length, whether it numbers the rows or the elements of a row, and the stride of
/// each operand in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowDim<const N: usize> {
    pub(super) length: usize,
    pub(super) kept: bool,
    pub(super) strides: [usize; N],
}

/// An operand, with its strides from row to row (`kept`) and along a row (`reduced`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowOperand {
    memory: MemoryRange,
    kept: [u64; MAX_RANK],
    reduced: [u64; MAX_RANK],
}

/// The argument block of a kernel over rows, passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RowArgs<const N: usize> {
    header: ArgsHeader,
    pub(super) rows: u64,
    pub(super) length: u64,
    /// The elements of a part, and the number of parts of a row. Different blocks may process the
    /// parts of one row.
    pub(super) part: u64,
    pub(super) parts: u64,
    kept: u32,
    reduced: u32,
    /// The rows of a block.
    block_rows: u32,
    /// Whether adjacent threads process adjacent rows, instead of adjacent elements of a row.
    adjacent_rows: u32,
    pub(super) flags: u32,
    /// The elements of a row that a thread loads at once.
    vector_width: u32,
    kept_shape: [u64; MAX_RANK],
    reduced_shape: [u64; MAX_RANK],
    pub(super) operand: [RowOperand; N],
    pub(super) scalars: [f64; 4],
}

// SAFETY: `repr(C)`; the fields have 8 bytes each, except ten of 4 bytes: there is no padding.
unsafe impl<const N: usize> KernelArgs for RowArgs<N> {
    fn header(&self) -> ArgsHeader {
        self.header
    }
}

impl<const N: usize> RowArgs<N> {
    /// Describes the rows over these dimensions. Operands may be absent. The memory layout of the
    /// first operand decides which threads process which elements.
    ///
    /// # Errors
    /// [`Unsupported`]: too many dimensions.
    pub(super) fn new(
        dims: &[RowDim<N>],
        operands: [Option<&RawTensor<'_>>; N],
    ) -> Result<RowArgs<N>> {
        let header = ArgsHeader {
            size: size_of::<RowArgs<N>>() as u32,
            operands: N as u32,
            offset: offset_of!(RowArgs<N>, operand) as u32,
            stride: size_of::<RowOperand>() as u32,
        };
        let length =
            |kept| dims.iter().filter(|d| d.kept == kept).map(|d| d.length as u64).product();
        let mut rows = RowArgs {
            header,
            rows: length(true),
            length: length(false),
            part: length(false),
            parts: 1,
            kept: 0,
            reduced: 0,
            block_rows: 1,
            adjacent_rows: 0,
            flags: 0,
            vector_width: 1,
            kept_shape: [0; MAX_RANK],
            reduced_shape: [0; MAX_RANK],
            operand: [RowOperand::default(); N],
            scalars: [0.0; 4],
        };
        for (to, from) in rows.operand.iter_mut().zip(operands) {
            to.memory = from.map(MemoryRange::of).unwrap_or_default();
        }
        dims.iter().filter(|dim| dim.length != 1).try_for_each(|dim| rows.push(dim))?;
        rows.vector_width = rows.vector_width(operands);
        rows.assign_threads();
        Ok(rows)
    }

    /// Adds a dimension. Merges it with the last one of its kind if both can be iterated as one.
    fn push(&mut self, dim: &RowDim<N>) -> Result<()> {
        let length = dim.length as u64;
        let (rank, shape) = match dim.kept {
            true => (&mut self.kept, &mut self.kept_shape),
            false => (&mut self.reduced, &mut self.reduced_shape),
        };
        let mut all: Vec<&mut [u64; MAX_RANK]> = self
            .operand
            .iter_mut()
            .map(|operand| if dim.kept { &mut operand.kept } else { &mut operand.reduced })
            .collect();
        let last = (*rank as usize).checked_sub(1);
        let merged = last.filter(|&last| {
            all.iter().zip(dim.strides).all(|(s, stride)| s[last] == stride as u64 * length)
        });
        let at = match merged {
            Some(last) => {
                shape[last] *= length;
                last
            }
            None if *rank as usize == MAX_RANK => {
                return Err(Unsupported::of("too many dimensions"));
            }
            None => {
                *rank += 1;
                shape[*rank as usize - 1] = length;
                *rank as usize - 1
            }
        };
        for (strides, stride) in all.iter_mut().zip(dim.strides) {
            strides[at] = stride as u64;
        }
        Ok(())
    }

    /// Returns whether rows are closer to each other in memory than the elements of a row.
    fn has_adjacent_rows(&self) -> bool {
        let stride = |rank: u32, of: &[u64; MAX_RANK]| match rank.checked_sub(1) {
            Some(last) => of[last as usize],
            None => u64::MAX,
        };
        let first = &self.operand[0];
        stride(self.kept, &first.kept) < stride(self.reduced, &first.reduced)
    }

    /// Returns the number of elements of a row that a thread can load at once: as many as fill
    /// [`VECTOR_BYTES`] bytes, if they are contiguous and aligned in the first operand and in all
    /// others that vary along rows; else one.
    fn vector_width(&self, operands: [Option<&RawTensor<'_>>; N]) -> u32 {
        let Some(last) = (self.reduced as usize).checked_sub(1) else { return 1 };
        let given =
            self.operand.iter().zip(operands).filter_map(|(o, x)| Some((o, x?.dtype.size())));
        let varying: SmallVec<[_; 8]> = given.filter(|(o, _)| o.reduced[last] != 0).collect();
        let largest = varying.iter().map(|(_, size)| *size).max().unwrap_or(VECTOR_BYTES);
        let vector_width = (VECTOR_BYTES / largest) as u64;
        let fits = |(operand, size): &(&RowOperand, usize)| {
            let mut others =
                operand.kept[..self.kept as usize].iter().chain(&operand.reduced[..last]);
            operand.reduced[last] == 1
                && operand.memory.data.is_multiple_of(vector_width * *size as u64)
                && others.all(|stride| stride.is_multiple_of(vector_width))
        };
        let whole = self.reduced_shape[last].is_multiple_of(vector_width);
        let first = self.operand[0].reduced[last] == 1 && !self.has_adjacent_rows();
        if whole && first && varying.iter().all(fits) { vector_width as u32 } else { 1 }
    }

    /// Assigns threads to elements, so that adjacent threads access adjacent memory.
    fn assign_threads(&mut self) {
        let adjacent_rows = self.has_adjacent_rows();
        let round_up = |v: u64| v.clamp(1, THREADS as u64).next_power_of_two() as usize;
        let threads = match adjacent_rows {
            // A few adjacent rows per load; the remaining threads of the block divide the rows.
            true => (THREADS / round_up(self.rows).min(32)).min(round_up(self.length)),
            // Four elements per thread.
            false if self.vector_width == 1 => round_up(self.length.div_ceil(4)),
            // A warp per row, and more threads for rows that do not fit into its registers.
            false => {
                let loads = self.length / u64::from(self.vector_width);
                round_up(loads).min(WARP).max(round_up(loads.div_ceil(MAX_REGISTER_LOADS)))
            }
        };
        self.adjacent_rows = u32::from(adjacent_rows);
        self.block_rows = (THREADS / threads) as u32;
    }

    /// Assigns one whole row to each block.
    pub(super) fn one_row_per_block(mut self) -> RowArgs<N> {
        (self.block_rows, self.adjacent_rows) = (1, 0);
        self
    }

    /// Returns the number of threads per row.
    pub(super) fn threads_per_row(&self) -> u64 {
        THREADS as u64 / u64::from(self.block_rows)
    }

    /// Splits rows into parts of `part` elements. Operand `k` holds the results of the parts.
    pub(super) fn split_rows(mut self, part: u64, k: usize, results: &RawTensor<'_>) -> RowArgs<N> {
        (self.part, self.parts) = (part, self.length.div_ceil(part).max(1));
        self.operand[k].memory = MemoryRange::of(results);
        self
    }

    /// Returns how the kernel accesses a row. If `in_registers`, it keeps the elements in registers
    /// where they fit.
    pub(super) fn access(&self, in_registers: bool) -> RowAccess {
        let loads = self.length.div_ceil(u64::from(self.vector_width) * self.threads_per_row());
        let fits = self.vector_width > 1 && self.reduced == 1 && loads <= MAX_REGISTER_LOADS;
        // Powers of two keep the number of kernels small.
        let register_loads =
            if in_registers && fits { loads.max(1).next_power_of_two() as u32 } else { 0 };
        RowAccess { vector_width: self.vector_width, register_loads }
    }

    /// Launches the kernel `name` of a source.
    ///
    /// # Errors
    /// An error of the driver, or of the compiler, which may be missing.
    ///
    /// # Safety
    /// As for [`launch::launch_blocks`].
    pub(super) unsafe fn launch(
        self,
        native: &NativeStream,
        (module, name): (&str, &str),
        source: impl FnOnce() -> Result<CString>,
    ) -> Result<()> {
        let most = BLOCKS_PER_MULTIPROCESSOR * native.properties().multiprocessors.max(1) as u64;
        let tasks = self.rows.div_ceil(u64::from(self.block_rows)).saturating_mul(self.parts);
        let blocks = tasks.min(most) as u32;
        // SAFETY: the caller's promise.
        unsafe { launch::launch_entry(native, (module, name), source, blocks, self) }
    }
}

/// The way in which a kernel accesses the elements of a row. Each way is a kernel of its own,
/// compiled from the same text. A kernel for all ways would reserve the registers of the widest for
/// every thread, and its first use would compile all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RowAccess {
    /// The elements per load.
    pub(super) vector_width: u32,
    /// The loads of a thread, if each has registers of its own; else 0.
    pub(super) register_loads: u32,
}

impl RowAccess {
    /// Loads one element at a time.
    pub(super) const SCALAR: RowAccess = RowAccess { vector_width: 1, register_loads: 0 };

    /// Returns the name of the kernel with this access.
    pub(super) fn name(self, name: &str) -> String {
        match self {
            RowAccess { vector_width: 1, .. } => name.to_owned(),
            RowAccess { vector_width, register_loads: 0 } => format!("{name}_by{vector_width}"),
            RowAccess { vector_width, register_loads } => {
                format!("{name}_by{vector_width}_held{register_loads}")
            }
        }
    }
}

/// Returns the source of a kernel over rows. `body` uses the types `E0`, `E1`, … of the operands'
/// elements, the type `T` that they are computed in, and `NAME` for the kernel's name.
///
/// # Errors
/// The text contains a zero byte.
pub(super) fn source(
    name: &str,
    computed: DType,
    dtypes: &[DType],
    RowAccess { vector_width, register_loads }: RowAccess,
    body: &str,
) -> Result<CString> {
    let access =
        format!("#define VECTOR_WIDTH {vector_width}\n#define REGISTER_LOADS {register_loads}\n");
    let mut types = format!("typedef {} T;\n", source::element(computed));
    for (k, dtype) in dtypes.iter().enumerate() {
        types += &format!("typedef {} E{k};\n", source::element(*dtype));
    }
    let body = body.replace("NAME", name);
    let all = [source::MATH, &access, include_str!("row_reduction.cu"), &types, &body];
    source::with_prelude(&all.concat())
}
