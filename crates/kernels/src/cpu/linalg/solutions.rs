//! Solutions of linear equations, inverses, and the exponential.

use anyhow::Result;
use millstream_linalg::{
    Matrix, Triangle, exponential as exponential_of, lu_factors, lu_solve as solve_by_lu,
    solve_triangular as solve_by_triangle, symmetric_solve as solve_by_symmetric,
};

use super::factors::check_info;
use super::{Batches, Entry, batch_of, flag, for_batches};
use crate::context::KernelCtx;

/// `linalg_lu_solve(LU, pivots, B; left, adjoint)`.
pub(super) fn lu_solve<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (left, adjoint) = (flag(ctx, "left", true)?, flag(ctx, "adjoint", false)?);
    let (own, of_b, all) = (batch_of(ctx, 0)?, batch_of(ctx, 2)?, batch_of(ctx, 3)?);
    let packed = Batches::matrices(ctx, 0)?.broadcast(&own, &all);
    let pivots = Batches::vectors(ctx, 1)?.broadcast(&own, &all);
    let b = Batches::matrices(ctx, 2)?.broadcast(&of_b, &all);
    let out = Batches::matrices(ctx, 3)?;
    for_batches(ctx, &all, |at| {
        let (packed, pivots, b) = (packed.matrix::<T>(at), pivots.pivots(at), b.matrix::<T>(at));
        // X A = B is the adjoint of Aᴴ Xᴴ = Bᴴ.
        out.store(
            at,
            &match left {
                true => solve_by_lu(&packed, &pivots, b, adjoint),
                false => solve_by_lu(&packed, &pivots, b.adjoint(), !adjoint).adjoint(),
            },
        );
        Ok(())
    })
}

/// `linalg_ldl_solve(LD, pivots, B; hermitian)`.
pub(super) fn symmetric_solve<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let hermitian = flag(ctx, "hermitian", false)?;
    let (own, of_b, all) = (batch_of(ctx, 0)?, batch_of(ctx, 2)?, batch_of(ctx, 3)?);
    let packed = Batches::matrices(ctx, 0)?.broadcast(&own, &all);
    let pivots = Batches::vectors(ctx, 1)?.broadcast(&own, &all);
    let b = Batches::matrices(ctx, 2)?.broadcast(&of_b, &all);
    let out = Batches::matrices(ctx, 3)?;
    for_batches(ctx, &all, |at| {
        let pivots = pivots.pivots(at);
        out.store(
            at,
            &solve_by_symmetric(&packed.matrix::<T>(at), &pivots, b.matrix::<T>(at), hermitian),
        );
        Ok(())
    })
}

/// `linalg_solve_triangular(A, B; upper, left, unitriangular)`.
pub(super) fn solve_triangular<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let left = flag(ctx, "left", true)?;
    let triangle = Triangle {
        is_upper: flag(ctx, "upper", false)?,
        has_unit_diagonal: flag(ctx, "unitriangular", false)?,
    };
    let (own, of_b, all) = (batch_of(ctx, 0)?, batch_of(ctx, 1)?, batch_of(ctx, 2)?);
    let a = Batches::matrices(ctx, 0)?.broadcast(&own, &all);
    let b = Batches::matrices(ctx, 1)?.broadcast(&of_b, &all);
    let out = Batches::matrices(ctx, 2)?;
    for_batches(ctx, &all, |at| {
        let (a, b) = (a.matrix::<T>(at), b.matrix::<T>(at));
        out.store(
            at,
            &match left {
                true => solve_by_triangle(&a, triangle, b),
                false => {
                    let turned = Triangle { is_upper: !triangle.is_upper, ..triangle };
                    solve_by_triangle(&a.transpose(), turned, b.transpose()).transpose()
                }
            },
        );
        Ok(())
    })
}

/// `linalg_inv_ex(A; check_errors)`.
pub(super) fn inverse<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (a, out) = (Batches::matrices(ctx, 0)?, Batches::matrices(ctx, 1)?);
    let infos = Batches::scalars(ctx, 2)?;
    let checks = flag(ctx, "check_errors", false)?;
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let factors = lu_factors(a.matrix::<T>(at));
        let identity = Matrix::<T>::identity(a.shape[0]);
        out.store(at, &solve_by_lu(&factors.packed, &factors.pivots, identity, false));
        infos.store_all(at, &[factors.singular_at]);
        check_info(checks, factors.singular_at)
    })
}

/// `linalg_matrix_exp(A)`.
pub(super) fn exponential<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (a, out) = (Batches::matrices(ctx, 0)?, Batches::matrices(ctx, 1)?);
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        out.store(at, &exponential_of(&a.matrix::<T>(at)));
        Ok(())
    })
}
