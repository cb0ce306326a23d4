//! The side of the measured kernels: runs calls on request and says how long they took.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use half::{bf16, f16};
use millstream_types::DType;

use super::cases::{Case, all};
use super::common::Call;

/// The time that a sample takes at least; shorter calls are repeated within it.
const SAMPLE: Duration = Duration::from_micros(60);

/// Returns small numbers of a dtype in memory: whole ones from 0 to 6, or floats from -1 to 1.
fn numbers(dtype: DType, words: &mut [u64]) {
    let mut state = 1u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut float = || next() as f32 / (1u64 << 30) as f32 - 1.0;
    for word in words {
        *word = match dtype {
            DType::F64 => f64::from(float()).to_bits(),
            DType::F32 => u64::from(float().to_bits()) | u64::from(float().to_bits()) << 32,
            DType::F16 => u64::from(f16::from_f32(float()).to_bits()) * 0x1_0001_0001_0001,
            DType::BF16 => u64::from(bf16::from_f32(float()).to_bits()) * 0x1_0001_0001_0001,
            DType::Bool => float().to_bits() as u64 & 0x0101_0101 | 0x0100_0000_0001_0000,
            _ => ((float() + 1.0) * 3.0) as u64,
        };
    }
}

/// Returns the seconds of `count` samples of a call.
fn samples(count: usize, mut run: impl FnMut()) -> Vec<f64> {
    let mut repeats = 1u32;
    // The first call touches the memory; more of them find the number of repetitions.
    run();
    loop {
        let start = Instant::now();
        (0..repeats).for_each(|_| run());
        let taken = start.elapsed();
        if taken >= SAMPLE || repeats >= 1 << 20 {
            break;
        }
        let factor = SAMPLE.as_nanos() as f64 / taken.as_nanos().max(1) as f64;
        repeats = (f64::from(repeats) * factor.clamp(1.2, 16.0)).ceil() as u32;
    }
    let one = |_| {
        let start = Instant::now();
        (0..repeats).for_each(|_| run());
        start.elapsed().as_secs_f64() / f64::from(repeats)
    };
    (0..count).map(one).collect()
}

/// Returns the seconds of copies by the C library that read and write this number of bytes.
fn copies(bytes: usize, count: usize) -> Vec<f64> {
    let (from, mut to) = (vec![1u8; bytes / 2], vec![0u8; bytes / 2]);
    samples(count, || {
        std::hint::black_box(&mut to[..]).copy_from_slice(std::hint::black_box(&from))
    })
}

/// The calls of the cases, of which the last one is kept.
pub(crate) struct Kernels {
    cases: Vec<Case>,
    last: Option<(String, Call)>,
}

impl Kernels {
    pub(crate) fn new() -> Kernels {
        Kernels { cases: all(), last: None }
    }

    /// Returns the seconds of `count` samples of a case. `way` is `run`, `prepared`, or `copy`: the
    /// same bytes copied by the C library. A case without such a way has no samples.
    pub(crate) fn measure(&mut self, case: &str, way: &str, count: usize) -> Vec<f64> {
        if self.last.as_ref().is_none_or(|(name, _)| name != case) {
            self.last = None;
            let Some(case) = self.cases.iter().find(|c| c.name == case) else { return Vec::new() };
            // An older build may lack the op.
            if millstream_kernels::standard().get("cpu", case.op).is_none() {
                return Vec::new();
            }
            let mut call = Call::new(case.op, case.inputs.clone(), case.attrs.clone());
            let dtypes: Vec<DType> = call.specs.iter().map(|s| s.dtype).collect();
            for (memory, dtype) in call.memory.iter_mut().zip(dtypes) {
                numbers(dtype, memory);
            }
            self.last = Some((case.name.clone(), call));
        }
        let Some((_, call)) = &mut self.last else { return Vec::new() };
        match way {
            "run" => samples(count, call.run()),
            "copy" => copies(bytes(call), count),
            _ => call.prepared().map_or_else(Vec::new, |run| samples(count, run)),
        }
    }
}

/// Returns the bytes of all operands.
pub(crate) fn bytes(call: &Call) -> usize {
    call.specs.iter().map(|s| s.layout.numel() * s.dtype.size()).sum()
}

/// Answers requests from the standard input: a case, a way and a number of samples, separated by
/// tabs.
pub(crate) fn serve() {
    let mut kernels = Kernels::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a request");
        let parts: Vec<&str> = line.split('\t').collect();
        let [case, way, count] = parts[..] else { panic!("not a request: {line}") };
        let seconds = kernels.measure(case, way, count.parse().expect("a number"));
        let text: Vec<String> = seconds.iter().map(|s| format!("{s:e}")).collect();
        println!("{}", text.join(" "));
        std::io::stdout().flush().expect("the standard output");
    }
}
