//! Factorizations and solutions of dense matrices, in the formats of LAPACK.
//!
//! # Contract
//! Elements are f64 or complex numbers of f64. Everything runs on the caller's thread, so results
//! depend on the elements alone. A matrix without rows or columns is valid everywhere.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `matrix` | the [`Matrix`] |
//! | `number` | the types of elements |
//! | `triangular` | solutions by triangles; Cholesky and LU factors |
//! | `symmetric` | factors of symmetric indefinite matrices |
//! | `householder` | QR factors, and products with their Q |
//! | `spectral` | singular values and eigenvalues |
//! | `exponential` | the exponential of a matrix |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod exponential;
mod householder;
mod matrix;
mod number;
mod spectral;
mod symmetric;
mod triangular;

pub use exponential::exponential;
pub use householder::{apply_q, householder_product, qr_factors};
pub use matrix::Matrix;
pub use num_complex::Complex;
pub use number::Number;
pub use spectral::{Eigen, Singular};
pub use symmetric::{SymmetricFactors, symmetric_factors, symmetric_solve};
pub use triangular::{
    LuFactors, Triangle, cholesky, lu_factors, lu_solve, solve_triangular, swap_rows,
};
