//! The times of kernels on another device.

use millstream_profile::model::{Profile, Role};

use crate::predict::Model;

use super::change::Scaling;
use super::costs::Costs;

/// The times of kernels by a cost model: those of the model itself, or the measured times in the
/// ratio of two models.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// The model.
    pub model: Model,
    /// The model of the device that was measured: a kernel takes its measured time in the ratio of
    /// the two models. Without it, a kernel takes the model's time.
    pub measured_on: Option<Model>,
    /// The kind of the model's devices that the kernels go to, whose streams run side by side.
    pub device: Option<String>,
}

impl Kernels {
    pub(super) fn name(&self) -> &str {
        &self.model.name
    }

    pub(super) fn apply(&self, profile: &mut Profile, costs: &mut Costs) -> Result<(), String> {
        if self.device.as_ref().is_some_and(|device| device != "cpu") {
            for stream in &mut profile.streams {
                (stream.worker, stream.tape) = (None, None);
            }
        }
        if self.measured_on.is_none() {
            // The time of a call in a model includes that of its launch.
            costs.scale_latencies(profile, Scaling::Time(0));
        }
        let work = profile.instructions.iter().zip(&mut costs.instructions);
        for (instruction, cost) in work.filter(|(i, _)| i.role == Role::Work) {
            let Some(new) = self.model.time(profile, instruction, self.device.as_deref())? else {
                continue;
            };
            cost.takes = match &self.measured_on {
                None => new / 1000,
                Some(old) => {
                    let old = old.time(profile, instruction, None)?.unwrap_or(0).max(1);
                    (cost.takes as f64 * (new as f64 / old as f64)).round() as u64
                }
            };
        }
        Ok(())
    }
}
