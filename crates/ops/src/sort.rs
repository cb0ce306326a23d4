//! Sorting and top-k.
//!
//! | op | results |
//! |---|---|
//! | `sort(x; dim=-1, descending=false, stable)` | the sorted elements, and their indices in x |
//! | `argsort(x; dim=-1, descending=false, stable)` | the indices alone |
//! | `topk(x; k, dim=-1, largest=true, sorted=true)` | the first k elements, and their indices |
//!
//! NaN is greater than every number. Sorting is always stable. `topk` always returns sorted
//! elements. The kernel decides which of equal elements `topk` selects, and in which order. The CPU
//! kernel breaks ties as PyTorch does on the CPU. The CUDA kernel takes the lower index first in
//! lines of over 1024 elements; in shorter lines it breaks ties as the CPU kernel does.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.sort.html>.

use millstream_types::{Access, DType, Dims, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::{dimension, required};
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

pub(crate) const OPS: &[Def] = &[SORT, ARGSORT, TOPK];

const DIM: ArgDoc = arg("dim", "the dimension to sort along").int().or("the last");

const SORT: Def = Def::new(
    "sort",
    "the elements sorted along a dimension, and their indices in x",
    &[arg("x", "any shape")],
    &[
        DIM,
        arg("descending", "greatest first").flag().or("false"),
        arg("stable", "ignored: the sort is always stable").flag().ignored(),
    ],
    |call| {
        let [values, indices] = sorted(call)?;
        Ok(pair(values, indices))
    },
)
.unsigned();

const ARGSORT: Def = Def {
    name: "argsort",
    summary: "the indices in x of the elements sorted along a dimension",
    rule: |call| {
        let [_, indices] = sorted(call)?;
        Ok(Signature::reads(1, indices))
    },
    ..SORT
};

/// Returns the values and indices of a sort.
fn sorted(call: CallSpec<'_>) -> Result<[TensorSpec; 2]> {
    let x = &call.inputs[0];
    dimension(call.attrs.int("dim")?.unwrap_or(-1), x.layout.rank())?;
    call.attrs.bool("descending")?;
    call.attrs.bool("stable")?;
    let layout = layouts::preserved(x)?;
    Ok([TensorSpec::new(x.dtype, layout.clone())?, TensorSpec::new(DType::I64, layout)?])
}

fn pair(values: TensorSpec, indices: TensorSpec) -> Signature {
    Signature {
        accesses: SmallVec::from_iter([Access::Read]),
        outputs: SmallVec::from_iter([OutputSpec::Fresh(values), OutputSpec::Fresh(indices)]),
        workspace: 0,
    }
}

const TOPK: Def = Def::new(
    "topk",
    "the k greatest or least elements along a dimension, and their indices in x",
    &[arg("x", "any shape; not bool")],
    &[
        arg("k", "the number of elements, at most the dimension's length").int(),
        DIM,
        arg("largest", "the greatest instead of the least").flag().or("true"),
        arg("sorted", "ignored: the results are always sorted").flag().ignored(),
    ],
    |call| {
        let x = &call.inputs[0];
        let dim = dimension(call.attrs.int("dim")?.unwrap_or(-1), x.layout.rank())?;
        call.attrs.bool("largest")?;
        call.attrs.bool("sorted")?;
        if x.dtype == DType::Bool {
            return Err(refused("topk", format!("expected numbers, got {}", x.brief())));
        }
        let k = required("k", call.attrs.int("k")?)?;
        let length = x.shape().get(dim).copied().unwrap_or(1);
        let count = usize::try_from(k).ok().filter(|&k| k <= length);
        let count =
            count.ok_or_else(|| refused("topk", format!("k: expected 0 to {length}, got {k}")))?;
        let mut shape = Dims::from_slice(x.shape());
        // A tensor without dimensions is its own extremum, whatever k is.
        if let Some(length) = shape.get_mut(dim) {
            *length = count;
        }
        let values = TensorSpec::contiguous(x.dtype, &shape)?;
        Ok(pair(values, TensorSpec::contiguous(DType::I64, &shape)?))
    },
);
