//! Runs collectives by NCCL: one rank for each device, also if there is a single one, and recorded
//! programs of as many ranks as there are devices.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, ensure};

use millstream::comm::{LocalGroup, NcclCommunicator};
use millstream::ep::Backend;
use millstream::ep::cuda::nccl::Nccl;
use millstream::ep::cuda::{CompletionMode, CudaBackend, CudaConfig};
use millstream::{DeviceId, StreamType};
use millstream_runner::{RunOptions, run_ranks};
use millstream_trace::Program;

use super::Setting;
use super::fixture::Fixture;
use super::programs::{failure, find, not_run, read};
use super::section::Section;

/// The variable by which NCCL 2.30 and later allow several ranks on a device.
const SEVERAL: &str = "NCCL_MULTI_RANK_GPU_ENABLE";

/// How often each rank's tensor is summed. The sums of up to 16 ranks are exact.
const SUMS: u32 = 5;

pub(super) fn check(setting: &Setting, section: &mut Section) -> Result<()> {
    let nccl = match Nccl::load() {
        Ok(nccl) => nccl,
        Err(error) => {
            section.skipped.push(format!("all: {error:#}"));
            return Ok(());
        }
    };
    section.notes.push(format!("NCCL {}", nccl.version()));
    let devices = CudaBackend::new(CudaConfig::default()).count()?;
    let what = format!("one rank for each of {devices} devices");
    section.check(&what, one_for_each(devices).err().map(|error| format!("{error:#}")));
    let shared = !setting.real || std::env::var_os(SEVERAL).is_some_and(|value| value == "1");
    let several: Vec<_> =
        find(setting, section)?.into_iter().filter(|(_, ranks)| ranks.len() > 1).collect();
    for (done, (name, ranks)) in several.iter().enumerate() {
        if section.is_over(|| not_run(done, several.len())) {
            break;
        }
        if ranks.len() > devices as usize && !shared {
            section.skipped.push(format!(
                "{name}: {} ranks on {devices} devices take NCCL 2.30 or later, and {SEVERAL}=1 \
                 in the environment",
                ranks.len()
            ));
            continue;
        }
        let ranks: Vec<Arc<Program>> =
            ranks.iter().map(|path| Ok(Arc::new(read(path)?))).collect::<Result<_>>()?;
        let device = DeviceId::cuda(setting.device);
        let options = RunOptions::default().device(device).nccl(true);
        section.check(name, failure(run_ranks(ranks, &options)));
    }
    Ok(())
}

/// Sums a tensor over one rank for each device, again and again, between calls on another stream.
fn one_for_each(devices: u32) -> Result<()> {
    let groups = LocalGroup::communicators(devices as usize);
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..)
            .zip(groups)
            .map(|(rank, base)| {
                scope.spawn(move || -> Result<()> {
                    let nccl = Arc::new(NcclCommunicator::connect(Arc::new(base))?);
                    let fixture = Fixture::new(rank, CompletionMode::default(), |config| {
                        *config = config.clone().communicator(nccl);
                    })?;
                    let (compute, ccl) = (fixture.compute(0)?, fixture.stream(StreamType::CCL)?);
                    let mut x = fixture.tensor(&[1.0, 2.0, 3.0])?;
                    for _ in 0..SUMS {
                        let call = fixture.machine.call("allreduce_", &[&x]).attr("op", "sum");
                        call.collective_on(&ccl)?;
                        x = fixture.machine.call("relu", &[&x]).on(&compute)?.remove(0);
                    }
                    let factor = devices.pow(SUMS) as f32;
                    let sums = [1.0, 2.0, 3.0].map(|v: f32| (v * factor).to_ne_bytes()).concat();
                    ensure!(x.read()? == sums, "rank {rank}: the sums of equal tensors differ");
                    fixture.machine.barrier()?;
                    Ok(fixture.machine.synchronize()?)
                })
            })
            .collect();
        let outcome = |rank: thread::ScopedJoinHandle<'_, Result<()>>| {
            rank.join().ok().context("a rank panicked")?
        };
        ranks.into_iter().try_for_each(outcome)
    })
}
