//! Two threads that allocate and release on the same and on different streams, and drop one
//! another's tensors.
//!
//! A few thousand rounds, or as many as fit into MILLSTREAM_SOAK seconds. To be run under the
//! address sanitizer as well: see docs/memory.md.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use millstream::{DType, DeviceId, Machine, MachineConfig, Stream, Tensor, TensorSpec};

const ROUNDS: u64 = 3000;

/// Whether to go on after so many rounds.
fn goes_on(start: Instant, rounds: u64) -> bool {
    match std::env::var("MILLSTREAM_SOAK").ok().and_then(|s| s.parse().ok()) {
        Some(seconds) => start.elapsed() < Duration::from_secs(seconds),
        None => rounds < ROUNDS,
    }
}

/// Makes tensors, computes with them, gives some to the other thread, and drops those it gets.
fn work(
    machine: &Machine,
    [own, other]: [&Stream; 2],
    give: &mpsc::SyncSender<Tensor>,
    got: &mpsc::Receiver<Tensor>,
) {
    let start = Instant::now();
    let mut kept: Option<(Tensor, i32)> = None;
    let mut round = 0;
    while goes_on(start, round) {
        round += 1;
        let elements = 1 + (round as usize * 769) % 5000;
        let spec = TensorSpec::contiguous(DType::I32, &[elements]).unwrap();
        let value = (round % 1000) as i32;
        let x = machine.empty(own, spec).unwrap();
        machine.call("fill", &[&x]).attr("value", i64::from(value)).on(own).unwrap();
        let y = machine.call("add", &[&x, &x]).on(if round % 3 == 0 { other } else { own });
        let y = y.unwrap().remove(0);
        if round % 7 == 0 {
            // What was kept a few rounds ago still holds what it held.
            if let Some((kept, value)) = kept.replace((y, 2 * value)) {
                let bytes = kept.read().unwrap();
                assert!(bytes.chunks_exact(4).all(|v| v == value.to_ne_bytes()));
            }
        }
        // If the other is behind, this thread drops it.
        let _ = give.try_send(x);
        while let Ok(theirs) = got.try_recv() {
            drop(theirs);
        }
    }
}

#[test]
fn two_threads_on_the_same_and_on_different_streams() {
    let config = MachineConfig::default()
        .memory_limits([(DeviceId::cpu(0), 4 << 20)].into())
        .watermark_bytes(1 << 20)
        .host_workers(2)
        .threads(1);
    let machine = Machine::new(config).unwrap();
    let streams: Vec<Stream> =
        (0..3).map(|k| machine.compute(&DeviceId::cpu(0), k).unwrap()).collect();
    for [first, second] in [[0, 0], [0, 1]] {
        let (to_first, from_second) = mpsc::sync_channel(8);
        let (to_second, from_first) = mpsc::sync_channel(8);
        std::thread::scope(|scope| {
            let (machine, streams) = (&machine, &streams);
            scope.spawn(move || {
                work(machine, [&streams[first], &streams[2]], &to_second, &from_second)
            });
            scope.spawn(move || {
                work(machine, [&streams[second], &streams[2]], &to_first, &from_first)
            });
        });
    }
    machine.synchronize().unwrap();
    let usage = machine.memory().unwrap().swap_remove(0);
    assert_eq!((usage.in_use, usage.pending), (0, 0), "{usage}");
}
