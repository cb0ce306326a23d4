//! Checks of tensors and arguments that several schemas share.

use millstream_types::{Access, Attrs, DType, Error, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::input_positions;
use crate::def::refused;
use crate::schema::{CallSpec, OutputSpec, Signature};

/// Returns the tensors of an op with optional ones, by their positions in [`crate::Op::inputs`].
pub(crate) fn listed_inputs(
    call: CallSpec<'_>,
    count: usize,
) -> Result<SmallVec<[Option<&TensorSpec>; 8]>> {
    let positions = input_positions(call.attrs, count, call.inputs.len())?;
    Ok(positions.into_iter().map(|position| position.map(|at| &call.inputs[at])).collect())
}

/// Checks that a tensor has another dtype than bool.
pub(crate) fn numbers(op: &str, spec: &TensorSpec) -> Result<()> {
    match spec.dtype {
        DType::Bool => Err(refused(op, format!("expected numbers, got {}", spec.brief()))),
        _ => Ok(()),
    }
}

/// Checks that a tensor has a float dtype.
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

/// Checks the dtype and the shape of a tensor, if it is present.
pub(crate) fn dtype_and_shape(
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

/// Checks that an index tensor is i64 or i32.
pub(crate) fn index_dtype(op: &str, name: &str, spec: &TensorSpec) -> Result<()> {
    match spec.dtype {
        DType::I64 | DType::I32 => Ok(()),
        _ => Err(refused(op, format!("{name}: expected i64 or i32, got {}", spec.brief()))),
    }
}

/// Returns which of `count` results the argument `output_mask` requests; all by default.
///
/// # Errors
/// Fails if the list has another length or holds numbers other than 0 and 1.
pub fn mask(attrs: &Attrs, count: usize) -> Result<SmallVec<[bool; 4]>> {
    let Some(mask) = attrs.ints("output_mask")? else {
        return Ok(SmallVec::from_elem(true, count));
    };
    let valid = mask.len() == count && mask.iter().all(|v| [0, 1].contains(v));
    match valid {
        true => Ok(mask.into_iter().map(|v| v == 1).collect()),
        false => Err(Error::Invalid {
            what: "argument",
            message: format!("output_mask: expected {count} flags of 0 or 1, got {mask:?}"),
        }),
    }
}

/// Returns the signature of a call that reads all its inputs and returns the requested results.
pub(crate) fn masked_outputs(
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

/// Returns the dtype of the statistics beside a tensor `x`: that of the parameters, which is the
/// dtype of x, or f32 beside f16 and bf16.
pub(crate) fn statistics_dtype(
    op: &str,
    x: &TensorSpec,
    all: &[Option<&TensorSpec>],
) -> Result<DType> {
    let mut parameters = all.iter().copied().flatten();
    let Some(first) = parameters.next() else { return Ok(x.dtype) };
    let half = matches!(x.dtype, DType::F16 | DType::BF16);
    if first.dtype != x.dtype && !(half && first.dtype == DType::F32) {
        let message = format!(
            "expected parameters of the dtype of {}, or f32 beside f16 and bf16, got {}",
            x.brief(),
            first.dtype
        );
        return Err(refused(op, message));
    }
    match parameters.find(|p| p.dtype != first.dtype) {
        None => Ok(first.dtype),
        Some(other) => {
            let message = format!(
                "expected parameters of one dtype, got {} and {}",
                first.dtype, other.dtype
            );
            Err(refused(op, message))
        }
    }
}
