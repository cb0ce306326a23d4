//! A chain on one stream: the order of the stream suffices, without any wait.

use millstream::SyncPolicy;
use millstream_testing::machine::*;

#[test]
fn chain_on_one_stream() {
    for sync in [SyncPolicy::Frontier, SyncPolicy::LastUsedStream] {
        let list = emitted(sync, |m| {
            let s = cpu(m, 0);
            let x = upload(&s, m, &[1.0, -2.0]);
            m.start_recording(&[("x", &x)]).unwrap();
            let y = call(m, "relu", &[&x], &s);
            let z = call(m, "add", &[&y, &x], &s);
            let list = m.finish_recording().unwrap();
            assert_eq!(read(&z), [2.0, -2.0]);
            assert_eq!(m.stats().unwrap().waits.needed, 0);
            list
        });
        insta::allow_duplicates!(insta::assert_snapshot!(list, @r#"
        millstream-list 1
        stream s0 cpu:0 compute 0 in-order
        arena a0 cpu:0
        external %0 "x" f32[2] in 8 bytes of a0
        AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
        OpCall s0:2 relu (%0 read, %1 write)
        AllocateTensor s0 %2 f32[2] as 8 bytes at a0+1024 generation 3
        OpCall s0:3 add (%1 read, %0 read, %2 write)
        "#));
    }
}
