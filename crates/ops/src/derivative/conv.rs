//! Convolution, pooling, normalisation, dropout.

use millstream_types::{Attrs, Result};

use super::{Derivative, I0, I1, I2, O0, O1, O2, Rule, Save, each, joint, joint_by, one};
use crate::args::ABSENT;
use crate::formula::Expr;

const MEAN: Save = Save::Input(3);
const VAR: Save = Save::Input(4);
const WINDOW: &[&str] = &["kernel_size", "stride", "padding", "dilation", "ceil_mode"];
const AVERAGED: &[&str] =
    &["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"];

pub(super) const RULES: &[Rule] = &[
    joint_by("convolution", &[(I0, &[0, 1]), (I1, &[0, 1])], convolution),
    one("max_pool2d_with_indices", &[I0, O1], |d| {
        let inputs = [d.g(), d.input(0), d.output(1)];
        Ok(d.one("max_pool2d_with_indices_backward", &inputs, WINDOW))
    }),
    one("avg_pool2d", &[I0], |d| Ok(d.one("avg_pool2d_backward", &[d.g(), d.input(0)], AVERAGED))),
    one("_adaptive_avg_pool2d", &[I0], |d| {
        Ok(d.g().apply("_adaptive_avg_pool2d_backward", [d.input(0)]))
    }),
    joint("native_layer_norm", &[I0, I1, I2, O1, O2], |d| {
        if d.is_noted {
            let (g, x, rank) = (d.g(), d.input(0), d.shape(0)?.len());
            let from = rank - d.ints("normalized_shape")?.len();
            let weighted = d.optional(1).map_or(g, |w| g * w);
            let dims: Vec<i64> = (from as i64..rank as i64).collect();
            let (gx, normal) = of_rows(d, x, weighted, &dims)?;
            return Ok(vec![Some(gx), Some(g * normal), Some(g)]);
        }
        let [g, x, mean, rstd] = [d.g(), d.input(0), d.output(1), d.output(2)].map(Some);
        let inputs = [g, x, mean, rstd, d.optional(1), d.optional(2)];
        let attrs = d.passed(&["normalized_shape"]);
        Ok(normalised(d, "native_layer_norm_backward", &inputs, attrs))
    }),
    joint("native_group_norm", &[I0, I1, O1, O2], |d| {
        if d.is_noted {
            let (g, x, shape) = (d.g(), d.input(0), d.shape(0)?);
            let groups = d.int("group", 1)?;
            let rows = [shape[0], groups, shape[1..].iter().product::<i64>() / groups];
            let weighted = weighted(d, g)?;
            let (x, weighted) = (x.reshape(&rows), weighted.reshape(&rows));
            let (gx, normal) = of_rows(d, x, weighted, &[2])?;
            let normal = normal.reshape(&shape);
            return of_channels(g, normal, gx.reshape(&shape));
        }
        let g = d.g().dense();
        let [g, x, mean, rstd] = [g, d.input(0), d.output(1), d.output(2)].map(Some);
        let attrs = d.passed(&["N", "C", "HxW", "group"]);
        let inputs = [g, x, mean, rstd, d.optional(1)];
        Ok(normalised(d, "native_group_norm_backward", &inputs, attrs))
    }),
    joint("native_batch_norm", &[I0, I1, O1, O2, MEAN, VAR], batch_norm).of_first(3),
    one("native_dropout", &[O1], |d| match d.flag("train", true)? {
        true => Ok(d.g().undropped(d.output(1), d.number("p", 0.0)?)),
        false => Ok(d.g()),
    }),
    one("_softmax", &[O0], |d| {
        Ok(d.one("_softmax_backward_data", &[d.g(), d.output(0)], &["dim"]))
    }),
    one("_log_softmax", &[O0], |d| {
        Ok(d.one("_log_softmax_backward_data", &[d.g(), d.output(0)], &["dim"]))
    }),
    each(
        "_softmax_backward_data",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| Ok(d.one("_softmax_backward_data", &[d.g(), d.input(1)], &["dim"]))),
            Some(|d| {
                let (gg, g, y, dims) = (d.g(), d.input(0), d.input(1), [d.int("dim", -1)?]);
                let with_g = (g - (g * y).sum(&dims, true)) * gg;
                Ok(with_g - g * (gg * y).sum(&dims, true))
            }),
        ],
    ),
    each(
        "_log_softmax_backward_data",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| {
                let (gg, y) = (d.g(), d.input(1));
                Ok(gg - (gg * y.exp()).sum(&[d.int("dim", -1)?], true))
            }),
            Some(|d| {
                let (gg, g, y) = (d.g(), d.input(0), d.input(1));
                Ok(-gg * y.exp() * g.sum(&[d.int("dim", -1)?], true))
            }),
        ],
    ),
];

