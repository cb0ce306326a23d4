//! Samples of images, segments, fractional pooling, the loss of alignments.

use millstream_types::Result;

use super::{Derivative, I0, I1, I2, O0, O1, Rule, Save, each, joint};
use crate::formula::Expr;

const SAMPLER: &[Save] = &[I0, I1];

pub(super) const RULES: &[Rule] = &[
    joint("grid_sampler_2d", SAMPLER, |d| sampled(d, "grid_sampler_2d_backward")),
    joint("grid_sampler_3d", SAMPLER, |d| sampled(d, "grid_sampler_3d_backward")),
    each("roi_align", &[(I1, &[0])], &[Some(averaged), None]),
    each(
        "segment_reduce",
        &[(I0, &[0]), (I1, &[0]), (O0, &[0])],
        &[
            Some(|d| {
                let given = [d.g(), d.output(0), d.input(0), d.input(1)];
                Ok(d.one("segment_reduce_backward", &given, &["reduce", "axis", "initial"]))
            }),
            None,
        ],
    ),
    each("fractional_max_pool", &[(O1, &[0])], &[Some(pooled), None]),
    each(
        "_ctc_loss",
        &[(I0, &[0]), (I1, &[0]), (I2, &[0]), (Save::Input(3), &[0]), (O0, &[0])],
        &[
            // As PyTorch's, this is the gradient of log probabilities whose exponentials add to 1.
            Some(|d| {
                let given = [d.g(), d.input(0), d.input(1), d.input(2), d.input(3), d.output(0)];
                let names = ["max_target_length", "blank", "zero_infinity"];
                Ok(d.one("_ctc_loss_backward", &given, &names))
            }),
            None,
            None,
            None,
        ],
    ),
];

fn averaged(d: Derivative<'_>) -> Result<Expr<'_>> {
    let mut attrs = d.attrs.clone();
    for (name, length) in ["batch_size", "channels", "height", "width"].iter().zip(d.shape(0)?) {
        attrs.set(*name, length);
    }
    Ok(d.calls.one("_roi_align_backward", &[d.g(), d.input(1)], attrs))
}

fn sampled<'a>(d: Derivative<'a>, op: &str) -> Result<Vec<Option<Expr<'a>>>> {
    let needed = [d.needs(0), d.needs(1)];
    let attrs = d.passed(&["interpolation_mode", "padding_mode", "align_corners"]);
    let attrs = attrs.with("output_mask", needed.map(i64::from).to_vec());
    let made = d.calls.call(op, &[d.g(), d.input(0), d.input(1)], attrs);
    let mut made = made.into_iter();
    Ok(needed.map(|is_needed| if is_needed { made.next() } else { None }).to_vec())
}

/// Adds the gradient of each maximum to its place, which is numbered within its plane.
fn pooled<'a>(d: Derivative<'a>) -> Result<Expr<'a>> {
    let shape = d.shape(0)?;
    let outer = &shape[..shape.len() - d.ints("output_size")?.len()];
    let flat = |x: Expr<'a>| -> Result<Expr<'a>> {
        let elements = x.shape()?[outer.len()..].iter().product();
        Ok(x.reshape(&[outer, &[elements]].concat()))
    };
    let zeros = flat(d.zeros(0)?)?;
    Ok(zeros.scatter_add(-1, flat(d.output(1))?, flat(d.g())?).reshape(&shape))
}
