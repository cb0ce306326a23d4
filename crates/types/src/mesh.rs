//! Meshes: the ranks that hold a global tensor, in a grid.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// The most axes of a mesh.
///
/// ```
/// # use millstream_types::*;
/// assert!(Mesh::of(&[1; mesh::MAX_AXES + 1], &[0]).is_err());
/// ```
pub const MAX_AXES: usize = 3;

/// The most ranks of a mesh.
///
/// ```
/// # use millstream_types::*;
/// let ranks: Vec<u32> = (0..=mesh::MAX_RANKS as u32).collect();
/// assert!(Mesh::of(&[ranks.len()], &ranks).is_err());
/// ```
pub const MAX_RANKS: usize = 1024;

/// A grid of ranks with one to three axes, in which each rank occurs once. Clones share it.
///
/// ```
/// # use millstream_types::*;
/// let mesh = Mesh::new([[0, 1], [2, 3]])?.axes(["dp", "tp"])?;
/// assert_eq!(mesh.shape(), [2, 2]);
/// assert_eq!(mesh.to_string(), "[[0,1],[2,3]]");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Mesh(Arc<Grid>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Grid {
    shape: SmallVec<[usize; MAX_AXES]>,
    /// In row-major order of their coordinates.
    ranks: Vec<u32>,
    /// The names of the axes; empty if they have none.
    names: Vec<String>,
}

/// The coordinates of a rank in a mesh, one for each axis.
///
/// ```
/// # use millstream_types::*;
/// let at: Coordinates = Mesh::new([[4, 5], [6, 7]])?.coordinates(6).unwrap();
/// assert_eq!(at[..], [1, 0]);
/// # Ok::<(), Error>(())
/// ```
pub type Coordinates = SmallVec<[usize; MAX_AXES]>;

/// Lists of ranks, nested as deep as the mesh has axes: `[0, 1]`, `[[0, 1], [2, 3]]`.
///
/// ```
/// # use millstream_types::*;
/// let nested: Vec<Vec<u32>> = (0..2).map(|row| vec![2 * row, 2 * row + 1]).collect();
/// assert_eq!(Mesh::new(nested)?, Mesh::new([[0, 1], [2, 3]])?);
/// # Ok::<(), Error>(())
/// ```
pub trait Ranks {
    /// Adds the ranks in row-major order, and writes the lengths of the axes from position `axis`
    /// on.
    ///
    /// # Errors
    /// The lists of one depth differ in length.
    fn add(&self, axis: usize, shape: &mut Vec<usize>, ranks: &mut Vec<u32>) -> Result<()>;
}

impl Ranks for u32 {
    fn add(&self, _: usize, _: &mut Vec<usize>, ranks: &mut Vec<u32>) -> Result<()> {
        ranks.push(*self);
        Ok(())
    }
}

impl<T: Ranks> Ranks for [T] {
    fn add(&self, axis: usize, shape: &mut Vec<usize>, ranks: &mut Vec<u32>) -> Result<()> {
        match shape.get(axis) {
            None => shape.push(self.len()),
            Some(&length) if length == self.len() => {}
            Some(length) => {
                let message =
                    format!("rows of {length} and {} ranks; expected equal rows", self.len());
                return Err(invalid(message));
            }
        }
        self.iter().try_for_each(|part| part.add(axis + 1, shape, ranks))
    }
}

impl<T: Ranks, const N: usize> Ranks for [T; N] {
    fn add(&self, axis: usize, shape: &mut Vec<usize>, ranks: &mut Vec<u32>) -> Result<()> {
        self[..].add(axis, shape, ranks)
    }
}

impl<T: Ranks> Ranks for Vec<T> {
    fn add(&self, axis: usize, shape: &mut Vec<usize>, ranks: &mut Vec<u32>) -> Result<()> {
        self[..].add(axis, shape, ranks)
    }
}

impl Mesh {
    /// Returns the mesh of these nested lists of ranks.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let line = Mesh::new([0, 1, 2])?;
    /// assert_eq!((line.shape(), line.ranks()), (&[3][..], &[0, 1, 2][..]));
    /// assert!(Mesh::new([[0, 1], [1, 2]]).is_err()); // rank 1 twice
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The lists of one depth differ in length; or as [`Mesh::of`].
    pub fn new(nested: impl Ranks) -> Result<Mesh> {
        let (mut shape, mut ranks) = (Vec::new(), Vec::new());
        nested.add(0, &mut shape, &mut ranks)?;
        Mesh::of(&shape, &ranks)
    }

