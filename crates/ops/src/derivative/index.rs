//! Indexing, embedding, attention, sorting, rearrangement.

use millstream_ops::args::ABSENT;
use millstream_types::{AttrValue, Attrs, DType, Result};

use super::{
    Derivative, Formula, Formulas, I0, I1, I2, O0, O1, Rule, Save, each, first, joint, one,
};
use crate::handle::Tensor;
use crate::tensor::Index;

const NONE: Option<Formula> = None;
const I3: Save = Save::Input(3);
const ATTENTION: &str = "_scaled_dot_product_flash_attention_for_cpu";

/// The indices of `index`: more dimensions than programs index at once.
const INDICES: &[(Save, &[usize])] = &[
    (I1, &[0]),
    (I2, &[0]),
    (I3, &[0]),
    (Save::Input(4), &[0]),
    (Save::Input(5), &[0]),
    (Save::Input(6), &[0]),
    (Save::Input(7), &[0]),
    (Save::Input(8), &[0]),
];

/// The indices of `index_put`.
const PUT_INDICES: &[(Save, &[usize])] = &[
    (I2, &[0, 1]),
    (I3, &[0, 1]),
    (Save::Input(4), &[0, 1]),
    (Save::Input(5), &[0, 1]),
    (Save::Input(6), &[0, 1]),
    (Save::Input(7), &[0, 1]),
    (Save::Input(8), &[0, 1]),
    (Save::Input(9), &[0, 1]),
];

