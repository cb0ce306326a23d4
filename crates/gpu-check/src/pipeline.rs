//! Measures a pipeline: host to device, kernel, device to host, in chunks over three streams. The
//! ideal is the time of a pipeline without gaps: the kernels by themselves, or the copies of both
//! directions if they take longer. These run at once and wait for nothing, but share the memory of
//! the host.

use std::time::Instant;

use anyhow::Result;

use millstream::ep::cuda::CompletionMode;
use millstream::{DType, Stream, StreamType, Tensor, TensorSpec};

use super::Setting;
use super::fixture::Fixture;
use super::section::{Section, median};

/// The least share of the ideal.
const TARGET: f64 = 0.95;

/// The elements of a chunk, and the number of chunks, on a GPU and on the stand-in.
const SIZES: [(usize, usize); 2] = [(4 << 20, 64), (1 << 10, 4)];

/// The number of chunks in flight at once.
const BUFFERS: usize = 4;

const ROUNDS: usize = 3;

/// For each of the three stages, whether it runs.
type Stages = [bool; 3];

struct Pipeline {
    fixture: Fixture,
    streams: [Stream; 3],
    /// For each buffer, the tensors of its four positions: on the host, on the device, the result
    /// there, and the result on the host.
    buffers: Vec<[Tensor; 4]>,
    chunks: usize,
}

pub(super) fn measure(setting: &Setting, section: &mut Section) -> Result<()> {
    let (elements, chunks) = SIZES[usize::from(!setting.real || setting.quick)];
    let fixture = Fixture::new(setting.device, CompletionMode::default(), |_| ())?;
    let streams = [
        fixture.stream(StreamType::HOST2DEVICE)?,
        fixture.compute(0)?,
        fixture.stream(StreamType::DEVICE2HOST)?,
    ];
    let pinned = fixture.stream(StreamType::PINNED_COMPUTE)?;
    let spec = TensorSpec::contiguous(DType::F32, &[elements])?;
    let on = |stream: &Stream| fixture.machine.empty(stream, spec.clone());
    let buffer = |_| Ok([on(&pinned)?, on(&streams[1])?, on(&streams[1])?, on(&pinned)?]);
    let buffers = (0..BUFFERS).map(buffer).collect::<Result<_>>()?;
    let pipeline = Pipeline { fixture, streams, buffers, chunks };
    let mut shares = Vec::new();
    for round in 0..=ROUNDS {
        if section.is_over(|| format!("{round} of {} rounds", ROUNDS + 1)) {
            return Ok(());
        }
        let copies = pipeline.run([true, false, true])?;
        let ideal = pipeline.run([false, true, false])?.max(copies);
        let all = pipeline.run([true; 3])?;
        if round > 0 {
            shares.push(ideal / all);
        }
    }
    section.passed += 1;
    let what = "host to device, kernel, device to host over three streams";
    let how = format!(
        "of the ideal, the kernels alone or the copies of both directions; {chunks} chunks of {} \
         bytes; median of {ROUNDS}",
        elements * 4
    );
    section.measure(setting.real, what, (median(&mut shares), ""), Some(TARGET), how);
    Ok(())
}

impl Pipeline {
    /// Returns the seconds for all chunks in the selected stages.
    fn run(&self, stages: Stages) -> Result<f64> {
        self.fixture.machine.synchronize()?;
        let start = Instant::now();
        for chunk in 0..self.chunks {
            let buffer = &self.buffers[chunk % BUFFERS];
            for (stage, op) in ["copy", "relu", "copy"].into_iter().enumerate() {
                if stages[stage] {
                    let call = self.fixture.machine.call(op, &[&buffer[stage]]);
                    call.out(&[&buffer[stage + 1]]).on(&self.streams[stage])?;
                }
            }
        }
        self.fixture.machine.synchronize()?;
        Ok(start.elapsed().as_secs_f64())
    }
}
