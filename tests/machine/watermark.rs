//! Rule 4: backpressure waits before the critical section, never inside it.

use std::sync::mpsc;

use millstream::*;
use millstream_testing::machine::*;

fn with_watermark(watermark: u64) -> Machine {
    let config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    Machine::new(config.watermark(watermark)).unwrap()
}

/// A submitter waits for a blocked stream. Meanwhile other threads query, drop and inspect. When
/// the stream continues, so does the submitter.
#[test]
fn a_waiting_submitter_holds_no_lock() {
    let m = with_watermark(8);
    let s = cpu(&m, 0);
    let (x, spare) = (upload(&s, &m, &[0.0]), upload(&s, &m, &[7.0]));
    let one = upload(&s, &m, &[1.0]);
    let record = s.record_event().unwrap();
    let gate = Gate::on(&x);
    gate.entered();
    let (step, stepped) = mpsc::channel();
    std::thread::scope(|scope| {
        let (m, s, x, one) = (&m, &s, &x, &one);
        scope.spawn(move || {
            for k in 0..40 {
                m.call("add_", &[x, one]).on(s).unwrap();
                step.send(k).unwrap();
            }
        });
        // The submitter calls as long as there is room, and does not reach its last call.
        let mut last = stepped.recv_timeout(LONG).unwrap();
        drop(spare);
        for _ in 0..1000 {
            assert!(m.stats().unwrap().total() < 30, "more than the watermark is in flight");
            assert!(record.query() && !s.query().unwrap());
            m.memory().unwrap();
        }
        gate.open();
        while last < 39 {
            last = stepped.recv_timeout(LONG).unwrap();
        }
    });
    assert_eq!(read(&x), [40.0]);
}

/// An instruction that exceeds the watermark with its waits is admitted when nothing else is in
/// flight.
#[test]
fn an_instruction_larger_than_the_watermark_is_admitted_alone() {
    let m = with_watermark(1);
    let s: Vec<Stream> = (0..3).map(|k| cpu(&m, k)).collect();
    let x: Vec<Tensor> = (0..2).map(|k| upload(&s[k], &m, &[k as f32 + 1.0])).collect();
    let mut y = call(&m, "add", &[&x[0], &x[1]], &s[2]);
    for k in 0..20 {
        y = call(&m, "add", &[&y, &x[k % 2]], &s[k % 3]);
    }
    m.barrier().unwrap();
    assert_eq!(read(&y), [33.0]);
}

/// Released bytes still in use measure how far the program runs ahead. Live tensors are not
/// counted, nor those whose memory their own stream can take. A worker that drops the last handle
/// of a tensor meanwhile does not wait.
#[test]
fn released_bytes_in_use_are_bounded() {
    const BYTES: u64 = 4096;
    let config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    let m = Machine::new(config.watermark_bytes(4 * BYTES)).unwrap();
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    let x = upload(&s, &m, &[1.0; 1024]);
    let held = upload(&t, &m, &[5.0]);
    let gate = Gate::on(&x);
    gate.entered();
    // After the gate opens, this callback drops the last handle of `held`.
    x.access(Access::Read, move |_: &mut Blob<'_>| {
        drop(held);
        Ok(())
    })
    .unwrap();
    let (step, stepped) = mpsc::channel();
    std::thread::scope(|scope| {
        let (m, s, t, x) = (&m, &s, &t, &x);
        scope.spawn(move || {
            for k in 0..100 {
                // These calls read the blocked stream's tensor, and both streams use their results,
                // so none of their memory becomes free.
                let (on, other) = if k % 2 == 0 { (s, t) } else { (t, s) };
                let y = call(m, "copy", &[x], on);
                other.touch(&[&y]).unwrap();
                drop(y);
                step.send(k).unwrap();
            }
        });
        let mut last = 0;
        while last < 4 {
            last = stepped.recv_timeout(LONG).unwrap();
        }
        for _ in 0..1000 {
            let usage = m.memory().unwrap().swap_remove(0);
            assert!(usage.pending + usage.cached <= 64 * BYTES, "{usage}");
            assert!(stepped.try_iter().all(|k| k < 6), "more than the watermark is released");
        }
        gate.open();
        while last < 99 {
            last = stepped.recv_timeout(LONG).unwrap();
        }
    });
    m.synchronize().unwrap();
    assert_eq!(m.memory().unwrap()[0].in_use, BYTES);
}

/// The streams never wait for each other, so 20,000 blocks of 4 KiB are pending until the host
/// waits. They do not take 80 MiB.
#[test]
fn a_loop_of_temporaries_on_two_streams_needs_little_memory() {
    let config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    let m = Machine::new(config.watermark_bytes(1 << 20)).unwrap();
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    for _ in 0..20_000 {
        let x = m.empty(&s, f32_spec(&[1024])).unwrap();
        m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
        t.touch(&[&x]).unwrap();
    }
    let usage = m.memory().unwrap().swap_remove(0);
    assert!(usage.reserved_peak < 34 << 20, "{usage}");
}

/// The inline driver waits for a slow device, but only briefly for a device that has stopped,
/// because the device may be waiting for the program.
#[test]
fn the_inline_driver_waits_only_briefly_for_a_device_that_has_stopped() {
    let (config, control) = by_hand_config();
    let m = Machine::new(config.driver(DriverKind::Inline)).unwrap();
    let s = [sim(&m, 0), sim(&m, 1)];
    let x = m.empty(&s[0], f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s[0]).unwrap();
    for k in 1..600 {
        m.call("mul_", &[&x, &x]).on(&s[k % 2]).unwrap();
    }
    let made = m.stats().unwrap().events_created;
    assert!(made > 500, "{made} events");
    control.switch(ep::sim::Completion::IssueOrder);
    assert_eq!(read(&x), [1.0]);
}

/// The same in one thread, on a device that completes nothing: a simulated machine knows that the
/// submitter would wait forever. So the bound holds in every run.
#[test]
fn released_bytes_in_use_are_bounded_in_one_thread() {
    const BYTES: u64 = 4096;
    let (config, _device) = by_hand_config();
    let config = config.driver(DriverKind::Simulated).watermark_bytes(4 * BYTES);
    let m = Machine::new(config).unwrap();
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let mut released = 0;
    let error = loop {
        let (on, other) = if released % 2 == 0 { (&s, &t) } else { (&t, &s) };
        let y = m.call("full", &[]).attr("shape", vec![1024]).attr("value", 0.5).on(on);
        match y.and_then(|y| other.touch(&[&y[0]])) {
            Ok(_) => released += 1,
            Err(error) => break error,
        }
        assert!(released < 10, "more than the watermark is released");
    };
    assert!(matches!(error.without_place(), Error::Stuck { .. }), "{error}");
    assert_eq!(released, 5);
}
