//! A write after two reads on other streams waits for both reads. It needs no wait for the earlier
//! write, which is on its own stream.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn write_after_two_reads() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let s: Vec<Stream> = (0..3).map(|k| cpu(m, k)).collect();
        let x = upload(&s[0], m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &s[1]);
        let z = call(m, "add", &[&x, &x], &s[2]);
        m.call("fill", &[&x]).attr("value", 7.0).on(&s[0]).unwrap();
        let list = m.finish_recording().unwrap();
        assert_eq!((read(&x), read(&y), read(&z)), (vec![7.0; 2], vec![1.0, 0.0], vec![2.0, -4.0]));
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 compute 2 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s1 %1 f32[2] as 8 bytes at a0+512 generation 2
    SoftSyncStream s1 needs s0:1 for (%0) elided-fenced
    OpCall s1:1 relu (%0 read, %1 write)
    AllocateTensor s2 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s2 needs s0:1 for (%0) elided-fenced
    OpCall s2:1 add (%0 read, %0 read, %2 write)
    SoftSyncStream s0 needs s1:1 for (%0) by-host
    StreamWaitEvent s0:2 until s1:1 by-host
    SoftSyncStream s0 needs s2:1 for (%0) by-host
    StreamWaitEvent s0:3 until s2:1 by-host
    OpCall s0:4 fill (%0 write) {value=7.0}
    "#);
}
