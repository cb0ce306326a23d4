//! Makes the tensors of a trace.

use std::sync::Arc;

use millstream_trace::{Program, Tensor as TensorDecl};
use millstream_types::{DType, DeviceId, Result, StreamKey, TensorSpec};
use millstream_vm::{Machine, Tensor, with_origin};

use crate::error::RunError;

/// Makes all tensors of a trace, in its order. `device` returns the device of each.
pub(crate) fn all(
    machine: &Machine,
    program: &Arc<Program>,
    device: impl Fn(usize) -> DeviceId,
) -> Result<Vec<Tensor>, RunError> {
    again(machine, program, device, &[])
}

/// Does as [`all`], in the memory of the tensors of an earlier run: graphs hold addresses. A tensor
/// with bytes between its elements is made anew, as a copy would leave these.
pub(crate) fn again(
    machine: &Machine,
    program: &Arc<Program>,
    device: impl Fn(usize) -> DeviceId,
    earlier: &[Tensor],
) -> Result<Vec<Tensor>, RunError> {
    let tensors = program.tensors.iter().enumerate();
    let made = tensors.map(|(k, tensor)| {
        let origin = program.origin(tensor.site.span());
        let make = || {
            let (device, bytes) = (device(k), tensor.storage_bytes);
            let made = one(machine, program, k, &device)?;
            let Some(earlier) = earlier.get(k).filter(|_| is_dense(tensor) && bytes > 0) else {
                return Ok(made);
            };
            let home = machine.stream(&StreamKey::compute(device, 0))?;
            machine.call("copy", &[&made]).out(&[earlier]).on(&home)?;
            Ok(earlier.clone())
        };
        with_origin(&origin, make).map_err(|e| RunError::at(program, tensor.site.span(), &e))
    });
    let made = made.collect::<Result<Vec<_>, RunError>>()?;
    // The program starts from complete tensors: its time and waits do not include theirs.
    match machine.synchronize() {
        Ok(()) => Ok(made),
        Err(e) => Err(RunError::whole(program, &e)),
    }
}

/// Returns whether a tensor's elements are its whole storage.
fn is_dense(tensor: &TensorDecl) -> bool {
    let layout = &tensor.spec.layout;
    let is_whole = layout.offset() == 0 && tensor.spec.span_bytes() == tensor.storage_bytes;
    layout.is_contiguous() && is_whole
}

/// Makes one tensor. Its whole storage is written: bytes between its elements are zero.
fn one(
    machine: &Machine,
    program: &Arc<Program>,
    index: usize,
    device: &DeviceId,
) -> Result<Tensor> {
    let tensor = &program.tensors[index];
    let bytes = tensor.storage_bytes;
    let dense = is_dense(tensor);
    let spec = match dense {
        true => tensor.spec.clone(),
        false => TensorSpec::contiguous(DType::U8, &[bytes])?,
    };
    let home = machine.stream(&StreamKey::compute(device.clone(), 0))?;
    let data = program.clone();
    let target = machine.upload_with(&home, spec, bytes as u64, move |blob| {
        blob.fill_with(|storage| Ok(data.tensors[index].write(storage)?))
    })?;
    if dense {
        return Ok(target);
    }
    let view = target.view_storage(tensor.spec.clone())?;
    target.release()?;
    Ok(view)
}
