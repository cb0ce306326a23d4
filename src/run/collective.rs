//! Collectives of a device whose memory the host cannot reach: their kernels are the host's, so the
//! tensors are copied to the host and what was written is copied back.
//!
//! Each of the three is a call like any other: the builder finds their waits, only data flow carries
//! their failures, and while ranks wait for one another it is a worker of the host's that they hold,
//! never the one that launches for the device.

use millstream_ops::collective;
use millstream_types::{DeviceId, Origin, Result, StreamKey, StreamType};
use millstream_vm::{Machine, Stream, Tensor};

use crate::run::stage::OpCall;

/// Whether a call is to go by way of the host.
pub(super) fn is_staged(machine: &Machine, call: &OpCall<'_, Tensor>, stream: &Stream) -> bool {
    let device = &stream.key().device;
    let reaches = || machine.policies().devices().capabilities(device).map(|can| can.host_memory);
    collective::is(call.op) && call.into.is_none() && reaches().is_ok_and(|reaches| !reaches)
}

/// Makes the call on the host.
///
/// # Errors
/// As calls and copies have.
pub(super) fn on_host(
    machine: &Machine,
    call: &OpCall<'_, Tensor>,
    origin: &Origin,
) -> Result<Vec<Tensor>> {
    let key = StreamKey::new(DeviceId::cpu(0), StreamType::CCL, 0);
    let host = machine.any_stream(&key)?;
    let copy = |x: &&Tensor| x.copy_to_from(&host, origin.clone());
    let copies: Vec<Tensor> = call.inputs.iter().map(copy).collect::<Result<_>>()?;
    let inputs: Vec<&Tensor> = copies.iter().collect();
    let made = machine.call(call.op, &inputs).attrs(call.attrs.clone());
    let made = made.from(origin.clone()).on(&host)?;
    let mut results = Vec::with_capacity(made.len());
    for result in made {
        // What a collective gives is what it has written in place.
        let of = |copy: &Tensor| copy.tensor_ref() == result.tensor_ref();
        match copies.iter().position(of) {
            Some(k) => {
                result.copy_into_from(call.inputs[k], origin.clone())?;
                results.push(call.inputs[k].clone());
            }
            None => results.push(result),
        }
    }
    Ok(results)
}
