//! The ways of views, concatenations and gradients of views: a split is kept while every part stays
//! one block of strides.

use millstream_types::{Attrs, Dims, Layout, Result};

use super::{Local, Parts, Rules, Way, Whole};
use crate::args::{dimension, required};
use crate::concat::is_skipped;
use crate::schema::OutputSpec;
use crate::views::dims::named_once;

pub(super) const RULES: Rules = &[
    ("alias", |whole| kept(whole, &[])),
    ("detach", |whole| kept(whole, &[])),
    ("view_as_real", |whole| kept(whole, &[])),
    ("view_as_complex", |whole| kept(whole, &[whole.shape(0).len() - 1])),
    ("t", |whole| {
        let rank = whole.shape(0).len();
        mapped(whole, |dim| Some(rank - 1 - dim))
    }),
    ("transpose", |whole| {
        let [a, b] = [dim(&whole, "dim0", None)?, dim(&whole, "dim1", None)?];
        let other = |dim| {
            if dim == a {
                b
            } else if dim == b {
                a
            } else {
                dim
            }
        };
        mapped(whole, |dim| Some(other(dim)))
    }),
    ("permute", |whole| {
        let dims = required("dims", whole.attrs().ints("dims")?)?;
        let dims = named_once(&dims, whole.shape(0).len())?;
        mapped(whole, |dim| dims.iter().position(|of| *of == dim))
    }),
    ("squeeze", squeeze),
    ("unsqueeze", |whole| {
        let at = required("dim", whole.attrs().int("dim")?)?;
        let at = dimension(at, whole.shape(0).len() + 1)?;
        mapped(whole, |dim| Some(dim + usize::from(dim >= at)))
    }),
    ("expand", expand),
    ("slice", |whole| {
        let cut = dim(&whole, "dim", Some(0))?;
        let step = whole.attrs().int("step")?.unwrap_or(1);
        match step == 1 && whole.result_shape()[cut] == whole.shape(0)[cut] {
            true => kept(whole, &[]),
            false => kept(whole, &[cut]),
        }
    }),
    ("narrow", |whole| kept(whole, &[dim(&whole, "dim", None)?])),
    ("split", |whole| kept(whole, &[dim(&whole, "dim", Some(0))?])),
    ("chunk", |whole| kept(whole, &[dim(&whole, "dim", Some(0))?])),
    ("split_with_sizes", |whole| kept(whole, &[dim(&whole, "dim", Some(0))?])),
    ("unfold", |whole| kept(whole, &[dim(&whole, "dimension", None)?])),
    ("select", |whole| {
        let gone = dim(&whole, "dim", None)?;
        mapped(whole, |dim| without(dim, &[gone]))
    }),
    ("unbind", |whole| {
        let gone = dim(&whole, "dim", Some(0))?;
        mapped(whole, |dim| without(dim, &[gone]))
    }),
    ("diagonal", |whole| {
        let gone = [dim(&whole, "dim1", Some(0))?, dim(&whole, "dim2", Some(1))?];
        mapped(whole, |dim| without(dim, &gone))
    }),
    ("as_strided", restrided),
    ("view", |whole| reshaped(whole, "size")),
    ("reshape", |whole| reshaped(whole, "shape")),
    ("cat", cat),
    ("stack", |whole| {
        let at = dimension(whole.attrs().int("dim")?.unwrap_or(0), whole.shape(0).len() + 1)?;
        let splits = (0..whole.shape(0).len())
            .map(|dim| whole.along(|_| Some(dim), |_| Some(dim + usize::from(dim >= at))));
        Ok(splits.chain(whole.moved(&all(&whole))).collect())
    }),
    ("repeat", |whole| {
        let repeats = required("repeats", whole.attrs().ints("repeats")?)?;
        let added = repeats.len() - whole.shape(0).len();
        mapped(whole, |dim| (repeats[dim + added] == 1).then_some(dim + added))
    }),
    ("select_backward", |whole| {
        let of = sizes(&whole, "dim", None)?;
        padded(whole, &[of])
    }),
    ("slice_backward", |whole| {
        let of = sizes(&whole, "dim", None)?;
        let splits = kept(whole, &[of])?.into_iter();
        Ok(splits.map(|way| way.local(Local::Shape("input_sizes"))).collect())
    }),
    ("diagonal_backward", |whole| {
        let [a, b] = [sizes(&whole, "dim1", Some(0))?, sizes(&whole, "dim2", Some(1))?];
        padded(whole, &[a, b])
    }),
];

