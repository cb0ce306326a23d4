//! `bench memory`: the cost of memory, beside allocators of the host.
//!
//! Each test prints a row of JSON: `ns_per_op` is the median over the rounds, `least` and `most`
//! the spread. The rounds of all tests are interleaved. An operation of `one_stream` releases a
//! block and places another, of one of many sizes between 512 bytes and 8 KiB, among `live` blocks
//! of which the same thousand are touched; in `one_size` all have 4 KiB. In `cross_stream` the
//! block was used on a second stream, whose progress the first stream learns after every 64
//! operations. `machine_*` and `builder_*` do the same as `one_stream` with tensors. `peak` is no
//! time: it is the memory that recorded programs reserve, beside the memory that they use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use millstream::ep::sim::SimBackend;
use millstream::ep::{Backend, EventPool};
use millstream::instructions::builder::{OfflineCatalog, Sink};
use millstream::instructions::planner::{BlockId, Knowledge};
use millstream::instructions::{
    Answer, ArenaId, Builder, BuilderConfig, Frontier, Instruction, Outcome, Planner, TensorRef,
};
use millstream::types::{Point, StreamId};
use millstream::{DType, DeviceId, Machine, MachineConfig, Origin, StreamKey, Tensor, TensorSpec};
use millstream_runner::{MemoryReport, RunOptions, run_ranks};
use millstream_trace::{Entry, LoadOptions, expand, load};

use super::quantile;

/// The arguments of `millstream bench memory`.
#[derive(Args, Clone, Debug)]
pub struct MemoryArgs {
    /// Run only this test: one_stream, one_size, cross_stream, builder_one_stream,
    /// machine_one_stream, event or peak
    #[arg(long)]
    test: Option<String>,
    /// Programs for `peak`
    #[arg(long, default_values = ["examples/pytorch", "tests/traces"])]
    programs: Vec<PathBuf>,
    /// Number of rounds, after one more that warms up
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of operations in each round
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
}

/// The number of blocks that are touched.
const TOUCHED: usize = 1000;

/// Returns the size of the `k`-th block, spread by the multiplication of Fibonacci hashing (Knuth,
/// TAOCP 3, 6.4).
const fn size(k: u64) -> u64 {
    512 + (k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) % (8192 - 512)
}

/// One test, as a function that runs a given number of operations.
struct Test {
    peer: &'static str,
    name: &'static str,
    live: usize,
    run: Box<dyn FnMut(u64) -> Result<()>>,
}

/// Runs the command.
pub(crate) fn memory(args: &MemoryArgs) -> Result<()> {
    let mut tests = Vec::new();
    let wanted = |name: &str| args.test.as_deref().is_none_or(|test| test == name);
    let mut add = |peer, name, live, run| tests.push(Test { peer, name, live, run });
    for live in [100, 10_000, 1_000_000] {
        if wanted("one_stream") {
            add("millstream", "one_stream", live, one_stream(live, size)?);
        }
        if wanted("one_size") {
            add("millstream", "one_size", live, one_stream(live, |_| 4096)?);
        }
        if wanted("cross_stream") {
            add("millstream", "cross_stream", live, cross_stream(live)?);
        }
    }
    if wanted("builder_one_stream") {
        add("millstream", "builder_one_stream", TOUCHED, in_builder()?);
    }
    if wanted("machine_one_stream") {
        add("millstream", "machine_one_stream", TOUCHED, in_machine()?);
    }
    if wanted("event") {
        add("millstream", "event", 1, events()?);
    }
    for live in [100, 100_000] {
        if wanted("one_stream") {
            add("system", "one_stream", live, allocator(System, live));
            add("mimalloc", "one_stream", live, allocator(mimalloc::MiMalloc, live));
        }
    }
    let peak = wanted("peak");
    if tests.is_empty() && !peak {
        bail!("there is no test of that name: see --help");
    }
    let mut times = vec![Vec::new(); tests.len()];
    for round in 0..=args.rounds {
        for (test, times) in tests.iter_mut().zip(&mut times) {
            let start = Instant::now();
            (test.run)(args.count.into()).with_context(|| test.name)?;
            if round > 0 {
                times.push(start.elapsed().as_nanos() as f64 / f64::from(args.count));
            }
        }
    }
    for (Test { peer, name, live, .. }, times) in tests.iter().zip(&mut times) {
        let [least, median, most] = [0.0, 0.5, 1.0].map(|share| quantile(times, share));
        println!(
            "{{\"peer\":\"{peer}\",\"test\":\"{name}\",\"live\":{live},\"ns_per_op\":{median:.1},\
             \"least\":{least:.1},\"most\":{most:.1}}}"
        );
    }
    if peak { peaks(&args.programs) } else { Ok(()) }
}

