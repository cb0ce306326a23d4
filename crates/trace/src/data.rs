//! The sources of a tensor's elements, and writing the elements to a storage.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use millstream_types::{DType, Layout, TensorSpec};

use crate::element_iter::ElementIter;
use crate::error::{Result, Site};
use crate::hint::Hint;
use crate::literal::Literal;
use crate::number::{Element, Number, complex_element, read_float};
use crate::random::{Distribution, Elements};
use crate::sidecar::{Sidecar, reason};

/// The source of a tensor's elements. The elements are generated or read on demand only.
#[derive(Clone, Debug)]
pub enum Data {
    /// One value for every element.
    Fill(Number),
    /// Values written out in the trace.
    Values(Literal),
    /// Numbers that an import computed, in row-major order.
    Listed(Arc<[Number]>),
    /// Seeded random values; see [`random`](crate::random).
    Random {
        /// The seed.
        seed: u64,
        /// The distribution of the values.
        distribution: Distribution,
    },
    /// The elements that a hint defines; see [`hint`](crate::hint).
    Hint(Hint),
    /// A tensor of a safetensors file.
    File(Sidecar),
    /// A part of a larger tensor.
    Part(Arc<Part>),
}

/// A part of a tensor that the ranks of a mesh hold together.
#[derive(Debug)]
pub struct Part {
    pub(crate) whole: Data,
    pub(crate) spec: TensorSpec,
    /// The range of each dimension.
    pub(crate) ranges: Vec<Range<usize>>,
}

impl Part {
    /// Returns the file that holds the elements, if one does.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.whole {
            Data::File(sidecar) => Some(sidecar.path()),
            _ => None,
        }
    }

    /// Gives each element in row-major order to `put`, as bytes.
    fn each(&self, site: &Site, mut put: impl FnMut(&[u8])) -> Result<()> {
        let mut storage = memory(self.spec.span_bytes(), site)?;
        self.whole.write(&self.spec, &mut storage, site)?;
        let lengths: Vec<usize> = self.ranges.iter().map(ExactSizeIterator::len).collect();
        let strides = self.spec.layout.strides();
        let start: usize = self.ranges.iter().zip(strides).map(|(r, s)| r.start * s).sum();
        let layout = Layout::strided(&lengths, strides, start).map_err(|e| site.wrap(&e))?;
        let size = self.spec.dtype.size();
        for offset in ElementIter::new(&layout) {
            put(&storage[offset * size..][..size]);
        }
        Ok(())
    }
}

impl Data {
    /// Returns the dtype of the data, if the source determines one.
    pub(crate) fn dtype(&self) -> Option<DType> {
        match self {
            Data::File(sidecar) => Some(sidecar.dtype()),
            _ => None,
        }
    }

    /// Writes the elements to a storage at the offsets of the layout. Leaves the bytes between the
    /// elements unchanged.
    pub(crate) fn write(&self, spec: &TensorSpec, storage: &mut [u8], site: &Site) -> Result<()> {
        if storage.len() < spec.span_bytes() {
            return Err(site.error(format!(
                "{spec} reaches over {} bytes of its storage, which has {}",
                spec.span_bytes(),
                storage.len()
            )));
        }
        let size = spec.dtype.size();
        let mut offsets = ElementIter::new(&spec.layout);
        let mut put = |bytes: &[u8]| match offsets.next() {
            Some(offset) => {
                storage[offset * size..][..size].copy_from_slice(bytes);
                true
            }
            None => false,
        };
        match self {
            Data::Fill(number) => {
                let element = number.element(spec.dtype).map_err(|e| site.error(e))?;
                if element.bytes().iter().all(|&b| b == element.bytes()[0]) && size > 0 {
                    return fill_bytes(spec, storage, element);
                }
                while put(element.bytes()) {}
            }
            Data::Values(literal) => {
                if !literal.fits(spec.shape(), Some(spec.dtype)) {
                    let (count, shape) = (literal.count(), literal.shape());
                    let message = format!("{count} values in shape {shape:?} for {}", spec.brief());
                    return Err(site.error(message));
                }
                let mut real = None;
                literal.each(|number| {
                    if spec.dtype.is_complex() {
                        let part = number.element(spec.dtype.part())?;
                        let part = read_float(part.bytes(), spec.dtype.part());
                        match real.take() {
                            None => real = Some(part),
                            Some(re) => {
                                put(complex_element(re, part, spec.dtype).bytes());
                            }
                        }
                        return Ok(());
                    }
                    put(number.element(spec.dtype)?.bytes());
                    Ok(())
                })?;
            }
            Data::Listed(numbers) => {
                for number in numbers.iter() {
                    let element = number.element(spec.dtype).map_err(|e| site.error(e))?;
                    put(element.bytes());
                }
            }
            Data::Random { seed, distribution } => {
                let mut elements = Elements::new(*seed, spec.dtype, *distribution);
                while put(elements.next_element().bytes()) {}
            }
            Data::Part(part) => part.each(site, |element| _ = put(element))?,
            Data::Hint(hint) => {
                let mut elements = hint.elements(spec.dtype);
                while elements.next().is_some_and(|element| put(element.bytes())) {}
            }
            Data::File(sidecar) => {
                let broken = |why: String| site.error(format!("cannot read the data: {why}"));
                let mut file = sidecar.open().map_err(|e| broken(reason(&e)))?;
                let mut bytes = [0; 16];
                for _ in 0..spec.numel() {
                    file.read_exact(&mut bytes[..size]).map_err(|e| broken(reason(&e)))?;
                    if spec.dtype == DType::Bool && bytes[0] > 1 {
                        return Err(broken(format!("a bool of value {}", bytes[0])));
                    }
                    if cfg!(target_endian = "big") {
                        let part = spec.dtype.part().size();
                        bytes[..size].chunks_exact_mut(part).for_each(<[u8]>::reverse);
                    }
                    put(&bytes[..size]);
                }
            }
        }
        Ok(())
    }
}

/// Fills a storage with an element whose bytes are all equal, such as zero.
fn fill_bytes(spec: &TensorSpec, storage: &mut [u8], element: Element) -> Result<()> {
    let size = spec.dtype.size();
    if spec.layout.is_contiguous() {
        let start = (spec.layout.offset() * size).min(storage.len());
        storage[start..][..spec.numel() * size].fill(element.bytes()[0]);
    } else {
        for offset in ElementIter::new(&spec.layout) {
            storage[offset * size..][..size].copy_from_slice(element.bytes());
        }
    }
    Ok(())
}

/// Allocates zeroed memory for a storage; returns an error if there is not enough.
pub(crate) fn memory(bytes: usize, site: &Site) -> Result<Vec<u8>> {
    let mut memory = Vec::new();
    memory
        .try_reserve_exact(bytes)
        .map_err(|_| site.error(format!("{bytes} bytes do not fit in memory")).of_memory())?;
    memory.resize(bytes, 0);
    Ok(memory)
}
