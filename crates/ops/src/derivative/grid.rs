//! Samples of images, segments, fractional pooling, the loss of alignments.

use millstream_types::{Attrs, Result};

use super::{Derivative, I0, I1, I2, O0, O1, Rule, Save, each, joint};
use crate::handle::Tensor;

const SAMPLER: &[(Save, &[usize])] = &[(I0, &[0, 1]), (I1, &[0, 1])];

pub(super) const RULES: &[Rule] = &[
    joint("grid_sampler_2d", SAMPLER, |d| sampled(d, "grid_sampler_2d_backward")),
    joint("grid_sampler_3d", SAMPLER, |d| sampled(d, "grid_sampler_3d_backward")),
    each("roi_align", &[(I1, &[0])], &[Some(averaged), None]),
    each(
        "segment_reduce",
        &[(I0, &[0]), (I1, &[0]), (O0, &[0])],
        &[
            Some(|d| {
                let given = [&d.g()?, &d.output(0)?, &d.input(0)?, &d.input(1)?];
                d.call_one("segment_reduce_backward", &given, &["reduce", "axis", "initial"])
            }),
            None,
        ],
    ),
    each("fractional_max_pool", &[(O1, &[0])], &[Some(pooled), None]),
    each(
        "_ctc_loss",
        &[(I0, &[0]), (I1, &[0]), (I2, &[0]), (Save::Input(3), &[0]), (O0, &[0])],
        &[Some(aligned), None, None, None],
    ),
];

fn averaged(d: &Derivative<'_>) -> Result<Tensor> {
    let mut attrs = d.attrs().clone();
    for (name, &length) in ["batch_size", "channels", "height", "width"].iter().zip(d.shape(0)?) {
        attrs.set(*name, length as i64);
    }
    let mut made = crate::tensor::call_op("_roi_align_backward", &[&d.g()?, &d.input(1)?], attrs)?;
    Ok(made.remove(0))
}

fn sampled(d: &Derivative<'_>, op: &str) -> Result<Vec<Option<Tensor>>> {
    let needed = [d.needs(0), d.needs(1)];
    let mut attrs = Attrs::new().with("output_mask", needed.map(i64::from).to_vec());
    for name in ["interpolation_mode", "padding_mode", "align_corners"] {
        if let Some(value) = d.attrs().get(name) {
            attrs.set(name, value.clone());
        }
    }
    let given = [&d.g()?, &d.input(0)?, &d.input(1)?];
    let mut results = crate::tensor::call_op(op, &given, attrs)?.into_iter();
    Ok(needed.map(|is_needed| if is_needed { results.next() } else { None }).to_vec())
}

/// Adds the gradient of each maximum to its place, which is numbered within its plane.
fn pooled(d: &Derivative<'_>) -> Result<Tensor> {
    let dims = d.attrs().ints("output_size")?.unwrap_or_default().len();
    let shape = d.shape(0)?;
    let outer = &shape[..shape.len() - dims];
    let flat = |x: &Tensor| {
        let elements: usize = x.shape()[outer.len()..].iter().product();
        x.reshape([outer, &[elements]].concat())
    };
    let zeros = flat(&d.zeros(0)?)?;
    zeros.scatter_add(&flat(&d.output(1)?)?, &flat(&d.g()?)?, -1)?.reshape(shape)
}

/// As PyTorch's, this is the gradient of log probabilities whose exponentials add to 1.
fn aligned(d: &Derivative<'_>) -> Result<Tensor> {
    let losses = d.output(0)?;
    let inputs = [d.input(0)?, d.input(1)?, d.input(2)?, d.input(3)?];
    let g = d.g()?;
    let mut given = vec![&g];
    given.extend(&inputs);
    given.push(&losses);
    d.call_one("_ctc_loss_backward", &given, &["max_target_length", "blank", "zero_infinity"])
}
