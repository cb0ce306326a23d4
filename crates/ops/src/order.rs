//! Sorting.
//!
//! | op | results |
//! |---|---|
//! | `sort(x; dim=-1, descending=false, stable)` | the elements in order, and where they were |
//! | `argsort(x; dim=-1, descending=false, stable)` | where they were |
//! | `topk(x; k, dim=-1, largest=true, sorted=true)` | the first k of them, and where they were |
//!
//! NaN counts as greater than all else. Sorted, equal elements keep their order, whether `stable` asks
//! for it or not. `topk` gives its results in order always; which of equal elements it takes, and in what
//! order, is the kernel's choice: the host's leaves ties as PyTorch's does there, a CUDA device's takes the
//! lower index first in lines of over 1024 elements, and in shorter ones does as the host's.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.sort.html>.

use millstream_types::{Access, DType, Dims, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::{dimension, required};
use crate::def::{Arity, Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

pub(crate) const OPS: &[Def] = &[SORT, ARGSORT, TOPK];

const DIM: ArgDoc = arg("dim", "the dimension to sort along; the last unless given");

const SORT: Def = Def {
    name: "sort",
    summary: "the elements in order along a dimension, and the indices that they had",
    inputs: &[arg("x", "any shape")],
    attrs: &[
        DIM,
        arg("descending", "the greatest first; false unless given"),
        arg("stable", "means nothing: equal elements always keep their order"),
    ],
    arity: Arity::Listed,
    rule: |call| {
        let [values, indices] = sorted(call)?;
        Ok(pair(values, indices))
    },
};

const ARGSORT: Def = Def {
    name: "argsort",
    summary: "the indices that the elements in order along a dimension had",
    rule: |call| {
        let [_, indices] = sorted(call)?;
        Ok(Signature::reads(1, indices))
    },
    ..SORT
};

/// Values and indices of a sort.
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

const TOPK: Def = Def {
    name: "topk",
    summary: "the k greatest or least elements along a dimension, and the indices that they had",
    inputs: &[arg("x", "any shape; not bool")],
    attrs: &[
        arg("k", "how many, at most the dimension's length"),
        DIM,
        arg("largest", "the greatest, or else the least; true unless given"),
        arg("sorted", "means nothing: they are always given in order"),
    ],
    arity: Arity::Listed,
    rule: |call| {
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
        // A tensor of no dimensions is its own greatest element, whatever k is.
        if let Some(length) = shape.get_mut(dim) {
            *length = count;
        }
        let values = TensorSpec::contiguous(x.dtype, &shape)?;
        Ok(pair(values, TensorSpec::contiguous(DType::I64, &shape)?))
    },
};
