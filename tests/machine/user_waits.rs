//! The builder does not repeat the program's own waits: neither on a stream that waited for an
//! event or a stream, nor on any stream after a host wait.

use std::time::Duration;

use crate::futures::block_on;
use millstream::*;
use millstream_testing::machine::*;

/// Streams of one device wait explicitly, and their reads need no further wait.
#[test]
fn streams_that_waited_do_not_wait_again() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (a, b, c) = (sim(m, 0), sim(m, 1), sim(m, 2));
        let x = upload(&a, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &a);
        b.wait_stream(&a).unwrap();
        let z = call(m, "add", &[&y, &y], &b);
        let e = b.record_event().unwrap();
        c.wait_event(&e).unwrap();
        // By way of B, C's frontier covers A.
        let w = call(m, "mul", &[&y, &z], &c);
        // Neither of these is needed.
        c.wait_stream(&b).unwrap();
        c.wait_event(&e).unwrap();
        let list = m.finish_recording().unwrap();
        assert_eq!(read(&w), [2.0, 0.0]);
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 sim:0 compute 0 in-order
    stream s1 sim:0 compute 1 in-order
    stream s2 sim:0 compute 2 in-order
    stream s3 cpu:0 compute 0 in-order
    stream s4 sim:0 host2device 0 in-order
    arena a0 sim:0
    arena a1 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    SoftSyncStream s0 needs s4:2 for (%0) elided-fenced
    OpCall s0:1 relu (%0 read, %1 write)
    SoftSyncStream s1 needs s0:1 for () by-device
    StreamWait s1:1 until s0:2 by-device e0
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:1 for (%1) elided-known
    OpCall s1:2 add (%1 read, %1 read, %2 write)
    RecordEvent s1:3 e1
    SoftSyncStream s2 needs s1:3 for () by-device
    StreamWaitEvent s2:1 until s1:3 by-device e1
    AllocateTensor s2 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s2 needs s0:1 for (%1) elided-known
    SoftSyncStream s2 needs s1:2 for (%2) elided-known
    OpCall s2:2 mul (%1 read, %2 read, %3 write)
    SoftSyncStream s2 needs s1:3 for () elided-known
    SoftSyncStream s2 needs s1:3 for () elided-known
    "#);
}

type HostWait = fn(&Machine, &Stream, &Event);

/// Returns the list of a program in which the host waits by `wait` before two streams read.
#[track_caller]
fn list_with(wait: HostWait, stream: fn(&Machine, u32) -> Stream) -> String {
    emitted(SyncPolicy::Frontier, |m| {
        let s: Vec<Stream> = (0..3).map(|k| stream(m, k)).collect();
        let x = upload(&s[0], m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &s[0]);
        let e = s[0].record_event().unwrap();
        wait(m, &s[0], &e);
        let (a, b) = (call(m, "add", &[&y, &y], &s[1]), call(m, "mul", &[&y, &x], &s[2]));
        let list = m.finish_recording().unwrap();
        assert_eq!((read(&a), read(&b)), (vec![2.0, 0.0], vec![1.0, 0.0]));
        list
    })
}

#[test]
fn no_stream_repeats_a_host_wait() {
    let waits: [HostWait; 10] = [
        |_, _, e| e.synchronize().unwrap(),
        |_, _, e| e.synchronize_for(LONG).unwrap(),
        |_, _, e| e.completion().wait().unwrap(),
        |_, _, e| block_on(e.completion()).unwrap(),
        |_, s, _| s.synchronize().unwrap(),
        |_, s, _| s.synchronize_for(LONG).unwrap(),
        |_, s, _| block_on(s.completion().unwrap()).unwrap(),
        |_, s, _| s.completion().unwrap().wait_for(LONG).unwrap(),
        |m, _, _| m.completion().unwrap().wait_for(LONG).unwrap(),
        |m, _, _| block_on(m.completion().unwrap()).unwrap(),
    ];
    let list = list_with(waits[0], cpu);
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 compute 2 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s0:2 relu (%0 read, %1 write)
    RecordEvent s0:3 e0
    HostObserved (s0:3)
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%1) elided-fenced
    OpCall s1:1 add (%1 read, %1 read, %2 write)
    AllocateTensor s2 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s2 needs s0:2 for (%1, %0) elided-fenced
    OpCall s2:1 mul (%1 read, %0 read, %3 write)
    "#);
    for (k, wait) in waits.into_iter().enumerate() {
        let on_cpu = list_with(wait, cpu);
        let on_sim = list_with(wait, sim);
        for list in [&on_cpu, &on_sim] {
            assert!(list.contains("HostObserved"), "wait {k}: {list}");
            assert!(list.contains("elided-fenced") && !list.contains("StreamWait"), "{k}: {list}");
        }
        assert!(k >= 8 || on_cpu == list, "wait {k} gives another list: {on_cpu}");
    }
}

/// A time-out or a query adds nothing to the host frontier, whatever its result.
#[test]
fn a_host_wait_that_timed_out_elides_nothing() {
    let (m, control) = by_hand();
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.start_recording(&[("x", &x)]).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let e = s.record_event().unwrap();
    let late = [
        e.synchronize_for(Duration::ZERO),
        s.synchronize_for(Duration::ZERO),
        m.completion().unwrap().wait_for(Duration::ZERO),
    ];
    for late in late {
        let late = late.unwrap_err();
        assert!(matches!(late.without_place(), Error::Timeout { .. }), "{late}");
    }
    control.run_until(|| e.query() && s.query().unwrap() && m.completion().unwrap().query());
    call(&m, "relu", &[&x], &t);
    let list = listing(&m.finish_recording().unwrap());
    assert!(list.contains("StreamWaitEvent") && !list.contains("HostObserved"), "{list}");
}

/// A wait for a tensor ends with the tensor's last write. Its reads, and later work of its stream,
/// may still be in flight.
#[test]
fn a_wait_for_a_tensor_ends_with_its_last_write() {
    let (m, control) = by_hand();
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let y = call(&m, "relu", &[&x], &t);
    let later = call(&m, "relu", &[&x], &s);
    let late = x.synchronize_for(Duration::ZERO).unwrap_err();
    assert!(matches!(late.without_place(), Error::Timeout { .. }), "{late}");
    let written = x.completion().unwrap();
    // One command: the write.
    let first = || control.streams().into_iter().find(|stream| !stream.commands.is_empty());
    while first().is_none_or(|stream| !control.step(stream.id).unwrap()) {
        std::thread::yield_now();
    }
    written.wait().unwrap();
    block_on(x.completion().unwrap()).unwrap();
    assert!(!y.completion().unwrap().query() && !later.completion().unwrap().query());
    control.run_until(|| y.completion().unwrap().query());
    x.release().unwrap();
    assert!(x.synchronize().is_err());
}

/// A wait for a tensor does not return other failures of its stream.
#[test]
fn a_wait_for_a_tensor_returns_only_its_own_failure() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let (bad, good) = (call(&m, "fail", &[&x], &s), call(&m, "relu", &[&x], &s));
        good.synchronize().unwrap();
        failure(bad.synchronize().unwrap_err());
        m.call("fill", &[&bad]).attr("value", 2.0).on(&s).unwrap();
        bad.synchronize().unwrap();
        s.synchronize().unwrap_err();
    }
}
