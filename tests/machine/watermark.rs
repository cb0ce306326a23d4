//! Rule 4: backpressure waits before the critical section, never inside it.

use std::sync::mpsc;

use crate::common::*;
use millstream::*;

fn narrow(watermark: u64) -> Machine {
    let config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    Machine::new(MachineConfig { watermark, ..config }).unwrap()
}

/// A submitter waits behind a stalled stream. Meanwhile others query, drop and ask; when the stream
/// goes on, so does the submitter.
#[test]
fn a_waiting_submitter_holds_no_lock() {
    let m = narrow(8);
    let s = cpu(&m, 0);
    let (x, spare) = (upload(&s, &m, &[0.0]), upload(&s, &m, &[7.0]));
    let one = upload(&s, &m, &[1.0]);
    let record = m.record(&s).unwrap();
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
        // It gets as far as there is room, and not to the end.
        let mut last = stepped.recv_timeout(LONG).unwrap();
        drop(spare);
        for _ in 0..1000 {
            assert!(m.stats().unwrap().total() < 30, "more than the watermark is on its way");
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

/// Larger than the watermark with its waits: admitted when it is alone.
#[test]
fn an_instruction_larger_than_the_watermark_is_admitted_alone() {
    let m = narrow(1);
    let s: Vec<Stream> = (0..3).map(|k| cpu(&m, k)).collect();
    let x: Vec<Tensor> = (0..2).map(|k| upload(&s[k], &m, &[k as f32 + 1.0])).collect();
    let mut y = call(&m, "add", &[&x[0], &x[1]], &s[2]);
    for k in 0..20 {
        y = call(&m, "add", &[&y, &x[k % 2]], &s[k % 3]);
    }
    m.barrier().unwrap();
    assert_eq!(read(&y), [33.0]);
}
