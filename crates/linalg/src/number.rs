//! The types of elements.

use std::fmt::Debug;
use std::ops::Neg;

use anyhow::Result;
use num_complex::Complex;
use num_traits::NumAssign;

use crate::matrix::Matrix;
use crate::spectral::{self, Eigen, Singular};

/// An element: f64 or a complex number of f64. The factorizations by a library are methods, so that
/// this crate compiles them.
pub trait Number: Copy + Debug + Send + Sync + NumAssign + Neg<Output = Self> + 'static {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// Returns the number with this real part.
    fn real(value: f64) -> Self;
    /// Returns the real part.
    fn real_part(self) -> f64;
    /// Returns the imaginary part.
    fn imaginary_part(self) -> f64;
    /// Returns the complex conjugate.
    fn conjugate(self) -> Self;
    /// Returns the absolute value.
    fn size(self) -> f64;
    /// Returns the sum of the parts' absolute values, by which LAPACK chooses pivots.
    fn pivot_size(self) -> f64 {
        self.real_part().abs() + self.imaginary_part().abs()
    }
    /// Returns the singular values, with vectors: all of them, or as many as there are values.
    ///
    /// # Errors
    /// The method does not converge, as for elements that are not finite.
    fn singular(matrix: &Matrix<Self>, all_vectors: bool) -> Result<Singular<Self>>;
    /// Returns the eigenvalues of a Hermitian matrix in ascending order, and the eigenvectors as
    /// columns. Reads the lower triangle.
    ///
    /// # Errors
    /// As for [`Number::singular`].
    fn hermitian_eigen(matrix: &Matrix<Self>) -> Result<(Vec<f64>, Matrix<Self>)>;
    /// Returns the eigenvalues of a square matrix, and the eigenvectors as columns of length 1.
    ///
    /// # Errors
    /// As for [`Number::singular`].
    fn eigen(matrix: &Matrix<Self>) -> Result<Eigen>;
}

impl Number for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;

    fn real(value: f64) -> f64 {
        value
    }
    fn real_part(self) -> f64 {
        self
    }
    fn imaginary_part(self) -> f64 {
        0.0
    }
    fn conjugate(self) -> f64 {
        self
    }
    fn size(self) -> f64 {
        self.abs()
    }
    fn singular(matrix: &Matrix<f64>, all_vectors: bool) -> Result<Singular<f64>> {
        spectral::singular(matrix, all_vectors)
    }
    fn hermitian_eigen(matrix: &Matrix<f64>) -> Result<(Vec<f64>, Matrix<f64>)> {
        spectral::hermitian_eigen(matrix)
    }
    fn eigen(matrix: &Matrix<f64>) -> Result<Eigen> {
        spectral::eigen_of_real(matrix)
    }
}

impl Number for Complex<f64> {
    const ZERO: Self = Complex::new(0.0, 0.0);
    const ONE: Self = Complex::new(1.0, 0.0);

    fn real(value: f64) -> Self {
        Complex::new(value, 0.0)
    }
    fn real_part(self) -> f64 {
        self.re
    }
    fn imaginary_part(self) -> f64 {
        self.im
    }
    fn conjugate(self) -> Self {
        self.conj()
    }
    fn size(self) -> f64 {
        self.norm()
    }
    fn singular(matrix: &Matrix<Self>, all_vectors: bool) -> Result<Singular<Self>> {
        spectral::singular(matrix, all_vectors)
    }
    fn hermitian_eigen(matrix: &Matrix<Self>) -> Result<(Vec<f64>, Matrix<Self>)> {
        spectral::hermitian_eigen(matrix)
    }
    fn eigen(matrix: &Matrix<Self>) -> Result<Eigen> {
        spectral::eigen_of_complex(matrix)
    }
}
