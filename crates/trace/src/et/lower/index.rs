//! Lowers reads by masked indices and selections of distinct elements.

use millstream_ops::args::dimension;
use millstream_types::Attrs;

use super::complex::{filled_by, is_complex};
use super::{Made, apply, one_call};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Val};
use crate::et::value::Recorded;

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
        "_unique2" | "_unique" | "unique_consecutive" | "unique_dim" | "unique_dim_consecutive" => {
            return distinct(import, name, given, results).map(Some);
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(made)]))
}

/// Lowers selections of distinct elements.
fn distinct(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut x = given.tensor(import, "self")?;
    // PyTorch returns both of slices, whether they are requested or not.
    let sliced = given.get("dim").is_some();
    let wanted = |k: usize, name: &str| results.get(k).is_some() && (sliced || given.flag(name));
    let (inverse, counts) = (wanted(1, "return_inverse"), wanted(2, "return_counts"));
    let mut attrs = Attrs::new()
        .with("consecutive", name.contains("consecutive"))
        .with("return_inverse", inverse)
        .with("return_counts", counts);
    let dim = given.int("dim")?;
    let rank = import.spec(x).shape().len();
    let dim = dim.map(|dim| dimension(dim, rank)).transpose()?;
    let order = dim.map(|dim| {
        let dim = dim as i64;
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
