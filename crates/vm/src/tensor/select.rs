//! Indexing: `x.i((.., 0..3, -1))`.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use millstream_ops::args::ABSENT;
use millstream_types::{Attrs, Error, Result};

use crate::handle::Tensor;

use super::{Int, call};

/// An index of one dimension.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.i(Index::from(1))?.to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Index<'a> {
    /// One element; the dimension disappears. Negative numbers count from the end.
    At(i64),
    /// The elements from a first one up to an end, each negative from the end. Neither lies past
    /// the end of the dimension or before its start.
    Range(Option<i64>, Option<i64>),
    /// The same by PyTorch's rule: an end outside of the dimension is moved to its nearest element.
    Clamped(Option<i64>, Option<i64>),
    /// A new dimension of length 1.
    New,
    /// All dimensions that the other indices leave.
    Rest,
    /// The elements at these indices (integers), or where it is true (bool).
    Tensor(&'a Tensor),
}

/// The index that stands for all dimensions that the others leave, as PyTorch's `...`.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.i((REST, -1))?.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub const REST: Index<'static> = Index::Rest;

/// The index that inserts a dimension of length 1, as PyTorch's `None`.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.i((NEW, 0))?.shape(), [1, 2]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub const NEW: Index<'static> = Index::New;

/// Checks that the ends of a range lie within a dimension.
#[track_caller]
fn within(part: &Tensor, dim: usize, ends: [Option<i64>; 2]) -> Result<()> {
    let Some(&length) = part.shape().get(dim) else { return Ok(()) };
    let bounds = -length.to_int()..=length.to_int();
    let Some(outside) = ends.into_iter().flatten().find(|end| !bounds.contains(end)) else {
        return Ok(());
    };
    let [start, end] = ends.map(|end| end.map_or_else(String::new, |end| end.to_string()));
    let message = format!(
        "{start}..{end} of dimension {dim}: {outside} is outside of its {length} elements; \
         Index::Clamped shortens a range, as PyTorch does"
    );
    let origin = millstream_runtime::scope::origin::caller();
    Err(Error::Invalid { what: "index", message }.at(&origin))
}

/// Returns the end behind a last element. The end behind element -1 does not count from the end.
fn behind(last: i64) -> Option<i64> {
    if last == -1 { None } else { Some(last.saturating_add(1)) }
}

impl<T: Int> From<T> for Index<'_> {
    fn from(at: T) -> Self {
        Index::At(at.to_int())
    }
}

macro_rules! range {
    ($($range:ident)*) => {$(
        impl<T: Int> From<$range<T>> for Index<'_> {
            fn from(range: $range<T>) -> Self {
                let start = match range.start_bound() {
                    Bound::Included(&first) => Some(first.to_int()),
                    Bound::Excluded(_) | Bound::Unbounded => None,
                };
                Index::Range(start, match range.end_bound() {
                    Bound::Included(&last) => behind(last.to_int()),
                    Bound::Excluded(&end) => Some(end.to_int()),
                    Bound::Unbounded => None,
                })
            }
        }
    )*};
}

range! { Range RangeInclusive RangeToInclusive RangeFrom RangeTo }

impl From<RangeFull> for Index<'_> {
    fn from(_: RangeFull) -> Self {
        Index::Range(None, None)
    }
}

impl<'a> From<&'a Tensor> for Index<'a> {
    fn from(tensor: &'a Tensor) -> Index<'a> {
        Index::Tensor(tensor)
    }
}

/// One index, or a tuple of them.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.i((0, ..1))?.shape(), x.i((1, 1..))?.shape());
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait Indices<'a> {
    /// Returns the indices in the order of the dimensions.
    fn to_indices(self) -> Vec<Index<'a>>;
}

impl<'a, T: Into<Index<'a>>> Indices<'a> for T {
    fn to_indices(self) -> Vec<Index<'a>> {
        vec![self.into()]
    }
}

impl<'a> Indices<'a> for &[Index<'a>] {
    fn to_indices(self) -> Vec<Index<'a>> {
        self.to_vec()
    }
}

macro_rules! tuple {
    ($($name:ident: $ty:ident)*) => {
        impl<'a, $($ty: Into<Index<'a>>),*> Indices<'a> for ($($ty,)*) {
            fn to_indices(self) -> Vec<Index<'a>> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    };
}

