//! Methods of the ops under "Linear algebra".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Real, call};

/// Options of [`Tensor::cholesky_inverse_with`].
#[derive(Clone, Debug, Default)]
pub struct CholeskyInverse {
    attrs: Attrs,
}

impl CholeskyInverse {
    /// Sets `upper`: whether the factor is upper triangular; default false.
    #[must_use]
    pub fn upper(mut self, upper: bool) -> CholeskyInverse {
        self.attrs.set("upper", upper);
        self
    }
}

/// Options of [`Tensor::cholesky_solve_with`].
#[derive(Clone, Debug, Default)]
pub struct CholeskySolve {
    attrs: Attrs,
}

impl CholeskySolve {
    /// Sets `upper`: whether the factor is upper triangular; default false.
    #[must_use]
    pub fn upper(mut self, upper: bool) -> CholeskySolve {
        self.attrs.set("upper", upper);
        self
    }
}

/// Options of [`Tensor::linalg_cholesky_ex_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgCholeskyEx {
    attrs: Attrs,
}

impl LinalgCholeskyEx {
    /// Sets `check_errors`: whether the call fails where info is not 0; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 1.0], (2, 2), &machine)?; // not definite
    /// let (_, info) = a.linalg_cholesky_ex()?;
    /// assert_eq!(info.item::<i32>()?, 2);
    /// let checked = options::LinalgCholeskyEx::default().check_errors(true);
    /// assert!(a.linalg_cholesky_ex_with(checked)?.0.to_vec::<f32>().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn check_errors(mut self, check_errors: bool) -> LinalgCholeskyEx {
        self.attrs.set("check_errors", check_errors);
        self
    }

    /// Sets `upper`: the upper factor instead of the lower; default false.
    #[must_use]
    pub fn upper(mut self, upper: bool) -> LinalgCholeskyEx {
        self.attrs.set("upper", upper);
        self
    }
}

/// Options of [`Tensor::linalg_eig_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgEig {
    attrs: Attrs,
}

impl LinalgEig {
    /// Sets `compute_v`: whether to return the eigenvectors; default true.
    #[must_use]
    pub fn compute_v(mut self, compute_v: bool) -> LinalgEig {
        self.attrs.set("compute_v", compute_v);
        self
    }
}

/// Options of [`Tensor::linalg_eigh_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgEigh {
    attrs: Attrs,
}

impl LinalgEigh {
    /// Sets `compute_v`: whether to return the eigenvectors; default true.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 1.0, 1.0, 3.0], (2, 2), &machine)?;
    /// let (values, vectors) =
    ///     a.linalg_eigh_with(options::LinalgEigh::default().compute_v(false))?;
    /// assert_eq!(values.to_string(), "tensor([1.3820, 3.6180])");
    /// assert_eq!(vectors.shape(), [0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn compute_v(mut self, compute_v: bool) -> LinalgEigh {
        self.attrs.set("compute_v", compute_v);
        self
    }

    /// Sets `UPLO`: the triangle that is read, "L" or "U"; default L.
    #[must_use]
    pub fn uplo(mut self, uplo: &str) -> LinalgEigh {
        self.attrs.set("UPLO", uplo);
        self
    }
}

/// Options of [`Tensor::linalg_inv_ex_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgInvEx {
    attrs: Attrs,
}

impl LinalgInvEx {
    /// Sets `check_errors`: whether the call fails where info is not 0; default false.
    #[must_use]
    pub fn check_errors(mut self, check_errors: bool) -> LinalgInvEx {
        self.attrs.set("check_errors", check_errors);
        self
    }
}

/// Options of [`Tensor::linalg_ldl_factor_ex_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgLdlFactorEx {
    attrs: Attrs,
}

impl LinalgLdlFactorEx {
    /// Sets `check_errors`: whether the call fails where info is not 0; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[0.0f32, 0.0, 0.0, 0.0], (2, 2), &machine)?;
    /// let checked = options::LinalgLdlFactorEx::default().check_errors(true);
    /// assert!(a.linalg_ldl_factor_ex_with(checked)?.0.to_vec::<f32>().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn check_errors(mut self, check_errors: bool) -> LinalgLdlFactorEx {
        self.attrs.set("check_errors", check_errors);
        self
    }

    /// Sets `hermitian`: whether A is Hermitian; default false.
    #[must_use]
    pub fn hermitian(mut self, hermitian: bool) -> LinalgLdlFactorEx {
        self.attrs.set("hermitian", hermitian);
        self
    }
}

/// Options of [`Tensor::linalg_ldl_solve_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgLdlSolve {
    attrs: Attrs,
}

impl LinalgLdlSolve {
    /// Sets `hermitian`: whether A is Hermitian; default false.
    #[must_use]
    pub fn hermitian(mut self, hermitian: bool) -> LinalgLdlSolve {
        self.attrs.set("hermitian", hermitian);
        self
    }
}

/// Options of [`Tensor::linalg_lstsq_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgLstsq {
    attrs: Attrs,
}

impl LinalgLstsq {
    /// Sets `driver`: "gelsy", "gels", "gelsd" or "gelss", which differ in the results returned;
    /// default gelsy.
    #[must_use]
    pub fn driver(mut self, driver: &str) -> LinalgLstsq {
        self.attrs.set("driver", driver);
        self
    }

