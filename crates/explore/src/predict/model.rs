//! Cost models: the costs of each kind of device, read from a small file.

use std::collections::BTreeMap;

use millstream_instructions::passes::cost::{bytes, operations};
use millstream_profile::Profile;
use millstream_profile::model::Instruction;
use millstream_profile::work::operands;
use millstream_types::{DType, StreamType, TensorSpec, WorkKind, WorkSet};
use serde::Deserialize;

/// The costs of devices, by kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name of the modelled machine.
    pub name: String,
    /// The sources of the figures.
    pub sources: Vec<String>,
    /// The costs by kind of device: `cpu`, `sim`.
    pub devices: BTreeMap<String, DeviceCosts>,
}

/// The costs of one device. A gigabyte is 10⁹ bytes, so one GB/s is one byte in a nanosecond.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCosts {
    /// The time of each op, copy and read besides its work.
    pub launch_ns: f64,
    /// The bandwidth of the device's own memory, for reads and writes.
    pub memory_gb_s: f64,
    /// The bandwidth of copies from the host.
    pub from_host_gb_s: f64,
    /// The bandwidth of copies to the host.
    pub to_host_gb_s: f64,
    /// The speed of computing by dtype, in 10⁹ operations a second. `other` holds for all dtypes
    /// that are not named.
    pub gflop_s: BTreeMap<String, f64>,
}

impl Model {
    /// Parses a model.
    ///
    /// # Errors
    /// Fails if the text is no model, with line and column, or if a figure is out of range, with
    /// its name.
    pub fn parse(text: &str) -> Result<Model, String> {
        let model: Model = serde_json::from_str(text).map_err(|e| e.to_string())?;
        for (kind, costs) in &model.devices {
            let DeviceCosts { launch_ns, memory_gb_s, from_host_gb_s, to_host_gb_s, gflop_s } =
                costs;
            if !(launch_ns.is_finite() && *launch_ns >= 0.0) {
                return Err(format!("devices.{kind}.launch_ns: expected a time, got {launch_ns}"));
            }
            let rates = [
                ("memory_gb_s", memory_gb_s),
                ("from_host_gb_s", from_host_gb_s),
                ("to_host_gb_s", to_host_gb_s),
            ];
            let flops = gflop_s.iter().map(|(dtype, rate)| (dtype.as_str(), rate));
            for (name, rate) in rates.into_iter().chain(flops) {
                if !(rate.is_finite() && *rate > 0.0) {
                    let expected = "expected a rate above 0";
                    return Err(format!("devices.{kind}: {name}: {expected}, got {rate}"));
                }
            }
            let known = |d: &str| d == "other" || d.parse::<DType>().is_ok();
            if let Some(wrong) = gflop_s.keys().find(|d| !known(d)) {
                return Err(format!(
                    "devices.{kind}.gflop_s: '{wrong}' is neither a dtype nor other"
                ));
            }
            if !gflop_s.contains_key("other") {
                return Err(format!("devices.{kind}.gflop_s: 'other' is missing"));
            }
        }
        Ok(model)
    }

    /// Returns the costs of a kind of device.
    fn of(&self, kind: &str) -> Result<&DeviceCosts, String> {
        self.devices.get(kind).ok_or_else(|| {
            let has: Vec<&str> = self.devices.keys().map(String::as_str).collect();
            let has = has.join(" and ");
            format!("the model '{}' has no devices of kind {kind}, only {has}", self.name)
        })
    }

    /// Returns the time of a call or of a read by the host, in picoseconds, on its own device or on
    /// one of another kind; none if its operands are not known.
    pub(crate) fn time(
        &self,
        profile: &Profile,
        instruction: &Instruction,
        kind: Option<&str>,
    ) -> Result<Option<u64>, String> {
        let Some(stream) = profile.streams.get(instruction.stream as usize) else {
            return Ok(None);
        };
        if profile.operands_of(instruction).is_empty() && instruction.arguments.is_none() {
            return Ok(None);
        }
        let Some([reads, writes]) = operands(profile, instruction) else { return Ok(None) };
        let own = stream.device.split(':').next().unwrap_or_default();
        let kind = kind.unwrap_or(own);
        let costs = self.of(kind)?;
        let [reads, writes]: [Vec<&TensorSpec>; 2] =
            [&reads, &writes].map(|specs| specs.iter().collect());
        let name = profile.name_of(instruction);
        if name == "SyncRead" {
            return Ok(Some(costs.read(kind, &reads)));
        }
        let ty = stream.key().split(' ').nth(1).and_then(|ty| ty.parse::<StreamType>().ok());
        let work = ty.and_then(StreamType::built_in_work).unwrap_or_default();
        Ok(Some(costs.call(name, work, &reads, &writes)))
    }
}

impl DeviceCosts {
    /// Returns the time of a call on a stream that accepts this work, in picoseconds.
    fn call(&self, op: &str, work: WorkSet, reads: &[&TensorSpec], writes: &[&TensorSpec]) -> u64 {
        // A stream that only copies moves bytes between the host and the device.
        let only = |kind: WorkKind| work == WorkSet::of(&[kind]);
        let time = if only(WorkKind::CopyIn) {
            picoseconds(bytes(reads), self.from_host_gb_s)
        } else if only(WorkKind::CopyOut) {
            picoseconds(bytes(reads), self.to_host_gb_s)
        } else {
            let moved = bytes(reads) + bytes(writes);
            let dtype = writes.first().or(reads.first()).map(|s| s.dtype);
            let flops = operations(op, reads, writes);
            let computing = dtype.map_or(0, |d| self.computing(flops, d));
            picoseconds(moved, self.memory_gb_s).max(computing)
        };
        self.launch() + time
    }

    /// Returns the time of a read by the host, in picoseconds.
    fn read(&self, kind: &str, reads: &[&TensorSpec]) -> u64 {
        let rate = if kind == "cpu" { self.memory_gb_s } else { self.to_host_gb_s };
        self.launch() + picoseconds(bytes(reads), rate)
    }

    /// Returns the time of a launch in picoseconds.
    fn launch(&self) -> u64 {
        (self.launch_ns * 1e3).round() as u64
    }

    /// Returns the time of `flops` operations on a dtype, in picoseconds.
    fn computing(&self, flops: u64, dtype: DType) -> u64 {
        let rate = self.gflop_s.get(&dtype.to_string()).or_else(|| self.gflop_s.get("other"));
        rate.map_or(0, |rate| picoseconds(flops, *rate))
    }
}

/// Returns the time of `units` at `giga_per_second` · 10⁹ of them a second, in picoseconds, rounded
/// up.
fn picoseconds(units: u64, giga_per_second: f64) -> u64 {
    (units as f64 * 1e3 / giga_per_second).ceil() as u64
}
