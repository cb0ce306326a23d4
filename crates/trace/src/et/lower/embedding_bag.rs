//! Lowers sums and means of bags of rows of a table.

use millstream_types::{Attrs, DType};

use super::{Made, call, cast, one_call};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered};
use crate::et::value::Recorded;

/// Lowers `_embedding_bag`. PyTorch leaves results empty that its gradient does not read.
pub(super) fn embedding_bag(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let converted = args::convert(import, "_embedding_bag", given, &[], results)?;
    let bags = call(import, "_embedding_bag", converted)?;
    let mut made = Vec::new();
    for (k, recorded) in results.iter().enumerate() {
        let val = bags.get(k).copied().flatten();
        let Some(recorded) = recorded.as_ref().filter(|_| k > 0) else {
            made.push(val);
            continue;
        };
        let fits = val.filter(|val| import.spec(*val).shape() == &*recorded.shape);
        let val = match fits {
            Some(val) => val,
            None => {
                let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
                let zeros = Attrs::new().with("shape", shape).with("value", 0i64);
                one_call(import, "full", &[], zeros.with("dtype", DType::I64))?
            }
        };
        made.push(Some(cast(import, val, recorded.dtype)?));
    }
    Ok(made)
}