/// Prints the memory that programs reserve on one compute stream, beside the least that their
/// tensors need: the most that was live at once, in program order, in multiples of 512 bytes.
fn peaks(programs: &[PathBuf]) -> Result<()> {
    let mut ratios = Vec::new();
    let (mut all_reserved, mut all_held) = (0, 0);
    for entry in expand(programs)? {
        let (program, paths) = match entry {
            Entry::Trace(path) => (path.display().to_string(), vec![path]),
            Entry::Ranks { folder, ranks } => (folder.display().to_string(), ranks),
            Entry::Skipped { .. } => continue,
        };
        let ranks = paths.iter().map(|path| Ok(Arc::new(load(path, &LoadOptions::default())?)));
        let ranks = ranks.collect::<Result<Vec<_>>>()?;
        for (rank, report) in run_ranks(ranks, &RunOptions::default())?.iter().enumerate() {
            for MemoryReport { usage, .. } in report.memory.iter().filter(|m| m.usage.peak > 0) {
                let name =
                    if paths.len() > 1 { format!("rank{rank}/{program}") } else { program.clone() };
                let reserved = usage.reserved_peak;
                let ratio = reserved as f64 / usage.peak as f64;
                println!(
                    "{{\"peer\":\"millstream\",\"test\":\"peak\",\"program\":{name:?},\
                     \"held\":{},\"reserved\":{reserved},\"ratio\":{ratio:.3}}}",
                    usage.peak
                );
                ratios.push(ratio);
                all_reserved += reserved;
                all_held += usage.peak;
            }
        }
    }
    let [median, most] = [0.5, 1.0].map(|share| quantile(&mut ratios, share));
    let all = all_reserved as f64 / all_held as f64;
    println!(
        "{{\"peer\":\"millstream\",\"test\":\"peak\",\"programs\":{},\"median\":{median:.3},\
         \"most\":{most:.3},\"all\":{all:.3}}}",
        ratios.len()
    );
    Ok(())
}

const A: StreamId = StreamId(0);
const B: StreamId = StreamId(1);

/// The knowledge of the first stream about the second.
#[derive(Default)]
struct Known {
    of_b: u64,
}

impl Knowledge for Known {
    fn knows(&self, stream: StreamId, point: Point) -> bool {
        point.stream == stream || (stream == A && point.seq <= self.of_b)
    }

    fn version(&self, _: StreamId) -> u64 {
        self.of_b
    }

    fn keeps_waits(&self, _: StreamId) -> bool {
        true
    }

    fn seen(&self, _: Point) -> bool {
        false
    }
}

fn place(planner: &mut Planner, arena: ArenaId, bytes: u64, known: &Known) -> Result<BlockId> {
    loop {
        match planner.place(arena, bytes, A, known) {
            Answer::Placed(placed) => return Ok(placed.block),
            Answer::NeedGrow { bytes, .. } => planner.grown(arena, bytes),
            other => bail!("a planner without a limit returns {other:?}"),
        }
    }
}

/// Returns a planner with `live` blocks; the operations touch the first thousand.
fn planner(live: usize, size: fn(u64) -> u64) -> Result<(Planner, ArenaId, Vec<BlockId>)> {
    let mut planner = Planner::new();
    let arena = planner.arena(&DeviceId::cpu(0));
    let known = Known::default();
    let blocks: Result<Vec<BlockId>> =
        (0..live as u64).map(|k| place(&mut planner, arena, size(k), &known)).collect();
    let mut blocks = blocks?;
    blocks.truncate(TOUCHED);
    Ok((planner, arena, blocks))
}

fn one_stream(live: usize, size: fn(u64) -> u64) -> Result<Box<dyn FnMut(u64) -> Result<()>>> {
    let (mut planner, arena, mut blocks) = planner(live, size)?;
    let known = Known::default();
    let mut k = 0;
    Ok(Box::new(move |count| {
        for _ in 0..count {
            k += 1;
            let at = k as usize % blocks.len();
            let last_uses = [Point::new(A, k)].into_iter().collect();
            planner.release(blocks[at], last_uses, &known);
            blocks[at] = place(&mut planner, arena, size(k), &known)?;
        }
        Ok(())
    }))
}

