//! The ways of calls that compute each line along some dimensions for itself: scans, softmax,
//! sorts, flips, padding, transforms. All other dimensions may be split.

use millstream_types::{Reduction, Result};

use super::elementwise::is_zero;
use super::views::dim;
use super::{Rules, Way, Whole};
use crate::args::{dimension, required};
use crate::rearrange::pads;
use crate::views::dims::named_once;

pub(super) const RULES: Rules = &[
    ("cumsum", |whole| linear(whole, &[dim(&whole, "dim", None)?])),
    ("cumprod", |whole| Ok(whole.along_all(&[dim(&whole, "dim", None)?]))),
    ("logcumsumexp", |whole| Ok(whole.along_all(&[dim(&whole, "dim", None)?]))),
    ("cummax", |whole| Ok(whole.along_all(&[dim(&whole, "dim", None)?]))),
    ("cummin", |whole| Ok(whole.along_all(&[dim(&whole, "dim", None)?]))),
    ("_softmax", |whole| Ok(whole.along_all(&[dim(&whole, "dim", None)?]))),
    ("_log_softmax", |whole| Ok(whole.along_all(&[dim(&whole, "dim", None)?]))),
    ("_softmax_backward_data", |whole| linear(whole, &[dim(&whole, "dim", None)?])),
    ("_log_softmax_backward_data", |whole| linear(whole, &[dim(&whole, "dim", None)?])),
    ("sort", |whole| Ok(whole.along_all(&[dim(&whole, "dim", Some(-1))?]))),
    ("argsort", |whole| Ok(whole.along_all(&[dim(&whole, "dim", Some(-1))?]))),
    ("topk", |whole| Ok(whole.along_all(&[dim(&whole, "dim", Some(-1))?]))),
    ("flip", |whole| {
        let dims = required("dims", whole.attrs().ints("dims")?)?;
        moved(whole, &named_once(&dims, whole.shape(0).len())?)
    }),
    ("roll", roll),
    ("triu", triangle),
    ("tril", triangle),
    ("triu_", triangle),
    ("tril_", triangle),
    ("constant_pad_nd", padding),
    ("_fft_c2c", transform),
    ("_fft_r2c", transform),
    ("_fft_c2r", transform),
];

/// As [`Whole::along_all`]; linear in the first operand.
fn linear(whole: Whole<'_>, excluded: &[usize]) -> Result<Vec<Way>> {
    Ok([whole.along_all(excluded), whole.linear(&[0])].concat())
}

/// As [`Whole::along_all`]; parts of a reduction are moved alike.
fn moved(whole: Whole<'_>, excluded: &[usize]) -> Result<Vec<Way>> {
    Ok([whole.along_all(excluded), whole.moved(&[0])].concat())
}

/// Without dimensions, elements move between all of them.
fn roll(whole: Whole<'_>) -> Result<Vec<Way>> {
    let rank = whole.shape(0).len();
    let given = whole.attrs().ints("dims")?.unwrap_or_default();
    let dims = given.iter().map(|dim| dimension(*dim, rank)).collect::<Result<Vec<_>>>()?;
    match dims.is_empty() {
        true => Ok(whole.moved(&[0])),
        false => moved(whole, &dims),
    }
}

fn triangle(whole: Whole<'_>) -> Result<Vec<Way>> {
    let rank = whole.shape(0).len();
    moved(whole, &[rank - 2, rank - 1])
}

/// Every rank pads with the value, so a sum needs zeros.
fn padding(whole: Whole<'_>) -> Result<Vec<Way>> {
    let shape = whole.shape(0);
    let pads = pads("constant_pad_nd", shape, &required("pad", whole.attrs().ints("pad")?)?)?;
    let changed = (0..shape.len()).filter(|dim| {
        let pad = &pads[*dim];
        pad.before > 0 || pad.kept != shape[*dim] || pad.shape != shape[*dim]
    });
    let mut ways = whole.along_all(&changed.collect::<Vec<_>>());
    if whole.attrs().get("value").is_none() || is_zero(&whole, "value") {
        ways.extend(whole.linear(&[0]));
    }
    ways.extend([Reduction::Max, Reduction::Min].map(|by| whole.partial(by, &[0])));
    Ok(ways)
}

fn transform(whole: Whole<'_>) -> Result<Vec<Way>> {
    let dims = required("dim", whole.attrs().ints("dim")?)?;
    linear(whole, &named_once(&dims, whole.shape(0).len())?)
}
