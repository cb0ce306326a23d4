//! A records, B waits, B records, then A and C wait for B's record. A's wait adds nothing to its
//! frontier. C's frontier covers A by way of B, so C does not wait for A.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn record_wait_elsewhere_and_wait_back() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (a, b, c) = (sim(m, 0), sim(m, 1), sim(m, 2));
        let x = upload(&a, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &a);
        let e = a.record_event().unwrap();
        b.wait_event(&e).unwrap();
        let z = call(m, "add", &[&y, &y], &b);
        let f = b.record_event().unwrap();
        a.wait_event(&f).unwrap();
        c.wait_event(&f).unwrap();
        let at_a = call(m, "add", &[&z, &y], &a);
        let at_c = call(m, "sub", &[&z, &y], &c);
        // B waits for its own event: the builder emits no wait.
        b.wait_event(&f).unwrap();
        let list = m.finish_recording().unwrap();
        assert_eq!((read(&at_a), read(&at_c)), (vec![3.0, 0.0], vec![1.0, 0.0]));
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
    RecordEvent s0:2 e0
    SoftSyncStream s1 needs s0:2 for () by-device
    StreamWaitEvent s1:1 until s0:2 by-device e0
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:1 for (%1) elided-known
    OpCall s1:2 add (%1 read, %1 read, %2 write)
    RecordEvent s1:3 e1
    SoftSyncStream s0 needs s1:3 for () by-device
    StreamWaitEvent s0:3 until s1:3 by-device e1
    SoftSyncStream s2 needs s1:3 for () by-device
    StreamWaitEvent s2:1 until s1:3 by-device e1
    AllocateTensor s0 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s0 needs s1:2 for (%2) elided-known
    OpCall s0:4 add (%2 read, %1 read, %3 write)
    AllocateTensor s2 %4 f32[2] as 8 bytes at a0+2048 generation 5
    SoftSyncStream s2 needs s0:1 for (%1) elided-known
    SoftSyncStream s2 needs s1:2 for (%2) elided-known
    OpCall s2:2 sub (%2 read, %1 read, %4 write)
    "#);
}
