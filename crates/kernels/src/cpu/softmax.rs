//! Kernels of the ops in `millstream_ops::softmax`, by line.

use super::Kernel;
use super::function::LANES;
use super::lines::Lines;
use super::pairwise::sum_of;
use super::real::{Real, reals};
use super::vectorised::vectorised;
use crate::data_movement::required_dim;

/// Returns the kernel that computes each line of the result from those of the inputs.
macro_rules! by_line {
    ($function:ident, $count:literal, [$($x:ident),*]) => {
        |ctx| {
            let mut inputs = [ctx.operand(0)?; $count];
            for (k, input) in inputs.iter_mut().enumerate() {
                *input = ctx.operand(k)?;
            }
            let last = inputs[$count - 1];
            let lines = Lines::new(last.shape, required_dim(ctx, last.shape.len())?);
            let out = ctx.operand($count)?;
            // SAFETY: operands of the call; the last is its output, which is new.
            reals!(last.dtype, T => unsafe {
                lines.map(ctx, inputs, out, |[$($x),*]: [&[T]; $count], out| {
                    $function($($x,)* out);
                })
            })
        }
    };
}

pub(crate) const KERNELS: &[Kernel] = &[
    ("_softmax", by_line!(softmax_line, 1, [x])),
    ("_log_softmax", by_line!(log_softmax_line, 1, [x])),
    ("_softmax_backward_data", by_line!(softmax_line_backward, 2, [grad, y])),
    ("_log_softmax_backward_data", by_line!(log_softmax_line_backward, 2, [grad, y])),
];

/// The number of values of a long line that are compared at once: each comparison waits for the one
/// before it.
const ABREAST: usize = 64;

vectorised! {
    fn softmax_line<T: Real>(x: &[T], out: &mut [T]) {
        let greatest = greatest(x);
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = (x - greatest).exp());
        let sum = sum_of([&*out], |[v]| v);
        out.iter_mut().for_each(|v| *v /= sum);
    }

    fn log_softmax_line<T: Real>(x: &[T], out: &mut [T]) {
        let greatest = greatest(x);
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = (x - greatest).exp());
        let log = sum_of([&*out], |[v]| v).ln();
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = x - greatest - log);
    }

    fn softmax_line_backward<T: Real>(grad: &[T], y: &[T], out: &mut [T]) {
        let sum = sum_of([grad, y], |[g, y]| g * y);
        for ((out, &g), &y) in out.iter_mut().zip(grad).zip(y) {
            *out = g * y - y * sum;
        }
    }

    fn log_softmax_line_backward<T: Real>(grad: &[T], y: &[T], out: &mut [T]) {
        let sum = sum_of([grad], |[v]| v);
        for ((out, &g), &y) in out.iter_mut().zip(grad).zip(y) {
            *out = g - y.exp() * sum;
        }
    }
}

/// Returns the greatest value; NaN if one is NaN.
#[inline(always)]
fn greatest<T: Real>(line: &[T]) -> T {
    match line.len() < 8 * ABREAST {
        true => greatest_of_lanes::<T, LANES>(line),
        false => greatest_of_lanes::<T, ABREAST>(line),
    }
}

#[inline(always)]
fn greatest_of_lanes<T: Real, const N: usize>(line: &[T]) -> T {
    let (blocks, rest) = line.as_chunks::<N>();
    let mut lanes = [-T::INFINITY; N];
    for block in blocks {
        for (m, &v) in lanes.iter_mut().zip(block) {
            *m = v.greater(*m);
        }
    }
    rest.iter().chain(&lanes).fold(-T::INFINITY, |m, &v| v.greater(m))
}
