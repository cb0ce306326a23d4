//! Convolution, pooling, normalisation, dropout.

use crate::handle::machine::Inputs;
use millstream_types::{Attrs, Result};

use super::{Derivative, I0, I1, I2, O0, O1, O2, Rule, Save, each, first, joint, one};
use crate::handle::Tensor;

const MEAN: Save = Save::Input(3);
const VAR: Save = Save::Input(4);
const WINDOW: &[&str] = &["kernel_size", "stride", "padding", "dilation", "ceil_mode"];

pub(super) const RULES: &[Rule] = &[
    joint("convolution", &[(I0, &[0, 1]), (I1, &[0, 1])], convolution),
    one(
        "max_pool2d_with_indices",
        &[(I0, &[0]), (O1, &[0])],
        &[Some(|d| {
            let inputs = [&d.g()?, &d.input(0)?, &d.output(1)?];
            d.call_one("max_pool2d_with_indices_backward", &inputs, WINDOW)
        })],
    ),
    one(
        "avg_pool2d",
        &[(I0, &[0])],
        &[Some(|d| {
            let names = [
                "kernel_size",
                "stride",
                "padding",
                "ceil_mode",
                "count_include_pad",
                "divisor_override",
            ];
            d.call_one("avg_pool2d_backward", &[&d.g()?, &d.input(0)?], &names)
        })],
    ),
    one(
        "_adaptive_avg_pool2d",
        &[(I0, &[0])],
        &[Some(|d| d.call_one("_adaptive_avg_pool2d_backward", &[&d.g()?, &d.input(0)?], &[]))],
    ),
    joint(
        "native_layer_norm",
        &[(I0, &[0, 1, 2]), (I1, &[0, 1, 2]), (I2, &[0, 1, 2]), (O1, &[0, 1, 2]), (O2, &[0, 1, 2])],
        |d| {
            if d.is_noted() {
                let rank = d.shape(0)?.len();
                let from = rank - d.attrs().ints("normalized_shape")?.unwrap_or_default().len();
                let (g, x) = (d.g()?, d.input(0)?);
                let weight = d.optional(1)?;
                let weighted = weight.as_ref().map_or(Ok(g.clone()), |w| g.mul(w))?;
                let (gx, normal) = of_rows(d, &x, &weighted, (from..rank).collect())?;
                return Ok(vec![Some(gx), Some(g.mul(&normal)?), Some(g)]);
            }
            let (g, x, mean, rstd) = (d.g()?, d.input(0)?, d.output(1)?, d.output(2)?);
            normalised(
                d,
                "native_layer_norm_backward",
                &[&g, &x, &mean, &rstd],
                &[1, 2],
                &["normalized_shape"],
            )
        },
    ),
    joint(
        "native_group_norm",
        &[(I0, &[0, 1, 2]), (I1, &[0, 1, 2]), (O1, &[0, 1, 2]), (O2, &[0, 1, 2])],
        |d| {
            if d.is_noted() {
                let (g, x, shape) = (d.g()?, d.input(0)?, d.shape(0)?);
                let groups = d.attrs().int("group")?.unwrap_or(1);
                let rows = [shape[0] as i64, groups, x.numel() as i64 / shape[0] as i64 / groups];
                let weighted = per_channel(&g, d.optional(1)?.as_ref())?;
                let (x, weighted) = (x.reshape(rows)?, weighted.reshape(rows)?);
                let (gx, normal) = of_rows(d, &x, &weighted, vec![2])?;
                return of_channels(d, &g, &normal.reshape(shape)?, gx.reshape(shape)?);
            }
            let (g, x, mean, rstd) =
                (d.g()?.contiguous()?, d.input(0)?, d.output(1)?, d.output(2)?);
            normalised(
                d,
                "native_group_norm_backward",
                &[&g, &x, &mean, &rstd],
                &[1],
                &["N", "C", "HxW", "group"],
            )
        },
    ),
    joint(
        "native_batch_norm",
        &[
            (I0, &[0, 1, 2]),
            (I1, &[0, 1, 2]),
            (O1, &[0, 1, 2]),
            (O2, &[0, 1, 2]),
            (MEAN, &[0, 1, 2]),
            (VAR, &[0, 1, 2]),
        ],
        batch_norm,
    ),
    one(
        "native_dropout",
        &[(O1, &[0])],
        &[Some(|d| {
            if d.attrs().bool("train")? == Some(false) {
                return d.g();
            }
            let kept = 1.0 - d.number("p", 0.0)?;
            let attrs = Attrs::new().with("scale", if kept == 0.0 { 0.0 } else { 1.0 / kept });
            let op = "native_dropout_backward";
            first(op, crate::tensor::call_op(op, &[&d.g()?, &d.output(1)?], attrs)?)
        })],
    ),
    one(
        "_softmax",
        &[(O0, &[0])],
        &[Some(|d| d.call_one("_softmax_backward_data", &[&d.g()?, &d.output(0)?], &["dim"]))],
    ),
    one(
        "_log_softmax",
        &[(O0, &[0])],
        &[Some(|d| d.call_one("_log_softmax_backward_data", &[&d.g()?, &d.output(0)?], &["dim"]))],
    ),
    each(
        "_softmax_backward_data",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| d.call_one("_softmax_backward_data", &[&d.g()?, &d.input(1)?], &["dim"])),
            Some(|d| {
                let (gg, g, y) = (d.g()?, d.input(0)?, d.input(1)?);
                let dim = d.attrs().int("dim")?.unwrap_or(-1);
                let keep = || crate::tensor::options::Sum::default().keepdim(true);
                let with_g = g.sub(&g.mul(&y)?.sum_with(dim, keep())?)?.mul(&gg)?;
                with_g.sub(&g.mul(&gg.mul(&y)?.sum_with(dim, keep())?)?)
            }),
        ],
    ),
    each(
        "_log_softmax_backward_data",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| {
                let (gg, y) = (d.g()?, d.input(1)?);
                let dim = d.attrs().int("dim")?.unwrap_or(-1);
                let keep = crate::tensor::options::Sum::default().keepdim(true);
                gg.sub(&gg.mul(&y.exp()?)?.sum_with(dim, keep)?)
            }),
            Some(|d| {
                let (gg, g, y) = (d.g()?, d.input(0)?, d.input(1)?);
                let dim = d.attrs().int("dim")?.unwrap_or(-1);
                let keep = crate::tensor::options::Sum::default().keepdim(true);
                gg.neg()?.mul(&y.exp()?)?.mul(&g.sum_with(dim, keep)?)
            }),
        ],
    ),
];

