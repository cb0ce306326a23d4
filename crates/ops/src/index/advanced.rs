//! Indices of several dimensions at once, and masks.
//!
//! The index tensors broadcast to one shape. If the dimensions that they index stand side by side,
//! that shape stands in their place in the result, else it stands first. A bool mask of the shape
//! of x's first dimensions picks where it is true; the number of rows is data, so that a mask is
//! taken only alone and first.

use millstream_types::{Access, DType, Dims, Layout, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::ABSENT;
use crate::broadcast::broadcast;
use crate::def::{Arity, Def, arg, refused};
use crate::index::{check_index, in_place};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const INDICES: ArgDoc = arg("indices", "i64 or i32, one for each dimension indexed; or one mask");
const ABSENT_DOC: ArgDoc = arg(
    ABSENT,
    "the places in the list of indices at which none is; those at the end may be left out",
);

pub(super) const INDEX: Def = Def {
    name: "index",
    summary: "the elements of x at indices, broadcast, along one or more dimensions",
    inputs: &[arg("x", "one or more dimensions"), INDICES],
    attrs: &[ABSENT_DOC],
    arity: Arity::Many(2),
    rule: index,
};

/// The dimension of x that each index given stands for.
///
/// # Errors
/// `absent` names a place twice or one that is none; more indices than dimensions.
pub fn listed(
    op: &str,
    absent: Option<Vec<i64>>,
    given: usize,
    rank: usize,
) -> Result<SmallVec<[usize; 4]>> {
    let mut gaps: SmallVec<[usize; 4]> = SmallVec::new();
    for number in absent.unwrap_or_default() {
        match usize::try_from(number) {
            Ok(at) if at < rank && !gaps.contains(&at) => gaps.push(at),
            _ => {
                let message =
                    format!("{ABSENT}: {number}: expected places below {rank}, each once");
                return Err(refused(op, message));
            }
        }
    }
    let dims: SmallVec<[usize; 4]> = (0..rank).filter(|k| !gaps.contains(k)).take(given).collect();
    match dims.len() == given {
        true => Ok(dims),
        false => Err(refused(op, format!("{given} indices for {} dimensions", dims.len()))),
    }
}

/// Where indices stand in the result.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The shape that the indices broadcast to.
    pub indices: Dims,
    /// The dimensions of x that are not indexed.
    pub rest: SmallVec<[usize; 4]>,
    /// Before which of them the indices stand.
    pub at: usize,
}

impl Plan {
    /// The result's shape.
    pub fn shape(&self, x: &[usize]) -> Dims {
        let (before, after) = self.rest.split_at(self.at);
        let lengths = |dims: &[usize]| dims.iter().map(|&k| x[k]).collect::<Dims>();
        lengths(before).into_iter().chain(self.indices.clone()).chain(lengths(after)).collect()
    }
}

/// Where indices of these shapes, of the dimensions `dims` of `rank`, stand in the result.
///
/// # Errors
/// They do not broadcast.
pub fn plan<'a>(
    dims: &[usize],
    rank: usize,
    shapes: impl IntoIterator<Item = &'a [usize]>,
) -> Result<Plan> {
    let mut indices = Dims::new();
    for shape in shapes {
        indices = broadcast(&indices, shape)?;
    }
    let rest = (0..rank).filter(|k| !dims.contains(k)).collect();
    let together = dims.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let at = if together { dims.first().copied().unwrap_or(0) } else { 0 };
    Ok(Plan { indices, rest, at })
}

fn index(call: CallSpec<'_>) -> Result<Signature> {
    let (x, indices) = (&call.inputs[0], &call.inputs[1..]);
    if let Some(rest) = mask("index", call, x, indices)? {
        let mut shape = Dims::from_slice(&[indices[0].numel()]);
        shape.extend_from_slice(rest);
        return Ok(Signature {
            accesses: SmallVec::from_elem(Access::Read, 2),
            outputs: SmallVec::from_iter([OutputSpec::Bounded(TensorSpec::contiguous(
                x.dtype, &shape,
            )?)]),
            workspace: 0,
        });
    }
    let plan = planned("index", call, x, indices)?;
    let shape = plan.shape(x.shape());
    TensorSpec::contiguous(x.dtype, &shape)?;
    // The result lies as that of an elementwise op on x, repeated along the indices' dimensions,
    // and the indices.
    let (before, after) = plan.rest.split_at(plan.at);
    let strides = |dims: &[usize]| dims.iter().map(|&k| x.layout.strides()[k]).collect::<Dims>();
    let mut steps = strides(before);
    steps.extend(plan.indices.iter().map(|_| 0));
    steps.extend(strides(after));
    let mut operands = vec![TensorSpec::new(x.dtype, Layout::strided(&shape, &steps, 0)?)?];
    for index in indices {
        let mut shape = Dims::from_slice(index.shape());
        let mut steps = Dims::from_slice(index.layout.strides());
        shape.extend(after.iter().map(|_| 1));
        steps.extend(after.iter().map(|_| 1));
        operands.push(TensorSpec::new(index.dtype, Layout::strided(&shape, &steps, 0)?)?);
    }
    let operands: Vec<&TensorSpec> = operands.iter().collect();
    let layout = layouts::elementwise(&operands, &shape)?;
    Ok(Signature::reads(call.inputs.len(), TensorSpec::new(x.dtype, layout)?))
}

