//! A stream without handles is given back: its id, its worker's state and its native stream serve
//! the next one. Handles, tensors made on it and the current stream of a thread keep it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, mpsc};

use millstream::*;
use millstream_testing::machine::*;

fn key(stream: &Stream) -> String {
    stream.key().to_string()
}

/// Makes a call on a stream, whose result is dropped.
fn used(m: &Machine, x: &Tensor, stream: &Stream) {
    call(m, "relu", &[x], stream);
}

#[test]
fn a_stream_is_reused_once_it_has_been_waited_for() {
    for (driver, device) in ALL_DRIVERS.into_iter().flat_map(|d| [(d, CPU), (d, SIM)]) {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let x = upload(&m.compute(&device, 0).unwrap(), &m, &[1.0, -2.0]);
        let mut keys = HashSet::new();
        for k in 0..500u32 {
            let side = m.create_stream(&device).unwrap();
            keys.insert(key(&side));
            let y = call(&m, "add", &[&x, &x], &side);
            if k % 100 == 0 {
                assert_eq!(read(&y), [2.0, -4.0]);
            }
            drop(y);
            side.synchronize().unwrap();
        }
        assert_eq!(keys.len(), 1, "{driver:?} on {device}");
    }
}

/// Without a wait of the host, a bounded number of streams take turns. The choice depends on the
/// calls alone.
#[test]
fn streams_that_nothing_waits_for_take_turns() {
    for (driver, device) in ALL_DRIVERS.into_iter().flat_map(|d| [(d, CPU), (d, SIM)]) {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let x = upload(&m.compute(&device, 0).unwrap(), &m, &[1.0, -2.0]);
        let keys: Vec<String> = (0..200)
            .map(|_| {
                let side = m.create_stream(&device).unwrap();
                used(&m, &x, &side);
                key(&side)
            })
            .collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 32, "{driver:?} on {device}");
        assert_eq!(keys[..32], keys[32..64]);
    }
}

#[test]
fn lists_with_reused_streams_are_functions_of_the_calls() {
    emitted(SyncPolicy::Frontier, |m| {
        let x = upload(&cpu(m, 0), m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        for k in 0..90 {
            let [a, b] = [CPU, SIM].map(|device| m.create_stream(&device).unwrap());
            let y = call(m, "relu", &[&x], &a);
            let y = y.copy_to(&b).unwrap();
            let z = call(m, "add", &[&y, &y], &b);
            drop((y, z));
            if k % 7 == 0 {
                [&a, &b][k % 2].synchronize().unwrap();
            }
        }
        drop(x);
        m.finish_recording().unwrap()
    });
}

#[test]
fn whatever_can_use_a_stream_keeps_it() {
    let m = inline();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let mut kept = HashSet::new();
    let mut is_new = |stream: &Stream| kept.insert(key(stream));

    let first = m.create_stream(&CPU).unwrap();
    let (clone, by_key) = (first.clone(), m.stream(first.key()).unwrap());
    assert!(is_new(&first));
    drop(first);
    let second = m.create_stream(&CPU).unwrap();
    assert!(is_new(&second), "a clone keeps the first");
    drop(clone);
    assert!(is_new(&m.create_stream(&CPU).unwrap()), "a handle by key keeps the first");
    drop((by_key, second));

    // The three are free.
    let streams = [(); 3].map(|()| m.create_stream(&CPU).unwrap());
    assert!(!streams.iter().any(is_new));
    let [a, b, c] = streams;
    let made = call(&m, "relu", &[&x], &a);
    let of_tensor = made.stream().unwrap();
    b.set_current();
    let event = c.record_event().unwrap();
    drop((a, b, c));
    m.synchronize().unwrap();
    let new = || key(&m.create_stream(&CPU).unwrap());
    let fourth = new();
    assert!(kept.insert(fourth.clone()), "tensor, current stream and event keep them");
    assert_eq!(new(), fourth);
    // Now one after the other.
    drop((event, made));
    let two = [(); 2].map(|()| m.create_stream(&CPU).unwrap());
    assert!(two.iter().all(|s| kept.contains(&key(s)) && s.key() != of_tensor.key()));
    drop(of_tensor);
    let third = m.create_stream(&CPU).unwrap();
    assert!(kept.contains(&key(&third)));
    cpu(&m, 0).set_current();
    let all = two.iter().chain([&third, &m.create_stream(&CPU).unwrap()]).map(key).collect();
    assert_eq!(kept, all);
}

/// A handle by key takes a free stream, which nothing else gets then.
#[test]
fn a_free_stream_can_be_named_by_its_key() {
    let m = inline();
    let name = m.create_stream(&CPU).unwrap().key().clone();
    let named = m.stream(&name).unwrap();
    let other = m.create_stream(&CPU).unwrap();
    assert_ne!(named.key(), other.key());
    drop(named);
    assert_eq!(*m.create_stream(&CPU).unwrap().key(), name);
}

#[test]
fn only_streams_of_one_kind_stand_for_one_another() {
    let m = Machine::new(config(DriverKind::Threaded, SyncPolicy::Frontier)).unwrap();
    let options = [
        StreamOptions::default(),
        StreamOptions::default().priority(1),
        StreamOptions::default().worker(0),
        StreamOptions::default().worker(1),
    ];
    let of = |options| key(&m.create_stream_with(&CPU, options).unwrap());
    let first = options.map(of);
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 4);
    assert_eq!(options.map(of), first);
    assert_eq!(m.create_stream(&SIM).unwrap().key().device, SIM);
}

