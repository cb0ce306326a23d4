//! Layouts: shape, strides and offset map a tensor's indices to elements of its storage.
//!
//! Long because its items have examples.

use std::fmt;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};

/// The lengths or strides of a tensor's dimensions, outermost first.
///
/// ```
/// # use millstream_types::*;
/// let dims: Dims = [2, 3].into_iter().collect();
/// assert_eq!(dims.iter().product::<usize>(), 6);
/// ```
pub type Dims = SmallVec<[usize; 4]>;

/// The maximum size of a storage in bytes: the user address space has 47 bits.
///
/// ```
/// # use millstream_types::*;
/// assert!(Layout::contiguous(&[2 * layout::MAX_BYTES]).is_err());
/// ```
pub const MAX_BYTES: usize = 1 << 47;

/// The maximum number of dimensions of a tensor.
///
/// ```
/// # use millstream_types::*;
/// assert!(Layout::contiguous(&[1; layout::MAX_DIMS + 1]).is_err());
/// ```
pub const MAX_DIMS: usize = 64;

/// A strided view: element `(i0, i1, …)` lies at `offset + Σ ik · strides[k]` elements from the
/// start of the storage. Strides are not negative; a stride of zero repeats an element.
///
/// ```
/// # use millstream_types::*;
/// let rows = Layout::contiguous(&[2, 3])?; // 0 1 2, 3 4 5
/// let columns = Layout::strided(&[3, 2], &[1, 3], 0)?; // 0 3, 1 4, 2 5
/// assert!(rows.is_contiguous() && !columns.is_contiguous());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Dims,
    strides: Dims,
    offset: usize,
}

impl Layout {
    /// Returns the dense row-major layout of `shape`, from the start of its storage.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Layout::contiguous(&[2, 3])?.strides(), [3, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `shape` has more than [`MAX_DIMS`] dimensions or more than [`MAX_BYTES`] elements.
    pub fn contiguous(shape: &[usize]) -> Result<Layout> {
        let strides = contiguous_strides(shape)?;
        Layout::strided(shape, &strides, 0)
    }

    /// Returns the layout with these strides and this offset, in elements.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let second_column = Layout::strided(&[2], &[3], 1)?; // of 2 x 3 elements
    /// assert_eq!(second_column.span(), 5);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The numbers of lengths and strides differ, there are more than [`MAX_DIMS`] dimensions, or
    /// an element lies past [`MAX_BYTES`].
    pub fn strided(shape: &[usize], strides: &[usize], offset: usize) -> Result<Layout> {
        if shape.len() != strides.len() {
            return Err(invalid(
                shape,
                format!("{} strides for {} dimensions", strides.len(), shape.len()),
            ));
        }
        if shape.len() > MAX_DIMS {
            return Err(invalid(&shape[..4], format!("more than {MAX_DIMS} dimensions")));
        }
        let layout =
            Layout { shape: Dims::from_slice(shape), strides: Dims::from_slice(strides), offset };
        let elements = product(shape).filter(|&n| n <= MAX_BYTES);
        match (elements, layout.checked_span()) {
            (Some(_), Some(span)) if span <= MAX_BYTES => Ok(layout),
            _ => Err(invalid(
                shape,
                format!(
                    "strides {strides:?}, offset {offset}: reaches past {MAX_BYTES} elements, \
                     more than any memory holds"
                ),
            )),
        }
    }

