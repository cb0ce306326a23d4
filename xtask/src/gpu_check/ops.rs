//! Every op that has a kernel for the device, against the host's kernel: over dtypes, layouts and odd
//! sizes, on inputs that are new each time.

use std::sync::Arc;

use anyhow::Result;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::{DType, DeviceId, Machine, MachineConfig, Stream, Tensor, TensorSpec};

use super::Section;

/// How far a result may be from the host's: absolutely, and beside that relatively. Both compute in
/// the same type; functions like `exp` may differ by a few units in the last place, and what is
/// stored in few bits by one.
const BOUNDS: &[(DType, f64, f64)] = &[
    (DType::F32, 1e-6, 5e-6),
    (DType::F64, 1e-14, 1e-13),
    (DType::F16, 1e-4, 2e-3),
    (DType::BF16, 1e-3, 1.6e-2),
];

/// Shapes of the first operand.
const SHAPES: &[&[usize]] = &[&[], &[1], &[17], &[1023], &[3, 5, 7], &[64, 65], &[130, 257]];

/// How operands lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    Dense,
    /// Every second element of the last dimension.
    Gaps,
    /// The second operand has the last dimension alone.
    Broadcast,
}

/// Numbers from 0 to 1, by SplitMix64.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014, figure 17.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The host and the device side by side.
struct Pair {
    machine: Machine,
    host: Stream,
    device: Stream,
    numbers: Numbers,
}

pub(super) fn check(device: u32, seed: u64) -> Result<Section> {
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    CudaBackend::new(CudaConfig::default()).register(&devices);
    let config = MachineConfig { devices: Arc::new(devices), ..MachineConfig::default() };
    let ops = config.kernels.ops("cuda").into_iter().map(str::to_owned).collect::<Vec<_>>();
    let schemas = config.ops.clone();
    let machine = Machine::new(config)?;
    let (host, device) =
        (machine.compute(&DeviceId::cpu(0), 0)?, machine.compute(&DeviceId::cuda(device), 0)?);
    let mut pair = Pair { machine, host, device, numbers: Numbers(seed) };
    let mut section = Section::default();
    for op in ops.iter().filter(|op| !["copy", "clone", "cast"].contains(&op.as_str())) {
        let inputs = schemas.get(schemas.id(op)?).map_or(1, |schema| schema.inputs().len());
        for &(dtype, abs, rel) in BOUNDS {
            let mut worst = (0.0f64, 0.0f64);
            for shape in SHAPES {
                for lie in [Lie::Dense, Lie::Gaps, Lie::Broadcast] {
                    if (shape.is_empty() && lie != Lie::Dense)
                        || (inputs < 2 && lie == Lie::Broadcast)
                    {
                        continue;
                    }
                    let what = format!("{op} {dtype} {shape:?} {lie:?}");
                    match pair.compare(op, inputs, dtype, shape, lie) {
                        Err(error) => section.failed.push(format!("{what}: {error:#}")),
                        Ok(values) => {
                            let off = values.iter().filter(|v| !near(**v, abs, rel)).count();
                            values.iter().for_each(|&v| worst = worst_of(worst, v));
                            match off {
                                0 => section.passed += 1,
                                off => {
                                    let count = values.len();
                                    section.failed.push(format!("{what}: {off} of {count} differ"));
                                }
                            }
                        }
                    }
                }
            }
            let (most, share) = worst;
            section.notes.push(format!("{op} {dtype}: at most {most:.1e} abs, {share:.1e} rel"));
        }
    }
    Ok(section)
}

fn near((got, expected): (f64, f64), abs: f64, rel: f64) -> bool {
    (got.is_nan() && expected.is_nan())
        || got == expected
        || (got - expected).abs() <= abs + rel * expected.abs()
}

fn worst_of((most, share): (f64, f64), (got, expected): (f64, f64)) -> (f64, f64) {
    let difference = (got - expected).abs();
    if !difference.is_finite() {
        return (most, share);
    }
    (most.max(difference), share.max(difference / expected.abs().max(f64::MIN_POSITIVE)))
}

impl Pair {
    /// A tensor of the host's with numbers from -3 to 3, and the same on the device.
    fn operand(&mut self, dtype: DType, shape: &[usize], gaps: bool) -> Result<[Tensor; 2]> {
        let mut whole = shape.to_vec();
        if let Some(last) = whole.last_mut().filter(|_| gaps) {
            *last *= 2;
        }
        let spec = TensorSpec::contiguous(DType::F64, &whole)?;
        let bytes = (0..spec.numel()).flat_map(|_| (self.numbers.next() * 6.0 - 3.0).to_ne_bytes());
        let exact = self.machine.upload(&self.host, spec, bytes.collect())?;
        let cast = self.machine.call("cast", &[&exact]).attr("dtype", dtype);
        let host = cast.on(&self.host)?.remove(0);
        let device = host.copy_to(&self.device)?;
        if !gaps {
            return Ok([host, device]);
        }
        let every_second = |x: &Tensor, on: &Stream| -> Result<Tensor> {
            let dim = shape.len() as i64 - 1;
            let end = 2 * shape.last().copied().unwrap_or(0) as i64;
            let call = self.machine.call("slice", &[x]).attr("dim", dim).attr("start", 0);
            Ok(call.attr("end", end).attr("step", 2).on(on)?.remove(0))
        };
        Ok([every_second(&host, &self.host)?, every_second(&device, &self.device)?])
    }

    /// Calls `op` on both. Gives each element of the device's result with the host's.
    fn compare(
        &mut self,
        op: &str,
        inputs: usize,
        dtype: DType,
        shape: &[usize],
        lie: Lie,
    ) -> Result<Vec<(f64, f64)>> {
        let mut operands = vec![self.operand(dtype, shape, lie == Lie::Gaps)?];
        for _ in 1..inputs {
            let own = if lie == Lie::Broadcast { &shape[shape.len() - 1..] } else { shape };
            operands.push(self.operand(dtype, own, lie == Lie::Gaps)?);
        }
        let mut results = Vec::new();
        for (side, stream) in [self.host.clone(), self.device.clone()].iter().enumerate() {
            let given: Vec<&Tensor> = operands.iter().map(|both| &both[side]).collect();
            let made = self.machine.call(op, &given);
            let made = match op {
                "threshold_backward" => made.attr("threshold", 0.5),
                _ => made,
            };
            let made = made.on(stream)?;
            let result = match op.ends_with('_') {
                true => given[0].clone(),
                false => made.into_iter().next().unwrap_or_else(|| given[0].clone()),
            };
            let home = result.copy_to(&self.host)?;
            let wide = self.machine.call("cast", &[&home]).attr("dtype", DType::F64);
            let bytes = wide.on(&self.host)?.remove(0).read()?;
            let number = |c: &[u8]| f64::from_ne_bytes(c.try_into().unwrap_or_default());
            results.push(bytes.chunks_exact(8).map(number).collect::<Vec<f64>>());
        }
        let (device, host) = (results.pop().unwrap_or_default(), results.pop().unwrap_or_default());
        Ok(device.into_iter().zip(host).collect())
    }
}
