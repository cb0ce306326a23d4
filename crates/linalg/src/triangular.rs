//! Solutions by triangular matrices; Cholesky and LU factors.

use crate::matrix::Matrix;
use crate::number::Number;

/// The triangle of a matrix that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// Whether it is the upper one.
    pub is_upper: bool,
    /// Whether its diagonal counts as ones.
    pub has_unit_diagonal: bool,
}

/// Packed LU factors: the upper triangle of U, and below it L, whose diagonal is ones.
#[derive(Clone, Debug)]
pub struct LuFactors<T> {
    /// The factors.
    pub packed: Matrix<T>,
    /// For each step, the row from 1 that was exchanged with the step's own.
    pub pivots: Vec<i32>,
    /// The first step from 1 whose pivot is zero; 0 if none is.
    pub singular_at: i32,
}

/// Returns the matrix X of A X = B, with the triangle A.
pub fn solve_triangular<T: Number>(
    a: &Matrix<T>,
    triangle: Triangle,
    mut b: Matrix<T>,
) -> Matrix<T> {
    let length = a.rows();
    for step in 0..length {
        let row = if triangle.is_upper { length - 1 - step } else { step };
        if !triangle.has_unit_diagonal {
            for j in 0..b.columns() {
                b[(row, j)] /= a[(row, row)];
            }
        }
        let solved = b.row(row).to_vec();
        let rest = if triangle.is_upper { 0..row } else { row + 1..length };
        for other in rest {
            b.add_row(other, -a[(other, row)], &solved, 0);
        }
    }
    b
}

/// Returns the lower triangle L with A = L Lᴴ, and the first step from 1 at which A is not positive
/// definite, or 0. Reads the lower triangle of A. The rows from that step on are those of A.
pub fn cholesky<T: Number>(a: &Matrix<T>) -> (Matrix<T>, i32) {
    let length = a.rows();
    let mut l = Matrix::from_fn(length, length, |i, j| if j <= i { a[(i, j)] } else { T::ZERO });
    for j in 0..length {
        let square: f64 = (0..j).map(|k| l[(j, k)].size().powi(2)).sum();
        let rest = l[(j, j)].real_part() - square;
        if rest.is_nan() || rest <= 0.0 {
            return (l, j as i32 + 1);
        }
        let root = rest.sqrt();
        l[(j, j)] = T::real(root);
        for i in j + 1..length {
            let mut sum = l[(i, j)];
            for k in 0..j {
                sum -= l[(i, k)] * l[(j, k)].conjugate();
            }
            l[(i, j)] = sum / T::real(root);
        }
    }
    (l, 0)
}

/// Returns the LU factors with partial pivoting.
pub fn lu_factors<T: Number>(mut a: Matrix<T>) -> LuFactors<T> {
    let count = a.rows().min(a.columns());
    let (mut pivots, mut singular_at) = (Vec::with_capacity(count), 0);
    for step in 0..count {
        let mut best = step;
        for row in step + 1..a.rows() {
            if a[(row, step)].pivot_size() > a[(best, step)].pivot_size() {
                best = row;
            }
        }
        pivots.push(best as i32 + 1);
        a.swap(step, best);
        let pivot = a[(step, step)];
        if pivot == T::ZERO {
            if singular_at == 0 {
                singular_at = step as i32 + 1;
            }
            continue;
        }
        let top = a.row(step)[step + 1..].to_vec();
        for row in step + 1..a.rows() {
            let factor = a[(row, step)] / pivot;
            a[(row, step)] = factor;
            a.add_row(row, -factor, &top, step + 1);
        }
    }
    LuFactors { packed: a, pivots, singular_at }
}

/// Exchanges the rows of a matrix as the pivots say, in reverse order if `back`. Pivots out of
/// range have no effect.
pub fn swap_rows<T: Number>(matrix: &mut Matrix<T>, pivots: &[i32], back: bool) {
    let mut exchange = |(step, pivot): (usize, &i32)| {
        let other = usize::try_from(*pivot - 1).unwrap_or(step);
        if other < matrix.rows() && step < matrix.rows() {
            matrix.swap(step, other);
        }
    };
    match back {
        true => pivots.iter().enumerate().rev().for_each(&mut exchange),
        false => pivots.iter().enumerate().for_each(&mut exchange),
    }
}

/// Returns the matrix X of A X = B, or of Aᴴ X = B if `adjoint`, with the LU factors of A.
pub fn lu_solve<T: Number>(
    packed: &Matrix<T>,
    pivots: &[i32],
    mut b: Matrix<T>,
    adjoint: bool,
) -> Matrix<T> {
    let lower = Triangle { is_upper: false, has_unit_diagonal: true };
    let upper = Triangle { is_upper: true, has_unit_diagonal: false };
    if adjoint {
        let packed = packed.adjoint();
        let b = solve_triangular(&packed, Triangle { is_upper: false, ..upper }, b);
        let mut b = solve_triangular(&packed, Triangle { is_upper: true, ..lower }, b);
        swap_rows(&mut b, pivots, true);
        return b;
    }
    swap_rows(&mut b, pivots, false);
    solve_triangular(packed, upper, solve_triangular(packed, lower, b))
}
