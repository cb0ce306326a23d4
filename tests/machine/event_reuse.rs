//! Two streams of one device read the output of a third: the second reader reuses the event of the
//! first.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn the_second_reader_uses_the_event_of_the_first() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let s: Vec<Stream> = (0..3).map(|k| sim(m, k)).collect();
        let x = upload(&s[0], m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &s[0]);
        let a = call(m, "add", &[&y, &y], &s[1]);
        let b = call(m, "mul", &[&y, &y], &s[2]);
        let list = m.finish_recording().unwrap();
        assert_eq!(m.stats().unwrap().events_reused, 1);
        assert_eq!((read(&a), read(&b)), (vec![2.0, 0.0], vec![1.0, 0.0]));
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
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:1 for (%1) by-device
    RecordEvent s0:2 e0
    StreamWaitEvent s1:1 until s0:2 by-device e0
    OpCall s1:2 add (%1 read, %1 read, %2 write)
    AllocateTensor s2 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s2 needs s0:1 for (%1) by-device
    StreamWaitEvent s2:1 until s0:2 by-device e0
    OpCall s2:2 mul (%1 read, %1 read, %3 write)
    "#);
}
