//! Collectives of a device whose memory the host cannot reach: their kernels are the host's, so the
//! tensors are copied to the host and what was written is copied back.
//!
//! Each of the three is a call like any other: the builder finds their waits, only data flow carries
//! their failures, and while ranks wait for one another it is a worker of the host's that they hold,
//! never the one that launches for the device.

use millstream_types::{Attrs, DeviceId, Origin, Result, StreamKey, StreamType};
use millstream_vm::{Machine, Stream, Tensor, with_origin};

use crate::executor::OpCall;

/// Returns whether a collective on `stream` has to run on the host.
pub(crate) fn is_staged(machine: &Machine, stream: &Stream) -> bool {
    let device = &stream.key().device;
    let reaches = || machine.policies().devices().capabilities(device).map(|can| can.host_memory);
    reaches().is_ok_and(|reaches| !reaches)
}

/// Makes the call on the host.
///
/// # Errors
/// As calls and copies have.
pub(crate) fn on_host(
    machine: &Machine,
    call: &OpCall<'_, Tensor>,
    origin: &Origin,
) -> Result<Vec<Tensor>> {
    let key = StreamKey::new(DeviceId::cpu(0), StreamType::Ccl, 0);
    let host = machine.stream(&key)?;
    let copy = |x: &&Tensor| with_origin(origin, || x.copy_to(&host));
    let copies: Vec<Tensor> = call.inputs.iter().map(copy).collect::<Result<_>>()?;
    let inputs: Vec<&Tensor> = copies.iter().collect();
    let made = machine.call(call.name, &inputs).attrs(Attrs::clone(call.attrs));
    let made = made.origin(origin.clone()).on(&host)?;
    let mut results = Vec::with_capacity(made.len());
    for result in made {
        // What a collective gives is what it has written in place.
        let of = |copy: &Tensor| copy.tensor_ref() == result.tensor_ref();
        match copies.iter().position(of) {
            Some(k) => {
                with_origin(origin, || result.copy_into(call.inputs[k]))?;
                results.push(call.inputs[k].clone());
            }
            None => results.push(result),
        }
    }
    Ok(results)
}
