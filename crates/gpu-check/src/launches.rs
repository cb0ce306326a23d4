//! Measures launches of an empty kernel through the machine, against a bare loop of driver launches
//! in the same process, and the time until the host learns of a completion. Both are measured for
//! either way to observe completions.

use std::any::Any;
use std::ffi::CString;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context, Result};

use millstream::ep::cuda::{Compiler, CompletionMode, Kernel, NativeStream};
use millstream::ep::{Work, WorkResult};
use millstream::kernels::KernelCtx;
use millstream::ops::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
use millstream::{Access, Attrs};

use super::Setting;
use super::fixture::Fixture;
use super::section::{Section, median};

const SOURCE: &str = "extern \"C\" __global__ void ms_nothing() {}\n";

/// The least share of the bare loop's rate.
const TARGET: f64 = 0.95;

/// The numbers of launches in a round, and of round trips, on a GPU and on the stand-in.
const LAUNCHES: [usize; 2] = [50_000, 500];
const TRIPS: [usize; 2] = [2000, 20];

const ROUNDS: usize = 5;

/// An op that does nothing to its one tensor.
struct Nothing;

impl Op for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
    fn summary(&self) -> &str {
        "an empty kernel"
    }
    fn inputs(&self) -> &[ArgDoc] {
        const { &[ArgDoc::new("x", "any shape")] }
    }
    fn signature(&self, _: CallSpec<'_>) -> millstream::Result<Signature> {
        Ok(Signature {
            accesses: [Access::ReadWrite].into_iter().collect(),
            outputs: [OutputSpec::Same(0)].into_iter().collect(),
            workspace: 0,
        })
    }
}

/// Returns the empty kernel.
fn kernel(native: &NativeStream) -> Result<Kernel> {
    let properties = native.properties();
    let compile = || {
        let (source, compiler) = (CString::new(SOURCE)?, Compiler::find(properties.driver)?);
        let output = compiler.output_for(properties.capability);
        compiler.compile(&source, &compiler.options(properties.capability, output), output)
    };
    // A stream that only compiles has no kernel.
    native.kernel("nothing", c"ms_nothing", compile)?.context("a stream that runs its work")
}

/// Launches the empty kernel.
fn launch(native: &NativeStream, kernel: &Kernel) -> Result<()> {
    // SAFETY: the kernel has no arguments and touches no memory.
    unsafe { native.launch(kernel, [1; 3], [32, 1, 1], 0, &mut []) }
}

/// The bare loop: one command that launches repeatedly.
struct Loop(usize);

impl Work for Loop {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let native = native.downcast_ref().context("no stream of CUDA")?;
        let kernel = kernel(native)?;
        (0..self.0).try_for_each(|_| launch(native, &kernel))
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(Loop(self.0))
    }
}

pub(super) fn measure(setting: &Setting, section: &mut Section) -> Result<()> {
    let (small, real) = (usize::from(!setting.real || setting.quick), setting.real);
    for completion in [CompletionMode::Polled, CompletionMode::Callback] {
        let name = format!("{completion:?}").to_lowercase();
        let fixture = Fixture::new(setting.device, completion, |config| {
            config.ops.register(Arc::new(Nothing));
            // Looked up once, as by a call's plan.
            let known = OnceLock::new();
            let run = move |ctx: &KernelCtx<'_>| {
                let native = millstream::kernels::cuda::native(ctx)?;
                if known.get().is_none() {
                    let _ = known.set(kernel(native)?);
                }
                known.get().map_or(Ok(()), |kernel| launch(native, kernel))
            };
            config.kernels.register("cuda", "nothing", Arc::new(run));
        })?;
        let (mut shares, mut rates, mut trips) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms up.
        for round in 0..=ROUNDS {
            let left = || format!("{round} of {} rounds, completion {name}", ROUNDS + 1);
            if section.is_over(left) {
                return Ok(());
            }
            let (bare, through) = (
                time_bare_loop(&fixture, LAUNCHES[small])?,
                time_machine(&fixture, LAUNCHES[small])?,
            );
            if round > 0 {
                shares.push(bare / through);
                rates.push(LAUNCHES[small] as f64 / through);
            }
        }
        let (stream, x) = (fixture.compute(0)?, fixture.tensor(&[0.0])?);
        for _ in 0..TRIPS[small] {
            let start = Instant::now();
            fixture.machine.call("nothing", &[&x]).on(&stream)?;
            stream.synchronize()?;
            trips.push(start.elapsed().as_secs_f64() * 1e6);
        }
        fixture.machine.synchronize()?;
        section.passed += 1;
        let (share, rate) = (median(&mut shares), median(&mut rates));
        let how = format!("rate against a bare loop's; medians of {ROUNDS} rounds");
        let what = format!("empty kernels through the machine, completion {name}");
        section.measure(real, &what, (share, ""), Some(TARGET), how);
        section.measure(real, what, (rate, "/s"), None, "one thread, prepared calls in a batch");
        let what = format!("an empty kernel and a wait for it, completion {name}");
        section.measure(real, what, (median(&mut trips), "us"), None, "median");
    }
    Ok(())
}

/// Returns the seconds of the bare loop, until its last kernel has ended.
fn time_bare_loop(fixture: &Fixture, times: usize) -> Result<f64> {
    let mut stream = fixture.device.create_stream(Arc::new(|| ()))?;
    let start = Instant::now();
    stream.submit(&mut Loop(times))?;
    let mut ended = None;
    while ended.is_none() {
        stream.poll(&mut |_, result| ended = Some(result))?;
        std::thread::yield_now();
    }
    ended.context("the loop has not run")??;
    Ok(start.elapsed().as_secs_f64())
}

/// Returns the seconds of `times` launches through the machine.
fn time_machine(fixture: &Fixture, times: usize) -> Result<f64> {
    let (stream, x) = (fixture.compute(0)?, fixture.tensor(&[0.0])?);
    let call = fixture.machine.prepare("nothing", &[&x], Attrs::new())?;
    stream.synchronize()?;
    let start = Instant::now();
    let mut batch = fixture.machine.batch();
    for _ in 0..times {
        batch.call(&call, &stream)?;
    }
    drop(batch);
    stream.synchronize()?;
    Ok(start.elapsed().as_secs_f64())
}
