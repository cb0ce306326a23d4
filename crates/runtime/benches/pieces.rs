//! The cost of single pieces of the machine: `cargo bench --workspace --bench pieces`.
//!
//! The measured files are the crate's own, as in the loom models.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each bench uses a part of each file")]
#![allow(unused_imports, reason = "as above")]

#[path = "../src/pool/claim_counter.rs"]
mod claim_counter;
#[path = "../src/pool/ready.rs"]
mod ready;
#[path = "../src/tables/slots.rs"]
mod slots;
#[path = "../src/sync/mod.rs"]
mod sync;

use std::sync::Arc;

use divan::{Bencher, black_box};
use millstream_ep::sim::SimBackend;
use millstream_ep::{Backend, EventPool};
use millstream_instructions::{Frontier, Priority};
use millstream_types::{Attrs, DType, Point, StreamId, TensorSpec};
use millstream_vm::{CaptureLimits, Machine, MachineConfig, Recorded, Tensor};

use claim_counter::ClaimCounter;
use ready::Ready;
use slots::Slots;
use sync::inbox::Inbox;
use sync::points::{Milestone, StreamState, Waiter};
use sync::spsc_queue;

fn main() {
    divan::main();
}

/// As large as a task.
type Line = [u64; 8];

/// A task through a worker's queue, both ends on one worker.
#[divan::bench]
fn queue_push_and_pop(bencher: Bencher<'_, '_>) {
    let (mut producer, mut consumer) = spsc_queue::queue::<Line>();
    bencher.bench_local(|| {
        producer.push_with(|| black_box([1; 8]));
        consumer.pop()
    });
}

/// The check for a parked worker, on every submission.
#[divan::bench]
fn inbox_wake(bencher: Bencher<'_, '_>) {
    let inbox = Inbox::default();
    bencher.bench_local(|| inbox.wake());
}

#[divan::bench]
fn point_publish(bencher: Bencher<'_, '_>) {
    let (state, mut seq) = (StreamState::new(), 0);
    bencher.bench_local(|| {
        seq += 1;
        state.publish(seq, Milestone::Completed);
    });
}

#[divan::bench]
fn point_flush(bencher: Bencher<'_, '_>) {
    let state = StreamState::new();
    bencher.bench_local(|| state.flush());
}

/// A stream is blocked on a point, and gets a message when it is reached.
#[divan::bench]
fn point_park_and_wake(bencher: Bencher<'_, '_>) {
    let (state, inbox, mut seq) = (StreamState::new(), Arc::new(Inbox::default()), 0);
    let mut messages = Vec::new();
    bencher.bench_local(|| {
        seq += 1;
        state.park(seq, Milestone::Completed, Waiter::Stream(inbox.clone(), StreamId(0)));
        state.publish(seq, Milestone::Completed);
        inbox.take(&mut messages);
        messages.clear();
    });
}

#[divan::bench]
fn slot_look_up(bencher: Bencher<'_, '_>) {
    let slots = Slots::new();
    // SAFETY: no other thread has the table.
    (0..1000).for_each(|k| unsafe { slots.set(k, k as u64) });
    // SAFETY: nothing is set any more.
    bencher.bench_local(|| unsafe { slots.get(black_box(700)) }.copied());
}

/// One of several claimed calls is begun.
#[divan::bench]
fn pool_begin(bencher: Bencher<'_, '_>) {
    let claim = ClaimCounter::default();
    let mut count = claim.take();
    bencher.bench_local(|| {
        count += 1;
        claim.begin(count)
    });
}

#[divan::bench(args = [0, 3])]
fn pool_ready(bencher: Bencher<'_, '_>, levels: i32) {
    let mut ready = Ready::default();
    (0..=levels).for_each(|level| ready.push(Priority(level), 0));
    bencher.bench_local(|| {
        ready.push(Priority(levels), 1);
        ready.pop()
    });
}