fn cross_stream(live: usize) -> Result<Box<dyn FnMut(u64) -> Result<()>>> {
    let (mut planner, arena, mut blocks) = planner(live, size)?;
    let mut known = Known::default();
    let mut k = 0;
    Ok(Box::new(move |count| {
        for _ in 0..count {
            k += 1;
            let at = k as usize % blocks.len();
            let last_uses: Frontier = [Point::new(A, k), Point::new(B, k)].into_iter().collect();
            planner.release(blocks[at], last_uses, &known);
            blocks[at] = place(&mut planner, arena, size(k), &known)?;
            if k % 64 == 0 {
                known.of_b = k;
            }
        }
        Ok(())
    }))
}

/// A sink that discards a builder's instructions.
struct Discard;

impl Sink for Discard {
    fn emit(&mut self, _: Instruction) {}

    fn reached(&self, _: Point) -> bool {
        true
    }

    fn annotated(&self) -> bool {
        false
    }
}

fn spec(k: u64) -> Result<TensorSpec> {
    Ok(TensorSpec::contiguous(DType::U8, &[size(k) as usize])?)
}

fn in_builder() -> Result<Box<dyn FnMut(u64) -> Result<()>>> {
    let ops = Arc::new(millstream::ops::standard());
    let mut builder = Builder::new(&BuilderConfig::default(), ops, Box::new(OfflineCatalog));
    let stream = builder.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    let place = move |builder: &mut Builder, k: u64| -> Result<TensorRef> {
        loop {
            let origin = Origin::Unknown;
            match builder.allocate(&mut Discard, stream, spec(k)?, size(k), &origin)? {
                Outcome::Done(tensor) => return Ok(tensor),
                Outcome::Need(need) => builder.assume(&mut Discard, need, &origin)?,
            }
        }
    };
    let mut tensors =
        (0..TOUCHED as u64).map(|k| place(&mut builder, k)).collect::<Result<Vec<_>>>()?;
    let mut k = 0;
    Ok(Box::new(move |count| {
        for _ in 0..count {
            k += 1;
            let at = k as usize % TOUCHED;
            builder.release(&mut Discard, tensors[at], None, &Origin::Unknown)?;
            tensors[at] = place(&mut builder, k)?;
        }
        Ok(())
    }))
}

fn in_machine() -> Result<Box<dyn FnMut(u64) -> Result<()>>> {
    let machine = Machine::new(MachineConfig::default())?;
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    let new = move |k: u64| -> Result<Tensor> { Ok(machine.empty(&stream, spec(k)?)?) };
    let mut tensors = (0..TOUCHED as u64).map(&new).collect::<Result<Vec<_>>>()?;
    let mut k = 0;
    Ok(Box::new(move |count| {
        for _ in 0..count {
            k += 1;
            tensors[k as usize % TOUCHED] = new(k)?;
        }
        Ok(())
    }))
}

/// Measures taking an event from a pool and putting it back.
fn events() -> Result<Box<dyn FnMut(u64) -> Result<()>>> {
    let pool = EventPool::new(SimBackend::new(Default::default()).open(0)?);
    Ok(Box::new(move |count| {
        for _ in 0..count {
            drop(std::hint::black_box(pool.take()?));
        }
        Ok(())
    }))
}

/// Blocks of an allocator, freed with it.
struct Blocks<T: GlobalAlloc>(T, Vec<(*mut u8, Layout)>);

impl<T: GlobalAlloc> Blocks<T> {
    fn allocate(&self, k: u64) -> (*mut u8, Layout) {
        let Ok(layout) = Layout::from_size_align(size(k) as usize, 16) else {
            unreachable!("a layout of a few kilobytes is valid")
        };
        // SAFETY: the layout's size is not zero.
        let block = unsafe { self.0.alloc(layout) };
        assert!(!block.is_null(), "the host has no memory left");
        (block, layout)
    }
}

impl<T: GlobalAlloc> Drop for Blocks<T> {
    fn drop(&mut self) {
        for (block, layout) in self.1.drain(..) {
            // SAFETY: the block came from this allocator with this layout, and is freed once.
            unsafe { self.0.dealloc(block, layout) };
        }
    }
}

fn allocator<T: GlobalAlloc + 'static>(
    allocator: T,
    live: usize,
) -> Box<dyn FnMut(u64) -> Result<()>> {
    let mut blocks = Blocks(allocator, Vec::new());
    for k in 0..live as u64 {
        let block = blocks.allocate(k);
        blocks.1.push(block);
    }
    let mut k = 0;
    Box::new(move |count| {
        for _ in 0..count {
            k += 1;
            let at = k as usize % TOUCHED.min(blocks.1.len());
            let (block, layout) = blocks.1[at];
            // SAFETY: the block came from this allocator with this layout; another block replaces
            // it in the list at once.
            unsafe { blocks.0.dealloc(block, layout) };
            blocks.1[at] = blocks.allocate(k);
        }
        Ok(())
    })
}