/// Returns the positions of all operands.
fn all(whole: &Whole<'_>) -> Vec<usize> {
    (0..whole.inputs().len()).collect()
}

/// Returns the dimension of the first operand that an argument names.
pub(super) fn dim(whole: &Whole<'_>, name: &str, default: Option<i64>) -> Result<usize> {
    let given = whole.attrs().int(name)?.or(default);
    dimension(required(name, given)?, whole.shape(0).len())
}

/// Returns the dimension of the first result that an argument names.
fn sizes(whole: &Whole<'_>, name: &str, default: Option<i64>) -> Result<usize> {
    let given = whole.attrs().int(name)?.or(default);
    dimension(required(name, given)?, whole.result_shape().len())
}

/// Returns a dimension's position among those that stay.
pub(super) fn without(dim: usize, gone: &[usize]) -> Option<usize> {
    let before = gone.iter().filter(|of| **of < dim).count();
    (!gone.contains(&dim)).then(|| dim - before)
}

/// All dimensions but these keep their place; parts of a reduction are moved alike.
pub(super) fn kept(whole: Whole<'_>, cut: &[usize]) -> Result<Vec<Way>> {
    mapped(whole, |dim| (!cut.contains(&dim)).then_some(dim))
}

/// Every dimension of the only operand goes to one of each result, or cannot be split.
fn mapped(whole: Whole<'_>, to: impl Fn(usize) -> Option<usize>) -> Result<Vec<Way>> {
    let dims = (0..whole.shape(0).len()).filter_map(|dim| Some((dim, to(dim)?)));
    let splits = dims.map(|(dim, to)| whole.along(|_| Some(dim), |_| Some(to)));
    Ok(splits.chain(whole.moved(&[0])).collect())
}

/// The dimensions of length 1 are named: a part of another one may have that length, too.
fn squeeze(whole: Whole<'_>) -> Result<Vec<Way>> {
    let shape = whole.shape(0);
    let chosen = match whole.attrs().ints("dim")? {
        Some(dims) => named_once(&dims, shape.len())?,
        None => (0..shape.len()).collect(),
    };
    let gone = chosen.into_iter().filter(|dim| shape.get(*dim) == Some(&1));
    let gone: Vec<usize> = gone.collect();
    let named: Vec<i64> = gone.iter().map(|dim| *dim as i64).collect();
    let args = Local::Args(whole.attrs().clone().with("dim", named));
    let ways = mapped(whole, |dim| without(dim, &gone))?;
    Ok(ways.into_iter().map(|way| way.local(args.clone())).collect())
}

/// A repeated dimension may be split: every rank repeats its part as often as it is long.
fn expand(whole: Whole<'_>) -> Result<Vec<Way>> {
    let (x, result) = (whole.shape(0), whole.result_shape());
    let added = result.len() - x.len();
    let splits = (0..result.len()).map(|dim| {
        let own = dim.checked_sub(added).filter(|own| x[*own] == result[dim]);
        whole.along(|_| own, |_| Some(dim)).local(Local::Shape("size"))
    });
    Ok(splits.chain(whole.moved(&[0])).collect())
}

