//! Making a trace's tensors.

use std::sync::Arc;

use millstream_trace::Program;
use millstream_types::{
    Access, DType, DeviceId, Origin, Result, StreamKey, StreamType, TensorSpec,
};
use millstream_vm::{Machine, Tensor};

use crate::run::error::RunError;

/// All tensors of a trace, in its order. `device` says where each lies.
pub(super) fn all(
    machine: &Machine,
    program: &Arc<Program>,
    device: impl Fn(usize) -> DeviceId,
) -> Result<Vec<Tensor>, RunError> {
    let tensors = program.tensors.iter().enumerate();
    let made = tensors.map(|(k, tensor)| {
        let origin = program.origin(tensor.site.place());
        one(machine, program, k, &device(k), &origin)
            .map_err(|e| RunError::at(program, tensor.site.place(), &e))
    });
    let made = made.collect::<Result<Vec<_>, RunError>>()?;
    // The program starts from tensors that are there, and its time and waits are its own.
    match machine.synchronize() {
        Ok(()) => Ok(made),
        Err(e) => Err(RunError::whole(program, &e)),
    }
}

/// One tensor. Its whole storage is written in place: what the elements leave out is zero.
fn one(
    machine: &Machine,
    program: &Arc<Program>,
    index: usize,
    device: &DeviceId,
    origin: &Origin,
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
    let home = machine.any_stream(&StreamKey::compute(device.clone(), 0))?;
    let target = machine.empty_in(&home, spec.clone(), bytes as u64, origin.clone())?;
    let on_host = device.is_host();
    let staged = match on_host {
        true => target.clone(),
        false => {
            let host = machine.any_stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
            machine.empty_in(&host, spec, bytes as u64, origin.clone())?
        }
    };
    let data = program.clone();
    staged.access_from(Access::Write, origin.clone(), move |blob| {
        blob.fill_with(|storage| Ok(data.tensors[index].write(storage)?))
    })?;
    let protection = machine.protection();
    let unordered = !protection.waits() || !protection.memory();
    if unordered {
        // The steps of an upload are not the program's to order, so the host waits for each.
        machine.synchronize()?;
    }
    if !on_host {
        let copies = StreamKey::new(device.clone(), StreamType::HOST2DEVICE, 0);
        let copies = machine.any_stream(&copies)?;
        machine.call("copy", &[&staged]).from(origin.clone()).into(&[&target]).on(&copies)?;
        if unordered {
            machine.synchronize()?;
        }
        staged.release_from(None, origin.clone())?;
    }
    if dense {
        return Ok(target);
    }
    let view = target.view_from(tensor.spec.clone(), origin.clone())?;
    target.release_from(None, origin.clone())?;
    Ok(view)
}
