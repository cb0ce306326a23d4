//! Singular values and eigenvalues, by faer.

use std::cmp::Ordering;

use anyhow::{Result, anyhow};
use faer::traits::ComplexField;
use faer::{Mat, MatRef, Side};
use num_complex::Complex;

use crate::matrix::Matrix;
use crate::number::Number;

/// The singular values of a matrix, in descending order, and its singular vectors.
#[derive(Clone, Debug)]
pub struct Singular<T> {
    /// The left vectors, as columns.
    pub left: Matrix<T>,
    /// The values.
    pub values: Vec<f64>,
    /// The right vectors, as columns.
    pub right: Matrix<T>,
}

/// The eigenvalues of a matrix, and its eigenvectors as columns of length 1.
#[derive(Clone, Debug)]
pub struct Eigen {
    /// The values.
    pub values: Vec<Complex<f64>>,
    /// The vectors.
    pub vectors: Matrix<Complex<f64>>,
}

fn to_faer<T: Number>(matrix: &Matrix<T>) -> Mat<T> {
    Mat::from_fn(matrix.rows(), matrix.columns(), |i, j| matrix[(i, j)])
}

fn from_faer<T: Number>(matrix: MatRef<'_, T>) -> Matrix<T> {
    Matrix::from_fn(matrix.nrows(), matrix.ncols(), |i, j| *matrix.get(i, j))
}

fn diverged() -> anyhow::Error {
    anyhow!("the method does not converge: expected a matrix of finite numbers")
}

pub(crate) fn singular<T: Number + ComplexField>(
    matrix: &Matrix<T>,
    all_vectors: bool,
) -> Result<Singular<T>> {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let count = rows.min(columns);
    if count == 0 {
        let length = |side| if all_vectors { side } else { 0 };
        let identity = |side: usize| Matrix::identity(side).leading(side, length(side));
        return Ok(Singular { left: identity(rows), values: Vec::new(), right: identity(columns) });
    }
    let given = to_faer(matrix);
    let found = if all_vectors { given.svd() } else { given.thin_svd() };
    let found = found.map_err(|_| diverged())?;
    let values = found.S().column_vector();
    let values = (0..count).map(|k| values.get(k).real_part()).collect();
    Ok(Singular { left: from_faer(found.U()), values, right: from_faer(found.V()) })
}

pub(crate) fn hermitian_eigen<T: Number + ComplexField>(
    matrix: &Matrix<T>,
) -> Result<(Vec<f64>, Matrix<T>)> {
    let length = matrix.rows();
    if length == 0 {
        return Ok((Vec::new(), Matrix::zeros(0, 0)));
    }
    // The imaginary parts of the diagonal do not count, as in LAPACK.
    let given = Mat::from_fn(length, length, |i, j| match i.cmp(&j) {
        Ordering::Equal => T::real(matrix[(i, i)].real_part()),
        Ordering::Greater => matrix[(i, j)],
        Ordering::Less => matrix[(j, i)].conjugate(),
    });
    let found = given.self_adjoint_eigen(Side::Lower).map_err(|_| diverged())?;
    let values = found.S().column_vector();
    let values = (0..length).map(|k| values.get(k).real_part()).collect();
    Ok((values, from_faer(found.U())))
}

pub(crate) fn eigen_of_real(matrix: &Matrix<f64>) -> Result<Eigen> {
    if matrix.rows() == 0 {
        return Ok(Eigen { values: Vec::new(), vectors: Matrix::zeros(0, 0) });
    }
    let given = to_faer(matrix);
    let found = given.eigen().map_err(|_| diverged())?;
    Ok(normalized(found.S().column_vector().iter().copied().collect(), found.U()))
}

pub(crate) fn eigen_of_complex(matrix: &Matrix<Complex<f64>>) -> Result<Eigen> {
    if matrix.rows() == 0 {
        return Ok(Eigen { values: Vec::new(), vectors: Matrix::zeros(0, 0) });
    }
    let given = to_faer(matrix);
    let found = given.eigen().map_err(|_| diverged())?;
    Ok(normalized(found.S().column_vector().iter().copied().collect(), found.U()))
}

/// Returns the eigenvectors with length 1, and a real component of the greatest size, as LAPACK's.
fn normalized(values: Vec<Complex<f64>>, vectors: MatRef<'_, Complex<f64>>) -> Eigen {
    let mut vectors = from_faer(vectors);
    for j in 0..vectors.columns() {
        let column = || (0..vectors.rows()).map(|i| vectors[(i, j)]);
        let length = column().map(|v| v.norm_sqr()).sum::<f64>().sqrt();
        let greatest =
            column().fold(
                Complex::new(0.0, 0.0),
                |a: Complex<f64>, b| {
                    if b.norm_sqr() > a.norm_sqr() { b } else { a }
                },
            );
        if length > 0.0 {
            let factor = greatest.conj() / (greatest.norm() * length);
            for i in 0..vectors.rows() {
                vectors[(i, j)] *= factor;
            }
        }
    }
    Eigen { values, vectors }
}
