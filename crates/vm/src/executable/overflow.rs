//! Whether a launch has written floats that are not finite.

use millstream_types::{DeviceId, Result};

use crate::handle::{Section, Tensor};

/// Makes the calls that look through these tensors. Returns a number, 1 or 0, on the device of the
/// first of them; none for no tensors.
///
/// # Errors
/// A call is refused.
pub(super) fn check(written: &[Tensor], section: Option<&Section>) -> Result<Option<Tensor>> {
    let call = |op, inputs: &[&Tensor]| -> Result<Option<Tensor>> {
        let call = inputs[0].machine().call(op, inputs);
        let call = if let Some(section) = section { call.within(section) } else { call };
        Ok(call.run()?.into_iter().next())
    };
    let mut devices: Vec<&DeviceId> = Vec::new();
    for tensor in written {
        if !devices.contains(&tensor.device()) {
            devices.push(tensor.device());
        }
    }
    let mut found: Option<Tensor> = None;
    for device in devices {
        let on_device: Vec<&Tensor> = written.iter().filter(|x| x.device() == device).collect();
        let Some(number) = call("found_inf", &on_device)? else { continue };
        found = match found {
            Some(first) => call("maximum", &[&first, &number.to(first.device())?])?,
            None => Some(number),
        };
    }
    Ok(found)
}
