//! Kernels that go over rows: which dimensions make a row, and who works on which.

use std::ffi::CString;
use std::mem::offset_of;

use anyhow::Result;
use smallvec::SmallVec;

use millstream_ep::cuda::Native;
use millstream_types::DType;

use super::call::{Argument, Head, PACK, Place, RANK};
use super::{Unsupported, launch, source};
use crate::context::RawTensor;

/// Threads of a block, as in `rows.cu`.
const THREADS: usize = 256;

/// The most blocks per multiprocessor; each then takes several rows.
const BLOCKS: u64 = 32;

/// The most times that a thread takes elements of a row that it holds: 32 registers for these.
const HELD: u64 = 8;

/// Threads that wait for one another alone, where a row has no more; together they read whole lines.
const WARP: usize = 32;

/// A dimension: its length, whether it numbers the rows, and the operands' strides in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dim<const N: usize> {
    pub(super) length: usize,
    pub(super) kept: bool,
    pub(super) strides: [usize; N],
}

/// An operand with its strides from row to row, and along a row.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowOperand {
    place: Place,
    kept: [u64; RANK],
    along: [u64; RANK],
}

/// What such a kernel is given, by value. The same lies in `rows.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<const N: usize> {
    head: Head,
    pub(super) rows: u64,
    pub(super) length: u64,
    /// Elements of a row that are worked on together, and how many such parts a row has.
    pub(super) part: u64,
    pub(super) parts: u64,
    kept: u32,
    along: u32,
    /// Rows of a block.
    width: u32,
    /// Whether neighbouring threads have neighbouring rows, not elements.
    across: u32,
    pub(super) flags: u32,
    /// Elements of a row that a thread takes at once.
    at_once: u32,
    kept_shape: [u64; RANK],
    along_shape: [u64; RANK],
    pub(super) operand: [RowOperand; N],
    pub(super) numbers: [f64; 4],
}

// SAFETY: `repr(C)`, and its parts are of 8 bytes but for ten of 4: there are no gaps.
unsafe impl<const N: usize> Argument for Rows<N> {
    fn head(&self) -> Head {
        self.head
    }
}

