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
];

/// The dimensions of a weight.
struct Weight {
    /// That of the channels of x.
    input: Sbp,
    /// That of the channels of the result.
    output: Sbp,
    /// Whether the channels are not in several groups.
    is_whole: bool,
}

fn weight(whole: &Whole<'_>) -> Result<Weight> {
    let transposed = whole.attrs().bool("transposed")?.unwrap_or(false);
    let (input, output) = if transposed { (S0, S1) } else { (S1, S0) };
    let is_whole = whole.attrs().int("groups")?.unwrap_or(1) == 1;
    Ok(Weight { input, output, is_whole })
}

fn forward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let weight = weight(&whole)?;
    let way = |listed: [Sbp; 3], result| Ok(Way::new(whole.given(&listed)?, [result]));
    let mut ways: Vec<Result<Way>> = vec![way([S0, B, B], S0)];
    if weight.is_whole {
        let channels = [way([B, weight.output, S0], S1), way([S1, weight.input, P], P)];
        ways.extend(channels.map(|way| way.map(|way| way.parts(Parts::NotEmpty))));
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
    if weight.is_whole {
        // The length of the bias is that of the result's channels.
        let args = Local::Args(drop_argument(whole.attrs(), "bias_sizes"));
        let output = way([S1, B, weight.output], [P, weight.output, S0]).local(args);
        let input = way([B, S1, weight.input], [S1, weight.input, B]);
        ways.extend([output, input].map(|way| way.parts(Parts::NotEmpty)));
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
