//! Kernels of the ops in `millstream_ops::loss`: a function of each element, stored or summed
//! pairwise in blocks of a fixed size.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};
use millstream_ops::broadcast::broadcast;
use millstream_ops::loss::LossReduction;
use millstream_ops::reduce::SUM_PART;
use millstream_types::Dims;
use millstream_types::layout::numel;

use super::Kernel;
use super::element::Element;
use super::loops::Loop;
use super::memory::Workspace;
use super::optional_inputs::{one, operands, required};
use super::pairwise::{Sum, leaf_sum};
use super::real::{Real, reals};
use super::strided::{BLOCK, CHUNK, Sequence, StridedRow};
use super::traversal::Order;
use crate::context::{KernelCtx, RawTensor};

/// The error of a call whose kernel has set the failure flag.
pub(crate) const FAILURE: &str = "x: expected every element between 0 and 1";

/// A loss or the gradient of one, for every kind of device.
pub(crate) struct Loss {
    /// The number of input tensors. Those from `required` on may be absent and then count as 1.
    pub(crate) inputs: usize,
    required: usize,
    /// The name of the scalar argument, which defaults to 1; empty if there is none.
    scalar: &'static str,
    is_gradient: bool,
}

/// A call of a [`Loss`].
pub(crate) struct LossCall<'a> {
    pub(crate) inputs: [Option<RawTensor<'a>>; 4],
    pub(crate) out: RawTensor<'a>,
    /// The shape that the inputs broadcast to.
    pub(crate) shape: Dims,
    /// Whether the result is the sum of all losses over the divisor.
    pub(crate) is_reduced: bool,
    /// The number of losses if the op returns their mean, else 1.
    pub(crate) divisor: f64,
    pub(crate) scalar: f64,
}

impl Loss {
    /// Reads the operands and arguments of a call.
    ///
    /// # Errors
    /// They do not match the schema.
    pub(crate) fn call<'a>(&self, ctx: &KernelCtx<'a>) -> Result<LossCall<'a>> {
        let (inputs, results) = operands::<4>(ctx, 1)?;
        let (first, out) = (required(inputs[0])?, results[0]);
        ensure!(first.dtype == out.dtype, "{first:?} to {out:?}: schema and kernel disagree");
        let mut shape = Dims::new();
        for (k, input) in inputs[..self.inputs].iter().enumerate() {
            if k < self.required || input.is_some() {
                shape = broadcast(&shape, required(*input)?.shape)?;
            }
        }
        let reduction = LossReduction::of(ctx.attrs())?;
        let is_reduced = !self.is_gradient && reduction != LossReduction::None;
        let agree = if is_reduced { out.numel() == 1 } else { *shape == *out.shape };
        ensure!(agree, "{shape:?} to {out:?}: schema and kernel disagree");
        let divisor = match reduction {
            LossReduction::Mean => numel(&shape) as f64,
            _ => 1.0,
        };
        let scalar = ctx.attrs().float(self.scalar)?.unwrap_or(1.0);
        Ok(LossCall { inputs, out, shape, is_reduced, divisor, scalar })
    }
}

/// Defines losses and gradients, one per row: the op, its inputs, behind `;` those that may be
/// absent, the name of its scalar argument, and the function of an element of the type `T`. In the
/// function, `a` is the scalar argument, `n` the divisor, and `failed` the failure flag.
macro_rules! losses {
    ($a:ident, $n:ident, $failed:ident, $t:ident; $($kind:ident $op:literal
     [$($x:ident),* $(; $($w:ident),*)?] $($scalar:literal)? => $f:expr;)*) => {
        #[cfg(feature = "cuda")]
        pub(crate) const LOSSES: &[(&str, Loss)] =
            &[$(($op, losses!(@ $kind [$($x),* $(; $($w),*)?] $($scalar)?))),*];

        pub(crate) const KERNELS: &[Kernel] = &[$(($op, |ctx| {
            const LOSS: Loss = losses!(@ $kind [$($x),* $(; $($w),*)?] $($scalar)?);
            let call = LOSS.call(ctx)?;
            let $failed = AtomicBool::new(false);
            reals!(call.out.dtype, $t => {
                let ($a, $n) = ($t::from_f64(call.scalar), $t::from_f64(call.divisor));
                let _ = ($a, $n);
                run(ctx, &call, |[$($x,)* $($($w,)*)? _]: [$t; _]| $f)?;
            });
            ensure!(!$failed.into_inner(), FAILURE);
            Ok(())
        })),*];
    };
    (@ $kind:ident [$($x:ident),* $(; $($w:ident),*)?] $($scalar:literal)?) => {
        Loss {
            inputs: [$(stringify!($x),)* $($(stringify!($w),)*)?].len(),
            required: [$(stringify!($x)),*].len(),
            scalar: concat!("" $(, $scalar)?),
            is_gradient: losses!(@ $kind),
        }
    };
    (@ loss) => { false };
    (@ gradient) => { true };
}

