//! Rule 1: an event carries its stream's frontier at the record, not a later one.
//!
//! A records e; A waits for C; B waits for e. B's frontier does not cover C.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn an_event_does_not_carry_a_later_wait_of_its_stream() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (a, b, c) = (sim(m, 0), sim(m, 1), sim(m, 2));
        let x = upload(&c, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &c);
        let e = a.record_event().unwrap();
        a.wait_stream(&c).unwrap();
        b.wait_event(&e).unwrap();
        // B must wait for C: an elided wait would be a race.
        let z = call(m, "add", &[&y, &y], &b);
        let list = m.finish_recording().unwrap();
        assert_eq!(read(&z), [2.0, 0.0]);
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
    AllocateTensor s2 %1 f32[2] as 8 bytes at a0+512 generation 2
    SoftSyncStream s2 needs s4:2 for (%0) elided-fenced
    OpCall s2:1 relu (%0 read, %1 write)
    RecordEvent s0:1 e0
    SoftSyncStream s0 needs s2:1 for () by-device
    StreamWait s0:2 until s2:2 by-device e1
    SoftSyncStream s1 needs s0:1 for () by-device
    StreamWaitEvent s1:1 until s0:1 by-device e0
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s2:1 for (%1) by-device
    StreamWaitEvent s1:2 until s2:2 by-device e1
    OpCall s1:3 add (%1 read, %1 read, %2 write)
    "#);
}