impl<const N: usize> Rows<N> {
    /// Rows over these dimensions, of operands of which some may be left out. The first is read along,
    /// and decides who works on what.
    ///
    /// # Errors
    /// [`Unsupported`]: too many dimensions.
    pub(super) fn new(dims: &[Dim<N>], operands: [Option<&RawTensor<'_>>; N]) -> Result<Rows<N>> {
        let head = Head {
            size: size_of::<Rows<N>>() as u32,
            operands: N as u32,
            at: offset_of!(Rows<N>, operand) as u32,
            step: size_of::<RowOperand>() as u32,
        };
        let length =
            |kept| dims.iter().filter(|d| d.kept == kept).map(|d| d.length as u64).product();
        let mut rows = Rows {
            head,
            rows: length(true),
            length: length(false),
            part: length(false),
            parts: 1,
            kept: 0,
            along: 0,
            width: 1,
            across: 0,
            flags: 0,
            at_once: 1,
            kept_shape: [0; RANK],
            along_shape: [0; RANK],
            operand: [RowOperand::default(); N],
            numbers: [0.0; 4],
        };
        for (to, from) in rows.operand.iter_mut().zip(operands) {
            to.place = from.map(Place::of).unwrap_or_default();
        }
        dims.iter().filter(|dim| dim.length != 1).try_for_each(|dim| rows.push(dim))?;
        rows.at_once = rows.at_once(operands);
        rows.seat();
        Ok(rows)
    }

    /// Adds a dimension, to the last of its kind if both can be walked as one.
    fn push(&mut self, dim: &Dim<N>) -> Result<()> {
        let length = dim.length as u64;
        let (rank, shape) = match dim.kept {
            true => (&mut self.kept, &mut self.kept_shape),
            false => (&mut self.along, &mut self.along_shape),
        };
        let mut all: Vec<&mut [u64; RANK]> = self
            .operand
            .iter_mut()
            .map(|operand| if dim.kept { &mut operand.kept } else { &mut operand.along })
            .collect();
        let last = (*rank as usize).checked_sub(1);
        let joins = last.filter(|&last| {
            all.iter().zip(dim.strides).all(|(s, stride)| s[last] == stride as u64 * length)
        });
        let at = match joins {
            Some(last) => {
                shape[last] *= length;
                last
            }
            None if *rank as usize == RANK => return Err(Unsupported::of("too many dimensions")),
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

    /// Whether rows lie side by side, not their elements.
    fn is_across(&self) -> bool {
        let stride = |rank: u32, of: &[u64; RANK]| match rank.checked_sub(1) {
            Some(last) => of[last as usize],
            None => u64::MAX,
        };
        let first = &self.operand[0];
        stride(self.kept, &first.kept) < stride(self.along, &first.along)
    }

    /// How many elements of a row can be taken at once: as many as fill [`PACK`] bytes, if they lie without
    /// gaps and aligned in the first operand and in whatever else moves along rows; else one.
    fn at_once(&self, operands: [Option<&RawTensor<'_>>; N]) -> u32 {
        let Some(last) = (self.along as usize).checked_sub(1) else { return 1 };
        let given =
            self.operand.iter().zip(operands).filter_map(|(o, x)| Some((o, x?.dtype.size())));
        let moving: SmallVec<[_; 8]> = given.filter(|(o, _)| o.along[last] != 0).collect();
        let largest = moving.iter().map(|(_, size)| *size).max().unwrap_or(PACK);
        let at_once = (PACK / largest) as u64;
        let fits = |(operand, size): &(&RowOperand, usize)| {
            let mut others =
                operand.kept[..self.kept as usize].iter().chain(&operand.along[..last]);
            operand.along[last] == 1
                && operand.place.data.is_multiple_of(at_once * *size as u64)
                && others.all(|stride| stride.is_multiple_of(at_once))
        };
        let whole = self.along_shape[last].is_multiple_of(at_once);
        let first = self.operand[0].along[last] == 1 && !self.is_across();
        if whole && first && moving.iter().all(fits) { at_once as u32 } else { 1 }
    }

    /// Says who works on what: neighbouring threads on elements that lie side by side.
    fn seat(&mut self) {
        let across = self.is_across();
        let up = |v: u64| v.clamp(1, THREADS as u64).next_power_of_two() as usize;
        let places = match across {
            // A few rows side by side for each load, and the rest of the block along them.
            true => (THREADS / up(self.rows).min(32)).min(up(self.length)),
            // Some elements for each thread.
            false if self.at_once == 1 => up(self.length.div_ceil(4)),
            // A warp, and more threads for what is too long for the registers of one.
            false => {
                let times = self.length / u64::from(self.at_once);
                up(times).min(WARP).max(up(times.div_ceil(HELD)))
            }
        };
        self.across = u32::from(across);
        self.width = (THREADS / places) as u32;
    }

    /// The same with one row to a block, in one part.
    pub(super) fn whole_blocks(mut self) -> Rows<N> {
        (self.width, self.across) = (1, 0);
        self
    }

    /// Threads of a row.
    pub(super) fn places(&self) -> u64 {
        THREADS as u64 / u64::from(self.width)
    }

    /// Cuts rows into parts of so many elements, whose results lie in operand `k`.
    pub(super) fn cut(mut self, part: u64, k: usize, results: &RawTensor<'_>) -> Rows<N> {
        (self.part, self.parts) = (part, self.length.div_ceil(part).max(1));
        self.operand[k].place = Place::of(results);
        self
    }

    /// How the kernel takes the elements of a row, which it `holds` in registers if it can.
    pub(super) fn taking(&self, holds: bool) -> Taking {
        let times = self.length.div_ceil(u64::from(self.at_once) * self.places());
        let held = holds && self.at_once > 1 && self.along == 1 && times <= HELD;
        // Powers of two, so that there are few kernels.
        let held = if held { times.max(1).next_power_of_two() as u32 } else { 0 };
        Taking { at_once: self.at_once, held }
    }

    /// Launches the kernel `name` of a source.
    ///
    /// # Errors
    /// The compiler's, which may not be there, or the driver's.
    ///
    /// # Safety
    /// As for [`launch::blocks`].
    pub(super) unsafe fn launch(
        self,
        native: &Native,
        (module, name): (&str, &str),
        source: impl FnOnce() -> Result<CString>,
    ) -> Result<()> {
        let most = BLOCKS * native.properties().multiprocessors.max(1) as u64;
        let tasks = self.rows.div_ceil(u64::from(self.width)).saturating_mul(self.parts);
        let blocks = tasks.min(most) as u32;
        // SAFETY: the caller's promise.
        unsafe { launch::blocks_of(native, (module, name), source, blocks, self) }
    }
}

/// How a kernel takes the elements of a row. Each way is a kernel of its own: what is done is the same text,
/// but in one that could do both, every thread would have the registers of the widest, and a first use
/// would wait for all of them to be compiled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Taking {
    /// How many at once.
    pub(super) at_once: u32,
    /// How often, if each time has registers of its own; else zero.
    pub(super) held: u32,
}

impl Taking {
    /// One by one.
    pub(super) const SINGLY: Taking = Taking { at_once: 1, held: 0 };

    /// The name of the kernel that takes elements so.
    pub(super) fn name(self, name: &str) -> String {
        match self {
            Taking { at_once: 1, .. } => name.to_owned(),
            Taking { at_once, held: 0 } => format!("{name}_by{at_once}"),
            Taking { at_once, held } => format!("{name}_by{at_once}_held{held}"),
        }
    }
}

/// A source over rows: the elements' types `E0`, `E1`, … and the type that they are computed in, `T`;
/// then `body`, in which `NAME` is the kernel's.
///
/// # Errors
/// None for text without zeros.
pub(super) fn source(
    name: &str,
    computed: DType,
    dtypes: &[DType],
    Taking { at_once, held }: Taking,
    body: &str,
) -> Result<CString> {
    let taking = format!("#define AT_ONCE {at_once}\n#define HELD {held}\n");
    let mut types = format!("typedef {} T;\n", source::element(computed));
    for (k, dtype) in dtypes.iter().enumerate() {
        types += &format!("typedef {} E{k};\n", source::element(*dtype));
    }
    let body = body.replace("NAME", name);
    let all = [source::MATH, &taking, include_str!("rows.cu"), &types, &body];
    source::with_prelude(&all.concat())
}