tuple! { a: A }
tuple! { a: A b: B }
tuple! { a: A b: B c: C }
tuple! { a: A b: B c: C d: D }
tuple! { a: A b: B c: C d: D e: E }

impl Tensor {
    /// Returns a part of the tensor, selected by indices of its first dimensions. Without tensors
    /// among the indices the result is a view.
    ///
    /// | index | selects | PyTorch |
    /// |---|---|---|
    /// | `2`, `-1` | one element; the dimension disappears | `2`, `-1` |
    /// | `0..3`, `..-1`, `1..` | a range | `0:3`, `:-1`, `1:` |
    /// | `..` | all elements | `:` |
    /// | `REST` | all dimensions that the other indices leave | `...` |
    /// | `NEW` | a new dimension of length 1 | `None` |
    /// | `&tensor` | the elements at these indices, or where it is true | the tensor |
    ///
    /// Clippy takes a literal `1..-1` for a mistake; `Index::Range(Some(1), Some(-1))` is the same.
    /// A range past the end of a dimension is refused; PyTorch shortens it, and so does
    /// `Index::Clamped`.
    ///
    /// ```
    /// # fn main() -> millstream_types::Result<()> {
    /// use millstream_vm::{Index, Machine, MachineConfig, REST, Tensor};
    ///
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::arange(0..12, &machine)?.reshape((3, 4))?;
    /// assert_eq!(x.i((1, ..2))?.to_vec::<i64>()?, [4, 5]);
    /// assert_eq!(x.i((REST, -1))?.to_vec::<i64>()?, [3, 7, 11]);
    /// let rows = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// assert_eq!(x.i((&rows, 0))?.to_vec::<i64>()?, [8, 0]);
    /// assert!(x.i(..5).is_err());
    /// assert_eq!(x.i(Index::Clamped(None, Some(5)))?.shape(), [3, 4]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An index is out of range, or there are more indices than dimensions.
    #[track_caller]
    pub fn i<'a>(&self, indices: impl Indices<'a>) -> Result<Tensor> {
        let indices = indices.to_indices();
        let count = |of: fn(&Index<'_>) -> bool| indices.iter().filter(|i| of(i)).count();
        let dims = indices.len() - count(|i| matches!(i, Index::New | Index::Rest));
        if dims > self.rank() || count(|i| matches!(i, Index::Rest)) > 1 {
            let message = format!(
                "expected at most {} indices and one REST for {}, got {}",
                self.rank(),
                self.spec().brief(),
                indices.len()
            );
            let origin = millstream_runtime::scope::origin::caller();
            return Err(Error::Invalid { what: "index", message }.at(&origin));
        }
        let rest = self.rank() - dims;
        let mut part = self.clone();
        let mut dim = 0usize;
        let mut tensors: Vec<(usize, &Tensor)> = Vec::new();
        for index in indices {
            match index {
                Index::At(at) => part = part.select(dim, at)?,
                Index::Range(None, None) => dim += 1,
                Index::Range(start, end) | Index::Clamped(start, end) => {
                    if matches!(index, Index::Range(..)) {
                        within(&part, dim, [start, end])?;
                    }
                    let mut attrs = Attrs::new().with("dim", dim.to_int());
                    let ends = [("start", start), ("end", end)];
                    ends.iter().filter_map(|(n, v)| v.map(|v| (n, v))).for_each(|(name, v)| {
                        attrs.set(*name, v);
                    });
                    part = call::one("slice", &[&part], attrs)?;
                    dim += 1;
                }
                Index::New => {
                    part = part.unsqueeze(dim)?;
                    dim += 1;
                }
                Index::Rest => dim += rest,
                Index::Tensor(tensor) => {
                    tensors.push((dim, tensor));
                    dim += 1;
                }
            }
        }
        let Some(&(last, _)) = tensors.last() else { return Ok(part) };
        let indexed = |dim: &i64| tensors.iter().any(|(at, _)| at.to_int() == *dim);
        let absent: Vec<i64> = (0..last.to_int()).filter(|dim| !indexed(dim)).collect();
        let mut attrs = Attrs::new();
        if !absent.is_empty() {
            attrs.set(ABSENT, absent);
        }
        let mut inputs = vec![&part];
        inputs.extend(tensors.iter().map(|(_, tensor)| *tensor));
        call::one("index", &inputs, attrs)
    }
}