    /// Sets `rcond`: the least singular value that counts, relative to the greatest.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 0.0, 0.0, 0.125], (2, 2), &machine)?;
    /// let b = Tensor::from_slice(&[4.0f32, 1.0], (2, 1), &machine)?;
    /// let (_, _, rank, _) =
    ///     a.linalg_lstsq_with(&b, options::LinalgLstsq::default().rcond(0.5))?;
    /// assert_eq!(rank.item::<i64>()?, 1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn rcond(mut self, rcond: impl Real) -> LinalgLstsq {
        self.attrs.set("rcond", rcond.to_real());
        self
    }
}

/// Options of [`Tensor::linalg_lu_factor_ex_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgLuFactorEx {
    attrs: Attrs,
}

impl LinalgLuFactorEx {
    /// Sets `check_errors`: whether the call fails where info is not 0; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], (2, 2), &machine)?; // singular
    /// let (_, _, info) = a.linalg_lu_factor_ex()?;
    /// assert_eq!(info.item::<i32>()?, 2);
    /// let checked = options::LinalgLuFactorEx::default().check_errors(true);
    /// assert!(a.linalg_lu_factor_ex_with(checked)?.0.to_vec::<f32>().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn check_errors(mut self, check_errors: bool) -> LinalgLuFactorEx {
        self.attrs.set("check_errors", check_errors);
        self
    }

    /// Sets `pivot`: true: rows are exchanged; default true.
    #[must_use]
    pub fn pivot(mut self, pivot: bool) -> LinalgLuFactorEx {
        self.attrs.set("pivot", pivot);
        self
    }
}

/// Options of [`Tensor::linalg_lu_solve_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgLuSolve {
    attrs: Attrs,
}

impl LinalgLuSolve {
    /// Sets `adjoint`: whether the adjoint of A stands in its place; default false.
    #[must_use]
    pub fn adjoint(mut self, adjoint: bool) -> LinalgLuSolve {
        self.attrs.set("adjoint", adjoint);
        self
    }

    /// Sets `left`: whether A stands left of the unknown matrix; default true.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let lu = Tensor::from_slice(&[4.0f32, 6.0, 0.5, -2.0], (2, 2), &machine)?;
    /// let pivots = Tensor::from_slice(&[2i32, 2], 2, &machine)?;
    /// let b = Tensor::from_slice(&[4.0f32, 16.0], (1, 2), &machine)?;
    /// let options = options::LinalgLuSolve::default().left(false);
    /// let y = lu.linalg_lu_solve_with(&pivots, &b, options)?;
    /// assert_eq!(y.shape(), [1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [-5.0, 3.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn left(mut self, left: bool) -> LinalgLuSolve {
        self.attrs.set("left", left);
        self
    }
}

/// Options of [`Tensor::linalg_pinv`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 3.0], (2, 2), &machine)?;
/// let y = x.linalg_pinv(options::LinalgPinv::default().hermitian(true))?;
/// assert_eq!(y.to_string(), "tensor([[1.0000, 0.0000],\n        [0.0000, 0.3333]])");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LinalgPinv<'a> {
    atol: Option<&'a Tensor>,
    rtol: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> LinalgPinv<'a> {
    /// Gives the tensor `atol`: the least value that counts.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 3.0], (2, 2), &machine)?;
    /// let atol = Tensor::scalar(2.0f32, &machine)?;
    /// let y = x.linalg_pinv(options::LinalgPinv::default().atol(&atol))?;
    /// assert_eq!(y.to_string(), "tensor([[0.0000, 0.0000],\n        [0.0000, 0.3333]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn atol(mut self, atol: &'a Tensor) -> LinalgPinv<'a> {
        self.atol = Some(atol);
        self
    }

    /// Sets `hermitian`: whether x is symmetric; default false.
    #[must_use]
    pub fn hermitian(mut self, hermitian: bool) -> LinalgPinv<'a> {
        self.attrs.set("hermitian", hermitian);
        self
    }

    /// Gives the tensor `rtol`: the same, relative to the greatest.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 3.0], (2, 2), &machine)?;
    /// let rtol = Tensor::scalar(0.5f32, &machine)?;
    /// let y = x.linalg_pinv(options::LinalgPinv::default().rtol(&rtol))?;
    /// assert_eq!(y.to_string(), "tensor([[0.0000, 0.0000],\n        [0.0000, 0.3333]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn rtol(mut self, rtol: &'a Tensor) -> LinalgPinv<'a> {
        self.rtol = Some(rtol);
        self
    }
}

/// Options of [`Tensor::linalg_qr_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgQr {
    attrs: Attrs,
}

impl LinalgQr {
    /// Sets `mode`: "reduced", "complete", or "r" without Q; default reduced.
    #[must_use]
    pub fn mode(mut self, mode: &str) -> LinalgQr {
        self.attrs.set("mode", mode);
        self
    }
}

/// Options of [`Tensor::linalg_solve_triangular_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgSolveTriangular {
    attrs: Attrs,
}

