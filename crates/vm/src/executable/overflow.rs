//! Whether a launch has written floats that are not finite.

use std::collections::BTreeMap;

use millstream_types::{DType, DeviceId, Origin, Result, StreamId, StreamType};

use crate::handle::{Section, Tensor};

use super::{RecordedTensor, Recorder};

/// The name of the output that says so of all calls on a device, before the device.
pub(super) const OVERFLOW_ON: &str = "overflow on ";

impl Recorder {
    /// Checks the floats that each later call of the list writes, also those that no output shows.
    /// [`Launched::overflowed`](super::Launched::overflowed) then tells whether one of them was
    /// infinite or NaN, in every launch. [`LaunchBuilder::check_overflow`](super::LaunchBuilder)
    /// costs less and checks the outputs alone: a loss scaler needs no more. This names a defect
    /// that a later call hides, as `relu` and comparisons hide NaN and infinities.
    ///
    /// The list gets one more reduction for each result, and an output `overflow on DEVICE` for
    /// each device with calls.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let f = machine.record(|r| {
    ///     r.check_overflow();
    ///     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    ///     let logarithms = r.call("log", &[x]).run()?;
    ///     let y = r.call("relu", &[logarithms[0]]).run()?; // hides an infinity
    ///     r.output("y", &y[0])
    /// })?.compile()?;
    /// let x = Tensor::from_slice(&[0.0f32, 2.0], 2, &machine)?;
    /// let launched = f.launch().input("x", &x).run()?;
    /// assert_eq!(launched.overflowed()?.item::<f32>()?, 1.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn check_overflow(&mut self) {
        self.magnitudes.get_or_insert_default();
    }

    /// Records the checks of a call's results, if calls are checked.
    pub(super) fn check_results(
        &mut self,
        inputs: &[RecordedTensor],
        results: &[RecordedTensor],
        stream: StreamId,
        origin: &Origin,
    ) -> Result<()> {
        // Taken meanwhile: no check is checked.
        let Some(mut magnitudes) = self.magnitudes.take() else { return Ok(()) };
        let computes = self.engine().builder.streams().nth(stream.index()).map(|s| s.key.ty)
            == Some(StreamType::COMPUTE);
        let checked = results.iter().try_for_each(|result| {
            let storage = |tensor: &RecordedTensor| self.engine().builder.storage_of(tensor.0).ok();
            let own = storage(result);
            let is_view = !inputs.contains(result) && inputs.iter().any(|x| storage(x) == own);
            let spec = self.spec(result)?;
            if is_view || !spec.dtype.is_float() || spec.numel() == 0 {
                return Ok(());
            }
            let (inputs, origin) = ([*result], origin.clone());
            let norm = self.call("linalg_vector_norm", &inputs).origin(origin);
            let norm = norm.attr("ord", f64::INFINITY).attr("dtype", DType::F64);
            magnitudes.extend(if computes { norm.on(stream)? } else { norm.run()? });
            Ok(())
        });
        self.magnitudes = Some(magnitudes);
        checked
    }

    /// Declares the outputs of the checks.
    pub(super) fn finish_overflow(&mut self) -> Result<()> {
        let mut by_device: BTreeMap<DeviceId, Vec<RecordedTensor>> = BTreeMap::new();
        for magnitude in self.magnitudes.take().unwrap_or_default() {
            by_device.entry(self.device(&magnitude)?).or_default().push(magnitude);
        }
        for (device, magnitudes) in by_device {
            let all = self.call("stack", &magnitudes).attr("dim", 0).run()?;
            let found = self.call("found_inf", &all).run()?;
            self.output(&format!("{OVERFLOW_ON}{device}"), &found[0])?;
        }
        Ok(())
    }
}

/// Makes the calls that look through these tensors. Returns the greatest of what they find and of
/// the `known` numbers, 1 or 0, on the device of the first of them; none for no tensors.
///
/// # Errors
/// A call is refused.
pub(super) fn check(
    written: &[Tensor],
    known: &[Tensor],
    section: Option<&Section>,
) -> Result<Option<Tensor>> {
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
    let looked_through = devices.into_iter().map(|device| {
        let on_device: Vec<&Tensor> = written.iter().filter(|x| x.device() == device).collect();
        call("found_inf", &on_device)
    });
    let mut found: Option<Tensor> = None;
    for number in looked_through.chain(known.iter().cloned().map(|known| Ok(Some(known)))) {
        let Some(number) = number? else { continue };
        found = match found {
            Some(first) => call("maximum", &[&first, &number.to(first.device())?])?,
            None => Some(number),
        };
    }
    Ok(found)
}