    /// Returns the lengths of the dimensions, outermost first.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Layout::contiguous(&[2, 3])?.shape(), [2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the strides of the dimensions, in elements.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Layout::contiguous(&[4, 2, 3])?.strides(), [6, 3, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Returns the offset of the first element from the start of the storage, in elements.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Layout::strided(&[2], &[1], 4)?.offset(), 4);
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of dimensions.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Layout::contiguous(&[2, 3])?.rank(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements; 1 for a tensor of no dimensions.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Layout::contiguous(&[2, 3])?.numel(), 6);
    /// assert_eq!(Layout::contiguous(&[])?.numel(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn numel(&self) -> usize {
        numel(&self.shape)
    }

    /// Returns whether the layout is dense and row-major, at any offset.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Layout::strided(&[2, 3], &[3, 1], 6)?.is_contiguous());
    /// assert!(!Layout::strided(&[3, 2], &[1, 3], 0)?.is_contiguous());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn is_contiguous(&self) -> bool {
        if self.shape.contains(&0) {
            return true;
        }
        let mut expected = 1;
        for (&length, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if length != 1 {
                if stride != expected {
                    return false;
                }
                expected *= length;
            }
        }
        true
    }

    /// Returns the end of the layout's last element, in elements from the start of the storage; 0
    /// if the layout has no elements.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Layout::strided(&[2], &[3], 1)?.span(), 5); // elements 1 and 4
    /// # Ok::<(), Error>(())
    /// ```
    pub fn span(&self) -> usize {
        // `Layout::strided` refuses layouts whose span overflows.
        self.checked_span().unwrap_or(usize::MAX)
    }

    fn checked_span(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        let mut last = self.offset;
        for (&length, &stride) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add((length - 1).checked_mul(stride)?)?;
        }
        last.checked_add(1)
    }

    /// Returns whether two indices may name the same element. The test is conservative: `false` is
    /// certain, `true` is not. In the order of strides, each dimension must step over the whole
    /// span of the smaller ones.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Layout::strided(&[4], &[0], 0)?.may_overlap_itself()); // one element, four times
    /// assert!(!Layout::contiguous(&[2, 3])?.may_overlap_itself());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn may_overlap_itself(&self) -> bool {
        let mut dims: SmallVec<[(usize, usize); 4]> = self
            .strides
            .iter()
            .copied()
            .zip(self.shape.iter().copied())
            .filter(|&(_, length)| length != 1)
            .collect();
        if dims.iter().any(|&(_, length)| length == 0) {
            return false;
        }
        dims.sort_unstable();
        let mut reach = 0;
        for (stride, length) in dims {
            if stride <= reach {
                return true;
            }
            reach += (length - 1) * stride;
        }
        false
    }

    /// Returns whether the layout names each of the first `elements` elements of the storage
    /// exactly once.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let columns = Layout::strided(&[3, 2], &[1, 3], 0)?;
    /// assert!(columns.covers(6) && !columns.covers(7));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn covers(&self, elements: usize) -> bool {
        self.numel() == elements
            && (elements == 0
                || (self.offset == 0 && self.span() == elements && !self.may_overlap_itself()))
    }
}

/// Returns the strides of the dense row-major layout of `shape`. A dimension of length zero counts
/// as one, as in PyTorch.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!(layout::contiguous_strides(&[2, 3])?.as_slice(), [3, 1]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// The element count of `shape` overflows.
pub fn contiguous_strides(shape: &[usize]) -> Result<Dims> {
    let mut strides = Dims::from_elem(1, shape.len());
    let mut step = 1usize;
    for (k, &length) in shape.iter().enumerate().rev() {
        strides[k] = step;
        step = step
            .checked_mul(length.max(1))
            .ok_or_else(|| invalid(shape, "more elements than any memory holds".to_owned()))?;
    }
    Ok(strides)
}

/// Returns the number of elements of a shape that fits into memory. One length of zero makes the
/// number zero.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!((layout::numel(&[2, 3]), layout::numel(&[2, 0])), (6, 0));
/// ```
pub fn numel(shape: &[usize]) -> usize {
    // `Layout::strided` refuses shapes whose product overflows.
    product(shape).unwrap_or(usize::MAX)
}

fn product(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

fn invalid(shape: &[usize], message: String) -> Error {
    Error::Invalid { what: "shape", message: format!("{shape:?}: {message}") }
}

/// A tensor without its memory: dtype and layout. Written `f32[2,3]`; strides and offset are
/// written only if the tensor is not dense and row-major: `f32[3,2] strides [1,3] offset 4`.
///
/// ```
/// # use millstream_types::*;
/// let spec = TensorSpec::new(DType::F32, Layout::strided(&[3, 2], &[1, 3], 4)?)?;
/// assert_eq!(spec.to_string(), "f32[3,2] strides [1,3] offset 4");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// The dtype of the elements.
    pub dtype: DType,
    /// The layout of the elements in the storage.
    pub layout: Layout,
}

impl TensorSpec {
    /// Returns the spec of a dense row-major tensor.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(TensorSpec::contiguous(DType::F32, &[2, 3])?.to_string(), "f32[2,3]");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor is larger than [`MAX_BYTES`]; see [`TensorSpec::new`].
    pub fn contiguous(dtype: DType, shape: &[usize]) -> Result<TensorSpec> {
        TensorSpec::new(dtype, Layout::contiguous(shape)?)
    }

