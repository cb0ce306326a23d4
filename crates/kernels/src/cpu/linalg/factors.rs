//! Factors: Cholesky, LU, QR, and those of symmetric matrices.

use anyhow::{Result, bail};
use millstream_linalg::{
    Matrix, Number, apply_q as product_with_q, cholesky as cholesky_factor,
    householder_product as columns_of_q, lu_factors as factors_of, qr_factors, swap_rows,
    symmetric_factors,
};

use super::{Batches, Entry, batch_of, flag, for_batches};
use crate::context::KernelCtx;

/// Fails if `info` is not 0 and errors are to be checked.
pub(super) fn check_info(checks: bool, info: i32) -> Result<()> {
    if info != 0 && checks {
        bail!("the factorization fails at step {info}");
    }
    Ok(())
}

/// `linalg_cholesky_ex(A; upper, check_errors)`.
pub(super) fn cholesky<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let upper = flag(ctx, "upper", false)?;
    let (a, l) = (Batches::matrices(ctx, 0)?, Batches::matrices(ctx, 1)?);
    let infos = Batches::scalars(ctx, 2)?;
    let checks = flag(ctx, "check_errors", false)?;
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let given = a.matrix::<T>(at);
        let (factor, info) = cholesky_factor(&if upper { given.adjoint() } else { given });
        l.store(at, &if upper { factor.adjoint() } else { factor });
        infos.store_all(at, &[info]);
        check_info(checks, info)
    })
}

/// `linalg_lu_factor_ex(A; pivot, check_errors)`.
pub(super) fn lu_factors<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (a, packed) = (Batches::matrices(ctx, 0)?, Batches::matrices(ctx, 1)?);
    let (pivots, infos) = (Batches::vectors(ctx, 2)?, Batches::scalars(ctx, 3)?);
    let checks = flag(ctx, "check_errors", false)?;
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let factors = factors_of(a.matrix::<T>(at));
        packed.store(at, &factors.packed);
        pivots.store_all(at, &factors.pivots);
        infos.store_all(at, &[factors.singular_at]);
        check_info(checks, factors.singular_at)
    })
}

/// `linalg_ldl_factor_ex(A; hermitian, check_errors)`.
pub(super) fn symmetric<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let hermitian = flag(ctx, "hermitian", false)?;
    let (a, packed) = (Batches::matrices(ctx, 0)?, Batches::matrices(ctx, 1)?);
    let (pivots, infos) = (Batches::vectors(ctx, 2)?, Batches::scalars(ctx, 3)?);
    let checks = flag(ctx, "check_errors", false)?;
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let factors = symmetric_factors(a.matrix::<T>(at), hermitian);
        packed.store(at, &factors.packed);
        pivots.store_all(at, &factors.pivots);
        infos.store_all(at, &[factors.singular_at]);
        check_info(checks, factors.singular_at)
    })
}

/// `lu_unpack(LU, pivots; unpack_data, unpack_pivots)`.
pub(super) fn unpack<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (data, permutation) = (flag(ctx, "unpack_data", true)?, flag(ctx, "unpack_pivots", true)?);
    let (packed, pivots) = (Batches::matrices(ctx, 0)?, Batches::vectors(ctx, 1)?);
    let [rows, columns] = packed.shape;
    let count = rows.min(columns);
    let outputs = match (permutation, data) {
        (true, true) => vec![2, 3, 4],
        (true, false) => vec![2],
        (false, true) => vec![3, 4],
        (false, false) => Vec::new(),
    };
    let outputs = outputs.into_iter().map(|k| Ok((k, Batches::matrices(ctx, k)?)));
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let given = packed.matrix::<T>(at);
        for (operand, to) in &outputs {
            let result = match operand {
                2 => {
                    let mut permutation = Matrix::<T>::identity(rows);
                    swap_rows(&mut permutation, &pivots.pivots(at), true);
                    permutation
                }
                3 => Matrix::from_fn(rows, count, |i, j| match i.cmp(&j) {
                    std::cmp::Ordering::Greater => given[(i, j)],
                    std::cmp::Ordering::Equal => <T as Number>::ONE,
                    std::cmp::Ordering::Less => <T as Number>::ZERO,
                }),
                _ => Matrix::from_fn(count, columns, |i, j| {
                    if i <= j { given[(i, j)] } else { <T as Number>::ZERO }
                }),
            };
            to.store(at, &result);
        }
        Ok(())
    })
}

/// `geqrf(A)`.
pub(super) fn reflections<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (a, packed) = (Batches::matrices(ctx, 0)?, Batches::matrices(ctx, 1)?);
    let factors = Batches::vectors(ctx, 2)?;
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let (result, tau) = qr_factors(a.matrix::<T>(at));
        packed.store(at, &result);
        factors.store_all(at, &tau);
        Ok(())
    })
}

/// `linalg_qr(A; mode)`.
pub(super) fn qr<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let mode = millstream_ops::args::choice(ctx.attrs(), "mode", &["reduced", "complete", "r"])?;
    let (a, r) = (Batches::matrices(ctx, 0)?, Batches::matrices(ctx, 2)?);
    let q = if mode == Some("r") { None } else { Some(Batches::matrices(ctx, 1)?) };
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let (packed, tau) = qr_factors(a.matrix::<T>(at));
        let [rows, columns] = r.shape;
        let upper =
            |i, j| if i <= j && i < packed.rows() { packed[(i, j)] } else { <T as Number>::ZERO };
        r.store(at, &Matrix::from_fn(rows, columns, upper));
        if let Some(q) = &q {
            q.store(at, &columns_of_q(&packed, &tau, q.shape[1]));
        }
        Ok(())
    })
}

/// `linalg_householder_product(A, tau)`.
pub(super) fn householder_product<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (a, tau) = (Batches::matrices(ctx, 0)?, Batches::vectors(ctx, 1)?);
    let out = Batches::matrices(ctx, 2)?;
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let packed = a.matrix::<T>(at);
        out.store(at, &columns_of_q(&packed, &tau.load::<T>(at), packed.columns()));
        Ok(())
    })
}

/// `ormqr(A, tau, other; left, transpose)`.
pub(super) fn apply_q<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (left, adjoint) = (flag(ctx, "left", true)?, flag(ctx, "transpose", false)?);
    let (a, tau) = (Batches::matrices(ctx, 0)?, Batches::vectors(ctx, 1)?);
    let (other, out) = (Batches::matrices(ctx, 2)?, Batches::matrices(ctx, 3)?);
    for_batches(ctx, &batch_of(ctx, 2)?, |at| {
        let (packed, tau, other) = (a.matrix::<T>(at), tau.load::<T>(at), other.matrix::<T>(at));
        // B Q is the adjoint of Qᴴ Bᴴ.
        out.store(
            at,
            &match left {
                true => product_with_q(&packed, &tau, other, adjoint),
                false => product_with_q(&packed, &tau, other.adjoint(), !adjoint).adjoint(),
            },
        );
        Ok(())
    })
}
