//! The ways of convolutions, poolings, samples at grids, and their gradients: images, and channels
//! that do not depend on one another.

use millstream_types::{Result, Sbp, sbp};

use super::axes::P;
use super::views::drop_argument;
use super::{Local, Parts, Rules, Way, Whole};
use crate::checks;

const B: Sbp = sbp::B;
const S0: Sbp = sbp::S(0);
const S1: Sbp = sbp::S(1);

pub(super) const RULES: Rules = &[
    ("convolution", forward),
    ("convolution_backward", backward),
    ("max_pool2d_with_indices", |whole| Ok(planes(&whole))),
    ("max_pool2d_with_indices_backward", linear_planes),
    ("avg_pool2d", linear_planes),
    ("avg_pool2d_backward", linear_planes),
    ("_adaptive_avg_pool2d", linear_planes),
    ("_adaptive_avg_pool2d_backward", linear_planes),
    ("grid_sampler_2d", samples),
    ("grid_sampler_3d", samples),
    ("grid_sampler_2d_backward", sample_gradients),
    ("grid_sampler_3d_backward", sample_gradients),
    ("roi_align", |whole| {
        let ways = [Way::new([B, S0], [S0]), Way::new([S1, B], [S1])];
        Ok(ways.into_iter().chain(whole.linear(&[0])).collect())
    }),
    ("_roi_align_backward", |_| Ok(vec![Way::new([S0, S0], [P]), Way::new([P, B], [P])])),
    ("nms_mask", |_| Ok(Vec::new())),
];

/// The dimensions of a weight.
struct Weight {
    /// That of the channels of x.
    input: Sbp,
    /// That of the channels of the result.
    output: Sbp,
    /// The groups that the channels are in.
    groups: usize,
}

fn weight(whole: &Whole<'_>) -> Result<Weight> {
    let transposed = whole.attrs().bool("transposed")?.unwrap_or(false);
    let (input, output) = if transposed { (S0, S1) } else { (S1, S0) };
    let groups = whole.attrs().int("groups")?.unwrap_or(1) as usize;
    Ok(Weight { input, output, groups })
}

fn forward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let weight = weight(&whole)?;
    let way = |listed: [Sbp; 3], result| Ok(Way::new(whole.given(&listed)?, [result]));
    let mut ways: Vec<Result<Way>> = vec![way([S0, B, B], S0)];
    if weight.groups == 1 {
        let channels = [way([B, weight.output, S0], S1), way([S1, weight.input, P], P)];
        ways.extend(channels.map(|way| way.map(|way| way.parts(Parts::NotEmpty))));
    } else {
        // Each group has its own channels, which both kinds of weights list first.
        let local = Local::Groups(whole.attrs().clone(), 1);
        let groups = way([S1, S0, S0], S1);
        ways.push(groups.map(|way| way.parts(Parts::Groups(weight.groups)).local(local)));
    }
    ways.extend([way([P, B, P], P), way([B, P, P], P)]);
    ways.into_iter().collect()
}

fn backward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let weight = weight(&whole)?;
    let mask = checks::mask(whole.attrs(), 3)?;
    let way = |operands: [Sbp; 3], results: [Sbp; 3]| {
        Way::new(operands, results.into_iter().zip(&mask).filter(|(_, m)| **m).map(|(sbp, _)| sbp))
    };
    let mut ways = vec![way([S0, S0, B], [S0, P, P])];
    // The length of the bias is that of the result's channels.
    let args = drop_argument(whole.attrs(), "bias_sizes");
    if weight.groups == 1 {
        let args = Local::Args(args);
        let output = way([S1, B, weight.output], [P, weight.output, S0]).local(args);
        let input = way([B, S1, weight.input], [S1, weight.input, B]);
        ways.extend([output, input].map(|way| way.parts(Parts::NotEmpty)));
    } else {
        // The first result that is wanted: the gradient of x, or of the weight or the bias.
        let local = Local::Groups(args, usize::from(mask[0]));
        let groups = way([S1, S1, S0], [S1, S0, S0]).local(local);
        ways.push(groups.parts(Parts::Groups(weight.groups)));
    }
    ways.push(way([P, B, B], [P, P, P]));
    Ok(ways)
}

/// All dimensions but the last two.
fn planes(whole: &Whole<'_>) -> Vec<Way> {
    let rank = whole.shape(0).len();
    whole.along_all(&[rank - 2, rank - 1])
}

/// Means of integers are truncated, so they are not linear.
fn linear_planes(whole: Whole<'_>) -> Result<Vec<Way>> {
    let mut ways = planes(&whole);
    if whole.inputs()[0].dtype.is_inexact() {
        ways.extend(whole.linear(&[0]));
    }
    Ok(ways)
}

/// The points of a grid give the last dimensions of the samples.
fn samples(whole: Whole<'_>) -> Result<Vec<Way>> {
    let points = 1..whole.shape(1).len() - 1;
    let points = points.map(|dim| Way::new([B, sbp::S(dim)], [sbp::S(dim + 1)]));
    let planes = [Way::new([S0, S0], [S0]), Way::new([S1, B], [S1])];
    Ok(planes.into_iter().chain(points).chain(whole.linear(&[0])).collect())
}

fn sample_gradients(whole: Whole<'_>) -> Result<Vec<Way>> {
    let mask = whole.attrs().ints("output_mask")?.unwrap_or_else(|| vec![1, 1]);
    let way = |operands: [Sbp; 3], results: [Sbp; 2]| {
        let wanted = |k: &usize| mask.get(*k).is_some_and(|m| *m != 0);
        Way::new(operands, (0..2).filter(wanted).map(|k| results[k]))
    };
    let mut ways = vec![way([S0, S0, S0], [S0, S0]), way([S1, S1, B], [S1, P])];
    for dim in 1..whole.shape(2).len() - 1 {
        ways.push(way([sbp::S(dim + 1), B, sbp::S(dim)], [P, sbp::S(dim)]));
    }
    ways.push(way([P, B, B], [P, P]));
    Ok(ways)
}
