//! The times of kernels on another device.

use millstream_profile::model::{Profile, Role};
use millstream_types::{DType, TensorSpec};

use crate::predict::Model;

use super::change::Scaling;
use super::costs::Costs;

/// The times of kernels by a cost model: those of the model itself, or the measured times in the
/// ratio of two models.
#[derive(Clone, Debug)]
pub struct Kernels {
    model: Model,
    measured_on: Option<Model>,
    device: Option<String>,
}

impl Kernels {
    /// Describes kernels with the times of a model. With `measured_on`, the model of the device
    /// that was measured, a kernel takes its measured time in the ratio of the two models instead.
    pub fn new(model: Model, measured_on: Option<Model>) -> Kernels {
        Kernels { model, measured_on, device: None }
    }

    /// Moves the kernels to the model's device of this kind, whose streams run side by side.
    #[must_use]
    pub fn on(self, device: Option<String>) -> Kernels {
        Kernels { device, ..self }
    }

    pub(super) fn name(&self) -> &str {
        &self.model.name
    }

    pub(super) fn apply(&self, profile: &mut Profile, costs: &mut Costs) -> Result<(), String> {
        let moves = self.device.as_ref().filter(|device| *device != "cpu");
        if moves.is_some() {
            for stream in &mut profile.streams {
                (stream.worker, stream.tape) = (None, None);
            }
        }
        if self.measured_on.is_none() {
            // The time of a call in a model includes that of its launch.
            costs.scale_latencies(profile, Scaling::Time(0));
        }
        for (instruction, cost) in profile.instructions.iter().zip(&mut costs.instructions) {
            let Some(stream) = profile.streams.get(instruction.stream as usize) else { continue };
            if instruction.role != Role::Work {
                continue;
            }
            let own = stream.device.split(':').next().unwrap_or_default();
            let kind = self.device.as_deref().unwrap_or(own);
            let ty = stream.key().split(' ').nth(1).unwrap_or_default();
            let specs = |keep: &dyn Fn(&millstream_profile::model::Operand) -> bool| {
                let operands = profile.operands_of(instruction).iter().filter(|o| keep(o));
                let specs = operands.map(|o| spec(&profile.tensors[o.tensor as usize].spec));
                specs.collect::<Option<Vec<TensorSpec>>>()
            };
            let (Some(reads), Some(writes)) = (specs(&|o| o.reads), specs(&|o| o.writes)) else {
                continue;
            };
            if reads.is_empty() && writes.is_empty() {
                continue;
            }
            let (reads, writes): (Vec<_>, Vec<_>) =
                (reads.iter().collect(), writes.iter().collect());
            let name = profile.name_of(instruction);
            let takes = |model: &Model, kind: &str| model.call(kind, ty, name, &reads, &writes);
            let new = takes(&self.model, kind)?;
            cost.takes = match &self.measured_on {
                None => new / 1000,
                Some(old) => {
                    let ratio = new as f64 / takes(old, own)?.max(1) as f64;
                    (cost.takes as f64 * ratio).round() as u64
                }
            };
        }
        Ok(())
    }
}

/// Reads the short form of a tensor, as in `f32[2,3]`.
fn spec(text: &str) -> Option<TensorSpec> {
    let (dtype, lengths) = text.strip_suffix(']')?.split_once('[')?;
    let dtype: DType = dtype.parse().ok()?;
    let lengths = lengths.split(',').filter(|length| !length.is_empty());
    let shape: Vec<usize> = lengths.map(|length| length.parse().ok()).collect::<Option<_>>()?;
    TensorSpec::contiguous(dtype, &shape).ok()
}