/// Streams that were dropped while many others were free are closed, and opened again. Work that is
/// still queued on them comes first.
#[test]
fn streams_close_and_open_again() {
    let (m, hand) = by_hand();
    let x = upload(&sim(&m, 0), &m, &[1.0, -2.0]);
    hand.run_until(|| x.completion().unwrap().query());
    m.synchronize().unwrap();
    for round in 0..3 {
        let streams: Vec<Stream> = (0..80).map(|_| m.create_stream(&SIM).unwrap()).collect();
        let results: Vec<Tensor> = streams.iter().map(|s| call(&m, "relu", &[&x], s)).collect();
        let changed: Vec<Completion> = (streams.iter().zip(&results))
            .map(|(s, y)| {
                m.call("add_", &[y, y]).on(s).unwrap();
                y.completion().unwrap()
            })
            .collect();
        let sums: Vec<Tensor> =
            results.iter().map(|y| call(&m, "add", &[y, &x], &sim(&m, 0))).collect();
        // Everything is queued on the device, where nothing runs by itself.
        drop((streams, results));
        let again: Vec<Stream> = (0..80).map(|_| m.create_stream(&SIM).unwrap()).collect();
        let more: Vec<Tensor> = again.iter().map(|s| call(&m, "add", &[&x, &x], s)).collect();
        let done = || more.iter().chain(&sums).all(|y| y.completion().unwrap().query());
        hand.run_until(|| done() && changed.iter().all(Completion::query));
        m.synchronize().unwrap();
        hand.switch(ep::sim::Completion::IssueOrder);
        assert!(sums.iter().all(|y| read(y) == [3.0, -2.0]), "round {round}");
        assert!(more.iter().all(|y| read(y) == [2.0, -4.0]), "round {round}");
        hand.switch(ep::sim::Completion::ByHand);
        drop((again, more, sums));
    }
    assert!(m.stream_keys().unwrap().len() < 200);
}

/// Work of an emission for streams that the workers have closed: events behind the last writes to
/// tensors that live on, and patterns in free memory. The streams are opened for it, and closed
/// again.
#[test]
fn a_closed_stream_does_the_work_that_others_need_of_it() {
    for (driver, device) in ALL_DRIVERS.into_iter().flat_map(|d| [(d, CPU), (d, SIM)]) {
        for checked in [false, true] {
            let config = config(driver, SyncPolicy::Frontier).check_memory(checked);
            let m = Machine::new(config).unwrap();
            let s = m.compute(&device, 0).unwrap();
            let x = upload(&s, &m, &[1.0, -2.0]);
            for round in 0..3 {
                let new = |_| m.create_stream(&device).unwrap();
                let streams: Vec<Stream> = (0..40).map(new).collect();
                for side in &streams {
                    used(&m, &x, side);
                    m.call("add_", &[&x, &x]).on(side).unwrap();
                }
                // The host waits for nothing, so a later use waits for the last of them.
                drop(streams);
                used(&m, &x, &s);
                m.call("add_", &[&x, &x]).on(&s).unwrap();
                let elements = [1.0, -2.0].map(|e: f32| e * 41f32.exp2());
                assert_eq!(read(&x), elements, "{driver:?} on {device}, round {round}");
                m.call("mul_", &[&x]).attr("other", (-41f64).exp2()).on(&s).unwrap();
            }
        }
    }
}

/// A reused stream reports the failures of its present handles, and a completion those of its own.
#[test]
fn failures_belong_to_their_handles() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let (x, rows) = (upload(&s, &m, &[1.0, -2.0]), Tensor::from_slice(&[7i64], 1, &s).unwrap());
        let fails = |on: &Stream| {
            let row = m.call("index_select", &[&x, &rows]).attr("dim", 0).on(on).unwrap();
            drop(row);
            on.completion().unwrap()
        };
        let first = m.create_stream(&CPU).unwrap();
        let name = key(&first);
        drop(fails(&first));
        first.synchronize().unwrap_err();
        drop(first);
        let second = m.create_stream(&CPU).unwrap();
        assert_eq!(key(&second), name);
        used(&m, &x, &second);
        second.synchronize().unwrap();
        let failed = fails(&second);
        second.synchronize().unwrap_err();
        drop(second);
        let third = m.create_stream(&CPU).unwrap();
        assert_ne!(key(&third), name, "the completion keeps the stream, and its failure");
        failed.wait().unwrap_err();
        assert_eq!(m.failures().1, 2);
    }
}

