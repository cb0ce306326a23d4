//! The kernel of `unique`: distinct elements or slices.

use std::cmp::Ordering;

use anyhow::{Result, ensure};

use super::element::compute;
use super::sort::Compare;
use super::strided::{Sequence, load_all, store_all};
use super::{Kernel, Written};
use crate::context::KernelCtx;

/// The kernel.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[(("unique", unique), Written::After(1))];

/// Compares two slices, element by element.
fn compare<T: Compare>(a: &[T], b: &[T]) -> Ordering {
    let different = a.iter().zip(b).map(|(x, y)| x.compare(*y));
    different.fold(Ordering::Equal, Ordering::then)
}

/// `unique(x; dim, consecutive, return_inverse, return_counts)`.
fn unique(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, values, length) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let (inverse, counts) = (ctx.operand(3)?, ctx.operand(4)?);
    let flag = |name| Ok::<bool, anyhow::Error>(ctx.attrs().bool(name)?.unwrap_or(false));
    let count = values.shape[0];
    let width = x.numel().checked_div(count).unwrap_or(0);
    let is_counted = flag("return_counts")?;
    ensure!(ctx.operands() == if is_counted { 6 } else { 5 }, "schema and kernel disagree");
    let consecutive = flag("consecutive")?;
    // SAFETY: outputs of the call, stored by this thread alone.
    let (to_values, to_counts) = unsafe { (Sequence::new(values), Sequence::new(counts)) };
    compute!(x.dtype, T => {
        let elements: Vec<T> = load_all::<T>(x).into_iter().map(|v| v.ordered(x.dtype)).collect();
        let slice = |at: usize| &elements[at * width..(at + 1) * width];
        let mut order: Vec<usize> = (0..count).collect();
        if !consecutive {
            order.sort_by(|&a, &b| compare(slice(a), slice(b)));
        }
        let (mut kept, mut counted) = (Vec::new(), Vec::<i64>::new());
        let mut positions = vec![0i64; count];
        let mut before: Option<usize> = None;
        for at in order {
            let is_same = before.is_some_and(|before| slice(before) == slice(at));
            if !is_same {
                kept.extend(slice(at).iter().map(|v| v.ordered(x.dtype)));
                counted.push(0);
            }
            before = Some(at);
            positions[at] = counted.len() as i64 - 1;
            if let Some(last) = counted.last_mut() {
                *last += 1;
            }
        }
        let found = counted.len();
        to_values.store(0, &kept);
        store_all(length, &[found as i64])?;
        if flag("return_inverse")? {
            store_all(inverse, &positions)?;
        }
        if is_counted {
            to_counts.store(0, &counted);
            store_all(ctx.operand(5)?, &[found as i64])?;
        }
    });
    Ok(())
}
