//! Shardings: how the ranks of a mesh hold a global tensor.
//!
//! The vocabulary is OneFlow's SBP: along each axis of the mesh a tensor is split along one of its
//! dimensions, held whole by every rank, or held as parts of a sum. Source: J. Yuan et al.,
//! "OneFlow: Redesign the Distributed Deep Learning Framework from Scratch", 2021, section 3.

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, TensorSpec};
use crate::mesh::{MAX_AXES, Mesh};

/// The reduction that makes the elements of a global tensor from partial ones.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!(Sbp::Partial(Reduction::Max).to_string(), "Pmax");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
}

crate::names! {
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Reduction::Sum.name(), "sum");
    /// ```
    Reduction: Sum "sum", Max "max", Min "min"
}

/// How the ranks along one axis of a mesh hold a tensor.
///
/// ```
/// # use millstream_types::*;
/// use sbp::{B, P, S};
/// assert_eq!(format!("{} {B} {P}", S(1)), "S1 B P");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sbp {
    /// Each rank has a part along this dimension, in order of the ranks; the first `n mod k` of `k`
    /// ranks have one element more.
    Split(usize),
    /// Each rank has all elements.
    Broadcast,
    /// Each rank has a tensor of the whole shape; their reduction is the tensor.
    Partial(Reduction),
}

/// The short names of the values of [`Sbp`].
///
/// ```
/// # use millstream_types::*;
/// use sbp::{B, P, S};
/// let sharding = Sharding::new(&Mesh::new([[0, 1], [2, 3]])?, [S(0), B])?;
/// assert_eq!(sharding.to_string(), "[S0, B]");
/// assert_eq!(P, Sbp::Partial(Reduction::Sum));
/// # Ok::<(), Error>(())
/// ```
pub mod sbp {
    pub use super::Sbp::{Broadcast as B, Split as S};
    use super::{Reduction, Sbp};

    /// Parts of a sum.
    pub const P: Sbp = Sbp::Partial(Reduction::Sum);

    /// Whatever follows from the rest of a program.
    pub const OPEN: Option<Sbp> = None;
}

impl Sbp {
    /// Returns the dimension that is split.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Sbp::Split(2).dim(), Some(2));
    /// ```
    pub const fn dim(self) -> Option<usize> {
        match self {
            Sbp::Split(dim) => Some(dim),
            Sbp::Broadcast | Sbp::Partial(_) => None,
        }
    }

    /// Returns the reduction of partial elements.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(sbp::P.reduction(), Some(Reduction::Sum));
    /// ```
    pub const fn reduction(self) -> Option<Reduction> {
        match self {
            Sbp::Partial(reduction) => Some(reduction),
            Sbp::Broadcast | Sbp::Split(_) => None,
        }
    }
}

impl fmt::Display for Sbp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sbp::Split(dim) => write!(f, "S{dim}"),
            Sbp::Broadcast => f.write_str("B"),
            Sbp::Partial(Reduction::Sum) => f.write_str("P"),
            Sbp::Partial(other) => write!(f, "P{}", other.name()),
        }
    }
}

impl fmt::Debug for Sbp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A mesh, and for each of its axes how the ranks along it hold a tensor.
///
/// Where several axes split one dimension, the earlier axis is the major one: it cuts the
/// dimension, and the later axes cut its parts.
///
/// ```
/// # use millstream_types::*;
/// use sbp::S;
/// let mesh = Mesh::new([[0, 1], [2, 3]])?;
/// let rows = Sharding::new(&mesh, [S(0), S(0)])?;
/// assert_eq!(rows.part(&[10, 3], &[0, 1])[..], [3..5, 0..3]); // 5 of 10 rows, then 2 of these
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sharding {
    mesh: Mesh,
    sbp: NdSbp,
}

/// One [`Sbp`] for each axis of a mesh.
///
/// ```
/// # use millstream_types::*;
/// let all: NdSbp = [Sbp::Split(0), Sbp::Broadcast].into_iter().collect();
/// assert_eq!(all.len(), 2);
/// ```
pub type NdSbp = SmallVec<[Sbp; MAX_AXES]>;

/// The range of each dimension of a part of a tensor.
///
/// ```
/// # use millstream_types::*;
/// let rows = Sharding::new(&Mesh::new([0, 1])?, [Sbp::Split(0)])?;
/// let part: Ranges = rows.part(&[4, 5], &[1]);
/// assert_eq!(part[..], [2..4, 0..5]);
/// # Ok::<(), Error>(())
/// ```
pub type Ranges = SmallVec<[Range<usize>; 4]>;

/// Returns the part of a dimension that position `k` of `parts` holds: the first `length mod parts`
/// parts are longer by one.
///
/// ```
/// # use millstream_types::*;
/// let parts: Vec<_> = (0..4).map(|k| sharding::part(6, 4, k)).collect();
/// assert_eq!(parts, [0..2, 2..4, 4..5, 5..6]);
/// ```
pub fn part(length: usize, parts: usize, k: usize) -> Range<usize> {
    let (each, longer) = (length / parts, length % parts);
    let start = k * each + k.min(longer);
    start..start + each + usize::from(k < longer)
}

