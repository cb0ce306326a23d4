//! The exponential of a matrix.

use crate::matrix::Matrix;
use crate::number::Number;
use crate::triangular::{lu_factors, lu_solve};

/// The coefficients of the Padé approximation of degree 13.
const PADE: [f64; 14] = [
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
];

/// The norm up to which the approximation has the precision of f64.
const NORM: f64 = 5.371920351148152;

/// Returns e to the power of a square matrix.
///
/// Source: N. Higham, "The scaling and squaring method for the matrix exponential revisited",
/// SIAM J. Matrix Anal. Appl. 26 (2005).
pub fn exponential<T: Number>(a: &Matrix<T>) -> Matrix<T> {
    let length = a.rows();
    let column = |j: usize| (0..length).map(|i| a[(i, j)].size()).sum::<f64>();
    let norm = (0..length).map(column).fold(0.0, f64::max);
    if !norm.is_finite() {
        return Matrix::from_fn(length, length, |_, _| T::real(f64::NAN));
    }
    let squarings = if norm > NORM { (norm / NORM).log2().ceil().min(1100.0) as i32 } else { 0 };
    let scaled = scaled(a, 0.5f64.powi(squarings));
    let second = scaled.times(&scaled);
    let fourth = second.times(&second);
    let sixth = fourth.times(&second);
    let sum = |of: [f64; 4]| {
        let identity = |i: usize, j: usize| if i == j { T::real(of[0]) } else { T::ZERO };
        Matrix::from_fn(length, length, |i, j| {
            identity(i, j)
                + T::real(of[1]) * second[(i, j)]
                + T::real(of[2]) * fourth[(i, j)]
                + T::real(of[3]) * sixth[(i, j)]
        })
    };
    let part = |from: usize| {
        let high = sixth.times(&sum([0.0, PADE[from + 8], PADE[from + 10], PADE[from + 12]]));
        let low = sum([PADE[from], PADE[from + 2], PADE[from + 4], PADE[from + 6]]);
        Matrix::from_fn(length, length, |i, j| high[(i, j)] + low[(i, j)])
    };
    let (odd, even) = (scaled.times(&part(1)), part(0));
    let top = Matrix::from_fn(length, length, |i, j| even[(i, j)] + odd[(i, j)]);
    let bottom = Matrix::from_fn(length, length, |i, j| even[(i, j)] - odd[(i, j)]);
    let factors = lu_factors(bottom);
    let mut result = lu_solve(&factors.packed, &factors.pivots, top, false);
    for _ in 0..squarings {
        result = result.times(&result);
    }
    result
}

fn scaled<T: Number>(a: &Matrix<T>, factor: f64) -> Matrix<T> {
    Matrix::from_fn(a.rows(), a.columns(), |i, j| a[(i, j)] * T::real(factor))
}