/// Returns three flags for the inputs that need gradients.
fn mask(d: &Derivative<'_>, inputs: [usize; 3]) -> Vec<i64> {
    inputs.iter().map(|&k| i64::from(d.needs(k))).collect()
}

/// Gives the gradients that a backward op computed to the inputs that need them, in order.
fn masked(d: &Derivative<'_>, inputs: [usize; 3], results: Vec<Tensor>) -> Vec<Option<Tensor>> {
    let all = results.len() == 3;
    let mut results = results.into_iter();
    let mut gradients = vec![None; d.node.inputs.len()];
    for k in inputs {
        if d.needs(k) {
            gradients[k] = results.next();
        } else if all {
            results.next();
        }
    }
    gradients
}

fn convolution(d: &Derivative<'_>) -> Result<Vec<Option<Tensor>>> {
    let mut gradients = vec![None; 3];
    if d.needs(2) {
        let g = d.g()?;
        let dims: Vec<usize> = (0..g.rank()).filter(|&k| k != 1).collect();
        gradients[2] = Some(g.sum(dims)?);
    }
    if !d.needs(0) && !d.needs(1) {
        return Ok(gradients);
    }
    let names = ["stride", "padding", "dilation", "transposed", "output_padding", "groups"];
    let mut attrs = Attrs::new();
    for name in names {
        if let Some(value) = d.attrs().get(name) {
            attrs.set(name, value.clone());
        }
    }
    let flags = vec![i64::from(d.needs(0)), i64::from(d.needs(1)), 0];
    attrs.set("output_mask", flags);
    let inputs = [&d.g()?, &d.input(0)?, &d.input(1)?];
    let mut results = crate::tensor::call_op("convolution_backward", &inputs, attrs)?.into_iter();
    for (k, gradient) in gradients.iter_mut().enumerate().take(2) {
        if d.needs(k) {
            *gradient = results.next();
        }
    }
    Ok(gradients)
}

