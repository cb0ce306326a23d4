//! What live streams take: memory for themselves, not for one another.

use millstream::*;
use millstream_testing::machine::{CPU, SIM, config};

use crate::{alone, bytes_allocated, bytes_in_use};

/// How the streams of a test depend on one another.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each reads a common tensor. The host waits for nothing until the end.
    Apart,
    /// Each reads the result of the one before, so it knows a point of all the others.
    Chain,
    /// Each reads the result of some other one.
    Mesh,
}

/// Makes `rounds` calls on each stream. Returns the results.
fn calls(streams: &[Stream], x: &Tensor, shape: Shape, rounds: usize) -> Vec<Tensor> {
    let count = streams.len();
    let mut last: Vec<Tensor> = vec![x.clone(); count];
    for round in 0..rounds {
        for (k, stream) in streams.iter().enumerate() {
            let source = match shape {
                Shape::Apart => x.clone(),
                Shape::Chain => last[(k + count - 1) % count].clone(),
                Shape::Mesh => last[(7 * k + 31 * round) % count].clone(),
            };
            last[k] = with_stream(stream, || source.relu()).unwrap();
        }
    }
    last
}

/// A thousand streams that depend on one another in different ways, while they work and afterwards.
#[test]
fn idle_streams_take_a_few_kilobytes() {
    const COUNT: usize = 1000;
    let _alone = alone();
    let shapes = [Shape::Apart, Shape::Chain, Shape::Mesh];
    let drivers = [DriverKind::Inline, DriverKind::Threaded];
    for (driver, device) in drivers.into_iter().flat_map(|d| [(d, CPU), (d, SIM)]) {
        for shape in shapes {
            let m = Machine::new(config(driver, SyncPolicy::Frontier).threads(1)).unwrap();
            let x = with_stream(&m.compute(&device, 0).unwrap(), || {
                Tensor::from_slice(&[1.0f32, -2.0], 2, &m)
            });
            let x = x.unwrap();
            m.synchronize().unwrap();
            let before = bytes_in_use();
            let each = || (bytes_in_use() - before) / COUNT as i64;
            let streams: Vec<Stream> =
                (0..COUNT).map(|_| m.create_stream(&device).unwrap()).collect();
            let results = calls(&streams, &x, shape, 4);
            // Each knows a point of all others, which alone would take 16 KB, were it not shared.
            let at_work = each();
            drop(results);
            m.synchronize().unwrap();
            let idle = each();
            let what = format!("{shape:?}, {driver:?} on {device}: {at_work} bytes, idle {idle}");
            println!("{what}");
            assert!(at_work < 16 << 10 && idle < 12 << 10, "{what}");
        }
    }
}

/// A call that depends on one other stream costs a few allocations, however many streams there are:
/// what its stream knows of the others is shared with the stream before, and copied seldom.
#[test]
fn a_dependent_call_copies_no_knowledge_of_all_streams() {
    let _alone = alone();
    let per_call = |count: usize| {
        let m = Machine::new(config(DriverKind::Inline, SyncPolicy::Frontier).threads(1)).unwrap();
        let x = Tensor::from_slice(&[1.0f32, -2.0], 2, &m).unwrap();
        let streams: Vec<Stream> = (0..count).map(|_| m.create_stream(&CPU).unwrap()).collect();
        let mut last = x;
        let mut calls = |rounds: usize| {
            for stream in streams.iter().cycle().take(rounds * count) {
                last = with_stream(stream, || last.relu()).unwrap();
            }
        };
        calls(3);
        let before = bytes_allocated();
        calls(2);
        (bytes_allocated() - before) / (2 * count as u64)
    };
    let (few, many) = (per_call(16), per_call(1000));
    println!("{few} bytes of allocations for each call on 16 streams, {many} on 1,000");
    assert!(many < 8 << 10, "{many} bytes, {few} on 16 streams");
}

/// The first streams take as much as the later ones, and those that were dropped serve again.
#[test]
fn live_streams_take_memory_for_themselves_alone() {
    let _alone = alone();
    let m = Machine::new(config(DriverKind::Inline, SyncPolicy::Frontier).threads(1)).unwrap();
    let x = Tensor::from_slice(&[1.0f32, -2.0], 2, &m).unwrap();
    let mut streams = Vec::new();
    let mut more = |count: usize| {
        let before = bytes_in_use();
        for _ in 0..count {
            let side = m.create_stream(&CPU).unwrap();
            with_stream(&side, || x.relu()).unwrap();
            side.synchronize().unwrap();
            streams.push(side);
        }
        // The earlier ones run again, and learn of the later ones.
        for side in &streams {
            with_stream(side, || x.relu()).unwrap();
            side.synchronize().unwrap();
        }
        (bytes_in_use() - before) / count as i64
    };
    let (first, later) = (more(500), more(500));
    assert!(later < 3 * first / 2 && first < 4 << 10, "{first}, then {later} bytes for each");
    // Those that were dropped serve again.
    drop(streams);
    m.synchronize().unwrap();
    let (free, keys) = (bytes_in_use(), m.stream_keys().unwrap().len());
    let again: Vec<Stream> = (0..1000).map(|_| m.create_stream(&CPU).unwrap()).collect();
    for side in &again {
        with_stream(side, || x.relu()).unwrap();
        side.synchronize().unwrap();
    }
    drop(again);
    m.synchronize().unwrap();
    assert_eq!(m.stream_keys().unwrap().len(), keys);
    let more = (bytes_in_use() - free) / 1000;
    assert!(more < 200, "{more} bytes more for each");
}
