//! Cost models: what devices of each kind cost, from a small file.

use std::collections::BTreeMap;

use millstream_types::DType;
use serde::Deserialize;

/// What devices cost, by kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Which machine it is.
    pub name: String,
    /// Where the figures come from.
    pub sources: Vec<String>,
    /// The costs by kind of device: `cpu`, `sim`.
    pub devices: BTreeMap<String, DeviceCosts>,
}

/// What one device costs. A gigabyte is 10⁹ bytes, so one GB/s is a byte in each nanosecond.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCosts {
    /// What each op, copy and read costs beside its work.
    pub launch_ns: f64,
    /// How fast the device reads and writes its own memory.
    pub memory_gb_s: f64,
    /// How fast it takes data from the host.
    pub from_host_gb_s: f64,
    /// How fast it gives data to the host.
    pub to_host_gb_s: f64,
    /// How fast it computes, in 10⁹ operations a second, by dtype. `other` is for those that are
    /// not named.
    pub gflop_s: BTreeMap<String, f64>,
}

impl Model {
    /// Reads a model.
    ///
    /// # Errors
    /// What is wrong with the text, with line and column, or which figure is not one.
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
}

impl DeviceCosts {
    /// The picoseconds that each launch costs.
    pub(super) fn launch(&self) -> u64 {
        (self.launch_ns * 1e3).round() as u64
    }

    /// The picoseconds that so many operations on a dtype take.
    pub(super) fn computing(&self, flops: u64, dtype: DType) -> u64 {
        let rate = self.gflop_s.get(&dtype.to_string()).or_else(|| self.gflop_s.get("other"));
        rate.map_or(0, |rate| picoseconds(flops, *rate))
    }
}

/// The picoseconds for so many units at so many 10⁹ of them a second, rounded up.
pub(super) fn picoseconds(units: u64, giga_per_second: f64) -> u64 {
    (units as f64 * 1e3 / giga_per_second).ceil() as u64
}