/// The ids of streams that the program has named by keys of its own serve other keys.
#[test]
fn streams_of_own_keys_are_given_back() {
    for (driver, device) in ALL_DRIVERS.into_iter().flat_map(|d| [(d, CPU), (d, SIM)]) {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let x = upload(&m.compute(&device, 0).unwrap(), &m, &[1.0, -2.0]);
        for k in 1..500 {
            let named = m.compute(&device, k).unwrap();
            assert_eq!(*named.key(), StreamKey::compute(device.clone(), k));
            let y = call(&m, "add", &[&x, &x], &named);
            assert_eq!(y.stream().unwrap().key(), named.key());
            if k % 100 == 0 {
                assert_eq!(read(&y), [2.0, -4.0]);
            }
            named.synchronize().unwrap();
        }
        let keys = m.stream_keys().unwrap();
        assert!(keys.len() < 40, "{driver:?} on {device}: {} streams", keys.len());
        // Those that were dropped last are still there, and others than the earlier ones.
        assert!((480..500).all(|k| keys.contains(&StreamKey::compute(device.clone(), k))));
        assert!(!keys.contains(&StreamKey::compute(device.clone(), 100)));
        let again = m.compute(&device, 100).unwrap();
        assert_eq!(read(&call(&m, "add", &[&x, &x], &again)), [2.0, -4.0]);
    }
}

/// A handle, a thread's current stream and an event keep a key's stream.
#[test]
fn whatever_can_use_a_stream_keeps_its_key() {
    let m = inline();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let held = m.compute(&CPU, 1).unwrap();
    m.compute(&CPU, 2).unwrap().set_current();
    let event = m.compute(&CPU, 3).unwrap().record_event().unwrap();
    m.compute(&CPU, 4).unwrap();
    let others = |from: u32| {
        for k in from..from + 200 {
            used(&m, &x, &m.compute(&CPU, k).unwrap());
            m.synchronize().unwrap();
        }
        let keys = m.stream_keys().unwrap();
        [1, 2, 3, 4].map(|k| keys.contains(&StreamKey::compute(CPU, k)))
    };
    assert_eq!(others(100), [true, true, true, false]);
    drop(event);
    cpu(&m, 0).set_current();
    assert_eq!(others(300), [true, false, false, false]);
    drop(held);
}

/// The work of a key stays in order, whatever was dropped in between: a stream whose instructions
/// the host has not observed keeps its key.
#[test]
fn a_key_keeps_the_order_of_its_work() {
    for device in [CPU, SIM] {
        let m = threaded();
        let engine = m.dependency_engine().unwrap();
        let x = upload(&m.compute(&device, 0).unwrap(), &m, &[1.0, -2.0]);
        let (open, opened) = mpsc::channel::<()>();
        let order = Arc::new(Mutex::new(Vec::new()));
        let noted = order.clone();
        let first = move || {
            let _ = opened.recv();
            noted.lock().unwrap().push("first");
        };
        engine.push(first).on(&m.compute(&device, 1).unwrap()).spawn().unwrap();
        for k in 2..200 {
            let other = m.compute(&device, k).unwrap();
            used(&m, &x, &other);
            other.synchronize().unwrap();
        }
        let noted = order.clone();
        let second = move || noted.lock().unwrap().push("second");
        engine.push(second).on(&m.compute(&device, 1).unwrap()).spawn().unwrap();
        drop(open);
        engine.wait_all().unwrap();
        assert_eq!(*order.lock().unwrap(), ["first", "second"], "{device}");
    }
}

/// Without a wait of the program, the host waits for the oldest of many. The list says so, and does
/// not depend on the driver.
#[test]
fn a_bounded_number_of_own_keys_is_unobserved() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
        for k in 1..1500 {
            used(&m, &x, &m.compute(&CPU, k).unwrap());
        }
        let streams = m.stream_keys().unwrap().len();
        assert!(streams < 1024 + 10, "{driver:?}: {streams} streams");
    }
    emitted(SyncPolicy::Frontier, |m| {
        let x = upload(&cpu(m, 0), m, &[1.0, -2.0]);
        let named = |m: &Machine, from: u32| {
            for k in from..from + 60 {
                used(m, &x, &m.compute(&CPU, k).unwrap());
                m.synchronize().unwrap();
            }
        };
        named(m, 1);
        m.start_recording(&[("x", &x)]).unwrap();
        named(m, 100);
        m.finish_recording().unwrap()
    });
}
