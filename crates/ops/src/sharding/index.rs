//! The ways of gather, scatter and indexing: dimensions that no index counts along; the indices;
//! for sums, the parts that several ranks add.

use millstream_types::{Dims, Result, Sbp, TensorSpec, sbp};

use super::axes::{P, aligned, split};
use super::elementwise::is_zero;
use super::views::dim;
use super::{Rules, Way, Whole};
use crate::args::ABSENT;
use crate::index::{indexed_dims, plan};

const B: Sbp = sbp::B;

pub(super) const RULES: Rules = &[
    ("gather", gather),
    ("scatter", |whole| scatter(whole, false)),
    ("scatter_", |whole| scatter(whole, false)),
    ("scatter_add", |whole| scatter(whole, true)),
    ("scatter_add_", |whole| scatter(whole, true)),
    ("scatter_reduce", |whole| lines(&whole, dim(&whole, "dim", None)?)),
    ("index_select", index_select),
    ("index_add", index_add),
    ("index_add_", index_add),
    ("index", index),
    ("index_put", index_put),
    ("index_put_", index_put),
    ("searchsorted", search),
];

/// The dimensions but the indexed one in which all operands are as long.
fn lines(whole: &Whole<'_>, indexed: usize) -> Result<Vec<Way>> {
    let x = whole.shape(0);
    let alike = |dim: &usize| {
        *dim != indexed && whole.inputs().iter().all(|of| of.shape().get(*dim) == Some(&x[*dim]))
    };
    let dims = (0..x.len()).filter(alike);
    Ok(dims.map(|dim| whole.along(|_| Some(dim), |_| Some(dim))).collect())
}

fn gather(whole: Whole<'_>) -> Result<Vec<Way>> {
    let at = dim(&whole, "dim", None)?;
    let by_index = Way::new([B, sbp::S(at)], [sbp::S(at)]);
    Ok([lines(&whole, at)?, vec![by_index], whole.moved(&[0])].concat())
}

/// Parts of x and of src are moved alike. What several ranks add to one element is a sum.
fn scatter(whole: Whole<'_>, adds: bool) -> Result<Vec<Way>> {
    let at = dim(&whole, "dim", None)?;
    let mut ways = lines(&whole, at)?;
    match whole.inputs().len() {
        3 if adds => {
            ways.extend(whole.linear(&[0, 2]));
            if whole.shape(1).get(at) == whole.shape(2).get(at) {
                ways.push(Way::new([P, sbp::S(at), sbp::S(at)], [P]));
            }
        }
        3 => ways.extend(whole.moved(&[0, 2])),
        _ if is_zero(&whole, "value") => ways.extend(whole.linear(&[0])),
        _ => {}
    }
    Ok(ways)
}

/// All dimensions but the indexed one of all operands but the index.
fn slices(whole: &Whole<'_>, at: usize) -> Vec<Way> {
    let dims = (0..whole.shape(0).len()).filter(|dim| *dim != at);
    dims.map(|dim| whole.along(|k| (k != 1).then_some(dim), |_| Some(dim))).collect()
}

fn index_select(whole: Whole<'_>) -> Result<Vec<Way>> {
    let at = dim(&whole, "dim", None)?;
    let by_index = Way::new([B, sbp::S(0)], [sbp::S(at)]);
    Ok([slices(&whole, at), vec![by_index], whole.moved(&[0])].concat())
}

fn index_add(whole: Whole<'_>) -> Result<Vec<Way>> {
    let at = dim(&whole, "dim", None)?;
    let by_index = Way::new([P, sbp::S(0), sbp::S(at)], [P]);
    Ok([slices(&whole, at), whole.linear(&[0, 2]), vec![by_index]].concat())
}

/// The dimensions of the result of an index: for each the dimension of x, if no index counts along
/// it, or that of the shape that the indices broadcast to.
struct Indexed {
    dims: Vec<(Option<usize>, Option<usize>)>,
    indices: Dims,
}

impl Indexed {
    fn new(whole: &Whole<'_>, op: &str, first: usize) -> Result<Indexed> {
        let (rank, indices) = (whole.shape(0).len(), &whole.inputs()[first..]);
        let indexed = indexed_dims(op, whole.attrs().ints(ABSENT)?, indices.len(), rank)?;
        let plan = plan(&indexed, rank, indices.iter().map(TensorSpec::shape))?;
        let (before, after) = plan.rest.split_at(plan.at);
        let rest = |dims: &[usize]| dims.iter().map(|dim| (Some(*dim), None)).collect::<Vec<_>>();
        let of_indices = (0..plan.indices.len()).map(|dim| (None, Some(dim)));
        let dims = rest(before).into_iter().chain(of_indices).chain(rest(after)).collect();
        Ok(Indexed { dims, indices: plan.indices })
    }
}

fn index(whole: Whole<'_>) -> Result<Vec<Way>> {
    let of = Indexed::new(&whole, "index", 1)?;
    let result = whole.result_shape();
    let splits = of.dims.iter().enumerate().map(|(dim, (x, index))| {
        let own = |k: usize| match k {
            0 => *x,
            k => aligned(&whole.inputs()[k], of.indices.len(), (*index)?, result[dim]),
        };
        whole.along(own, |_| Some(dim))
    });
    Ok(splits.chain(whole.moved(&[0])).collect())
}

/// Masks choose elements by data: their rows cannot be matched with those of values.
fn index_put(whole: Whole<'_>) -> Result<Vec<Way>> {
    if whole.inputs()[2..].iter().any(|index| !index.dtype.is_int()) {
        return Ok(Vec::new());
    }
    let of = Indexed::new(&whole, "index_put", 2)?;
    let adds = whole.attrs().bool("accumulate")?.unwrap_or(false);
    let x = whole.shape(0);
    let values = |dim, length| aligned(&whole.inputs()[1], of.dims.len(), dim, length);
    let mut ways = Vec::new();
    for (dim, (own, index)) in of.dims.iter().enumerate() {
        match (own, index) {
            (Some(own), _) => {
                let values = values(dim, x[*own]);
                let of = |k| [Some(*own), values].get(k).copied().flatten();
                ways.push(whole.along(of, |_| Some(*own)));
            }
            (None, Some(index)) if adds => {
                let length = of.indices[*index];
                let indices = whole.inputs()[2..]
                    .iter()
                    .map(|i| split(aligned(i, of.indices.len(), *index, length)));
                // Values that are the same for all indices are added by every rank to its own.
                let operands = [P, split(values(dim, length))].into_iter().chain(indices);
                ways.push(Way::new(operands, [P]));
            }
            _ => {}
        }
    }
    ways.extend(if adds { whole.linear(&[0, 1]) } else { whole.moved(&[0, 1]) });
    Ok(ways)
}

fn search(whole: Whole<'_>) -> Result<Vec<Way>> {
    let (sequences, rank) = (whole.shape(0).len(), whole.shape(1).len());
    let of = |dim: usize| match sequences > 1 && dim + 1 < rank {
        true => sbp::S(dim),
        false => B,
    };
    Ok((0..rank).map(|dim| Way::new([of(dim), sbp::S(dim)], [sbp::S(dim)])).collect())
}
