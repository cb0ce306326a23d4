//! Indexing, embedding, attention, sorting, rearrangement.

use millstream_types::{AttrValue, Attrs, Result};

use super::reduce::returned;
use super::{Derivative, Formula, I0, I1, I2, O0, O1, Rule, Save, each, every, joint, one};
use crate::args::ABSENT;
use crate::broadcast::broadcast;
use crate::formula::{Expr, along, ints};

const PASS: Option<Formula> = Some(|d| Ok(d.g()));
const NONE: Option<Formula> = None;
const I3: Save = Save::Input(3);

/// The indices of `index` and of `index_put`: more dimensions than programs index at once.
const INDICES: [Save; 9] = [
    I1,
    I2,
    I3,
    Save::Input(4),
    Save::Input(5),
    Save::Input(6),
    Save::Input(7),
    Save::Input(8),
    Save::Input(9),
];

pub(super) const RULES: &[Rule] = &[
    each(
        "gather",
        &[(I1, &[0])],
        &[Some(|d| Ok(d.zeros(0)?.scatter_add(d.int("dim", 0)?, d.input(1), d.g()))), NONE],
    )
    .complex(),
    each(
        "scatter",
        &[(I1, &[0, 2])],
        &[Some(|d| Ok(cleared(d.g(), d.int("dim", 0)?, d.input(1)))), NONE, Some(picked)],
    )
    .complex(),
    each("scatter_add", &[(I1, &[2])], &[PASS, NONE, Some(picked)]).complex(),
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
                let (g, index) = (d.g(), d.input(1));
                if d.shape(0)?.is_empty() {
                    return Ok(g.reshape(&[]));
                }
                let index = index.reshape(&[index.numel()? as i64]);
                Ok(d.calls.one("index_add", &[d.zeros(0)?, index, g], along(d.int("dim", 0)?)))
            }),
            NONE,
        ],
    )
    .complex(),
    each(
        "index_add",
        &[(I1, &[2])],
        &[
            PASS,
            NONE,
            Some(|d| {
                let g = d.g().index_select(d.int("dim", 0)?, d.input(1));
                Ok((g * d.number("alpha", 1.0)?).reshape(&d.shape(2)?))
            }),
        ],
    )
    .complex(),
    every("index", INDICES.split_at(8).0, |d, _| {
        let attrs = d.passed(&[ABSENT]).with("accumulate", true);
        Ok(indexed(d, "index_put", &[d.zeros(0)?, d.g()], 1, attrs))
    })
    .complex(),
    every("index_put", INDICES.split_at(1).1, |d, input| {
        let (g, attrs) = (d.g(), d.passed(&[ABSENT]));
        if input == 1 {
            return Ok(indexed(d, "index", &[g], 2, attrs));
        }
        if d.flag("accumulate", false)? {
            return Ok(g);
        }
        let zero = d.calls.full(Vec::new(), 0, g.dtype());
        Ok(indexed(d, "index_put", &[g, zero], 2, attrs))
    })
    .complex(),
    each(
        "masked_select",
        &[(I1, &[0])],
        &[
            Some(|d| {
                let (g, mask) = (d.g(), d.input(1));
                // The elements are numbered in row-major order of the broadcast shape.
                let shape = ints(&broadcast(d.spec(0)?.shape(), mask.spec()?.shape())?);
                // A mask without dimensions is no index.
                let places = if shape.is_empty() { vec![1] } else { shape.clone() };
                let zeros = d.calls.full(places.clone(), 0, g.dtype());
                let set = zeros.apply("index_put", [g, mask.expand(&places).dense()]);
                Ok(set.reshape(&shape))
            }),
            NONE,
        ],
    )
    .complex(),
    each(
        "embedding",
        &[(I1, &[0])],
        &[
            Some(|d| {
                let attrs = d.passed(&["padding_idx", "scale_grad_by_freq"]);
                let attrs = attrs.with("num_weights", d.shape(0)?[0]);
                Ok(d.calls.one("embedding_dense_backward", &[d.g(), d.input(1)], attrs))
            }),
            NONE,
        ],
    ),
    joint("_scaled_dot_product_flash_attention_for_cpu", &[I0, I1, I2, I3, O0, O1], |d| {
        let mut given = vec![d.g(), d.input(0), d.input(1), d.input(2)];
        let op = if d.is_noted {
            // Without the results it makes calls that have derivatives.
            "_scaled_dot_product_fused_attention_overrideable_backward"
        } else {
            given.extend([d.output(0), d.output(1)]);
            "_scaled_dot_product_flash_attention_for_cpu_backward"
        };
        given.extend(d.optional(3));
        let made = d.calls.call(op, &given, d.passed(&["is_causal", "scale"]));
        Ok(made.into_iter().map(Some).collect())
    })
    .of_first(3),
    one("sort", &[O1], |d| returned(d, d.int("dim", -1)?)),
    one("topk", &[O1], |d| returned(d, d.int("dim", -1)?)),
    one("flip", &[], |d| Ok(d.g().flip(&d.ints("dims")?))).complex(),
    one("roll", &[], |d| {
        let attrs = Attrs::new().with("shifts", negated(d, "shifts")?);
        let dims = d.ints("dims")?;
        Ok(d.g().op("roll", if dims.is_empty() { attrs } else { attrs.with("dims", dims) }))
    })
    .complex(),
    one("triu", &[], |d| Ok(d.g().triu(d.int("diagonal", 0)?))).complex(),
    one("tril", &[], |d| Ok(d.g().tril(d.int("diagonal", 0)?))).complex(),
    one("constant_pad_nd", &[], |d| Ok(d.g().padded(negated(d, "pad")?))).complex(),
];

