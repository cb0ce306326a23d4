//! A barrier orders everything submitted before it before everything submitted after it, also on
//! streams that are first used later. The builder elides waits across a barrier.

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

/// The builder elides the wait for `x` because of the barrier. So the barrier must also block a
/// stream whose first instruction comes after it.
#[test]
fn a_stream_first_used_later_is_ordered_too() {
    let mut config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    // One worker for all streams: it handles its messages and tasks one after another.
    config.host_workers = 1;
    let written = Arc::new(AtomicBool::new(false));
    let early = Arc::new(AtomicBool::new(false));
    let (seen, too_soon) = (written.clone(), early.clone());
    add_op(&mut config, "check_written", move |_| {
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
    // The host functions of another stream show how far the worker is.
    let clock = upload(&cpu(&m, 1), &m, &[0.0]);
    let ticks = [Gate::on(&clock), Gate::on(&clock)];
    let ticked = cpu(&m, 1).record_event().unwrap();
    m.barrier().unwrap();
    let y = call(&m, "check_written", &[&x], &cpu(&m, 2));
    // When the worker handles the return of the first tick, its queue holds the call above. By the
    // second tick, the worker has taken the call.
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
fn its_completion_includes_all_earlier_work() {
    for driver in DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let records: Vec<Event> = (0..3)
            .map(|k| {
                let s = cpu(&m, k);
                upload(&s, &m, &[1.0]);
                s.record_event().unwrap()
            })
            .collect();
        let barrier = m.barrier().unwrap();
        barrier.wait().unwrap();
        assert!(records.iter().all(Event::query));
    }
}
