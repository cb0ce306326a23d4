//! Compares every op that has a kernel for the device with the host's kernel: over dtypes, layouts
//! and odd sizes, on inputs that are new each time. The stand-in's tests run the same cases.

mod case;
mod elementwise;
mod families;
mod overlaps;
mod products;
mod rows;
mod unsigned;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, ensure};

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::{DType, DeviceId, Machine, MachineConfig, Stream, Tensor, TensorSpec};

use crate::section::Section;
use case::{Arrangement, Case, Given, Values};

/// The allowed absolute difference from the host, and the additional relative one. Both compute in
/// the same type; functions such as `exp` may differ by a few units in the last place, and results
/// stored in few bits by one unit. All other dtypes give the same bits.
const BOUNDS: &[(DType, f64, f64)] = &[
    (DType::F32, 1e-6, 5e-6),
    (DType::F64, 1e-14, 1e-13),
    (DType::F16, 1e-4, 2e-3),
    (DType::BF16, 1e-3, 1.6e-2),
];

/// Random numbers from 0 to 1, by SplitMix64.
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

/// The outcome of a case.
enum Outcome {
    /// The schema or the host's kernel refuses the call, so there is nothing to compare.
    Refused,
    /// The results agree: the dtype of the last one, and the greatest absolute and relative
    /// difference.
    Same(DType, f64, f64),
    /// Both failed, as the case expects.
    Fails,
    /// The results differ, with a message.
    Differs(String),
}

/// The selection of cases.
pub struct Which<'a> {
    /// Whether each op runs with each dtype, and not with a few dtypes in turn.
    pub thorough: bool,
    /// The ops to compare; all if empty.
    pub only: &'a [&'a str],
}

impl Which<'_> {
    fn has(&self, op: &str) -> bool {
        self.only.is_empty() || self.only.contains(&op)
    }
}

/// Compares the results of the selected cases on CUDA device `device` with the host's. `seed`
/// determines the elements of the inputs.
///
/// # Errors
/// Fails if there is no such device, or if the machine cannot be made.
pub fn check(device: u32, seed: u64, which: &Which<'_>) -> Result<Section> {
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    CudaBackend::new(CudaConfig::default()).register(&devices);
    let config = MachineConfig::default().devices(Arc::new(devices));
    let served: BTreeSet<String> =
        config.kernels.ops("cuda").into_iter().map(str::to_owned).collect();
    let ops = config.ops.clone();
    let machine = Machine::new(config)?;
    let (host, device) =
        (machine.compute(&DeviceId::cpu(0), 0)?, machine.compute(&DeviceId::cuda(device), 0)?);
    let mut pair = Pair { machine, host, device, numbers: Numbers(seed) };
    let mut section = Section::default();
    let turns = |turn: usize| -> Vec<DType> {
        let floats = [DType::F32, DType::F16, DType::F64, DType::BF16];
        let whole = [DType::I32, DType::U8, DType::I64, DType::Bool, DType::I16, DType::I8];
        match which.thorough {
            true => DType::REAL.to_vec(),
            false => vec![floats[turn % 4], whole[turn % 6]],
        }
    };
    let mut worst: BTreeMap<(String, DType), (f64, f64)> = BTreeMap::new();
    let mut compared = BTreeSet::new();
    let cases = elementwise::cases(&ops, &turns).into_iter().chain(rows::cases(&turns));
    let cases = cases.chain(unsigned::cases());
    for case in cases.filter(|case| which.has(&case.op)) {
        match pair.compare(&case) {
            Err(error) => section.failed.push(format!("{case}: {error:#}")),
            Ok(Outcome::Refused) if case.fails.is_some() => {
                section.failed.push(format!("{case}: the host does not fail"));
            }
            Ok(Outcome::Refused) => {}
            Ok(Outcome::Fails) => section.passed += 1,
            Ok(Outcome::Differs(what)) => section.failed.push(format!("{case}: {what}")),
            Ok(Outcome::Same(dtype, abs, rel)) => {
                section.passed += 1;
                let worst = worst.entry((case.op.clone(), dtype)).or_default();
                *worst = (worst.0.max(abs), worst.1.max(rel));
                compared.insert(case.op);
            }
        }
    }
    pair.overlaps(which, &mut section);
    let Pair { machine, host, device, numbers } = &mut pair;
    let numbers = &mut || numbers.next();
    let mut note = |what: String, outcome: Result<()>| match outcome {
        Ok(()) => section.passed += 1,
        Err(error) => section.failed.push(format!("{what}: {error:#}")),
    };
    let pair = products::Pair { machine, host, device, numbers: &mut *numbers };
    products::check(pair, |op| which.has(op), &mut note);
    let pair = families::Pair { machine, host, device, numbers };
    families::check(pair, which.thorough, |op| which.has(op), note);
    compared.extend(products::OPS.iter().map(|op| (*op).to_owned()));
    for ((op, dtype), (abs, rel)) in worst.iter().filter(|(_, v)| v.0 > 0.0) {
        section.notes.push(format!("{op} {dtype}: at most {abs:.1e} abs, {rel:.1e} rel"));
    }
    // `scrub` has no result, the host's kernels need no comparison with themselves, and
    // collectives are the part `ranks`.
    let by_host = millstream::kernels::cuda::host_ops();
    let alone =
        |op: &&String| *op != "scrub" && !families::has(op) && !by_host.contains(&op.as_str());
    let alone = |op: &&String| alone(op) && !millstream::ops::collective::is(op);
    for op in served.difference(&compared).filter(alone).filter(|op| which.has(op)) {
        section.skipped.push(format!("{op}: no case was compared"));
    }
    Ok(section)
}

