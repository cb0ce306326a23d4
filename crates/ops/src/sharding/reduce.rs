//! The ways of reductions: what is not reduced may be split, and a reduced dimension gives the
//! parts of a reduction of the same kind.

use millstream_types::{DType, Reduction, Result, Sbp, sbp};

use super::axes::P;
use super::views::without;
use super::{Divisor, Local, Parts, Rules, Way, Whole};
use crate::args::Scalar;
use crate::reduce::reduced;

pub(super) const RULES: Rules = &[
    ("sum", |whole| Ok([others(&whole)?, parts(&whole, P)?, whole.linear(&[0])].concat())),
    ("prod", |whole| others(&whole)),
    ("mean", mean),
    ("any", |whole| Ok([others(&whole)?, parts(&whole, Sbp::Partial(Reduction::Max))?].concat())),
    ("all", |whole| Ok([others(&whole)?, parts(&whole, Sbp::Partial(Reduction::Min))?].concat())),
    ("count_nonzero", |whole| Ok([others(&whole)?, parts(&whole, P)?].concat())),
    ("hash_tensor", |whole| others(&whole)),
    ("std", |whole| others(&whole)),
    ("var", |whole| others(&whole)),
    ("linalg_vector_norm", norm),
    ("logsumexp", |whole| others(&whole)),
    ("amax", |whole| extremum(&whole, Reduction::Max)),
    ("amin", |whole| extremum(&whole, Reduction::Min)),
    ("max", |whole| extremum(&whole, Reduction::Max)),
    ("min", |whole| extremum(&whole, Reduction::Min)),
    ("argmax", |whole| others(&whole)),
    ("argmin", |whole| others(&whole)),
    ("mode", |whole| {
        let dim = super::views::dim(&whole, "dim", Some(-1))?;
        kept(&whole, &[dim])
    }),
    ("histc", histogram),
];

/// The dimensions that are not reduced.
fn others(whole: &Whole<'_>) -> Result<Vec<Way>> {
    kept(whole, &reduced(whole.attrs(), whole.shape(0).len())?)
}

/// The dimensions but the reduced ones, which stay with length 1 or are dropped.
fn kept(whole: &Whole<'_>, reduced: &[usize]) -> Result<Vec<Way>> {
    let keeps = whole.result_shape().len() == whole.shape(0).len();
    let to = |dim| if keeps { Some(dim) } else { without(dim, reduced) };
    let dims = (0..whole.shape(0).len()).filter(|dim| !reduced.contains(dim));
    Ok(dims.map(|dim| whole.along(|_| Some(dim), |_| to(dim))).collect())
}

/// A reduced dimension is split: the result is partial.
fn parts(whole: &Whole<'_>, partial: Sbp) -> Result<Vec<Way>> {
    let dims = reduced(whole.attrs(), whole.shape(0).len())?;
    Ok(dims.into_iter().map(|dim| Way::new([sbp::S(dim)], [partial])).collect())
}

/// Sums of f16 may exceed the range that the mean is in.
fn mean(whole: Whole<'_>) -> Result<Vec<Way>> {
    let mut ways = others(&whole)?;
    let shape = whole.shape(0);
    let dims = reduced(whole.attrs(), shape.len())?;
    let count: f64 = dims.iter().map(|dim| shape[*dim] as f64).product();
    if whole.result(0).is_some_and(|(dtype, _)| dtype != DType::F16) {
        let attrs = whole.attrs().clone();
        let local = Local::MeanOf { op: "sum", attrs, count: Divisor::Count(count) };
        ways.extend(parts(&whole, P)?.into_iter().map(|way| way.local(local.clone())));
    }
    ways.extend(whole.linear(&[0]));
    Ok(ways)
}

/// The orders whose norm is a sum or an extremum of the norms of parts.
fn norm(whole: Whole<'_>) -> Result<Vec<Way>> {
    let mut ways = others(&whole)?;
    let ord = whole.attrs().float("ord")?.unwrap_or(2.0);
    let (partial, least) = match ord {
        0.0 | 1.0 => (P, Parts::Any),
        f64::INFINITY => (Sbp::Partial(Reduction::Max), Parts::NotEmpty),
        f64::NEG_INFINITY => (Sbp::Partial(Reduction::Min), Parts::NotEmpty),
        _ => return Ok(ways),
    };
    ways.extend(parts(&whole, partial)?.into_iter().map(|way| way.parts(least)));
    Ok(ways)
}

/// With an index beside the extremum, a reduced dimension stays whole.
fn extremum(whole: &Whole<'_>, reduction: Reduction) -> Result<Vec<Way>> {
    let mut ways = others(whole)?;
    if whole.signature.outputs.len() == 1 {
        let split = parts(whole, Sbp::Partial(reduction))?.into_iter();
        ways.extend(split.map(|way| way.parts(Parts::NotEmpty)));
        ways.push(whole.partial(reduction, &[0]));
    }
    Ok(ways)
}

/// The bins must not depend on the elements.
fn histogram(whole: Whole<'_>) -> Result<Vec<Way>> {
    let bound = |name| Scalar::of(whole.attrs(), name).map(crate::counting::range);
    if bound("min")? >= bound("max")? {
        return Ok(Vec::new());
    }
    Ok((0..whole.shape(0).len()).map(|dim| Way::new([sbp::S(dim)], [P])).collect())
}