impl LinalgSolveTriangular {
    /// Sets `left`: whether A stands left of the unknown matrix; default true.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 0.0, 1.0, 4.0], (2, 2), &machine)?;
    /// let b = Tensor::from_slice(&[3.0f32, 4.0], (1, 2), &machine)?;
    /// let options = options::LinalgSolveTriangular::default().left(false);
    /// let y = a.linalg_solve_triangular_with(&b, options)?;
    /// assert_eq!(y.shape(), [1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn left(mut self, left: bool) -> LinalgSolveTriangular {
        self.attrs.set("left", left);
        self
    }

    /// Sets `unitriangular`: whether the diagonal counts as ones; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 0.0, 1.0, 4.0], (2, 2), &machine)?;
    /// let b = Tensor::from_slice(&[2.0f32, 9.0], (2, 1), &machine)?;
    /// let options = options::LinalgSolveTriangular::default().unitriangular(true);
    /// let y = a.linalg_solve_triangular_with(&b, options)?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn unitriangular(mut self, unitriangular: bool) -> LinalgSolveTriangular {
        self.attrs.set("unitriangular", unitriangular);
        self
    }

    /// Sets `upper`: whether it is the upper triangle; default false.
    #[must_use]
    pub fn upper(mut self, upper: bool) -> LinalgSolveTriangular {
        self.attrs.set("upper", upper);
        self
    }
}

/// Options of [`Tensor::linalg_svd_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgSvd {
    attrs: Attrs,
}

impl LinalgSvd {
    /// Sets `compute_uv`: whether to return U and V; default true.
    #[must_use]
    pub fn compute_uv(mut self, compute_uv: bool) -> LinalgSvd {
        self.attrs.set("compute_uv", compute_uv);
        self
    }

    /// Sets `full_matrices`: whether U and V are square; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[3.0f32, 4.0], (2, 1), &machine)?;
    /// let full = options::LinalgSvd::default().full_matrices(true);
    /// let (u, s, _) = a.linalg_svd_with(full)?;
    /// assert_eq!(u.shape(), [2, 2]);
    /// assert!((s.item::<f32>()? - 5.0).abs() < 1e-5);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn full_matrices(mut self, full_matrices: bool) -> LinalgSvd {
        self.attrs.set("full_matrices", full_matrices);
        self
    }
}

/// Options of [`Tensor::lu_unpack_with`].
#[derive(Clone, Debug, Default)]
pub struct LuUnpack {
    attrs: Attrs,
}

impl LuUnpack {
    /// Sets `unpack_data`: whether to return L and U; default true.
    #[must_use]
    pub fn unpack_data(mut self, unpack_data: bool) -> LuUnpack {
        self.attrs.set("unpack_data", unpack_data);
        self
    }

    /// Sets `unpack_pivots`: whether to return the permutation; default true.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let lu = Tensor::from_slice(&[4.0f32, 6.0, 0.5, -2.0], (2, 2), &machine)?;
    /// let pivots = Tensor::from_slice(&[2i32, 2], 2, &machine)?;
    /// let (p, l, u) =
    ///     lu.lu_unpack_with(&pivots, options::LuUnpack::default().unpack_pivots(false))?;
    /// assert_eq!(p.shape(), [0]);
    /// assert_eq!(l.to_vec::<f32>()?, [1.0, 0.0, 0.5, 1.0]);
    /// assert_eq!(u.to_vec::<f32>()?, [4.0, 6.0, 0.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn unpack_pivots(mut self, unpack_pivots: bool) -> LuUnpack {
        self.attrs.set("unpack_pivots", unpack_pivots);
        self
    }
}

/// Options of [`Tensor::ormqr_with`].
#[derive(Clone, Debug, Default)]
pub struct Ormqr {
    attrs: Attrs,
}

impl Ormqr {
    /// Sets `left`: whether A stands left of the unknown matrix; default true.
    #[must_use]
    pub fn left(mut self, left: bool) -> Ormqr {
        self.attrs.set("left", left);
        self
    }

    /// Sets `transpose`: whether the adjoint of Q stands in its place; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[-5.0f32, -2.0, 0.5, 1.0], (2, 2), &machine)?;
    /// let tau = Tensor::from_slice(&[1.6f32, 0.0], 2, &machine)?;
    /// let other = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?;
    /// let y = a.ormqr_with(&tau, &other, options::Ormqr::default().transpose(true))?;
    /// assert_eq!(y.to_string(), "tensor([[-2.2000],\n        [ 0.4000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn transpose(mut self, transpose: bool) -> Ormqr {
        self.attrs.set("transpose", transpose);
        self
    }
}

