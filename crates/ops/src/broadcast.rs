//! Broadcasting of shapes.

use millstream_types::{Dims, Error, Result};

/// Returns the shape that two shapes broadcast to. Shapes are aligned at the last dimension; a
/// missing dimension counts as 1; the lengths of each pair must be equal or one of them 1.
///
/// Source: <https://numpy.org/doc/stable/user/basics.broadcasting.html>.
///
/// # Errors
/// Fails if the lengths of a pair differ and neither is 1.
pub fn broadcast(a: &[usize], b: &[usize]) -> Result<Dims> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], k: usize| (k + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|k| match (at(a, k), at(b, k)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            (x, y) => Err(Error::Invalid {
                what: "shapes",
                message: format!("{a:?} and {b:?} do not broadcast: dimension {k} is {x} and {y}"),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::broadcast;

    #[test]
    fn rules() {
        assert_eq!(broadcast(&[2, 1, 3], &[4, 1]).unwrap().as_slice(), [2, 4, 3]);
        assert_eq!(broadcast(&[], &[0]).unwrap().as_slice(), [0]);
        assert_eq!(broadcast(&[1], &[0]).unwrap().as_slice(), [0]);
        assert!(broadcast(&[2], &[3]).is_err());
        assert!(broadcast(&[2], &[0]).is_err());
    }
}
