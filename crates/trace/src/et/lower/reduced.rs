//! Lowers the ops that combine values with the elements at an index: `scatter` with `reduce`, and
//! `scatter_reduce`.

use millstream_types::{AttrValue, Attrs};

use super::one_call;
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

fn shape_of(import: &Import<'_>, x: Val) -> Vec<i64> {
    import.spec(x).shape().iter().map(|&d| d as i64).collect()
}

/// Returns a tensor of one number, with the shape of `shape` and the dtype of `of`.
fn full(import: &mut Import<'_>, shape: Val, of: Val, value: AttrValue) -> Lowered<Val> {
    let attrs = Attrs::new()
        .with("shape", shape_of(import, shape))
        .with("value", value)
        .with("dtype", import.spec(of).dtype);
    one_call(import, "full", &[], attrs)
}

/// Lowers `scatter(…, reduce)` and `scatter_reduce`.
pub(super) fn reduced_scatter(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, index) = (given.tensor(import, "self")?, given.tensor(import, "index")?);
    let src = match given.scalar("value")? {
        None => given.tensor(import, "src")?,
        Some(value) => full(import, index, x, value)?,
    };
    let include_self = !matches!(given.scalar("include_self")?, Some(AttrValue::Bool(false)));
    let mut attrs = Attrs::new().with("dim", given.int("dim")?.unwrap_or(0));
    attrs.set("include_self", include_self);
    let Some((_, Arg::Str(reduce))) = given.get("reduce") else {
        return Err(Refusal::Wrong("'reduce': expected a string".to_owned()));
    };
    let op = match &**reduce {
        "sum" | "add" => "scatter_sum",
        "mean" => "scatter_mean",
        "prod" | "multiply" | "amax" | "amin" => {
            attrs.set("reduce", if reduce == "multiply" { "prod" } else { reduce });
            "scatter_reduce"
        }
        other => return Err(unsupported(format!("reduce '{other}'"))),
    };
    one_call(import, op, &[x, index, src], attrs)
}