    /// Returns the spec of a tensor with this layout.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let spec = TensorSpec::new(DType::I64, Layout::contiguous(&[8])?)?;
    /// assert_eq!(spec.span_bytes(), 64);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The layout spans more than [`MAX_BYTES`] with elements of this dtype.
    pub fn new(dtype: DType, layout: Layout) -> Result<TensorSpec> {
        // `Layout::strided` bounds both factors, so the products fit in 64 bits.
        if layout.span() * dtype.size() > MAX_BYTES || layout.numel() * dtype.size() > MAX_BYTES {
            return Err(invalid(
                layout.shape(),
                format!("{dtype}: more than {MAX_BYTES} bytes, more than any memory holds"),
            ));
        }
        Ok(TensorSpec { dtype, layout })
    }

    /// Returns the lengths of the dimensions.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(TensorSpec::contiguous(DType::F32, &[2, 3])?.shape(), [2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Returns the number of elements.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(TensorSpec::contiguous(DType::F32, &[2, 3])?.numel(), 6);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// Returns the end of the tensor's last element, in bytes from the start of the storage.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(TensorSpec::contiguous(DType::F16, &[2, 3])?.span_bytes(), 12);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn span_bytes(&self) -> usize {
        self.layout.span() * self.dtype.size()
    }

    /// Returns dtype and shape alone, for messages: `f32[2,3]`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let spec = TensorSpec::new(DType::F32, Layout::strided(&[3, 2], &[1, 3], 4)?)?;
    /// assert_eq!(spec.brief(), "f32[3,2]");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn brief(&self) -> String {
        brief(self.dtype, self.shape())
    }
}

/// Formats a dtype and a shape for messages: `f32[2,3]`.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!(layout::brief(DType::F32, &[2, 3]), "f32[2,3]");
/// ```
pub fn brief(dtype: DType, shape: &[usize]) -> String {
    let lengths: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("{dtype}[{}]", lengths.join(","))
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.brief())?;
        let dense =
            contiguous_strides(self.shape()).is_ok_and(|s| s.as_slice() == self.layout.strides());
        if !dense {
            let strides: Vec<String> = self.layout.strides().iter().map(usize::to_string).collect();
            write!(f, " strides [{}]", strides.join(","))?;
        }
        if self.layout.offset() != 0 {
            write!(f, " offset {}", self.layout.offset())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_contiguity() {
        let dense = Layout::contiguous(&[2, 3]).unwrap();
        assert_eq!((dense.span(), dense.numel()), (6, 6));
        assert!(dense.is_contiguous() && dense.covers(6) && !dense.covers(7));
        let transposed = Layout::strided(&[3, 2], &[1, 3], 0).unwrap();
        assert!(!transposed.is_contiguous() && transposed.covers(6));
        let column = Layout::strided(&[2], &[3], 1).unwrap();
        assert!((column.span(), column.covers(2)) == (5, false));
        let scalar = Layout::contiguous(&[]).unwrap();
        assert_eq!((scalar.numel(), scalar.span()), (1, 1));
        let empty = Layout::contiguous(&[0, 5]).unwrap();
        assert_eq!((empty.numel(), empty.span()), (0, 0));
        assert!(empty.covers(0));
        let empty = Layout::strided(&[1 << 40, 1 << 40, 0], &[0, 0, 1], 0).unwrap();
        assert_eq!((empty.numel(), empty.span()), (0, 0));
    }

    #[test]
    fn overlap_within_a_view() {
        assert!(Layout::strided(&[4], &[0], 0).unwrap().may_overlap_itself());
        assert!(Layout::strided(&[3, 3], &[1, 1], 0).unwrap().may_overlap_itself());
        assert!(!Layout::strided(&[3, 2], &[1, 3], 0).unwrap().may_overlap_itself());
        assert!(!Layout::strided(&[1, 4], &[0, 1], 0).unwrap().may_overlap_itself());
    }

    #[test]
    fn impossible_layouts_are_refused() {
        for shape in [&[1 << 60][..], &[usize::MAX, 2], &[1 << 40, 1 << 40], &[usize::MAX, 0, 2]] {
            let made = Layout::contiguous(shape);
            assert!(made.is_err() || made.is_ok_and(|l| l.numel() == 0), "{shape:?} was accepted");
        }
        assert!(Layout::strided(&[2, 2], &[usize::MAX, 1], 0).is_err());
        assert!(Layout::strided(&[2], &[1], usize::MAX).is_err());
        assert!(Layout::strided(&[2], &[1, 1], 0).is_err());
        assert!(Layout::strided(&[1; 65], &[1; 65], 0).is_err());
        let empty = Layout::strided(&[0, usize::MAX, 2], &[1, 2, 1], 0).unwrap();
        assert!(empty.numel() == 0 && empty.is_contiguous());
        assert!(TensorSpec::contiguous(DType::F64, &[1 << 46]).is_err());
    }
}
