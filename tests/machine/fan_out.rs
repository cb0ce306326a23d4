//! A producer with readers on three streams. Under the frontier rule each reader waits for the
//! producer; under OneFlow's rule each waits for the reader before it.

use millstream::*;
use millstream_testing::machine::*;

fn program(m: &Machine) -> InstructionList {
    let s: Vec<Stream> = (0..4).map(|k| cpu(m, k)).collect();
    let x = upload(&s[0], m, &[1.0, -2.0]);
    m.start_recording(&[("x", &x)]).unwrap();
    let y = call(m, "relu", &[&x], &s[0]);
    let out: Vec<Tensor> = (1..4).map(|k| call(m, "add", &[&y, &y], &s[k])).collect();
    let list = m.finish_recording().unwrap();
    for z in &out {
        assert_eq!(read(z), [2.0, 0.0]);
    }
    list
}

#[test]
fn by_frontier() {
    insta::assert_snapshot!(emitted(SyncPolicy::Frontier, program), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 compute 2 in-order
    stream s3 cpu:0 compute 3 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s0:2 relu (%0 read, %1 write)
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%1) by-host
    StreamWaitEvent s1:1 until s0:2 by-host
    OpCall s1:2 add (%1 read, %1 read, %2 write)
    AllocateTensor s2 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s2 needs s0:2 for (%1) by-host
    StreamWaitEvent s2:1 until s0:2 by-host
    OpCall s2:2 add (%1 read, %1 read, %3 write)
    AllocateTensor s3 %4 f32[2] as 8 bytes at a0+2048 generation 5
    SoftSyncStream s3 needs s0:2 for (%1) by-host
    StreamWaitEvent s3:1 until s0:2 by-host
    OpCall s3:2 add (%1 read, %1 read, %4 write)
    "#);
}

#[test]
fn by_last_used_stream() {
    insta::assert_snapshot!(emitted(SyncPolicy::LastUsedStream, program), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 compute 2 in-order
    stream s3 cpu:0 compute 3 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s0:2 relu (%0 read, %1 write)
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%1) by-host
    StreamWaitEvent s1:1 until s0:2 by-host
    OpCall s1:2 add (%1 read, %1 read, %2 write)
    AllocateTensor s2 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s2 needs s1:2 for (%1) by-host
    StreamWaitEvent s2:1 until s1:2 by-host
    OpCall s2:2 add (%1 read, %1 read, %3 write)
    AllocateTensor s3 %4 f32[2] as 8 bytes at a0+2048 generation 5
    SoftSyncStream s3 needs s2:2 for (%1) by-host
    StreamWaitEvent s3:1 until s2:2 by-host
    OpCall s3:2 add (%1 read, %1 read, %4 write)
    "#);
}
