//! Singular values, eigenvalues, and least squares.

use anyhow::Result;
use millstream_linalg::{Matrix, Number};
use millstream_ops::args::choice;
use millstream_ops::linalg::has_vectors;
use millstream_types::DType;

use super::{Batches, Entry, batch_of, flag, for_batches};
use crate::context::KernelCtx;

/// `_linalg_svd(A; full_matrices, compute_uv, driver)`.
pub(super) fn singular<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (full, vectors) = (flag(ctx, "full_matrices", false)?, flag(ctx, "compute_uv", true)?);
    let (a, values) = (Batches::matrices(ctx, 0)?, Batches::vectors(ctx, 2)?);
    let sides = match vectors {
        true => Some((Batches::matrices(ctx, 1)?, Batches::matrices(ctx, 3)?)),
        false => None,
    };
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let found = T::singular(&a.matrix::<T>(at), full)?;
        values.store_all(at, &found.values);
        if let Some((left, right)) = &sides {
            left.store(at, &found.left);
            right.store(at, &found.right.adjoint());
        }
        Ok(())
    })
}

/// `_linalg_eigh(A; UPLO, compute_v)`.
pub(super) fn hermitian_eigen<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let upper = choice(ctx.attrs(), "UPLO", &["L", "U", "l", "u"])?;
    let upper = matches!(upper, Some("U" | "u"));
    let (a, values) = (Batches::matrices(ctx, 0)?, Batches::vectors(ctx, 1)?);
    let vectors = match flag(ctx, "compute_v", true)? {
        true => Some(Batches::matrices(ctx, 2)?),
        false => None,
    };
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let given = a.matrix::<T>(at);
        let (found, all) = T::hermitian_eigen(&if upper { given.adjoint() } else { given })?;
        values.store_all(at, &found);
        if let Some(vectors) = &vectors {
            vectors.store(at, &all);
        }
        Ok(())
    })
}

/// `linalg_lstsq(A, B; rcond, driver)`: the solution of least length, by singular values.
pub(super) fn least_squares<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, y) = (ctx.operand(0)?, ctx.operand(1)?);
    let own = batch_of(ctx, 0)?;
    let vectors = has_vectors(x.shape, y.shape);
    let kept = y.shape.len() - if vectors { 1 } else { 2 };
    let of_b = y.shape[..kept].to_vec();
    let out = ctx.operand(2)?;
    let all = out.shape[..out.shape.len() - if vectors { 1 } else { 2 }].to_vec();
    let read = |operand| match vectors {
        true => Batches::vectors(ctx, operand),
        false => Batches::matrices(ctx, operand),
    };
    let a = Batches::matrices(ctx, 0)?.broadcast(&own, &all);
    let (b, out) = (read(1)?.broadcast(&of_b, &all), read(2)?);
    let [rows, columns] = a.shape;
    let driver = choice(ctx.attrs(), "driver", &["gelsy", "gels", "gelsd", "gelss"])?;
    let epsilon = if x.dtype.part() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let least = ctx.attrs().float("rcond")?.unwrap_or(epsilon * rows.max(columns) as f64);
    let residuals = match rows > columns && driver.is_some_and(|d| d != "gelsy") {
        true if vectors => Some(Batches::scalars(ctx, 3)?),
        true => Some(Batches::vectors(ctx, 3)?),
        false => None,
    };
    let ranks = if driver == Some("gels") { None } else { Some(Batches::scalars(ctx, 4)?) };
    let values = match driver {
        Some("gelsd" | "gelss") => Some(Batches::vectors(ctx, 5)?),
        _ => None,
    };
    for_batches(ctx, &all, |at| {
        let (given, target) = (a.matrix::<T>(at), b.matrix::<T>(at));
        let found = T::singular(&given, false)?;
        let limit = least * found.values.first().copied().unwrap_or(0.0);
        let rank = found.values.iter().filter(|v| **v > limit).count();
        let shares = found.left.adjoint().times(&target);
        let scaled = Matrix::from_fn(found.values.len(), target.columns(), |i, j| {
            if i < rank { shares[(i, j)] / T::real(found.values[i]) } else { <T as Number>::ZERO }
        });
        let solution = found.right.times(&scaled);
        if let Some(residuals) = &residuals {
            let image = given.times(&solution);
            let column =
                |j| (0..rows).map(|i| (image[(i, j)] - target[(i, j)]).size().powi(2)).sum();
            residuals.store_all(at, &(0..target.columns()).map(column).collect::<Vec<f64>>());
        }
        out.store(at, &solution);
        // The results of A have its own batches.
        let number = a.numbers.as_ref().map_or(at, |numbers| numbers[at]);
        let is_first =
            a.numbers.as_ref().is_none_or(|n| n.iter().position(|k| *k == number) == Some(at));
        if let Some(ranks) = ranks.as_ref().filter(|_| is_first) {
            ranks.store_all(number, &[rank as i64]);
        }
        if let Some(values) = values.as_ref().filter(|_| is_first) {
            values.store_all(number, &found.values);
        }
        Ok(())
    })
}

/// `linalg_eig(A; compute_v)`.
pub(super) fn eigen<T: Entry>(ctx: &KernelCtx<'_>) -> Result<()> {
    let (a, values) = (Batches::matrices(ctx, 0)?, Batches::vectors(ctx, 1)?);
    let vectors = match flag(ctx, "compute_v", true)? {
        true => Some(Batches::matrices(ctx, 2)?),
        false => None,
    };
    for_batches(ctx, &batch_of(ctx, 0)?, |at| {
        let found = T::eigen(&a.matrix::<T>(at))?;
        values.store_all(at, &found.values);
        if let Some(vectors) = &vectors {
            vectors.store(at, &found.vectors);
        }
        Ok(())
    })
}
