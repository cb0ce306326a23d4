//! The ways of normalisations and their gradients: rows for layers, images for groups, channels for
//! batches.

use millstream_types::{Result, Sbp, sbp};

use super::axes::P;
use super::{Local, Rules, Way, Whole};
use crate::args::required;
use crate::checks;

const B: Sbp = sbp::B;
const S0: Sbp = sbp::S(0);
const S1: Sbp = sbp::S(1);

pub(super) const RULES: Rules = &[
    ("native_layer_norm", layer),
    ("native_layer_norm_backward", layer_backward),
    ("native_group_norm", |whole| {
        let operands = whole.given(&[S0, B, B])?;
        Ok(vec![Way::new(operands, [S0; 3]).local(Local::Length("N", 0))])
    }),
    ("native_group_norm_backward", group_backward),
    ("native_batch_norm", batch),
    ("native_batch_norm_backward", batch_backward),
];

/// Returns the dimensions that a layer does not normalise over.
fn rows(whole: &Whole<'_>, x: usize) -> Result<std::ops::Range<usize>> {
    let normalised = required("shape", whole.attrs().ints("normalized_shape")?)?.len();
    Ok(0..whole.shape(x).len() - normalised)
}

fn layer(whole: Whole<'_>) -> Result<Vec<Way>> {
    let way = |dim| Ok(Way::new(whole.given(&[sbp::S(dim), B, B])?, [sbp::S(dim); 3]));
    rows(&whole, 0)?.map(way).collect()
}

/// Returns a way by the shardings of all results that the op may have.
fn masked(whole: &Whole<'_>, listed: &[Sbp], results: [Sbp; 3]) -> Result<Way> {
    let mask = checks::mask(whole.attrs(), 3)?;
    let wanted = results.into_iter().zip(mask).filter(|(_, wanted)| *wanted);
    Ok(Way::new(whole.given(listed)?, wanted.map(|(sbp, _)| sbp)))
}

fn layer_backward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let by_row = rows(&whole, 1)?.map(|dim| {
        let row = sbp::S(dim);
        masked(&whole, &[row, row, row, row, B, B], [row, P, P])
    });
    by_row.chain([masked(&whole, &[P, B, B, B, B, B], [P; 3])]).collect()
}

/// The length of the batch is an argument, which is found at the gradient of x.
fn group_backward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let mut ways = vec![masked(&whole, &[P, B, B, B, B], [P; 3])?];
    if checks::mask(whole.attrs(), 3)?[0] {
        let images = masked(&whole, &[S0, S0, S0, S0, B], [S0, P, P])?;
        ways.push(images.local(Local::Length("N", 0)));
    }
    Ok(ways)
}

/// Without training, the statistics are given: every dimension may be split.
fn batch(whole: Whole<'_>) -> Result<Vec<Way>> {
    let training = whole.attrs().bool("training")?.unwrap_or(false);
    let saved = if training { S0 } else { B };
    let channels = Way::new(whole.given(&[S1, S0, S0, S0, S0])?, [S1, saved, saved]);
    let others = (0..whole.shape(0).len()).filter(|dim| !training && *dim != 1);
    let others = others
        .map(|dim| Ok(Way::new(whole.given(&[sbp::S(dim), B, B, B, B])?, [sbp::S(dim), B, B])));
    [Ok(channels)].into_iter().chain(others).collect()
}

/// Statistics that are not used may have no elements.
fn batch_backward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let training = whole.attrs().bool("train")?.unwrap_or(false);
    let channels = whole.shape(1)[1];
    let mut by_channel = masked(&whole, &[S1, S1, S0, S0, S0, S0, S0], [S1, S0, S0])?;
    for (sbp, x) in by_channel.operands.iter_mut().zip(whole.inputs()).skip(2) {
        if x.shape() != [channels] {
            *sbp = B;
        }
    }
    let others = (0..whole.shape(1).len()).filter(|dim| !training && *dim != 1);
    let others = others.map(|dim| {
        let part = sbp::S(dim);
        masked(&whole, &[part, part, B, B, B, B, B], [part, P, P])
    });
    let linear = masked(&whole, &[P, B, B, B, B, B, B], [P; 3]);
    [Ok(by_channel)].into_iter().chain(others).chain([linear]).collect()
}
