//! A barrier stands between all that was submitted and all that will be, on streams that come into
//! being later, too. The frontier knows: nothing behind it waits for anything before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn waits_across_it_are_elided() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (s, t) = (cpu(m, 0), cpu(m, 1));
        let x = upload(&s, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &s);
        m.barrier().unwrap();
        let z = call(m, "add", &[&y, &x], &t);
        let list = m.finish_recording().unwrap();
        assert_eq!(read(&z), [2.0, -2.0]);
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 barrier 0 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s0:2 relu (%0 read, %1 write)
    Barrier s2:1
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%1, %0) elided-fenced
    OpCall s1:1 add (%1 read, %0 read, %2 write)
    "#);
}

/// The wait for `x` is left out because of the barrier, so the barrier has to hold the stream, also
/// one that nobody had heard of when it was put there.
#[test]
fn a_stream_that_comes_later_comes_after_it() {
    let mut config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    // One worker for all streams, which so hears and takes what it is given in turn.
    config.host_workers = 1;
    let written = Arc::new(AtomicBool::new(false));
    let early = Arc::new(AtomicBool::new(false));
    let (seen, too_soon) = (written.clone(), early.clone());
    add_op(&mut config, "look", move |_| {
        too_soon.fetch_or(!seen.load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(())
    });
    let m = Machine::new(config).unwrap();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let gate = Gate::on(&x);
    let write = move |_: &mut Blob<'_>| {
        written.store(true, Ordering::SeqCst);
        Ok(())
    };
    x.access(Access::ReadWrite, write).unwrap();
    // Another stream, to show how far the worker has come.
    let clock = upload(&cpu(&m, 1), &m, &[0.0]);
    let ticks = [Gate::on(&clock), Gate::on(&clock)];
    let ticked = m.record(&cpu(&m, 1)).unwrap();
    m.barrier().unwrap();
    let y = call(&m, "look", &[&x], &cpu(&m, 2));
    // When the first tick is heard, the call above has been given to the worker; by the second, it
    // has been taken.
    for tick in ticks {
        tick.entered();
        tick.open();
    }
    ticked.completion().wait_for(LONG).unwrap();
    assert!(!early.load(Ordering::SeqCst), "a reader behind the barrier ran before the writer");
    gate.open();
    m.synchronize().unwrap();
    assert!(!early.load(Ordering::SeqCst), "a reader behind the barrier ran before the writer");
    drop(y);
}

#[test]
fn everything_before_it_has_completed_when_it_has() {
    for driver in DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let records: Vec<Event> = (0..3)
            .map(|k| {
                let s = cpu(&m, k);
                upload(&s, &m, &[1.0]);
                m.record(&s).unwrap()
            })
            .collect();
        let barrier = m.barrier().unwrap();
        barrier.wait().unwrap();
        assert!(records.iter().all(Event::query));
    }
}
