//! Two threads that allocate and release on the same and on different streams, and drop each
//! other's tensors.
//!
//! The test runs `ROUNDS` rounds, or as many as fit into MILLSTREAM_SOAK seconds. It is meant for
//! the address sanitizer, too: see docs/memory.md.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use millstream::{DType, DeviceId, Machine, MachineConfig, Stream, Tensor, TensorSpec};

const ROUNDS: u64 = 3000;

/// Returns whether to run another round after this many.
fn has_more(start: Instant, rounds: u64) -> bool {
    match std::env::var("MILLSTREAM_SOAK").ok().and_then(|s| s.parse().ok()) {
        Some(seconds) => start.elapsed() < Duration::from_secs(seconds),
        None => rounds < ROUNDS,
    }
}

/// Makes tensors, computes with them, sends some to the other thread, and drops the received ones.
fn work(
    machine: &Machine,
    [own, other]: [&Stream; 2],
    sender: &mpsc::SyncSender<Tensor>,
    receiver: &mpsc::Receiver<Tensor>,
) {
    let start = Instant::now();
    let mut kept: Option<(Tensor, i32)> = None;
    let mut round = 0;
    while has_more(start, round) {
        round += 1;
        let elements = 1 + (round as usize * 769) % 5000;
        let spec = TensorSpec::contiguous(DType::I32, &[elements]).unwrap();
        let value = (round % 1000) as i32;
        let x = machine.empty(own, spec).unwrap();
        machine.call("fill", &[&x]).attr("value", i64::from(value)).on(own).unwrap();
        let y = machine.call("add", &[&x, &x]).on(if round % 3 == 0 { other } else { own });
        let y = y.unwrap().remove(0);
        if round % 7 == 0 {
            // The tensor kept some rounds ago still has its value.
            if let Some((kept, value)) = kept.replace((y, 2 * value)) {
                let bytes = kept.read().unwrap();
                assert!(bytes.chunks_exact(4).all(|v| v == value.to_ne_bytes()));
            }
        }
        // If the channel is full, this thread drops `x`.
        let _ = sender.try_send(x);
        while let Ok(theirs) = receiver.try_recv() {
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