fn frontier(streams: u16, seq: u64) -> Frontier {
    let mut frontier = Frontier::new();
    for s in 0..streams {
        frontier.add(Point::new(StreamId(s), seq + u64::from(s)));
    }
    frontier
}

#[divan::bench(args = [1, 4, 16])]
fn frontier_covers(bencher: Bencher<'_, '_>, streams: u16) {
    let (frontier, point) = (frontier(streams, 10), Point::new(StreamId(streams - 1), 7));
    bencher.bench_local(|| black_box(&frontier).covers(black_box(point)));
}

/// A frontier joins one of the same streams.
#[divan::bench(args = [1, 4, 16])]
fn frontier_join(bencher: Bencher<'_, '_>, streams: u16) {
    let (mut known, later) = (frontier(streams, 10), frontier(streams, 11));
    bencher.bench_local(|| known.join(black_box(&later)));
}

/// An event is taken from its pool and comes back.
#[divan::bench]
fn event_take_and_drop(bencher: Bencher<'_, '_>) {
    let device = SimBackend::new(Default::default()).open(0).expect("a simulated device");
    let pool = EventPool::new(device);
    drop(pool.take());
    bencher.bench_local(|| pool.take().map(drop));
}

/// Returns a list of 300 calls.
fn recorded(machine: &Machine) -> Recorded {
    let recorded = machine.record(|r| {
        let x = r.input("x", TensorSpec::contiguous(DType::F32, &[16])?)?;
        let last = (0..300).try_fold(x, |x, _| r.call("neg", &[x]).run().map(|made| made[0]))?;
        r.output("y", &last)
    });
    recorded.expect("a list")
}

/// A list that is compiled anew, or taken from the machine's last ones.
#[divan::bench(args = [false, true])]
fn compile(bencher: Bencher<'_, '_>, cached: bool) {
    let machine = Machine::new(MachineConfig::default()).expect("a machine");
    bencher.with_inputs(|| recorded(&machine)).bench_values(|recorded| {
        let compiled = if cached { recorded.compile_cached() } else { recorded.compile() };
        compiled.expect("an executable")
    });
}

/// A call of a traced function with a new size: the function runs and is captured, or the capture
/// is derived from those of other sizes. The function has 30 layers of 10 calls.
#[divan::bench(args = ["captured", "derived"])]
fn new_size(bencher: Bencher<'_, '_>, way: &str) {
    let machine = Machine::new(MachineConfig::default()).expect("a machine");
    let function = |inputs: &[Tensor], _: &Attrs| {
        let layer = |x: Tensor, _| {
            let scores = x.matmul(&x.t()?)?.mul(0.5)?.softmax(1)?;
            let mixed = scores.matmul(&x)?.add(&x)?;
            let size = mixed.shape()[0];
            let shorter = mixed.narrow(0, 1, size - 1)?.tanh()?;
            Tensor::cat(&[&shorter, &x.narrow(0, 0, 1)?], 0)
        };
        Ok(vec![(0..30).try_fold(inputs[0].clone(), layer)?])
    };
    let few = CaptureLimits { entries: 1, ..CaptureLimits::default() };
    let traced = machine.traced(function).limits(few).strict();
    let x = |size: usize| Tensor::full((size, 8), 0.5, &machine).expect("a tensor");
    for size in [2, 40, 20] {
        traced.call(&[&x(size)]).dim(0, 0).run().expect("a capture");
    }
    let (mut size, is_derived) = (2, way == "derived");
    let next = || {
        size = if size == 30 { 3 } else { size + 1 };
        if !is_derived {
            traced.clear();
        }
        machine.synchronize().expect("no failure");
        x(size)
    };
    bencher.with_inputs(next).bench_local_values(|x| {
        let call = traced.call(&[&x]).dim(0, 0);
        call.run().expect("a result")
    });
    let report = traced.report();
    assert_eq!(report.derived > 0, is_derived, "{report}");
}
