//! What several schemas expect of tensors, and how they say so.

use millstream_types::{Access, Attrs, DType, Error, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::present;
use crate::def::refused;
use crate::schema::{CallSpec, OutputSpec, Signature};

/// The tensors of an op with optional ones, by where they are listed.
pub(crate) fn listed(
    call: CallSpec<'_>,
    count: usize,
) -> Result<SmallVec<[Option<&TensorSpec>; 8]>> {
    let places = present(call.attrs, count, call.inputs.len())?;
    Ok(places.into_iter().map(|place| place.map(|at| &call.inputs[at])).collect())
}

/// Checks that a tensor is of floats.
pub(crate) fn floats(op: &str, spec: &TensorSpec) -> Result<()> {
    match spec.dtype.is_float() {
        true => Ok(()),
        false => Err(refused(op, format!("expected floats, got {}", spec.brief()))),
    }
}

/// Checks a tensor's dtype.
pub(crate) fn dtype(op: &str, name: &str, spec: &TensorSpec, dtype: DType) -> Result<()> {
    match spec.dtype == dtype {
        true => Ok(()),
        false => Err(refused(op, format!("{name}: expected {dtype}, got {}", spec.brief()))),
    }
}

/// Checks a tensor's shape.
pub(crate) fn shape(op: &str, name: &str, spec: &TensorSpec, shape: &[usize]) -> Result<()> {
    match spec.shape() == shape {
        true => Ok(()),
        false => {
            Err(refused(op, format!("{name}: expected the shape {shape:?}, got {}", spec.brief())))
        }
    }
}

/// Checks a tensor's dtype and shape, if it is there.
pub(crate) fn like(
    op: &str,
    name: &str,
    spec: Option<&TensorSpec>,
    dtype_: DType,
    shape_: &[usize],
) -> Result<()> {
    let Some(spec) = spec else { return Ok(()) };
    dtype(op, name, spec, dtype_)?;
    shape(op, name, spec, shape_)
}

/// Checks that an index tensor is of i64 or i32.
pub(crate) fn indices(op: &str, name: &str, spec: &TensorSpec) -> Result<()> {
    match spec.dtype {
        DType::I64 | DType::I32 => Ok(()),
        _ => Err(refused(op, format!("{name}: expected i64 or i32, got {}", spec.brief()))),
    }
}

/// Which results an `output_mask` of `count` asks for; all of them if it is not there.
///
/// # Errors
/// A list of another length, or of other numbers than 0 and 1.
pub fn mask(attrs: &Attrs, count: usize) -> Result<SmallVec<[bool; 4]>> {
    let Some(mask) = attrs.ints("output_mask")? else {
        return Ok(SmallVec::from_elem(true, count));
    };
    let valid = mask.len() == count && mask.iter().all(|v| [0, 1].contains(v));
    match valid {
        true => Ok(mask.into_iter().map(|v| v == 1).collect()),
        false => Err(Error::Invalid {
            what: "argument",
            message: format!("output_mask: expected {count} of 0 and 1, got {mask:?}"),
        }),
    }
}

/// A call that reads all its tensors and gives those of `results` that are asked for.
pub(crate) fn masked(
    call: CallSpec<'_>,
    results: impl IntoIterator<Item = TensorSpec>,
    mask: &[bool],
) -> Signature {
    let wanted = results.into_iter().zip(mask).filter(|(_, wanted)| **wanted);
    Signature {
        accesses: SmallVec::from_elem(Access::Read, call.inputs.len()),
        outputs: wanted.map(|(spec, _)| OutputSpec::Fresh(spec)).collect(),
        workspace: 0,
    }
}

/// The dtype of statistics beside a tensor `x`: that of the parameters, which is x's own, or f32
/// beside f16 and bf16.
pub(crate) fn statistics(op: &str, x: &TensorSpec, all: &[Option<&TensorSpec>]) -> Result<DType> {
    let mut parameters = all.iter().copied().flatten();
    let Some(first) = parameters.next() else { return Ok(x.dtype) };
    let half = matches!(x.dtype, DType::F16 | DType::BF16);
    if first.dtype != x.dtype && !(half && first.dtype == DType::F32) {
        let message = format!("parameters of {} do not go with {}", first.dtype, x.brief());
        return Err(refused(op, message));
    }
    match parameters.find(|p| p.dtype != first.dtype) {
        None => Ok(first.dtype),
        Some(other) => {
            let message = format!("parameters of {} and of {}", first.dtype, other.dtype);
            Err(refused(op, message))
        }
    }
}