fn near((got, expected): (f64, f64), abs: f64, rel: f64) -> bool {
    (got.is_nan() && expected.is_nan())
        || got == expected
        || (got - expected).abs() <= abs + rel * expected.abs()
}

impl Pair {
    /// Makes a tensor on the host with new numbers, and the same on the device.
    fn operand(&mut self, given: &Given) -> Result<[Tensor; 2]> {
        let mut whole = given.shape.clone();
        let rank = whole.len();
        match given.arrangement {
            Arrangement::Gaps => {
                if let Some(last) = whole.last_mut() {
                    *last *= 2;
                }
            }
            Arrangement::Transposed if rank >= 2 => whole.swap(rank - 2, rank - 1),
            Arrangement::Transposed | Arrangement::Dense => {}
        }
        let spec = TensorSpec::contiguous(DType::F64, &whole)?;
        let special =
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e30, 300.0, -70000.0, 3e9];
        let number = |k: usize| match given.values {
            Values::Between(least, most) => least + (most - least) * self.numbers.next(),
            Values::Special if k.is_multiple_of(3) => special[k / 3 % special.len()],
            Values::Special => 1000.0 * (self.numbers.next() - 0.5),
        };
        let bytes = (0..spec.numel()).map(number).flat_map(f64::to_ne_bytes).collect();
        let exact = self.machine.upload(&self.host, spec, bytes)?;
        let cast = self.machine.call("cast", &[&exact]).attr("dtype", given.dtype);
        let host = cast.on(&self.host)?.remove(0);
        let device = host.copy_to(&self.device)?;
        let arranged = |x: Tensor, on: &Stream| -> Result<Tensor> {
            let call = match given.arrangement {
                Arrangement::Gaps if rank > 0 => {
                    let end = *whole.last().unwrap_or(&0) as i64;
                    let call = self.machine.call("slice", &[&x]).attr("dim", -1).attr("start", 0);
                    call.attr("end", end).attr("step", 2)
                }
                Arrangement::Transposed if rank >= 2 => {
                    self.machine.call("transpose", &[&x]).attr("dim0", -2).attr("dim1", -1)
                }
                _ => return Ok(x),
            };
            Ok(call.on(on)?.remove(0))
        };
        Ok([arranged(host, &self.host)?, arranged(device, &self.device)?])
    }

    /// Returns the elements of a tensor as numbers.
    fn read(&self, tensor: &Tensor) -> Result<Vec<f64>> {
        let home = tensor.copy_to(&self.host)?;
        let dtype = tensor.spec().dtype;
        // An f64 does not represent every 64-bit integer, so each is split into halves.
        if [DType::I64, DType::U64].contains(&dtype) {
            let halves = |c: &[u8]| {
                let v = i64::from_ne_bytes(c.try_into().unwrap_or_default());
                [(v >> 32) as f64, (v & 0xffff_ffff) as f64]
            };
            return Ok(home.read()?.chunks_exact(8).flat_map(halves).collect());
        }
        let wide = self.machine.call("cast", &[&home]).attr("dtype", DType::F64);
        let bytes = wide.on(&self.host)?.remove(0).read()?;
        let number = |c: &[u8]| f64::from_ne_bytes(c.try_into().unwrap_or_default());
        Ok(bytes.chunks_exact(8).map(number).collect())
    }

    /// Makes a call on both, and compares all results.
    fn compare(&mut self, case: &Case) -> Result<Outcome> {
        let operands: Vec<[Tensor; 2]> =
            case.given.iter().map(|given| self.operand(given)).collect::<Result<_>>()?;
        let call = |side: usize, stream: &Stream| {
            let given: Vec<&Tensor> = operands.iter().map(|both| &both[side]).collect();
            let call = self.machine.call(&case.op, &given);
            let attrs = case.attrs.iter();
            attrs.fold(call, |call, (name, value)| call.attr(*name, value.clone())).on(stream)
        };
        let Ok(host) = call(0, &self.host) else { return Ok(Outcome::Refused) };
        let device = call(1, &self.device)?;
        ensure!(host.len() == device.len(), "{} results and {}", host.len(), device.len());
        let mut outcome = Outcome::Refused;
        // Operands that the op writes in place are compared too.
        let given = operands.iter().map(|[host, device]| (host, device));
        for (host, device) in host.iter().zip(&device).chain(given) {
            let dtype = host.spec().dtype;
            ensure!(dtype == device.spec().dtype, "dtypes differ");
            // Errors that only the data cause must occur on both.
            let expected = match (self.read(host), case.fails) {
                (Ok(values), _) => values,
                (Err(_), None) => return Ok(Outcome::Refused),
                (Err(error), Some(why)) => {
                    ensure!(format!("{error:#}").contains(why), "the host: {error:#}");
                    return match self.read(device) {
                        Err(error) if format!("{error:#}").contains(why) => Ok(Outcome::Fails),
                        Err(error) => Ok(Outcome::Differs(format!("{error:#}, not '{why}'"))),
                        Ok(_) => Ok(Outcome::Differs(format!("it does not fail with '{why}'"))),
                    };
                }
            };
            let got = self.read(device)?;
            let bounds = BOUNDS.iter().find(|(known, ..)| *known == dtype);
            let (abs, rel) = bounds.map_or((0.0, 0.0), |b| (b.1 * case.slack, b.2 * case.slack));
            let both = || got.iter().copied().zip(expected.iter().copied());
            let off = both().enumerate().find(|(_, values)| !near(*values, abs, rel));
            if let Some((at, (got, expected))) = off {
                let count = both().filter(|values| !near(*values, abs, rel)).count();
                let what = format!("{count} differ: element {at} is {got}, not {expected}");
                return Ok(Outcome::Differs(what));
            }
            let far =
                both().map(|(got, expected)| (got - expected).abs()).filter(|d| d.is_finite());
            let share = both().filter(|(_, e)| *e != 0.0).map(|(g, e)| ((g - e) / e).abs());
            let share = share.filter(|d| d.is_finite()).fold(0.0, f64::max);
            if matches!(outcome, Outcome::Refused) {
                outcome = Outcome::Same(dtype, far.fold(0.0, f64::max), share);
            }
        }
        match case.fails {
            Some(why) => Ok(Outcome::Differs(format!("nothing fails with '{why}'"))),
            None => Ok(outcome),
        }
    }
}