pub(super) const RULES: &[Rule] = &[
    each(
        "gather",
        &[(I1, &[0])],
        &[Some(|d| d.zeros(0)?.scatter_add(&d.input(1)?, &d.g()?, dim(d)?)), NONE],
    ),
    each(
        "scatter",
        &[(I1, &[0, 2])],
        &[Some(|d| d.g()?.scatter(&d.input(1)?, 0, dim(d)?)), NONE, Some(|d| picked(d, &d.g()?))],
    ),
    each("scatter_add", &[(I1, &[2])], &[Some(|d| d.g()), NONE, Some(|d| picked(d, &d.g()?))]),
    each(
        "scatter_reduce",
        &[(I0, &[0, 2]), (I1, &[0, 2]), (I2, &[0, 2]), (O0, &[0, 2])],
        &[Some(|d| Ok(combined(d)?.0)), NONE, Some(|d| Ok(combined(d)?.1))],
    ),
    each(
        "index_select",
        &[(I1, &[0])],
        &[
            Some(|d| {
                let (g, index) = (d.g()?, d.input(1)?);
                if d.shape(0)?.is_empty() {
                    return g.reshape(());
                }
                let index = index.reshape(index.numel())?;
                d.zeros(0)?.index_add(&index, &g, dim(d)?)
            }),
            NONE,
        ],
    ),
    each(
        "index_add",
        &[(I1, &[2])],
        &[
            Some(|d| d.g()),
            NONE,
            Some(|d| {
                let g = d.g()?.index_select(&d.input(1)?, dim(d)?)?;
                g.mul(d.number("alpha", 1.0)?)?.reshape(d.shape(2)?)
            }),
        ],
    ),
    Rule {
        op: "index",
        saves: INDICES,
        formulas: Formulas::Every(|d, _| {
            let (zeros, g) = (d.zeros(0)?, d.g()?);
            let indices = indices(d, 1)?;
            let mut attrs = Attrs::new().with("accumulate", true);
            if let Some(absent) = d.attrs().get(ABSENT) {
                attrs.set(ABSENT, absent.clone());
            }
            let mut given = vec![&zeros, &g];
            given.extend(&indices);
            first("index_put", crate::tensor::call_op("index_put", &given, attrs)?)
        }),
    },
    Rule {
        op: "index_put",
        saves: PUT_INDICES,
        formulas: Formulas::Every(|d, input| {
            let g = d.g()?;
            let indices = indices(d, 2)?;
            let mut attrs = Attrs::new();
            if let Some(absent) = d.attrs().get(ABSENT) {
                attrs.set(ABSENT, absent.clone());
            }
            if input == 1 {
                let mut given = vec![&g];
                given.extend(&indices);
                return first("index", crate::tensor::call_op("index", &given, attrs)?);
            }
            if d.attrs().bool("accumulate")?.unwrap_or(false) {
                return Ok(g);
            }
            let zero = Tensor::zeros((), g.dtype(), &g)?;
            let mut given = vec![&g, &zero];
            given.extend(&indices);
            first("index_put", crate::tensor::call_op("index_put", &given, attrs)?)
        }),
    },
    each(
        "masked_select",
        &[(I1, &[0])],
        &[
            Some(|d| {
                let (g, mask) = (d.g()?, d.input(1)?);
                // The elements are numbered in row-major order of the broadcast shape.
                let shape: Vec<usize> =
                    millstream_ops::broadcast::broadcast(d.shape(0)?, mask.shape())?.to_vec();
                let zeros = Tensor::zeros(&shape, g.dtype(), &g)?;
                let mask = mask.expand(&shape)?.contiguous()?;
                let given = [&zeros, &g, &mask];
                first("index_put", crate::tensor::call_op("index_put", &given, Attrs::new())?)
            }),
            NONE,
        ],
    ),
    each(
        "embedding",
        &[(I1, &[0])],
        &[
            Some(|d| {
                let rows = d.shape(0)?[0] as i64;
                let mut attrs = Attrs::new().with("num_weights", rows);
                for name in ["padding_idx", "scale_grad_by_freq"] {
                    if let Some(value) = d.attrs().get(name) {
                        attrs.set(name, value.clone());
                    }
                }
                let op = "embedding_dense_backward";
                first(op, crate::tensor::call_op(op, &[&d.g()?, &d.input(1)?], attrs)?)
            }),
            NONE,
        ],
    ),
    joint(
        ATTENTION,
        &[
            (I0, &[0, 1, 2]),
            (I1, &[0, 1, 2]),
            (I2, &[0, 1, 2]),
            (I3, &[0, 1, 2]),
            (O0, &[0, 1, 2]),
            (O1, &[0, 1, 2]),
        ],
        |d| {
            let (g, q, k, v) = (d.g()?, d.input(0)?, d.input(1)?, d.input(2)?);
            let mask = d.optional(3)?;
            let (mut given, attrs) = (vec![&g, &q, &k, &v], ["is_causal", "scale"]);
            let results = if d.is_noted() {
                // Without the results it makes calls that have derivatives.
                given.extend(mask.as_ref());
                let op = "_scaled_dot_product_fused_attention_overrideable_backward";
                d.call(op, &given, &attrs)?
            } else {
                let (out, sums) = (d.output(0)?, d.output(1)?);
                given.extend([&out, &sums].into_iter().chain(mask.as_ref()));
                let op = "_scaled_dot_product_flash_attention_for_cpu_backward";
                d.call(op, &given, &attrs)?
            };
            Ok(results.into_iter().map(Some).chain([None]).collect())
        },
    ),
    one("sort", &[(O1, &[0])], &[Some(sorted)]),
    one("topk", &[(O1, &[0])], &[Some(sorted)]),
    one("flip", &[], &[Some(|d| d.g()?.flip(d.attrs().ints("dims")?.unwrap_or_default()))]),
    one(
        "roll",
        &[],
        &[Some(|d| {
            let shifts: Vec<i64> =
                d.attrs().ints("shifts")?.unwrap_or_default().iter().map(|s| -s).collect();
            match d.attrs().ints("dims")?.filter(|dims| !dims.is_empty()) {
                Some(dims) => d.g()?.roll(shifts, dims),
                None => d.g()?.roll(shifts, ..),
            }
        })],
    ),
    one("triu", &[], &[Some(|d| d.g()?.triu(d.attrs().int("diagonal")?.unwrap_or(0)))]),
    one("tril", &[], &[Some(|d| d.g()?.tril(d.attrs().int("diagonal")?.unwrap_or(0)))]),
    one(
        "constant_pad_nd",
        &[],
        &[Some(|d| {
            let pad: Vec<i64> =
                d.attrs().ints("pad")?.unwrap_or_default().iter().map(|p| -p).collect();
            d.g()?.constant_pad_nd(pad)
        })],
    ),
];

