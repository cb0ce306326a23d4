//! Kernels of linear algebra: batches of matrices, each computed by one thread in f64.

mod factors;
mod solutions;
mod spectral;

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use millstream_linalg::{Complex, Matrix, Number};

use super::element::Element;
use super::strided::Sequence;
use super::{Kernel, Written};
use crate::context::{KernelCtx, RawTensor};

/// An element of a matrix: f64, or a complex number of f64.
trait Entry: Number + Element {}

impl Entry for f64 {}
impl Entry for Complex<f64> {}

/// Returns the kernel that computes in complex numbers if the first operand is complex.
macro_rules! by_entry {
    ($module:ident, $function:ident) => {
        |ctx| match ctx.operand(0)?.dtype.is_complex() {
            true => $module::$function::<Complex<f64>>(ctx),
            false => $module::$function::<f64>(ctx),
        }
    };
}

/// The kernels, with the operands that they write.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[
    (("linalg_cholesky_ex", by_entry!(factors, cholesky)), Written::Last(2)),
    (("linalg_lu_factor_ex", by_entry!(factors, lu_factors)), Written::Last(3)),
    (("lu_unpack", by_entry!(factors, unpack)), Written::Last(3)),
    (("linalg_lu_solve", by_entry!(solutions, lu_solve)), Written::Last(1)),
    (("linalg_solve_triangular", by_entry!(solutions, solve_triangular)), Written::Last(1)),
    (("linalg_inv_ex", by_entry!(solutions, inverse)), Written::Last(2)),
    (("linalg_qr", by_entry!(factors, qr)), Written::Last(2)),
    (("geqrf", by_entry!(factors, reflections)), Written::Last(2)),
    (("linalg_householder_product", by_entry!(factors, householder_product)), Written::Last(1)),
    (("ormqr", by_entry!(factors, apply_q)), Written::Last(1)),
    (("_linalg_svd", by_entry!(spectral, singular)), Written::Last(3)),
    (("_linalg_eigh", by_entry!(spectral, hermitian_eigen)), Written::Last(2)),
    (("linalg_eig", by_entry!(spectral, eigen)), Written::Last(2)),
    (("linalg_matrix_exp", by_entry!(solutions, exponential)), Written::Last(1)),
    (("linalg_ldl_factor_ex", by_entry!(factors, symmetric)), Written::Last(3)),
    (("linalg_ldl_solve", by_entry!(solutions, symmetric_solve)), Written::Last(1)),
    (("linalg_lstsq", by_entry!(spectral, least_squares)), Written::Last(4)),
];

/// The matrices of an operand, or the vectors, one of each batch.
struct Batches {
    elements: Sequence,
    shape: [usize; 2],
    /// The number of the matrix of each batch, if not all batches have their own.
    numbers: Option<Vec<usize>>,
}

impl Batches {
    /// Reads matrices.
    fn matrices(ctx: &KernelCtx<'_>, operand: usize) -> Result<Batches> {
        let x = ctx.operand(operand)?;
        ensure!(x.shape.len() >= 2, "{x:?}: expected matrices: schema and kernel disagree");
        let rank = x.shape.len();
        Ok(Batches::of(x, [x.shape[rank - 2], x.shape[rank - 1]]))
    }

    /// Reads vectors, as matrices of one column.
    fn vectors(ctx: &KernelCtx<'_>, operand: usize) -> Result<Batches> {
        let x = ctx.operand(operand)?;
        ensure!(!x.shape.is_empty(), "{x:?}: expected vectors: schema and kernel disagree");
        Ok(Batches::of(x, [x.shape[x.shape.len() - 1], 1]))
    }

    /// Reads the operand as scalars, one of each batch.
    fn scalars(ctx: &KernelCtx<'_>, operand: usize) -> Result<Batches> {
        Ok(Batches::of(ctx.operand(operand)?, [1, 1]))
    }

    fn of(x: RawTensor<'_>, shape: [usize; 2]) -> Batches {
        // SAFETY: an operand of the call; each batch of an output is stored by one thread.
        Batches { elements: unsafe { Sequence::new(x) }, shape, numbers: None }
    }

    /// Assigns matrices of these batches to the batches of a broadcast shape.
    fn broadcast(mut self, own: &[usize], all: &[usize]) -> Batches {
        if own == all {
            return self;
        }
        let count: usize = all.iter().product();
        let numbers = (0..count).map(|number| {
            let (mut rest, mut at, mut step) = (number, 0, 1);
            for (k, &length) in all.iter().enumerate().rev() {
                let index = rest % length;
                rest /= length;
                if let Some(own_at) = (k + own.len()).checked_sub(all.len()) {
                    at += if own[own_at] == 1 { 0 } else { index * step };
                    step *= own[own_at];
                }
            }
            at
        });
        self.numbers = Some(numbers.collect());
        self
    }

    fn load<T: Element>(&self, batch: usize) -> Vec<T> {
        let count = self.shape[0] * self.shape[1];
        let number = self.numbers.as_ref().map_or(batch, |numbers| numbers[batch]);
        let mut values = vec![<T as Element>::ZERO; count];
        self.elements.load(number * count, &mut values);
        values
    }

    fn matrix<T: Entry>(&self, batch: usize) -> Matrix<T> {
        Matrix::from_rows(self.shape[0], self.shape[1], self.load(batch))
    }

    fn pivots(&self, batch: usize) -> Vec<i32> {
        self.load(batch)
    }

    fn store<T: Entry>(&self, batch: usize, matrix: &Matrix<T>) {
        self.store_all(batch, matrix.elements());
    }

    fn store_all<T: Element>(&self, batch: usize, values: &[T]) {
        let count = self.shape[0] * self.shape[1];
        assert!(values.len() == count, "a result of another length: schema and kernel disagree");
        self.elements.store(batch * count, values);
    }
}

/// Returns the lengths of the batches of an operand.
fn batch_of(ctx: &KernelCtx<'_>, operand: usize) -> Result<Vec<usize>> {
    let x = ctx.operand(operand)?;
    let rank = x.shape.len();
    ensure!(rank >= 2, "{x:?}: expected matrices: schema and kernel disagree");
    Ok(x.shape[..rank - 2].to_vec())
}

/// Computes all batches.
///
/// # Errors
/// The error of the first batch that fails.
fn for_batches(
    ctx: &KernelCtx<'_>,
    batch: &[usize],
    f: impl Fn(usize) -> Result<()> + Sync + Send,
) -> Result<()> {
    let failed: Mutex<Option<(usize, anyhow::Error)>> = Mutex::new(None);
    ctx.for_each(batch.iter().product(), |at| {
        if let Err(error) = f(at) {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.as_ref().is_none_or(|(earlier, _)| at < *earlier) {
                *failed = Some((at, error));
            }
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some((at, error)) => Err(error.context(format!("matrix {at}"))),
    }
}

/// Returns a flag among the arguments.
fn flag(ctx: &KernelCtx<'_>, name: &str, default: bool) -> Result<bool> {
    Ok(ctx.attrs().bool(name)?.unwrap_or(default))
}
