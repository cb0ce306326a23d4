//! Makes the tensors of a trace.

use std::sync::Arc;

use millstream_trace::Program;
use millstream_types::{DType, DeviceId, Result, StreamKey, TensorSpec};
use millstream_vm::{Machine, Tensor, with_origin};

use crate::error::RunError;

/// Makes all tensors of a trace, in its order. `device` returns the device of each.
pub(crate) fn all(
    machine: &Machine,
    program: &Arc<Program>,
    device: impl Fn(usize) -> DeviceId,
) -> Result<Vec<Tensor>, RunError> {
    let tensors = program.tensors.iter().enumerate();
    let made = tensors.map(|(k, tensor)| {
        let origin = program.origin(tensor.site.span());
        with_origin(&origin, || one(machine, program, k, &device(k)))
            .map_err(|e| RunError::at(program, tensor.site.span(), &e))
    });
    let made = made.collect::<Result<Vec<_>, RunError>>()?;
    // The program starts from complete tensors: its time and waits do not include theirs.
    match machine.synchronize() {
        Ok(()) => Ok(made),
        Err(e) => Err(RunError::whole(program, &e)),
    }
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
    let dense = tensor.spec.layout.is_contiguous()
        && tensor.spec.layout.offset() == 0
        && tensor.spec.span_bytes() == bytes;
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
    let view = target.view(tensor.spec.clone())?;
    target.release()?;
    Ok(view)
}