/// The lengths that a mask leaves, if the only index is one.
fn mask<'a>(
    op: &str,
    call: CallSpec<'_>,
    x: &'a TensorSpec,
    indices: &[TensorSpec],
) -> Result<Option<&'a [usize]>> {
    if indices.iter().all(|i| i.dtype != DType::Bool) {
        return Ok(None);
    }
    let [mask] = indices else {
        return Err(refused(op, "a bool mask is taken only as the only index"));
    };
    let rank = mask.layout.rank();
    if rank == 0 || x.layout.rank() < rank || x.shape()[..rank] != *mask.shape() {
        let message = format!(
            "expected a mask of the first dimensions of {}, got {}",
            x.brief(),
            mask.brief()
        );
        return Err(refused(op, message));
    }
    let absent = call.attrs.ints(ABSENT)?.unwrap_or_default();
    if absent.iter().any(|&at| at < 1) {
        return Err(refused(op, "a bool mask is taken only as the first index"));
    }
    Ok(Some(&x.shape()[rank..]))
}

fn planned(op: &str, call: CallSpec<'_>, x: &TensorSpec, indices: &[TensorSpec]) -> Result<Plan> {
    for index in indices {
        check_index(op, index)?;
    }
    let rank = x.layout.rank();
    let dims = listed(op, call.attrs.ints(ABSENT)?, indices.len(), rank)?;
    plan(&dims, rank, indices.iter().map(TensorSpec::shape))
}

const VALUES: ArgDoc = arg("values", "x's dtype; broadcasts to what index gives");

pub(super) const INDEX_PUT: Def = Def {
    name: "index_put",
    summary: "x with the elements at indices set to values, or with these added to them",
    inputs: &[arg("x", "one or more dimensions"), VALUES, INDICES],
    attrs: &[ABSENT_DOC, arg("accumulate", "whether to add; false unless given")],
    arity: Arity::Many(3),
    rule: |call| {
        check_put("index_put", call)?;
        let x = &call.inputs[0];
        let spec = TensorSpec::new(x.dtype, layouts::preserved(x)?)?;
        Ok(Signature::reads(call.inputs.len(), spec))
    },
};

pub(super) const INDEX_PUT_: Def = Def {
    name: "index_put_",
    summary: "sets the elements of x at indices to values, or adds to them, in place",
    inputs: &[
        arg("x", "one or more dimensions, no element twice; changed in place"),
        VALUES,
        INDICES,
    ],
    rule: |call| {
        check_put("index_put_", call)?;
        in_place("index_put_", call.inputs)
    },
    ..INDEX_PUT
};

fn check_put(op: &str, call: CallSpec<'_>) -> Result<()> {
    let (x, values, indices) = (&call.inputs[0], &call.inputs[1], &call.inputs[2..]);
    call.attrs.bool("accumulate")?;
    if values.dtype != x.dtype {
        let (x, values) = (x.brief(), values.brief());
        return Err(refused(op, format!("expected one dtype, got {x} and {values}")));
    }
    let shape = match mask(op, call, x, indices)? {
        Some(rest) => {
            // How many rows there are is seen by the kernel; here any number is as good.
            let mut shape = Dims::from_slice(rest);
            let own = values.layout.rank().checked_sub(rest.len() + 1);
            shape.insert(0, own.map_or(1, |k| values.shape()[k]));
            shape
        }
        None => planned(op, call, x, indices)?.shape(x.shape()),
    };
    if broadcast(&shape, values.shape())? != shape {
        let message = format!("{} does not broadcast to {:?}", values.brief(), &shape[..]);
        return Err(refused(op, message));
    }
    Ok(())
}