    /// Returns the mesh of this shape, with its ranks in row-major order.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Mesh::of(&[2, 2], &[0, 1, 2, 3])?, Mesh::new([[0, 1], [2, 3]])?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// There are no axes, or more than [`MAX_AXES`]; no ranks, or more than [`MAX_RANKS`]; the
    /// shape has another number of ranks, or a rank occurs twice.
    pub fn of(shape: &[usize], ranks: &[u32]) -> Result<Mesh> {
        if shape.is_empty() || shape.len() > MAX_AXES {
            let message = format!("{} axes; expected one to {MAX_AXES}", shape.len());
            return Err(invalid(message));
        }
        if ranks.is_empty() || ranks.len() > MAX_RANKS {
            let message = format!("{} ranks; expected one to {MAX_RANKS}", ranks.len());
            return Err(invalid(message));
        }
        let places = shape.iter().try_fold(1usize, |places, length| places.checked_mul(*length));
        if places != Some(ranks.len()) {
            let message = format!("{} ranks for the shape {shape:?}", ranks.len());
            return Err(invalid(message));
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(format!("rank {} occurs twice", twice[0])));
        }
        let (shape, ranks) = (SmallVec::from_slice(shape), ranks.to_vec());
        Ok(Mesh(Arc::new(Grid { shape, ranks, names: Vec::new() })))
    }

    /// Names the axes, for errors and profiles.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let mesh = Mesh::new([[0, 1], [2, 3]])?.axes(["dp", "tp"])?;
    /// assert_eq!(mesh.axis_name(1), "tp");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The mesh has another number of axes, or a name occurs twice.
    pub fn axes<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Result<Mesh> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.len() != self.rank() {
            let message = format!("{} names for {} axes", names.len(), self.rank());
            return Err(invalid(message));
        }
        if let Some(twice) = (1..names.len()).find(|k| names[..*k].contains(&names[*k])) {
            return Err(invalid(format!("two axes are called '{}'", names[twice])));
        }
        Ok(Mesh(Arc::new(Grid { names, ..(*self.0).clone() })))
    }

    /// Returns the number of axes.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Mesh::new([[0, 1], [2, 3]])?.rank(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn rank(&self) -> usize {
        self.0.shape.len()
    }

    /// Returns the number of ranks along each axis.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Mesh::new([[0, 1, 2]])?.shape(), [1, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Returns the ranks in row-major order of their coordinates.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Mesh::new([[3, 1], [2, 0]])?.ranks(), [3, 1, 2, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn ranks(&self) -> &[u32] {
        &self.0.ranks
    }

    /// Returns the name of an axis: its number if it has none.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Mesh::new([0, 1])?.axis_name(0), "0");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn axis_name(&self, axis: usize) -> String {
        self.0.names.get(axis).cloned().unwrap_or_else(|| axis.to_string())
    }

    /// Returns the coordinates of a rank, or `None` if the mesh lacks it.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let mesh = Mesh::new([[0, 1], [2, 3]])?;
    /// assert_eq!(mesh.coordinates(2).unwrap()[..], [1, 0]);
    /// assert_eq!(mesh.coordinates(4), None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn coordinates(&self, rank: u32) -> Option<Coordinates> {
        self.0.ranks.iter().position(|of| *of == rank).map(|at| self.coordinates_at(at))
    }

    /// Returns the coordinates of the rank at a position of [`Mesh::ranks`].
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Mesh::new([[3, 1], [2, 0]])?.coordinates_at(1)[..], [0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn coordinates_at(&self, mut position: usize) -> Coordinates {
        let mut at = Coordinates::from_elem(0, self.rank());
        for (axis, length) in self.0.shape.iter().enumerate().rev() {
            at[axis] = position % length;
            position /= length;
        }
        at
    }

    /// Returns the rank at coordinates within the mesh's shape.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Mesh::new([[3, 1], [2, 0]])?.rank_at(&[1, 0]), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn rank_at(&self, at: &[usize]) -> u32 {
        let position = at.iter().zip(&self.0.shape).fold(0, |sum, (k, length)| sum * length + k);
        self.0.ranks[position]
    }

    /// Returns the ranks along an axis through the rank at these coordinates, in order of the axis.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Mesh::new([[0, 1], [2, 3]])?.group(0, &[1, 1]), [1, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn group(&self, axis: usize, at: &[usize]) -> Vec<u32> {
        let mut at = Coordinates::from_slice(at);
        let along = 0..self.0.shape[axis];
        along
            .map(|k| {
                at[axis] = k;
                self.rank_at(&at)
            })
            .collect()
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn nested(f: &mut fmt::Formatter<'_>, shape: &[usize], ranks: &[u32]) -> fmt::Result {
            let [length, rest @ ..] = shape else { return write!(f, "{}", ranks[0]) };
            f.write_str("[")?;
            for (k, part) in ranks.chunks(ranks.len() / length).enumerate() {
                if k > 0 {
                    f.write_str(",")?;
                }
                nested(f, rest, part)?;
            }
            f.write_str("]")
        }
        nested(f, &self.0.shape, &self.0.ranks)
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn invalid(message: String) -> Error {
    Error::Invalid { what: "mesh", message }
}