/// Returns the tensor with zeros at the index.
fn cleared<'a>(x: Expr<'a>, dim: i64, index: Expr<'a>) -> Expr<'a> {
    x.with("scatter", index, along(dim).with("value", 0))
}

/// Returns the gradient of what was scattered: the elements at the index, in the source's shape.
fn picked(d: Derivative<'_>) -> Result<Expr<'_>> {
    // Elements of the source beyond the index were not used.
    padded_to(d.g().gather(d.int("dim", 0)?, d.input(1)), &d.shape(2)?)
}

/// Returns the gradients of the target and the source of `scatter_reduce`.
fn combined(d: Derivative<'_>) -> Result<(Expr<'_>, Expr<'_>)> {
    let (g, dim) = (d.g(), d.int("dim", 0)?);
    let (x, index, mut source, result) = (d.input(0), d.input(1), d.input(2), d.output(0));
    // The part of the source that was used.
    if source.rank()? > 0 {
        for (at, length) in (0..).zip(index.shape()?) {
            source = source.op("slice", along(at).with("end", length));
        }
    }
    let (own, of_source) = match d.attrs.get("reduce") {
        Some(AttrValue::Str(name)) if name == "sum" => (g, g.gather(dim, index)),
        Some(AttrValue::Str(name)) if ["amax", "amin"].contains(&name.as_str()) => {
            let is_result = x.eq(result).cast(g.dtype());
            let is_source = source.eq(result.gather(dim, index)).cast(g.dtype());
            let share = g / is_result.scatter_add(dim, index, is_source);
            (share * is_result, share.gather(dim, index) * is_source)
        }
        _ => {
            // Zeros are replaced by ones in the products of the others.
            let names = ["dim", "reduce", "include_self"];
            let product = |x, source| d.one("scatter_reduce", &[x, index, source], &names);
            let filled = x.filled(x.eq(0), 1);
            let own = g * product(filled, source) / filled;
            let is_zero = source.eq(0);
            let zeros = x.full_like(0)?.scatter_add(dim, index, is_zero.cast(g.dtype()));
            let is_only_zero = is_zero.logical_and(zeros.gather(dim, index).eq(1));
            let others = product(x, source.filled(is_only_zero, 1));
            let at_zero = (g * others).gather(dim, index);
            let elsewhere = (g * result).gather(dim, index) / source.filled(is_zero, 1);
            (own, is_only_zero.choose(at_zero, elsewhere))
        }
    };
    let own = if d.flag("include_self", true)? { own } else { cleared(own, dim, index) };
    Ok((own, padded_to(of_source, &d.shape(2)?)?))
}

/// Appends zeros to each dimension, up to a shape.
fn padded_to<'a>(x: Expr<'a>, shape: &[i64]) -> Result<Expr<'a>> {
    let lengths = shape.iter().zip(x.shape()?).rev();
    let pad: Vec<i64> = lengths.flat_map(|(wanted, own)| [0, wanted - own]).collect();
    Ok(if pad.iter().all(|&p| p == 0) { x } else { x.padded(pad) })
}

/// Calls an op of tensors and the indices of the noted call, which begin at a position.
fn indexed<'a>(
    d: Derivative<'a>,
    op: &str,
    of: &[Expr<'a>],
    from: usize,
    attrs: Attrs,
) -> Expr<'a> {
    let indices = (from..d.input_specs.len()).map(|k| d.input(k));
    let inputs: Vec<Expr<'a>> = of.iter().copied().chain(indices).collect();
    d.calls.one(op, &inputs, attrs)
}

/// Returns a list of the call with the signs changed.
fn negated(d: Derivative<'_>, name: &str) -> Result<Vec<i64>> {
    Ok(d.ints(name)?.iter().map(|v| -v).collect())
}