/// Gives the gradients that a backward op computed to the inputs that need them, in order.
fn masked<'a>(needs: [bool; 3], made: Vec<Expr<'a>>) -> Vec<Option<Expr<'a>>> {
    let mut made = made.into_iter();
    needs.iter().map(|needed| if *needed { made.next() } else { None }).collect()
}

/// Returns the dimensions other than that of the channels.
fn beside_channels(x: Expr<'_>) -> Result<Vec<i64>> {
    Ok((0..x.rank()? as i64).filter(|&k| k != 1).collect())
}

fn convolution(d: Derivative<'_>) -> Result<Vec<Option<Expr<'_>>>> {
    let (g, needs) = (d.g(), [0, 1, 2].map(|k| d.needs(k)));
    let of_bias = if needs[2] { Some(g.sum(&beside_channels(g)?, false)) } else { None };
    let mut made = Vec::new();
    if needs[0] || needs[1] {
        let names = ["stride", "padding", "dilation", "transposed", "output_padding", "groups"];
        let mask = [needs[0], needs[1], false].map(i64::from).to_vec();
        let attrs = d.passed(&names).with("output_mask", mask);
        made = d.calls.call("convolution_backward", &[g, d.input(0), d.input(1)], attrs);
    }
    made.extend(of_bias);
    Ok(masked(needs, made))
}

/// Calls the gradient of a normalisation.
fn normalised<'a>(
    d: Derivative<'a>,
    op: &str,
    inputs: &[Option<Expr<'a>>],
    attrs: Attrs,
) -> Vec<Option<Expr<'a>>> {
    let needs = [0, 1, 2].map(|k| d.needs(k));
    let mut attrs = attrs.with("output_mask", needs.map(i64::from).to_vec());
    let absent = inputs.iter().enumerate().filter(|(_, x)| x.is_none());
    let absent: Vec<i64> = absent.map(|(k, _)| k as i64).collect();
    if !absent.is_empty() {
        attrs.set(ABSENT, absent);
    }
    let given: Vec<Expr<'a>> = inputs.iter().flatten().copied().collect();
    masked(needs, d.calls.call(op, &given, attrs))
}

/// Returns the gradients of rows that were normalised over some dimensions, and the rows with
/// mean 0 and variance 1, as calls that have derivatives. The statistics are computed again, since
/// those of the call are results of it.
fn of_rows<'a>(
    d: Derivative<'a>,
    x: Expr<'a>,
    g: Expr<'a>,
    dims: &[i64],
) -> Result<(Expr<'a>, Expr<'a>)> {
    let centred = x - x.means(dims);
    let rstd = ((centred * centred).means(dims) + d.number("eps", 1e-5)?).rsqrt();
    let normal = centred * rstd;
    let along = normal * (g * normal).means(dims);
    Ok(((g - g.means(dims) - along) * rstd, normal))
}

/// Returns a number for each channel in the shape that broadcasts over images.
fn channels<'a>(of: Expr<'a>, images: Expr<'a>) -> Result<Expr<'a>> {
    let mut shape = vec![1; images.rank()?];
    shape[1] = of.numel()? as i64;
    Ok(of.reshape(&shape))
}

/// Returns the gradient times the weight of each channel, if there is one.
fn weighted<'a>(d: Derivative<'a>, g: Expr<'a>) -> Result<Expr<'a>> {
    d.optional(1).map_or(Ok(g), |weight| Ok(g * channels(weight, g)?))
}

/// Returns the gradients of x, and of the weight and the bias of each channel.
fn of_channels<'a>(g: Expr<'a>, normal: Expr<'a>, gx: Expr<'a>) -> Result<Vec<Option<Expr<'a>>>> {
    let dims = beside_channels(g)?;
    Ok(vec![Some(gx), Some((g * normal).sum(&dims, false)), Some(g.sum(&dims, false))])
}

fn batch_norm(d: Derivative<'_>) -> Result<Vec<Option<Expr<'_>>>> {
    let (g, x, train) = (d.g(), d.input(0), d.flag("training", false)?);
    if d.is_noted {
        let weighted = weighted(d, g)?;
        let (gx, normal) = if train {
            of_rows(d, x, weighted, &beside_channels(x)?)?
        } else {
            let rstd = (d.input(4) + d.number("eps", 1e-5)?).rsqrt();
            let centred = x - channels(d.input(3), x)?;
            let gx = weighted * channels(rstd, x)?;
            (gx, centred * channels(rstd, x)?)
        };
        return of_channels(g, normal, gx);
    }
    // Without training, the statistics are the running ones, which the call has only read.
    let [mean, var, saved_mean, saved_rstd] = match train {
        true => [None, None, Some(d.output(1)), Some(d.output(2))],
        false => [d.optional(3), d.optional(4), None, None],
    };
    let inputs = [Some(g), Some(x), d.optional(1), mean, var, saved_mean, saved_rstd];
    let attrs = d.passed(&["eps"]).with("train", train);
    Ok(normalised(d, "native_batch_norm_backward", &inputs, attrs))
}
