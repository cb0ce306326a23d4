//! Kernels of the ops in `millstream_ops::embedding`.

use anyhow::{Result, ensure};

use super::Kernel;
use super::element::{Element, compute};
use super::indexed::in_ranges;
use super::real::{Real, reals};
use super::strided::{Sequence, load_all};
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] =
    &[("embedding", embedding), ("embedding_dense_backward", backward)];

/// Returns the row numbers after checking them.
///
/// # Errors
/// Fails if a row number is out of range.
fn rows(indices: RawTensor<'_>, rows: usize) -> Result<Vec<usize>> {
    let numbers: Vec<i64> = load_all(indices);
    let check = |(at, number): (usize, i64)| match usize::try_from(number) {
        Ok(row) if row < rows => Ok(row),
        _ => anyhow::bail!("indices: {number} at {at}: expected 0 to {}", rows as i64 - 1),
    };
    numbers.into_iter().enumerate().map(check).collect()
}

/// `embedding(weight, indices; ..)`. Elements are copied through the type of computations, which
/// holds every value.
fn embedding(ctx: &KernelCtx<'_>) -> Result<()> {
    let (weight, indices, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let &[count, columns] = weight.shape else {
        anyhow::bail!("{weight:?}: schema and kernel disagree");
    };
    ensure!(out.numel() == indices.numel() * columns, "{out:?}: schema and kernel disagree");
    // SAFETY: operands of the call; only its output is written, and each row is
    // stored by one thread.
    let (rows, from, to) =
        unsafe { (rows(indices, count)?, Sequence::new(weight), Sequence::new(out)) };
    compute!(out.dtype, T => {
        in_ranges(ctx, rows.len(), columns, |range| {
            copy_rows::<T>(&from, &to, columns, &rows[range.clone()], range.start);
        });
    });
    Ok(())
}

/// Copies rows of a table to the result, from its row `first` on.
fn copy_rows<T: Element>(
    from: &Sequence,
    to: &Sequence,
    columns: usize,
    rows: &[usize],
    first: usize,
) {
    let (mut buffer, mut result) = (Vec::new(), Vec::new());
    for (at, row) in (first..).zip(rows) {
        // SAFETY: the table is an operand that is only read, and one task stores these rows.
        unsafe {
            let row = from.elements::<T>(row * columns, columns, &mut buffer);
            to.compute(at * columns, columns, &mut result, |to| to.copy_from_slice(row));
        }
    }
}

/// `embedding_dense_backward(grad, indices; num_weights, padding_idx, scale_grad_by_freq)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, indices, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let &[count, columns] = out.shape else {
        anyhow::bail!("{out:?}: schema and kernel disagree");
    };
    ensure!(grad.numel() == indices.numel() * columns, "{grad:?}: schema and kernel disagree");
    let padding = ctx.attrs().int("padding_idx")?.unwrap_or(-1);
    let scale = ctx.attrs().bool("scale_grad_by_freq")?.unwrap_or(false);
    let rows = rows(indices, count)?;
    // Sorted by row, then by position: each row finds its gradients in the order of the indices.
    let mut order: Vec<(usize, usize)> = rows.into_iter().zip(0..).collect();
    order.retain(|&(row, _)| row as i64 != padding);
    order.sort_unstable();
    reals!(grad.dtype, T => {
        // SAFETY: operands of the call; only its output is written, and each row is
        // stored by one thread.
        let (from, to) = unsafe { (Sequence::new(grad), Sequence::new(out)) };
        in_ranges(ctx, count, columns, |range| {
            let mut next = order.partition_point(|&(row, _)| row < range.start);
            let (mut sum, mut one) = (vec![T::ZERO; columns], vec![T::ZERO; columns]);
            for row in range {
                let taken = order[next..].iter().take_while(|(r, _)| *r == row).count();
                let factor = if scale { T::ONE / taken as T } else { T::ONE };
                sum.fill(T::ZERO);
                for &(_, position) in &order[next..next + taken] {
                    from.load(position * columns, &mut one);
                    for (sum, &v) in sum.iter_mut().zip(&one) {
                        *sum += v * factor;
                    }
                }
                next += taken;
                to.store(row * columns, &sum);
            }
        });
    });
    Ok(())
}
