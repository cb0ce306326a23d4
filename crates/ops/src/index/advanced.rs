//! Indices of several dimensions at once, and masks.
//!
//! The index tensors broadcast to one shape. If the indexed dimensions are adjacent, that shape
//! replaces them in the result; otherwise it comes first. A bool mask has the shape of the first
//! dimensions of x and selects the elements where it is true. Its number of rows depends on data,
//! so a mask must be the only index and index the first dimensions.

use millstream_types::{Access, DType, Dims, Layout, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::ABSENT;
use crate::broadcast::broadcast;
use crate::def::{Def, arg, refused};
use crate::index::{check_index, in_place};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const INDICES: ArgDoc =
    arg("indices", "i64 or i32, one for each indexed dimension; or one bool mask");
const ABSENT_DOC: ArgDoc =
    arg(ABSENT, "the dimensions without an index; those at the end need not be listed")
        .ints()
        .optional();

pub(super) const INDEX: Def = Def::new(
    "index",
    "the elements of x at broadcast indices of one or more dimensions",
    &[arg("x", "one or more dimensions"), INDICES],
    &[ABSENT_DOC],
    index,
)
.many(2)
.complex()
.unsigned();

/// Returns the dimension of x that each given index belongs to.
///
/// # Errors
/// Fails if `absent` holds a dimension twice or out of range, or if there are more indices than
/// dimensions.
pub fn indexed_dims(
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
                    format!("{ABSENT}: {number}: expected dimensions below {rank}, each once");
                return Err(refused(op, message));
            }
        }
    }
    let dims: SmallVec<[usize; 4]> = (0..rank).filter(|k| !gaps.contains(k)).take(given).collect();
    match dims.len() == given {
        true => Ok(dims),
        false => Err(refused(op, format!("expected at most {} indices, got {given}", dims.len()))),
    }
}

/// The positions of indexed dimensions in the result.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The shape that the indices broadcast to.
    pub indices: Dims,
    /// The dimensions of x without an index.
    pub rest: SmallVec<[usize; 4]>,
    /// The position of the indices among `rest`.
    pub at: usize,
}

impl Plan {
    /// Returns the shape of the result.
    pub fn shape(&self, x: &[usize]) -> Dims {
        let (before, after) = self.rest.split_at(self.at);
        let lengths = |dims: &[usize]| dims.iter().map(|&k| x[k]).collect::<Dims>();
        lengths(before).into_iter().chain(self.indices.clone()).chain(lengths(after)).collect()
    }
}

/// Returns the positions in the result of indices of these shapes, for the dimensions `dims` of
/// `rank`.
///
/// # Errors
/// Fails if the shapes do not broadcast.
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
    // The layout is that of an elementwise op on the indices and on x, expanded along the
    // dimensions of the indices.
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

/// Returns the lengths after the masked dimensions, if the only index is a mask.
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
        return Err(refused(op, "expected a bool mask to be the only index"));
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
        return Err(refused(op, "expected a bool mask to be the first index"));
    }
    Ok(Some(&x.shape()[rank..]))
}

fn planned(op: &str, call: CallSpec<'_>, x: &TensorSpec, indices: &[TensorSpec]) -> Result<Plan> {
    for index in indices {
        check_index(op, index)?;
    }
    let rank = x.layout.rank();
    let dims = indexed_dims(op, call.attrs.ints(ABSENT)?, indices.len(), rank)?;
    plan(&dims, rank, indices.iter().map(TensorSpec::shape))
}

const VALUES: ArgDoc = arg("values", "x's dtype; a shape that broadcasts to the result of index");

pub(super) const INDEX_PUT: Def = Def::new(
    "index_put",
    "x with the elements at indices set to values, or with values added",
    &[arg("x", "one or more dimensions"), VALUES, INDICES],
    &[ABSENT_DOC, arg("accumulate", "add instead of setting").flag().or("false")],
    |call| {
        check_put("index_put", call)?;
        let x = &call.inputs[0];
        let spec = TensorSpec::new(x.dtype, layouts::preserved(x)?)?;
        Ok(Signature::reads(call.inputs.len(), spec))
    },
)
.many(3)
.complex()
.unsigned();

pub(super) const INDEX_PUT_: Def = Def {
    name: "index_put_",
    summary: "sets the elements of x at indices to values, or adds values, in place",
    inputs: &[
        arg("x", "one or more dimensions, without overlapping elements; changed in place"),
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
            // The kernel counts the rows; here, any number that the values allow is accepted.
            let mut shape = Dims::from_slice(rest);
            let own = values.layout.rank().checked_sub(rest.len() + 1);
            shape.insert(0, own.map_or(1, |k| values.shape()[k]));
            shape
        }
        None => planned(op, call, x, indices)?.shape(x.shape()),
    };
    if broadcast(&shape, values.shape())? != shape {
        let message = format!(
            "values: expected a shape that broadcasts to {:?}, got {}",
            &shape[..],
            values.brief()
        );
        return Err(refused(op, message));
    }
    Ok(())
}