losses! {
    a, n, failed, T;
    loss "mse_loss" [x, t] => (x - t) * (x - t);
    gradient "mse_loss_backward" [g, x, t] => T::from_f64(2.0) / n * (x - t) * g;
    loss "smooth_l1_loss" [x, t] "beta" => {
        let (d, half) = ((x - t).abs(), T::from_f64(0.5));
        if d < a { half * d * d / a } else { d - half * a }
    };
    gradient "smooth_l1_loss_backward" [g, x, t] "beta" => {
        let (d, g) = (x - t, g / n);
        if d <= -a { -g } else if d >= a { g } else { d * g / a }
    };
    loss "huber_loss" [x, t] "delta" => {
        let (d, half) = ((x - t).abs(), T::from_f64(0.5));
        if d <= a { half * d * d } else { a * (d - half * a) }
    };
    gradient "huber_loss_backward" [g, x, t] "delta" => {
        let (d, g) = (x - t, g / n);
        if d <= -a { -g * a } else if d >= a { g * a } else { d * g }
    };
    loss "binary_cross_entropy" [x, t; w] => {
        if !(T::ZERO..=T::ONE).contains(&x) {
            failed.store(true, Relaxed);
        }
        let least = T::from_f64(-100.0);
        let (yes, no) = (x.ln().greater(least), (-x).ln_1p().greater(least));
        ((t - T::ONE) * no - t * yes) * w
    };
    gradient "binary_cross_entropy_backward" [g, x, t; w] =>
        g * (x - t) / ((T::ONE - x) * x).greater(T::from_f64(1e-12)) * w / n;
    loss "binary_cross_entropy_with_logits" [x, t; w, p] => {
        // -log sigmoid(x), without overflow.
        let log = (-x.abs()).exp().ln_1p() + (-x).greater(T::ZERO);
        ((T::ONE - t) * x + ((p - T::ONE) * t + T::ONE) * log) * w
    };
}

/// Loads a chunk of each operand but the last, and computes `f` into the last buffer.
fn compute<'b, T: Real, const N: usize>(
    buffers: &'b mut [[T; CHUNK]; N],
    rows: &[StridedRow; N],
    at: usize,
    f: impl Fn([T; N]) -> T,
) -> &'b [T] {
    let count = CHUNK.min(rows[N - 1].len() - at);
    for (buffer, row) in buffers.iter_mut().zip(&rows[..N - 1]) {
        row.load(at, &mut buffer[..count]);
    }
    let Some((results, inputs)) = buffers.split_last_mut() else { return &[] };
    for (k, to) in results[..count].iter_mut().enumerate() {
        *to = f(std::array::from_fn(|i| inputs.get(i).map_or(T::ZERO, |input| input[k])));
    }
    &results[..count]
}

/// Computes `f` of the elements of all inputs, broadcast, and stores or reduces the results. The
/// last element passed to `f` is undefined.
fn run<T: Real, const N: usize>(
    ctx: &KernelCtx<'_>,
    call: &LossCall<'_>,
    f: impl Fn([T; N]) -> T + Sync + Send,
) -> Result<()> {
    let mut one = one()?;
    let one = one.tensor();
    // The inputs, and the output as the last.
    let all: [RawTensor<'_>; N] = std::array::from_fn(|k| match k + 1 == N {
        true => call.out,
        false => call.inputs[k].unwrap_or(one),
    });
    if !call.is_reduced {
        // SAFETY: operands of the call, of which only the output is written, and memory of this
        // function.
        let all = unsafe { Loop::new(&call.shape, all, Order::Any) }?;
        all.for_each(
            ctx,
            BLOCK,
            |_| [[T::ZERO; CHUNK]; N],
            |buffers, rows| {
                for at in (0..rows[N - 1].len()).step_by(CHUNK) {
                    rows[N - 1].store(at, compute(buffers, rows, at, &f));
                }
            },
        );
        return Ok(());
    }
    let words = Workspace::of(ctx).words(ctx, numel(&call.shape).div_ceil(SUM_PART))?;
    // SAFETY: as above; the loop does not access the output.
    let (all, out) =
        unsafe { (Loop::new(&call.shape, all, Order::RowMajor)?, Sequence::new(call.out)) };
    let init = |block| (block, Sum::<T>::new(), [[T::ZERO; CHUNK]; N]);
    all.for_each(ctx, SUM_PART, init, |(block, sum, buffers), rows| {
        for at in (0..rows[N - 1].len()).step_by(CHUNK) {
            sum.push(leaf_sum(compute(buffers, rows, at, &f)));
        }
        // The last row of the block stores the sum of all its rows.
        words[*block].store(sum.total().to_word(), Relaxed);
    });
    let mut total = Sum::<T>::new();
    words.iter().for_each(|w| total.push(T::from_word(w.load(Relaxed))));
    out.store(0, &[total.total() / T::from_f64(call.divisor)]);
    Ok(())
}