fn dim(d: &Derivative<'_>) -> Result<i64> {
    Ok(d.attrs().int("dim")?.unwrap_or(0))
}

/// Returns the gradient of what was scattered: the elements at the index, in the source's shape.
fn picked(d: &Derivative<'_>, g: &Tensor) -> Result<Tensor> {
    let index = d.input(1)?;
    let picked = g.gather(&index, dim(d)?)?;
    // Elements of the source beyond the index were not used.
    padded_to(&picked, d.shape(2)?)
}

/// Returns the gradients of the target and the source of `scatter_reduce`.
fn combined(d: &Derivative<'_>) -> Result<(Tensor, Tensor)> {
    let (g, dim) = (d.g()?, dim(d)?);
    let (x, index, source, result) = (d.input(0)?, d.input(1)?, d.input(2)?, d.output(0)?);
    let is_included = d.attrs().bool("include_self")?.unwrap_or(true);
    // The part of the source that was used.
    let used: Vec<Index<'_>> =
        index.shape().iter().map(|&n| Index::Clamped(None, Some(n as i64))).collect();
    let source = if source.rank() == 0 { source } else { source.i(used.as_slice())? };
    let reduce = match d.attrs().get("reduce") {
        Some(AttrValue::Str(name)) => name.as_str(),
        _ => "",
    };
    let (own, of_source) = match reduce {
        "sum" => (g.clone(), g.gather(&index, dim)?),
        "amax" | "amin" => {
            let is_result = x.eq(&result)?.cast(g.dtype())?;
            let is_source = source.eq(&result.gather(&index, dim)?)?.cast(g.dtype())?;
            let ties = is_result.scatter_add(&index, &is_source, dim)?;
            let share = g.div(&ties)?;
            (share.mul(&is_result)?, share.gather(&index, dim)?.mul(&is_source)?)
        }
        _ => {
            // Zeros are replaced by ones in the products of the others.
            let product = |x: &Tensor, source: &Tensor| {
                d.call_one(
                    "scatter_reduce",
                    &[x, &index, source],
                    &["dim", "reduce", "include_self"],
                )
            };
            let filled = x.masked_fill(&x.eq(0)?, 1)?;
            let own = g.mul(&product(&filled, &source)?)?.div(&filled)?;
            let is_zero = source.eq(0)?;
            let zeros = x.zeros_like()?.scatter_add(&index, &is_zero.cast(g.dtype())?, dim)?;
            let is_only_zero = is_zero.logical_and(&zeros.gather(&index, dim)?.eq(1)?)?;
            let others = product(&x, &source.masked_fill(&is_only_zero, 1)?)?;
            let at_zero = g.mul(&others)?.gather(&index, dim)?;
            let elsewhere = g.mul(&result)?.gather(&index, dim)?;
            let elsewhere = elsewhere.div(&source.masked_fill(&is_zero, 1)?)?;
            (own, is_only_zero.where_cond(&at_zero, &elsewhere)?)
        }
    };
    let own = if is_included { own } else { own.scatter(&index, 0, dim)? };
    Ok((own, padded_to(&of_source, d.shape(2)?)?))
}

/// Appends zeros to each dimension, up to a shape.
fn padded_to(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let mut pad = Vec::new();
    for (&wanted, &own) in shape.iter().zip(x.shape()).rev() {
        pad.extend([0, wanted as i64 - own as i64]);
    }
    if pad.iter().all(|&p| p == 0) { Ok(x.clone()) } else { x.constant_pad_nd(pad) }
}

/// Returns the indices of `index` or `index_put`, which begin at this position.
fn indices(d: &Derivative<'_>, from: usize) -> Result<Vec<Tensor>> {
    (from..d.node.input_specs.len()).map(|k| d.input(k)).collect()
}

/// Returns the gradient at the places that the elements came from.
fn sorted(d: &Derivative<'_>) -> Result<Tensor> {
    if d.shape(0)?.is_empty() {
        return d.g();
    }
    let dim = d.attrs().int("dim")?.unwrap_or(-1);
    let index = d.output(1)?;
    debug_assert_eq!(index.dtype(), DType::I64);
    d.zeros(0)?.scatter_add(&index, &d.g()?, dim)
}
