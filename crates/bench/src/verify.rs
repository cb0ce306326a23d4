//! `bench verify`: the cost of proving a list and judging every wait, on two lists of the builder.
//!
//! Each list prints a row of JSON. `ring`: 16 streams pass tensors on and release older ones, so
//! memory is placed again. `blocks`: random ops on 512 blocks of columns of 64 matrices.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use millstream::instructions::builder::{OfflineCatalog, OfflineSink, Output};
use millstream::instructions::{
    Builder, BuilderConfig, Call, InstructionList, Outcome, Priority, TensorRef,
};
use millstream::ops::{OpRegistry, standard};
use millstream::types::StreamId;
use millstream::{Attrs, DType, DeviceId, Layout, Origin, StreamKey, TensorSpec};

/// The arguments of `millstream bench verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// Least number of instructions of each list
    #[arg(long, default_value_t = 1_000_000)]
    count: usize,
}

const STREAMS: usize = 16;
const HERE: Origin = Origin::Unknown;

struct ListBuilder {
    ops: Arc<OpRegistry>,
    builder: Builder,
    sink: OfflineSink,
    streams: Vec<StreamId>,
}

impl ListBuilder {
    fn new() -> Result<ListBuilder> {
        let ops = Arc::new(standard());
        let config = BuilderConfig::default();
        let mut builder = Builder::new(&config, ops.clone(), Box::new(OfflineCatalog));
        let cpu = DeviceId::cpu(0);
        builder.planner_mut().set_limit(&cpu, 1 << 40);
        let key = |k| StreamKey::compute(cpu.clone(), k);
        let streams = (0..STREAMS as u32).map(|k| builder.stream(&key(k)));
        let streams = streams.collect::<millstream::Result<_>>()?;
        Ok(ListBuilder { ops, builder, sink: OfflineSink::default(), streams })
    }

    /// Repeats `emit`, with each need satisfied, until it is done.
    fn until_done<T>(
        &mut self,
        mut emit: impl FnMut(&mut Builder, &mut OfflineSink) -> millstream::Result<Outcome<T>>,
    ) -> Result<T> {
        loop {
            match emit(&mut self.builder, &mut self.sink)? {
                Outcome::Done(value) => return Ok(value),
                Outcome::Need(need) => self.builder.assume(&mut self.sink, need, &HERE)?,
            }
        }
    }

    fn tensor(&mut self, stream: usize, shape: &[usize]) -> Result<TensorRef> {
        let spec = TensorSpec::contiguous(DType::F32, shape)?;
        let (bytes, stream) = (spec.span_bytes() as u64, self.streams[stream]);
        self.until_done(|b, sink| b.allocate(sink, stream, spec.clone(), bytes, &HERE))
    }

    fn call(&mut self, op: &str, inputs: &[TensorRef], stream: usize) -> Result<Option<TensorRef>> {
        let (op, attrs) = (self.ops.id(op)?, Arc::new(Attrs::new()));
        let priority = Priority::default();
        let stream = self.streams[stream];
        let call = Call {
            op,
            inputs,
            into: None,
            attrs: &attrs,
            stream,
            priority,
            section: None,
            origin: &HERE,
        };
        let outputs = self.until_done(|b, sink| b.call(sink, &call))?;
        Ok(outputs.into_iter().find_map(|output| match output {
            Output::Tensor(made) => Some(made),
            _ => None,
        }))
    }

    fn len(&self) -> usize {
        self.builder.stats().total() as usize
    }

    fn finish(mut self) -> InstructionList {
        for decl in self.builder.streams() {
            self.sink.recorder.stream(decl.clone());
        }
        for arena in self.builder.planner().devices() {
            self.sink.recorder.arena(arena.clone());
        }
        self.sink.recorder.ops(self.ops.iter().map(|op| op.name()).collect());
        self.sink.recorder.finish()
    }
}

fn ring(count: usize) -> Result<InstructionList> {
    let mut list = ListBuilder::new()?;
    let mut newest = list.tensor(0, &[4])?;
    let mut live = std::collections::VecDeque::from([newest]);
    let mut k = 0;
    while list.len() < count {
        newest = list.call("relu", &[newest], k % STREAMS)?.context("relu makes a tensor")?;
        live.push_back(newest);
        if live.len() > 3 * STREAMS
            && let Some(old) = live.pop_front()
        {
            list.builder.release(&mut list.sink, old, None, &HERE)?;
        }
        k += 1;
    }
    Ok(list.finish())
}

fn blocks(count: usize) -> Result<InstructionList> {
    let mut list = ListBuilder::new()?;
    let mut blocks = Vec::new();
    for k in 0..64 {
        let whole = list.tensor(k % STREAMS, &[64, 64])?;
        for block in 0..8 {
            let layout = Layout::strided(&[64, 8], &[64, 1], 8 * block)?;
            let spec = TensorSpec::new(DType::F32, layout)?;
            blocks.push(list.builder.view(&mut list.sink, whole, spec, &HERE)?);
        }
    }
    let mut random = 1u64;
    let mut next = |below: usize| {
        // The generator of Knuth's MMIX: TAOCP 2, 3.3.4, table 1.
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % below
    };
    while list.len() < count {
        let (changed, read, stream) = (blocks[next(512)], blocks[next(512)], next(STREAMS));
        list.call("add_", &[changed, read], stream)?;
    }
    Ok(list.finish())
}

/// Returns the peak memory of this process in MiB, where the system reports it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

/// Runs the command.
///
/// # Errors
/// Fails if a list cannot be made, or is not proven.
pub(crate) fn verify_lists(args: &VerifyArgs) -> Result<()> {
    type Make = fn(usize) -> Result<InstructionList>;
    for (name, make) in [("ring", ring as Make), ("blocks", blocks)] {
        let list = make(args.count)?;
        let start = Instant::now();
        let verdict = millstream_verify::verify(&list);
        let took = start.elapsed().as_secs_f64();
        if let Some(violation) = verdict.violations.first() {
            bail!("{name}: {violation}");
        }
        ensure!(verdict.proven(), "{name}: not proven");
        let row = serde_json::json!({
            "test": name,
            "instructions": list.instructions.len(),
            "pairs": verdict.pairs,
            "waits": verdict.waits.len(),
            "not_needed": verdict.not_needed(),
            "seconds": took,
            "peak_mib": peak(),
        });
        println!("{row}");
    }
    Ok(())
}