impl Sharding {
    /// Returns a sharding of this mesh.
    ///
    /// ```
    /// # use millstream_types::*;
    /// use sbp::{B, S};
    /// let mesh = Mesh::new([[0, 1], [2, 3]])?.axes(["dp", "tp"])?;
    /// assert!(Sharding::new(&mesh, [S(0), B]).is_ok());
    /// let error = Sharding::new(&mesh, [S(0)]).unwrap_err();
    /// assert!(error.to_string().contains("the mesh has the 2 axes dp, tp; sbp names 1"));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The mesh has another number of axes, or two axes are partial by different reductions.
    pub fn new(mesh: &Mesh, sbp: impl IntoIterator<Item = Sbp>) -> Result<Sharding> {
        let sbp: NdSbp = sbp.into_iter().collect();
        if sbp.len() != mesh.rank() {
            let names: Vec<String> = (0..mesh.rank()).map(|axis| mesh.axis_name(axis)).collect();
            let axes = match &names[..] {
                [one] => format!("the axis {one}"),
                several => format!("the {} axes {}", several.len(), several.join(", ")),
            };
            return Err(invalid(format!("the mesh has {axes}; sbp names {}", sbp.len())));
        }
        let mut reductions = sbp.iter().filter_map(|sbp| sbp.reduction());
        if let Some(first) = reductions.next()
            && let Some(other) = reductions.find(|other| *other != first)
        {
            let message = format!(
                "partial {} on one axis and {} on another: their order would matter",
                first.name(),
                other.name()
            );
            return Err(invalid(message));
        }
        Ok(Sharding { mesh: mesh.clone(), sbp })
    }

    /// Returns the sharding by which every rank of a mesh has all elements.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Sharding::broadcast(&Mesh::new([[0, 1]])?).to_string(), "[B, B]");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn broadcast(mesh: &Mesh) -> Sharding {
        Sharding { mesh: mesh.clone(), sbp: NdSbp::from_elem(Sbp::Broadcast, mesh.rank()) }
    }

    /// Returns the mesh.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Sharding::broadcast(&Mesh::new([0, 1])?).mesh().ranks(), [0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns how the ranks along each axis hold the tensor.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let sharding = Sharding::new(&Mesh::new([0, 1])?, [Sbp::Split(1)])?;
    /// assert_eq!(sharding.sbp(), [Sbp::Split(1)]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn sbp(&self) -> &[Sbp] {
        &self.sbp
    }

    /// Returns whether every rank has all elements.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Sharding::broadcast(&Mesh::new([0, 1])?).is_broadcast());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn is_broadcast(&self) -> bool {
        self.sbp.iter().all(|sbp| *sbp == Sbp::Broadcast)
    }

    /// Returns whether the ranks along an axis have tensors that are reduced.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Sharding::new(&Mesh::new([0, 1])?, [sbp::P])?.is_partial());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn is_partial(&self) -> bool {
        self.sbp.iter().any(|sbp| sbp.reduction().is_some())
    }

    /// Returns whether a tensor of this dtype and shape can be held so.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let columns = Sharding::new(&Mesh::new([0, 1])?, [Sbp::Split(1)])?;
    /// assert!(columns.check(DType::F32, &[4, 4]).is_ok());
    /// assert!(columns.check(DType::F32, &[4]).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor lacks a dimension that is split, or its dtype has no such reduction.
    pub fn check(&self, dtype: DType, shape: &[usize]) -> Result<()> {
        for sbp in &self.sbp {
            match *sbp {
                Sbp::Split(dim) if dim >= shape.len() => {
                    let message = format!(
                        "S{dim} splits dimension {dim} of a tensor with {} dimension(s)",
                        shape.len()
                    );
                    return Err(invalid(message));
                }
                Sbp::Partial(Reduction::Sum) if dtype == DType::Bool => {
                    return Err(invalid("bool has no partial sums; use Pmax for 'or'".to_owned()));
                }
                Sbp::Partial(Reduction::Max | Reduction::Min) if dtype.is_complex() => {
                    return Err(invalid(format!("{dtype} has no order, so no {sbp}")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the range of each dimension that the rank at these coordinates holds.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let columns = Sharding::new(&Mesh::new([0, 1])?, [Sbp::Split(1)])?;
    /// assert_eq!(columns.part(&[4, 5], &[1])[..], [0..4, 3..5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn part(&self, shape: &[usize], at: &[usize]) -> Ranges {
        let mut ranges: Ranges = shape.iter().map(|length| 0..*length).collect();
        for (axis, sbp) in self.sbp.iter().enumerate() {
            if let Sbp::Split(dim) = *sbp {
                let whole = ranges[dim].clone();
                let own = part(whole.len(), self.mesh.shape()[axis], at[axis]);
                ranges[dim] = whole.start + own.start..whole.start + own.end;
            }
        }
        ranges
    }

    /// Returns the shape of the part that the rank at these coordinates holds.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let rows = Sharding::new(&Mesh::new([0, 1, 2])?, [Sbp::Split(0)])?;
    /// assert_eq!(rows.local_shape(&[4, 5], &[0])[..], [2, 5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn local_shape(&self, shape: &[usize], at: &[usize]) -> Dims {
        self.part(shape, at).iter().map(ExactSizeIterator::len).collect()
    }

    /// Returns the spec of the part that the rank at these coordinates holds, dense and row-major.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let rows = Sharding::new(&Mesh::new([0, 1])?, [Sbp::Split(0)])?;
    /// let whole = TensorSpec::contiguous(DType::F32, &[4, 5])?;
    /// assert_eq!(rows.local_spec(&whole, &[1])?.to_string(), "f32[2,5]");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sharding::check`].
    pub fn local_spec(&self, whole: &TensorSpec, at: &[usize]) -> Result<TensorSpec> {
        self.check(whole.dtype, whole.shape())?;
        TensorSpec::contiguous(whole.dtype, &self.local_shape(whole.shape(), at))
    }
}

impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sbp[..] {
            [one] => write!(f, "{one}"),
            several => write!(f, "{several:?}"),
        }
    }
}

impl fmt::Debug for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} on mesh {}", self.mesh)
    }
}

fn invalid(message: String) -> Error {
    Error::Invalid { what: "sharding", message }
}