impl Tensor {
    /// Returns the Cholesky factor of A, and info.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::linalg_cholesky_ex`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[4.0f32, 2.0, 2.0, 5.0], (2, 2), &machine)?;
    /// let (l, info) = a.linalg_cholesky_ex()?;
    /// assert_eq!(l.to_vec::<f32>()?, [2.0, 0.0, 1.0, 2.0]);
    /// assert_eq!(info.item::<i32>()?, 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_cholesky_ex(&self) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("linalg_cholesky_ex", &[self], Attrs::new())?;
        Ok((a, b))
    }

    /// Returns the Cholesky factor of A, and info.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    /// - `options`: [`struct@LinalgCholeskyEx`], which has defaults
    ///
    /// PyTorch: `aten::linalg_cholesky_ex`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[4.0f32, 2.0, 2.0, 5.0], (2, 2), &machine)?;
    /// let (u, _) = a.linalg_cholesky_ex_with(options::LinalgCholeskyEx::default().upper(true))?;
    /// assert_eq!(u.to_vec::<f32>()?, [2.0, 1.0, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_cholesky_ex_with(&self, options: LinalgCholeskyEx) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("linalg_cholesky_ex", &[self], options.attrs)?;
        Ok((a, b))
    }

    /// Returns the packed LU factors of A, the pivots from 1, and info.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::linalg_lu_factor_ex`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 1.0, 4.0, 6.0], (2, 2), &machine)?;
    /// let (lu, pivots, info) = a.linalg_lu_factor_ex()?;
    /// assert_eq!(lu.to_vec::<f32>()?, [4.0, 6.0, 0.5, -2.0]);
    /// assert_eq!(pivots.to_vec::<i32>()?, [2, 2]);
    /// assert_eq!(info.item::<i32>()?, 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_lu_factor_ex(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let [a, b, c] = call::first_of("linalg_lu_factor_ex", &[self], Attrs::new())?;
        Ok((a, b, c))
    }

    /// Returns the packed LU factors of A, the pivots from 1, and info.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    /// - `options`: [`struct@LinalgLuFactorEx`], which has defaults
    ///
    /// PyTorch: `aten::linalg_lu_factor_ex`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 1.0, 4.0, 6.0], (2, 2), &machine)?;
    /// let (lu, pivots, _) =
    ///     a.linalg_lu_factor_ex_with(options::LinalgLuFactorEx::default().pivot(true))?;
    /// assert_eq!(lu.to_vec::<f32>()?, [4.0, 6.0, 0.5, -2.0]);
    /// assert_eq!(pivots.to_vec::<i32>()?, [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_lu_factor_ex_with(
        &self,
        options: LinalgLuFactorEx,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let [a, b, c] = call::first_of("linalg_lu_factor_ex", &[self], options.attrs)?;
        Ok((a, b, c))
    }

    /// Returns the permutation, L and U of packed factors.
    ///
    /// - `LU`, this tensor: \[..,m,n\]
    /// - `pivots`: i32; \[..,min(m,n)\]
    ///
    /// PyTorch: `aten::lu_unpack`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let lu = Tensor::from_slice(&[4.0f32, 6.0, 0.5, -2.0], (2, 2), &machine)?;
    /// let pivots = Tensor::from_slice(&[2i32, 2], 2, &machine)?;
    /// let (p, l, u) = lu.lu_unpack(&pivots)?;
    /// assert_eq!(p.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
    /// assert_eq!(l.to_vec::<f32>()?, [1.0, 0.0, 0.5, 1.0]);
    /// assert_eq!(u.to_vec::<f32>()?, [4.0, 6.0, 0.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn lu_unpack(&self, pivots: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let mut given = call::given(self);
        given.push(pivots);
        let [a, b, c] = call::first_of("lu_unpack", &given, Attrs::new())?;
        Ok((a, b, c))
    }

    /// Returns the permutation, L and U of packed factors.
    ///
    /// - `LU`, this tensor: \[..,m,n\]
    /// - `pivots`: i32; \[..,min(m,n)\]
    /// - `options`: [`struct@LuUnpack`], which has defaults
    ///
    /// PyTorch: `aten::lu_unpack`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let lu = Tensor::from_slice(&[4.0f32, 6.0, 0.5, -2.0], (2, 2), &machine)?;
    /// let pivots = Tensor::from_slice(&[2i32, 2], 2, &machine)?;
    /// let (p, l, _) =
    ///     lu.lu_unpack_with(&pivots, options::LuUnpack::default().unpack_data(false))?;
    /// assert_eq!(p.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
    /// assert_eq!(l.shape(), [0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn lu_unpack_with(
        &self,
        pivots: &Tensor,
        options: LuUnpack,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let mut given = call::given(self);
        given.push(pivots);
        let [a, b, c] = call::first_of("lu_unpack", &given, options.attrs)?;
        Ok((a, b, c))
    }

    /// Returns the solution X of A X = B by the packed factors of A.
    ///
    /// - `LU`, this tensor: \[..,n,n\]
    /// - `pivots`: i32; \[..,min(m,n)\]
    /// - `b`: \[..,n,k\]
    ///
    /// PyTorch: `aten::linalg_lu_solve`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let lu = Tensor::from_slice(&[4.0f32, 6.0, 0.5, -2.0], (2, 2), &machine)?;
    /// let pivots = Tensor::from_slice(&[2i32, 2], 2, &machine)?;
    /// let b = Tensor::from_slice(&[4.0f32, 16.0], (2, 1), &machine)?;
    /// let y = lu.linalg_lu_solve(&pivots, &b)?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_lu_solve(&self, pivots: &Tensor, b: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(pivots);
        given.push(b);
        call::one("linalg_lu_solve", &given, Attrs::new())
    }

    /// Returns the solution X of A X = B by the packed factors of A.
    ///
    /// - `LU`, this tensor: \[..,n,n\]
    /// - `pivots`: i32; \[..,min(m,n)\]
    /// - `b`: \[..,n,k\]
    /// - `options`: [`struct@LinalgLuSolve`], which has defaults
    ///
    /// PyTorch: `aten::linalg_lu_solve`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let lu = Tensor::from_slice(&[4.0f32, 6.0, 0.5, -2.0], (2, 2), &machine)?;
    /// let pivots = Tensor::from_slice(&[2i32, 2], 2, &machine)?;
    /// let b = Tensor::from_slice(&[4.0f32, 16.0], (2, 1), &machine)?;
    /// let options = options::LinalgLuSolve::default().adjoint(true);
    /// let y = lu.linalg_lu_solve_with(&pivots, &b, options)?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [-5.0, 3.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_lu_solve_with(
        &self,
        pivots: &Tensor,
        b: &Tensor,
        options: LinalgLuSolve,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(pivots);
        given.push(b);
        call::one("linalg_lu_solve", &given, options.attrs)
    }

    /// Returns the solution X of A X = B with a triangle of A.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    /// - `b`: \[..,n,k\]
    ///
    /// PyTorch: `aten::linalg_solve_triangular`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 0.0, 1.0, 4.0], (2, 2), &machine)?;
    /// let b = Tensor::from_slice(&[2.0f32, 9.0], (2, 1), &machine)?;
    /// let y = a.linalg_solve_triangular(&b)?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_solve_triangular(&self, b: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(b);
        call::one("linalg_solve_triangular", &given, Attrs::new())
    }

    /// Returns the solution X of A X = B with a triangle of A.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    /// - `b`: \[..,n,k\]
    /// - `options`: [`struct@LinalgSolveTriangular`], which has defaults
    ///
    /// PyTorch: `aten::linalg_solve_triangular`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 1.0, 0.0, 4.0], (2, 2), &machine)?;
    /// let b = Tensor::from_slice(&[4.0f32, 8.0], (2, 1), &machine)?;
    /// let options = options::LinalgSolveTriangular::default().upper(true);
    /// let y = a.linalg_solve_triangular_with(&b, options)?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_solve_triangular_with(
        &self,
        b: &Tensor,
        options: LinalgSolveTriangular,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(b);
        call::one("linalg_solve_triangular", &given, options.attrs)
    }

    /// Returns the inverse of A, and info.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::linalg_inv_ex`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 0.0, 1.0, 4.0], (2, 2), &machine)?;
    /// let (inverse, info) = a.linalg_inv_ex()?;
    /// assert_eq!(inverse.to_vec::<f32>()?, [0.5, 0.0, -0.125, 0.25]);
    /// assert_eq!(info.item::<i32>()?, 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_inv_ex(&self) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("linalg_inv_ex", &[self], Attrs::new())?;
        Ok((a, b))
    }

    /// Returns the inverse of A, and info.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    /// - `options`: [`struct@LinalgInvEx`], which has defaults
    ///
    /// PyTorch: `aten::linalg_inv_ex`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], (2, 2), &machine)?; // singular
    /// let checked = options::LinalgInvEx::default().check_errors(true);
    /// assert!(a.linalg_inv_ex_with(checked)?.0.to_vec::<f32>().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_inv_ex_with(&self, options: LinalgInvEx) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("linalg_inv_ex", &[self], options.attrs)?;
        Ok((a, b))
    }

    /// Returns Q and R with A = Q R.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::linalg_qr`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[3.0f32, 1.0, 4.0, 2.0], (2, 2), &machine)?;
    /// let (q, r) = a.linalg_qr()?;
    /// assert_eq!(q.to_string(), "tensor([[-0.6000, -0.8000],\n        [-0.8000,  0.6000]])");
    /// assert_eq!(r.to_string(), "tensor([[-5.0000, -2.2000],\n        [ 0.0000,  0.4000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_qr(&self) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("linalg_qr", &[self], Attrs::new())?;
        Ok((a, b))
    }

    /// Returns Q and R with A = Q R.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    /// - `options`: [`struct@LinalgQr`], which has defaults
    ///
    /// PyTorch: `aten::linalg_qr`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[3.0f32, 1.0, 4.0, 2.0], (2, 2), &machine)?;
    /// let (_, r) = a.linalg_qr_with(options::LinalgQr::default().mode("r"))?;
    /// assert_eq!(r.to_string(), "tensor([[-5.0000, -2.2000],\n        [ 0.0000,  0.4000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_qr_with(&self, options: LinalgQr) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("linalg_qr", &[self], options.attrs)?;
        Ok((a, b))
    }

    /// Returns the packed QR factors of A, and the factors of the reflections.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::geqrf`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[3.0f32, 1.0, 4.0, 2.0], (2, 2), &machine)?;
    /// let (packed, tau) = a.geqrf()?;
    /// assert_eq!(packed.to_string(), "tensor([[-5.0000, -2.2000],\n        [ 0.5000,  0.4000]])");
    /// assert_eq!(tau.to_string(), "tensor([1.6000, 0.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn geqrf(&self) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("geqrf", &[self], Attrs::new())?;
        Ok((a, b))
    }

    /// Returns the first columns of the Q of packed factors.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    /// - `tau`: \[..,k\]
    ///
    /// PyTorch: `aten::linalg_householder_product`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[-5.0f32, -2.0, 0.5, 1.0], (2, 2), &machine)?;
    /// let tau = Tensor::from_slice(&[1.6f32, 0.0], 2, &machine)?;
    /// let y = a.linalg_householder_product(&tau)?;
    /// assert_eq!(y.to_string(), "tensor([[-0.6000, -0.8000],\n        [-0.8000,  0.6000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_householder_product(&self, tau: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(tau);
        call::one("linalg_householder_product", &given, Attrs::new())
    }

    /// Returns the product of the Q of packed factors with a matrix.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    /// - `tau`: \[..,k\]
    /// - `other`: \[..,m,k\]
    ///
    /// PyTorch: `aten::ormqr`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[-5.0f32, -2.0, 0.5, 1.0], (2, 2), &machine)?;
    /// let tau = Tensor::from_slice(&[1.6f32, 0.0], 2, &machine)?;
    /// let other = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?;
    /// assert_eq!(a.ormqr(&tau, &other)?.to_string(), "tensor([[-2.2000],\n        [ 0.4000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn ormqr(&self, tau: &Tensor, other: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(tau);
        given.push(other);
        call::one("ormqr", &given, Attrs::new())
    }

    /// Returns the product of the Q of packed factors with a matrix.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    /// - `tau`: \[..,k\]
    /// - `other`: \[..,m,k\]
    /// - `options`: [`struct@Ormqr`], which has defaults
    ///
    /// PyTorch: `aten::ormqr`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[-5.0f32, -2.0, 0.5, 1.0], (2, 2), &machine)?;
    /// let tau = Tensor::from_slice(&[1.6f32, 0.0], 2, &machine)?;
    /// let other = Tensor::from_slice(&[1.0f32, 2.0], (1, 2), &machine)?;
    /// let y = a.ormqr_with(&tau, &other, options::Ormqr::default().left(false))?;
    /// assert_eq!(y.to_string(), "tensor([[-2.2000,  0.4000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn ormqr_with(&self, tau: &Tensor, other: &Tensor, options: Ormqr) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(tau);
        given.push(other);
        call::one("ormqr", &given, options.attrs)
    }

    /// Returns U, the singular values, and the adjoint of V, with A = U S Vᴴ.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::_linalg_svd`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[3.0f32, 0.0, 4.0, 5.0], (2, 2), &machine)?;
    /// let (_, s, _) = a.linalg_svd()?;
    /// assert_eq!(s.to_string(), "tensor([6.7082, 2.2361])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_svd(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let [a, b, c] = call::first_of("_linalg_svd", &[self], Attrs::new())?;
        Ok((a, b, c))
    }

    /// Returns U, the singular values, and the adjoint of V, with A = U S Vᴴ.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    /// - `options`: [`struct@LinalgSvd`], which has defaults
    ///
    /// PyTorch: `aten::_linalg_svd`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[3.0f32, 0.0, 4.0, 5.0], (2, 2), &machine)?;
    /// let (u, s, _) = a.linalg_svd_with(options::LinalgSvd::default().compute_uv(false))?;
    /// assert_eq!(u.shape(), [0]);
    /// assert_eq!(s.to_string(), "tensor([6.7082, 2.2361])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_svd_with(&self, options: LinalgSvd) -> Result<(Tensor, Tensor, Tensor)> {
        let [a, b, c] = call::first_of("_linalg_svd", &[self], options.attrs)?;
        Ok((a, b, c))
    }

    /// Returns the eigenvalues of a symmetric A, ascending, and the eigenvectors.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::_linalg_eigh`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 1.0, 1.0, 3.0], (2, 2), &machine)?;
    /// let (values, _) = a.linalg_eigh()?;
    /// assert_eq!(values.to_string(), "tensor([1.3820, 3.6180])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_eigh(&self) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("_linalg_eigh", &[self], Attrs::new())?;
        Ok((a, b))
    }

    /// Returns the eigenvalues of a symmetric A, ascending, and the eigenvectors.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    /// - `options`: [`struct@LinalgEigh`], which has defaults
    ///
    /// PyTorch: `aten::_linalg_eigh`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[2.0f32, 1.0, 7.0, 3.0], (2, 2), &machine)?;
    /// let (values, _) = a.linalg_eigh_with(options::LinalgEigh::default().uplo("U"))?;
    /// assert_eq!(values.to_string(), "tensor([1.3820, 3.6180])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_eigh_with(&self, options: LinalgEigh) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("_linalg_eigh", &[self], options.attrs)?;
        Ok((a, b))
    }

    /// Returns the complex eigenvalues of A, and the eigenvectors of length 1.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::linalg_eig`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, -2.0, 1.0, 2.0], (2, 2), &machine)?;
    /// let (values, _) = a.linalg_eig()?;
    /// assert_eq!(values.to_string(), "tensor([1.5000+1.3229j, 1.5000-1.3229j])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_eig(&self) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("linalg_eig", &[self], Attrs::new())?;
        Ok((a, b))
    }

    /// Returns the complex eigenvalues of A, and the eigenvectors of length 1.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    /// - `options`: [`struct@LinalgEig`], which has defaults
    ///
    /// PyTorch: `aten::linalg_eig`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, -2.0, 1.0, 2.0], (2, 2), &machine)?;
    /// let (values, vectors) =
    ///     a.linalg_eig_with(options::LinalgEig::default().compute_v(false))?;
    /// assert_eq!(values.to_string(), "tensor([1.5000+1.3229j, 1.5000-1.3229j])");
    /// assert_eq!(vectors.shape(), [0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_eig_with(&self, options: LinalgEig) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("linalg_eig", &[self], options.attrs)?;
        Ok((a, b))
    }

    /// Returns e to the power of A.
    ///
    /// - `A`, this tensor: \[..,n,n\]; floats
    ///
    /// PyTorch: `aten::linalg_matrix_exp`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[0.0f32, 1.0, -1.0, 0.0], (2, 2), &machine)?;
    /// let y = a.linalg_matrix_exp()?;
    /// assert_eq!(y.to_string(), "tensor([[ 0.5403,  0.8415],\n        [-0.8415,  0.5403]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_matrix_exp(&self) -> Result<Tensor> {
        call::one("linalg_matrix_exp", &[self], Attrs::new())
    }

    /// Returns the packed L D Lᵀ factors of a symmetric A, the pivots, and info.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    ///
    /// PyTorch: `aten::linalg_ldl_factor_ex`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[4.0f32, 2.0, 2.0, 3.0], (2, 2), &machine)?;
    /// let (ld, pivots, info) = a.linalg_ldl_factor_ex()?;
    /// assert_eq!(ld.to_vec::<f32>()?, [4.0, 0.0, 0.5, 2.0]);
    /// assert_eq!(pivots.to_vec::<i32>()?, [1, 2]);
    /// assert_eq!(info.item::<i32>()?, 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_ldl_factor_ex(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let [a, b, c] = call::first_of("linalg_ldl_factor_ex", &[self], Attrs::new())?;
        Ok((a, b, c))
    }

    /// Returns the packed L D Lᵀ factors of a symmetric A, the pivots, and info.
    ///
    /// - `A`, this tensor: \[..,n,n\]; f32, f64, c64 or c128
    /// - `options`: [`struct@LinalgLdlFactorEx`], which has defaults
    ///
    /// PyTorch: `aten::linalg_ldl_factor_ex`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[4.0f32, 2.0, 2.0, 3.0], (2, 2), &machine)?;
    /// let (ld, pivots, _) =
    ///     a.linalg_ldl_factor_ex_with(options::LinalgLdlFactorEx::default().hermitian(true))?;
    /// assert_eq!(ld.to_vec::<f32>()?, [4.0, 0.0, 0.5, 2.0]);
    /// assert_eq!(pivots.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_ldl_factor_ex_with(
        &self,
        options: LinalgLdlFactorEx,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let [a, b, c] = call::first_of("linalg_ldl_factor_ex", &[self], options.attrs)?;
        Ok((a, b, c))
    }

    /// Returns the solution X of A X = B by the packed L D Lᵀ factors of A.
    ///
    /// - `LD`, this tensor: \[..,n,n\]
    /// - `pivots`: i32; \[..,min(m,n)\]
    /// - `b`: \[..,n,k\]
    ///
    /// PyTorch: `aten::linalg_ldl_solve`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let ld = Tensor::from_slice(&[4.0f32, 0.0, 0.5, 2.0], (2, 2), &machine)?;
    /// let pivots = Tensor::from_slice(&[1i32, 2], 2, &machine)?;
    /// let b = Tensor::from_slice(&[8.0f32, 8.0], (2, 1), &machine)?;
    /// let y = ld.linalg_ldl_solve(&pivots, &b)?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_ldl_solve(&self, pivots: &Tensor, b: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(pivots);
        given.push(b);
        call::one("linalg_ldl_solve", &given, Attrs::new())
    }

    /// Returns the solution X of A X = B by the packed L D Lᵀ factors of A.
    ///
    /// - `LD`, this tensor: \[..,n,n\]
    /// - `pivots`: i32; \[..,min(m,n)\]
    /// - `b`: \[..,n,k\]
    /// - `options`: [`struct@LinalgLdlSolve`], which has defaults
    ///
    /// PyTorch: `aten::linalg_ldl_solve`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let ld = Tensor::from_slice(&[4.0f32, 0.0, 0.5, 2.0], (2, 2), &machine)?;
    /// let pivots = Tensor::from_slice(&[1i32, 2], 2, &machine)?;
    /// let b = Tensor::from_slice(&[8.0f32, 8.0], (2, 1), &machine)?;
    /// let options = options::LinalgLdlSolve::default().hermitian(true);
    /// let y = ld.linalg_ldl_solve_with(&pivots, &b, options)?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_ldl_solve_with(
        &self,
        pivots: &Tensor,
        b: &Tensor,
        options: LinalgLdlSolve,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(pivots);
        given.push(b);
        call::one("linalg_ldl_solve", &given, options.attrs)
    }

    /// Returns the least squares solution of A X = B, with residuals, ranks and singular values.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    /// - `b`: \[..,m,k\] or \[..,m\]
    ///
    /// PyTorch: `aten::linalg_lstsq`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, 0.0, 1.0, 1.0, 1.0, 2.0], (3, 2), &machine)?;
    /// let b = Tensor::from_slice(&[1.0f32, 2.0, 6.0], (3, 1), &machine)?;
    /// let (x, _, rank, _) = a.linalg_lstsq(&b)?;
    /// assert_eq!(x.to_string(), "tensor([[0.5000],\n        [2.5000]])");
    /// assert_eq!(rank.item::<i64>()?, 2);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_lstsq(&self, b: &Tensor) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
        let mut given = call::given(self);
        given.push(b);
        let [a, b, c, d] = call::first_of("linalg_lstsq", &given, Attrs::new())?;
        Ok((a, b, c, d))
    }

    /// Returns the least squares solution of A X = B, with residuals, ranks and singular values.
    ///
    /// - `A`, this tensor: \[..,m,n\]; f32, f64, c64 or c128
    /// - `b`: \[..,m,k\] or \[..,m\]
    /// - `options`: [`struct@LinalgLstsq`], which has defaults
    ///
    /// PyTorch: `aten::linalg_lstsq`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, 0.0, 1.0, 1.0, 1.0, 2.0], (3, 2), &machine)?;
    /// let b = Tensor::from_slice(&[1.0f32, 2.0, 6.0], (3, 1), &machine)?;
    /// let (x, _, _, s) =
    ///     a.linalg_lstsq_with(&b, options::LinalgLstsq::default().driver("gelsd"))?;
    /// assert_eq!(x.to_string(), "tensor([[0.5000],\n        [2.5000]])");
    /// assert_eq!(s.to_string(), "tensor([2.6762, 0.9153])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_lstsq_with(
        &self,
        b: &Tensor,
        options: LinalgLstsq,
    ) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
        let mut given = call::given(self);
        given.push(b);
        let [a, b, c, d] = call::first_of("linalg_lstsq", &given, options.attrs)?;
        Ok((a, b, c, d))
    }

    /// Returns the solution X of A X = x, given the factor of A.
    ///
    /// - `x`, this tensor: \[...,n,k\]
    /// - `factor`: \[...,n,n\]
    ///
    /// PyTorch: `aten::cholesky_solve`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[4.0f32, 3.0], (2, 1), &machine)?;
    /// let factor = Tensor::from_slice(&[2.0f32, 0.0, 1.0, 1.0], (2, 2), &machine)?;
    /// assert_eq!(x.cholesky_solve(&factor)?.to_vec::<f32>()?, [0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky_solve(&self, factor: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(factor);
        call::one("cholesky_solve", &given, Attrs::new())
    }

    /// Returns the solution X of A X = x, given the factor of A.
    ///
    /// - `x`, this tensor: \[...,n,k\]
    /// - `factor`: \[...,n,n\]
    /// - `options`: [`struct@CholeskySolve`], which has defaults
    ///
    /// PyTorch: `aten::cholesky_solve`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[4.0f32, 4.0], (2, 1), &machine)?;
    /// let factor = Tensor::from_slice(&[2.0f32, 1.0, 0.0, 1.0], (2, 2), &machine)?;
    /// let y = x.cholesky_solve_with(&factor, options::CholeskySolve::default().upper(true))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky_solve_with(&self, factor: &Tensor, options: CholeskySolve) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(factor);
        call::one("cholesky_solve", &given, options.attrs)
    }

    /// Returns the inverse of A, given its factor.
    ///
    /// - `x`, this tensor: the factor, \[...,n,n\]
    ///
    /// PyTorch: `aten::cholesky_inverse`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 0.0, 0.0, 1.0], (2, 2), &machine)?;
    /// assert_eq!(x.cholesky_inverse()?.to_vec::<f32>()?, [0.25, -0.0, -0.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky_inverse(&self) -> Result<Tensor> {
        call::one("cholesky_inverse", &[self], Attrs::new())
    }

    /// Returns the inverse of A, given its factor.
    ///
    /// - `x`, this tensor: the factor, \[...,n,n\]
    /// - `options`: [`struct@CholeskyInverse`], which has defaults
    ///
    /// PyTorch: `aten::cholesky_inverse`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 0.0, 0.0, 1.0], (2, 2), &machine)?;
    /// let y = x.cholesky_inverse_with(options::CholeskyInverse::default().upper(true))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.25, -0.0, -0.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky_inverse_with(&self, options: CholeskyInverse) -> Result<Tensor> {
        call::one("cholesky_inverse", &[self], options.attrs)
    }

    /// Returns the pseudo-inverse.
    ///
    /// - `x`, this tensor: \[...,n,m\]
    /// - `options`: [`struct@LinalgPinv`], which has defaults
    ///
    /// PyTorch: `aten::linalg_pinv`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 3.0], (2, 2), &machine)?;
    /// let y = x.linalg_pinv(Default::default())?;
    /// assert_eq!(y.to_string(), "tensor([[1.0000, 0.0000],\n        [0.0000, 0.3333]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_pinv(&self, options: LinalgPinv<'_>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        call::optional(&[options.atol, options.rtol], &mut given, &mut attrs);
        call::one("linalg_pinv", &given, attrs)
    }

    /// Returns the square root of a symmetric matrix.
    ///
    /// - `x`, this tensor: \[...,n,n\]
    ///
    /// PyTorch: `aten::linalg_matrix_sqrth`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 0.0, 0.0, 5.0], (2, 2), &machine)?;
    /// let y = x.linalg_matrix_sqrth()?;
    /// assert_eq!(y.to_string(), "tensor([[1.4142, 0.0000],\n        [0.0000, 2.2361]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_matrix_sqrth(&self) -> Result<Tensor> {
        call::one("linalg_matrix_sqrth", &[self], Attrs::new())
    }

    /// Returns the cross products of vectors.
    ///
    /// - `x`, this tensor: length 3 along the dimension
    /// - `y`: a shape that broadcasts with x
    /// - `dim`: the dimension of the vectors; default -1
    ///
    /// PyTorch: `aten::linalg_cross`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[0.0f32, 1.0, 0.0], 3, &machine)?;
    /// assert_eq!(x.linalg_cross(&y, 0)?.to_vec::<f32>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_cross(&self, y: &Tensor, dim: impl Int) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(y);
        attrs.set("dim", dim.to_int());
        call::one("linalg_cross", &given, attrs)
    }
}