/// A view of all of x; other strides are those of the whole storage.
fn restrided(whole: Whole<'_>) -> Result<Vec<Way>> {
    let x = &whole.inputs()[0].layout;
    let Some(OutputSpec::View { layout, .. }) = whole.signature.outputs.first() else {
        return Ok(Vec::new());
    };
    let steps = |of: &Layout| -> Dims {
        let dims = of.shape().iter().zip(of.strides());
        dims.filter(|(length, _)| **length > 1).map(|(_, step)| *step).collect()
    };
    let same = layout.shape() == x.shape() && layout.offset() == x.offset();
    if !same || steps(layout) != steps(x) {
        return Ok(Vec::new());
    }
    let local = Local::Op { op: "alias", attrs: Attrs::new() };
    Ok(kept(whole, &[])?.into_iter().map(|way| way.local(local.clone())).collect())
}

/// The first dimension of each group of dimensions that becomes another group, both split into
/// parts of one length, is one block of the elements on every rank.
fn reshaped(whole: Whole<'_>, name: &'static str) -> Result<Vec<Way>> {
    let (x, result) = (whole.shape(0), whole.result_shape());
    let splits = leading(x, &result).into_iter().map(|(from, to)| {
        let parts = if x[from] == result[to] { Parts::Any } else { Parts::Equal };
        whole.along(|_| Some(from), |_| Some(to)).parts(parts).local(Local::Shape(name))
    });
    Ok(splits.chain(whole.moved(&[0])).collect())
}

/// Returns the first dimensions longer than 1 of the smallest groups of equal numbers of elements.
fn leading(old: &[usize], new: &[usize]) -> Vec<(usize, usize)> {
    let longer = |shape: &[usize]| (0..shape.len()).filter(|k| shape[*k] > 1).collect::<Dims>();
    let (mut from, mut to) = (longer(old).into_iter(), longer(new).into_iter());
    let mut found = Vec::new();
    if old.contains(&0) {
        return found;
    }
    while let (Some(first), Some(second)) = (from.next(), to.next()) {
        let (mut left, mut right) = (old[first], new[second]);
        // Where lengths are equal but groups are longer, this is the whole group.
        found.push((first, second));
        while left != right {
            let next = if left < right { from.next() } else { to.next() };
            match next {
                Some(dim) if left < right => left *= old[dim],
                Some(dim) => right *= new[dim],
                None => return found,
            }
        }
    }
    found
}

fn cat(whole: Whole<'_>) -> Result<Vec<Way>> {
    let at = sizes(&whole, "dim", Some(0))?;
    let of = |k: usize, dim| (!is_skipped(whole.shape(k))).then_some(dim);
    let dims = (0..whole.result_shape().len()).filter(|dim| *dim != at);
    let splits = dims.map(|dim| whole.along(|k| of(k, dim), |_| Some(dim)));
    Ok(splits.chain(whole.moved(&all(&whole))).collect())
}

/// The gradient of a view without these dimensions of the viewed tensor.
fn padded(whole: Whole<'_>, gone: &[usize]) -> Result<Vec<Way>> {
    let dims = (0..whole.result_shape().len()).filter_map(|dim| Some((without(dim, gone)?, dim)));
    let splits = dims.map(|(from, to)| {
        whole.along(|_| Some(from), |_| Some(to)).local(Local::Shape("input_sizes"))
    });
    Ok(splits.chain(whole.moved(&[0])).collect())
}

/// Returns arguments without one of them.
pub(super) fn drop_argument(attrs: &Attrs, name: &str) -> Attrs {
    let left = attrs.iter().filter(|(of, _)| *of != name);
    left.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name.to_owned(), value.clone()))
}

#[cfg(test)]
mod tests {
    use super::leading;

    #[test]
    fn groups_of_dimensions() {
        assert_eq!(leading(&[4, 3, 2], &[4, 2, 3]), [(0, 0), (1, 1)]);
        assert_eq!(leading(&[4, 6], &[24]), [(0, 0)]);
        assert_eq!(leading(&[1, 6, 5], &[2, 3, 1, 5]), [(1, 0), (2, 3)]);
        assert_eq!(leading(&[2, 3], &[6, 1]), [(0, 0)]);
        assert_eq!(leading(&[4, 4], &[2, 8]), [(0, 0)]);
        assert_eq!(leading(&[0, 3], &[3, 0]), []);
    }
}
