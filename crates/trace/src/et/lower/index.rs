//! Lowers reads and writes by index, searches, and selections of distinct elements.

use millstream_types::{AttrValue, Attrs};

use super::complex::{filled_by, is_complex};
use super::overloads::positive;
use super::special_functions::scalar;
use super::{Made, apply, one_call};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Val, unsupported};
use crate::et::value::{Arg, Recorded};

/// Lowers an op, named without the `_` of its form in place; `None` if it is none of these.
pub(super) fn index(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    let made = match name {
        "_unsafe_masked_index" if is_complex(given, "fill") => {
            masked_index(import, given, results)?
        }
        "bucketize" => search(import, given, ["boundaries", "self"])?,
        "searchsorted" => search(import, given, ["sorted_sequence", "self"])?,
        "_unique2" | "_unique" | "unique_consecutive" | "unique_dim" | "unique_dim_consecutive" => {
            return distinct(import, name, given, results).map(Some);
        }
        "linear" if import.ops().find("linear").is_none() => linear(import, given)?,
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(made)]))
}

fn flag(given: &NodeArgs<'_>, name: &str) -> Lowered<bool> {
    Ok(given.scalar(name)? == Some(AttrValue::Bool(true)))
}

/// Lowers a search in a sorted sequence for numbers or tensors.
fn search(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    [sorted, values]: [&str; 2],
) -> Lowered<Val> {
    let mut sequence = given.tensor(import, sorted)?;
    if let Some((_, Arg::Tensor(_))) = given.get("sorter") {
        let sorter = given.tensor(import, "sorter")?;
        let last = Attrs::new().with("dim", -1i64);
        sequence = one_call(import, "gather", &[sequence, sorter], last)?;
    }
    let x = match given.get(values) {
        Some((_, Arg::Tensor(_))) => given.tensor(import, values)?,
        _ => {
            let dtype = import.spec(sequence).dtype;
            scalar(import, given, values, dtype)?
        }
    };
    let right = flag(given, "right")?
        || matches!(given.get("side"), Some((_, Arg::Str(side))) if side == "right");
    let attrs = Attrs::new().with("right", right).with("out_int32", flag(given, "out_int32")?);
    one_call(import, "searchsorted", &[sequence, x], attrs)
}

/// Lowers selections of distinct elements.
fn distinct(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut x = given.tensor(import, "self")?;
    let wanted = |k: usize, name: &str| -> Lowered<bool> {
        // PyTorch returns both of slices, whether they are requested or not.
        let sliced = given.get("dim").is_some();
        Ok(results.get(k).is_some() && (sliced || flag(given, name)?))
    };
    let (inverse, counts) = (wanted(1, "return_inverse")?, wanted(2, "return_counts")?);
    let mut attrs = Attrs::new()
        .with("consecutive", name.contains("consecutive"))
        .with("return_inverse", inverse)
        .with("return_counts", counts);
    let dim = given.int("dim")?;
    let rank = import.spec(x).shape().len();
    let order = dim.map(|dim| positive(dim, rank)).map(|dim| {
        let mut order: Vec<i64> = (0..rank as i64).filter(|&k| k != dim).collect();
        order.insert(0, dim);
        (dim, order)
    });
    if let Some((dim, order)) = &order {
        x = one_call(import, "permute", &[x], Attrs::new().with("dims", order.clone()))?;
        import.move_bounded_dim(*dim as usize);
        attrs.set("dim", 0i64);
    }
    let mut made = import.call("unique", &[x], attrs)?;
    if let Some((dim, _)) = order {
        let mut back: Vec<i64> = (1..rank as i64).collect();
        back.insert(dim as usize, 0);
        let turned = one_call(import, "permute", &[made[0]], Attrs::new().with("dims", back))?;
        let dense = Attrs::new().with("memory_format", "contiguous");
        made[0] = one_call(import, "clone", &[turned], dense)?;
    }
    made.truncate(results.len());
    Ok(made.into_iter().map(Some).collect())
}

/// Lowers `linear` with `out`.
fn linear(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, weight) = (given.tensor(import, "input")?, given.tensor(import, "weight")?);
    if import.spec(weight).shape().len() != 2 {
        return Err(unsupported("weights that are no matrix"));
    }
    let turned = Attrs::new().with("dim0", 0i64).with("dim1", 1i64);
    let weight = one_call(import, "transpose", &[weight], turned)?;
    let product = apply(import, "matmul", &[x, weight])?;
    match given.get("bias") {
        Some((_, Arg::Tensor(_))) => {
            let bias = given.tensor(import, "bias")?;
            apply(import, "add", &[product, bias])
        }
        _ => Ok(product),
    }
}

/// Lowers a read by index where a mask is true, else a complex number.
fn masked_index(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Val> {
    let op = "_unsafe_masked_index";
    let converted = args::convert(import, op, given, &["fill"], results)?;
    let read = one_call(import, op, &converted.inputs, converted.attrs.with("fill", 0i64))?;
    let mask = given.tensor(import, "mask")?;
    let skipped = apply(import, "logical_not", &[mask])?;
    filled_by(import, given, "fill", [read, skipped])
}
