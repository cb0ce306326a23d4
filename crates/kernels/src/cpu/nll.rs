//! Kernels of the ops in `millstream_ops::nll`.

use anyhow::{Result, ensure};
use millstream_ops::loss::LossReduction;

use super::Kernel;
use super::element::Element;
use super::optional_inputs::{operands, required};
use super::pairwise::pairwise_sum;
use super::real::{Real, reals};
use super::strided::{BLOCK, Sequence, load_all};
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("nll_loss_forward", forward),
    ("nll_loss_backward", backward),
    ("nll_loss2d_forward", forward),
    ("nll_loss2d_backward", backward),
];

/// The offsets and classes of the elements of x that the targets select.
struct Targets {
    /// For each target, the element and the class; `None` if the target is ignored.
    selected: Vec<Option<(usize, usize)>>,
}

impl Targets {
    /// # Errors
    /// Fails if a class is out of range.
    fn new(ctx: &KernelCtx<'_>, x: &RawTensor<'_>, target: RawTensor<'_>) -> Result<Targets> {
        let ignored = ctx.attrs().int("ignore_index")?.unwrap_or(-100);
        let classes = x.shape[usize::from(x.shape.len() > 1)];
        let pixels = x.shape.iter().skip(2).product::<usize>().max(1);
        let numbers: Vec<i64> = load_all(target);
        let pick = |(at, number): (usize, i64)| {
            if number == ignored {
                return Ok(None);
            }
            let class = usize::try_from(number).ok().filter(|class| *class < classes);
            match class {
                Some(class) => {
                    Ok(Some(((at / pixels * classes + class) * pixels + at % pixels, class)))
                }
                None => anyhow::bail!(
                    "target: class {number} at {at}: expected 0 to {}",
                    classes as i64 - 1
                ),
            }
        };
        let selected = numbers.into_iter().enumerate().map(pick).collect::<Result<_>>()?;
        Ok(Targets { selected })
    }
}

/// `nll_loss_forward(x, target, weight?; reduction, ignore_index)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, target, weight], results) = operands::<3>(ctx, 2)?;
    let (x, target, out) = (required(x)?, required(target)?, results[0]);
    let reduction = LossReduction::of(ctx.attrs())?;
    let each = reduction == LossReduction::None && x.shape.len() > 1;
    let agree = out.numel() == if each { target.numel() } else { 1 };
    ensure!(agree, "{out:?}: schema and kernel disagree");
    reals!(x.dtype, T => {
        // SAFETY: operands of the call; only its outputs are written.
        let (targets, weights, x, out, total) = unsafe {
            (
                Targets::new(ctx, &x, target)?,
                weight.map(load_all::<T>),
                Sequence::new(x),
                Sequence::new(out),
                Sequence::new(results[1]),
            )
        };
        let weight = |class: usize| weights.as_ref().map_or(T::ONE, |w| w[class]);
        let loss = |selected: &Option<(usize, usize)>| {
            selected.map_or(T::ZERO, |(at, class)| {
                let mut value = [T::ZERO];
                x.load(at, &mut value);
                -value[0] * weight(class)
            })
        };
        let losses: Vec<T> = targets.selected.iter().map(loss).collect();
        if each {
            out.store(0, &losses);
            total.store(0, &[T::ZERO]);
            return Ok(());
        }
        let class_weight =
            |at: &Option<(usize, usize)>| at.map_or(T::ZERO, |(_, class)| weight(class));
        let all: Vec<T> = targets.selected.iter().map(class_weight).collect();
        let (sum, all) = (pairwise_sum(&losses), pairwise_sum(&all));
        out.store(0, &[if reduction == LossReduction::Mean { sum / all } else { sum }]);
        total.store(0, &[all]);
    });
    Ok(())
}

/// `nll_loss_backward(grad, x, target, weight?, total_weight; reduction, ignore_index)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, x, target, weight, total], results) = operands::<5>(ctx, 1)?;
    let (grad, x, target, total) =
        (required(grad)?, required(x)?, required(target)?, required(total)?);
    let count = results[0].numel();
    ensure!(count == x.numel(), "{:?}: schema and kernel disagree", results[0]);
    let each = grad.numel() > 1;
    let mean = LossReduction::of(ctx.attrs())? == LossReduction::Mean;
    reals!(x.dtype, T => {
        let mut all = [T::ONE];
        // SAFETY: operands of the call; only its output is written.
        let (targets, weights, grad, out) = unsafe {
            if mean {
                Sequence::new(total).load(0, &mut all);
            }
            (
                Targets::new(ctx, &x, target)?,
                weight.map(load_all::<T>),
                Sequence::new(grad),
                Sequence::new(results[0]),
            )
        };
        ctx.for_each(count.div_ceil(BLOCK), |block| {
            let from = block * BLOCK;
            out.store(from, &vec![T::ZERO; BLOCK.min(count - from)]);
        });
        for (number, selected) in targets.selected.iter().enumerate() {
            let Some((at, class)) = *selected else { continue };
            let mut value = [T::ZERO];
            grad.load(if each { number } else { 0 }, &mut value);
            let weight = weights.as_ref().map_or(T::ONE, |w| w[class]);
            out.store(at, &[-weight * value[0] / all[0]]);
        }
    });
    Ok(())
}