/// Calls the gradient of a normalisation. `extra` are the optional inputs behind the given ones.
fn normalised(
    d: &Derivative<'_>,
    op: &str,
    inputs: &[&Tensor],
    extra: &[usize],
    names: &[&'static str],
) -> Result<Vec<Option<Tensor>>> {
    let mut attrs = Attrs::new().with("output_mask", mask(d, [0, 1, 2]));
    for name in names {
        if let Some(value) = d.attrs().get(name) {
            attrs.set(*name, value.clone());
        }
    }
    let extra: Vec<Option<Tensor>> = extra.iter().map(|&k| d.optional(k)).collect::<Result<_>>()?;
    let extra: Vec<Option<&Tensor>> = extra.iter().map(Option::as_ref).collect();
    let mut given = Inputs::from_slice(inputs);
    crate::tensor::optional(&extra, &mut given, &mut attrs);
    Ok(masked(d, [0, 1, 2], crate::tensor::call_op(op, &given, attrs)?))
}

/// Returns the gradients of rows that were normalised over some dimensions, and the rows with
/// mean 0 and variance 1, as calls that have derivatives. The statistics are computed again, since
/// those of the call are results of it.
fn of_rows(
    d: &Derivative<'_>,
    x: &Tensor,
    g: &Tensor,
    dims: Vec<usize>,
) -> Result<(Tensor, Tensor)> {
    let mean = |x: &Tensor| {
        x.mean_with(dims.clone(), crate::tensor::options::Mean::default().keepdim(true))
    };
    let centred = x.sub(&mean(x)?)?;
    let rstd = mean(&centred.mul(&centred)?)?.add(d.number("eps", 1e-5)?)?.rsqrt()?;
    let normal = centred.mul(&rstd)?;
    let along = normal.mul(&mean(&g.mul(&normal)?)?)?;
    Ok((g.sub(&mean(g)?)?.sub(&along)?.mul(&rstd)?, normal))
}

/// Returns a tensor times a weight for each channel, if there is one.
fn per_channel(x: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let Some(weight) = weight else { return Ok(x.clone()) };
    let mut shape = vec![1; x.rank()];
    shape[1] = weight.numel();
    x.mul(&weight.reshape(shape)?)
}

/// Returns the gradients of x, and of the weight and the bias of each channel.
fn of_channels(
    d: &Derivative<'_>,
    g: &Tensor,
    normal: &Tensor,
    gx: Tensor,
) -> Result<Vec<Option<Tensor>>> {
    let dims: Vec<usize> = (0..g.rank()).filter(|&k| k != 1).collect();
    let mut gradients = vec![None; d.node.inputs.len()];
    gradients[0] = Some(gx);
    gradients[1] = Some(g.mul(normal)?.sum(dims.clone())?);
    gradients[2] = Some(g.sum(dims)?);
    Ok(gradients)
}

fn batch_norm(d: &Derivative<'_>) -> Result<Vec<Option<Tensor>>> {
    let train = d.attrs().bool("training")?.unwrap_or(false);
    if d.is_noted() {
        let (g, x) = (d.g()?, d.input(0)?);
        let weighted = per_channel(&g, d.optional(1)?.as_ref())?;
        let (gx, normal) = if train {
            of_rows(d, &x, &weighted, (0..x.rank()).filter(|&k| k != 1).collect())?
        } else {
            let rstd = d.input(4)?.add(d.number("eps", 1e-5)?)?.rsqrt()?;
            let mut shape = vec![1; x.rank()];
            shape[1] = rstd.numel();
            let centred = x.sub(&d.input(3)?.reshape(shape)?)?;
            (per_channel(&weighted, Some(&rstd))?, per_channel(&centred, Some(&rstd))?)
        };
        return of_channels(d, &g, &normal, gx);
    }
    let mut attrs = Attrs::new().with("output_mask", mask(d, [0, 1, 2])).with("train", train);
    if let Some(eps) = d.attrs().get("eps") {
        attrs.set("eps", eps.clone());
    }
    let (g, x, weight) = (d.g()?, d.input(0)?, d.optional(1)?);
    // Without training, the statistics are the running ones, which the call has only read.
    let (mean, var) = match train {
        true => (None, None),
        false => (d.optional(3)?, d.optional(4)?),
    };
    let (saved_mean, saved_invstd) = match train {
        true => (Some(d.output(1)?), Some(d.output(2)?)),
        false => (None, None),
    };
    let extra =
        [weight.as_ref(), mean.as_ref(), var.as_ref(), saved_mean.as_ref(), saved_invstd.as_ref()];
    let mut given = Inputs::from_slice(&[&g, &x]);
    crate::tensor::optional(&extra, &mut given, &mut attrs);
    let results = crate::tensor::call_op("native_batch_norm_backward", &given, attrs)?;
    Ok(masked(d, [0, 1, 2], results))
}
