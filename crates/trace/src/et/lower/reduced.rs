//! Lowers the ops that combine values with the elements at an index: `scatter` with `reduce`,
//! `scatter_reduce` and `index_reduce`.

use millstream_types::{AttrValue, Attrs};

use super::composed::{positive, reshaped};
use super::one_call;
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

/// A combination of the elements of `x` at an index along a dimension with those of `src`.
struct Combination {
    x: Val,
    dim: i64,
    index: Val,
    src: Val,
    /// Whether the elements of `x` count as values, too.
    include_self: bool,
}

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

fn text<'a>(given: &'a NodeArgs<'_>, name: &str) -> Lowered<&'a str> {
    match given.get(name) {
        Some((_, Arg::Str(text))) => Ok(text),
        _ => Err(Refusal::Wrong(format!("'{name}': expected a string"))),
    }
}

/// Lowers `scatter(…, reduce)` and `scatter_reduce`.
pub(super) fn reduced_scatter(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, index) = (given.tensor(import, "self")?, given.tensor(import, "index")?);
    let src = match given.get("value") {
        None => given.tensor(import, "src")?,
        Some(_) => {
            let value = given.scalar("value")?;
            let value =
                value.ok_or_else(|| Refusal::Wrong("'value': expected a number".to_owned()))?;
            full(import, index, x, value)?
        }
    };
    let include_self = !matches!(given.scalar("include_self")?, Some(AttrValue::Bool(false)));
    let dim = given.int("dim")?.unwrap_or(0);
    Combination { x, dim, index, src, include_self }.lower(import, text(given, "reduce")?)
}

/// Lowers `index_reduce`, whose index selects slices.
pub(super) fn reduced_indices(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, index) = (given.tensor(import, "self")?, given.tensor(import, "index")?);
    let src = given.tensor(import, "source")?;
    let shape = shape_of(import, src);
    let dim = positive(given.int("dim")?.unwrap_or(0), shape.len());
    let mut along = vec![1i64; shape.len()];
    if let Some(length) = usize::try_from(dim).ok().and_then(|dim| along.get_mut(dim)) {
        *length = import.spec(index).numel() as i64;
    }
    let index = reshaped(import, index, &along)?;
    let index = one_call(import, "expand", &[index], Attrs::new().with("size", shape))?;
    let include_self = !matches!(given.scalar("include_self")?, Some(AttrValue::Bool(false)));
    Combination { x, dim, index, src, include_self }.lower(import, text(given, "reduce")?)
}

impl Combination {
    fn lower(self, import: &mut Import<'_>, reduce: &str) -> Lowered<Val> {
        match reduce {
            "sum" | "add" => self.sum(import),
            "prod" | "multiply" => self.native(import, "prod"),
            "amax" | "amin" => self.native(import, reduce),
            "mean" => self.mean(import),
            other => Err(unsupported(format!("reduce '{other}'"))),
        }
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("dim", self.dim)
    }

    fn native(&self, import: &mut Import<'_>, reduce: &str) -> Lowered<Val> {
        let attrs = self.attrs().with("reduce", reduce).with("include_self", self.include_self);
        one_call(import, "scatter_reduce", &[self.x, self.index, self.src], attrs)
    }

    fn sum(&self, import: &mut Import<'_>) -> Lowered<Val> {
        let mut x = self.x;
        if !self.include_self {
            let zero = self.attrs().with("value", 0i64);
            x = one_call(import, "scatter", &[x, self.index], zero)?;
        }
        one_call(import, "scatter_add", &[x, self.index, self.src], self.attrs())
    }

    /// Divides the sums by the numbers of values, as PyTorch does. The quotient of integers is
    /// rounded down.
    fn mean(&self, import: &mut Import<'_>) -> Lowered<Val> {
        let sums = self.sum(import)?;
        let own = i64::from(self.include_self);
        let counts = full(import, self.x, self.x, AttrValue::Int(own))?;
        let ones = full(import, self.src, self.x, AttrValue::Int(1))?;
        let counts = one_call(import, "scatter_add", &[counts, self.index, ones], self.attrs())?;
        let none = one_call(import, "eq", &[counts], Attrs::new().with("other", 0i64))?;
        let one = Attrs::new().with("value", 1i64);
        let counts = one_call(import, "masked_fill", &[counts, none], one)?;
        let mut attrs = Attrs::new();
        if !import.spec(self.x).dtype.is_float() {
            attrs.set("rounding_mode", "floor");
        }
        one_call(import, "div", &[sums, counts], attrs)
    }
}
