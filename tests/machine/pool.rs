//! Rule 3: on a pool, the frontier of an instruction covers only the points that the instruction
//! itself waits for. The same program runs in both stream modes; its list depends on the mode,
//! which the list's header states.

use millstream::*;
use millstream_testing::machine::*;

fn program(mode: StreamMode) -> impl Fn(&Machine) -> InstructionList {
    move |m| {
        let p = m.stream_with_mode(&StreamKey::compute(CPU, 0), mode).unwrap();
        let (s, t) = (cpu(m, 1), cpu(m, 2));
        let x = upload(&s, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &s);
        let a = call(m, "add", &[&y, &y], &p);
        let b = call(m, "mul", &[&y, &x], &p);
        let c = call(m, "sub", &[&a, &b], &p);
        let d = call(m, "add", &[&b, &c], &t);
        m.call("fill", &[&y]).attr("value", 9.0).on(&s).unwrap();
        let list = m.finish_recording().unwrap();
        assert_eq!((read(&c), read(&d), read(&y)), (vec![1.0, 0.0], vec![2.0, 0.0], vec![9.0; 2]));
        list
    }
}

#[test]
fn on_a_pool_every_instruction_has_its_own_waits() {
    insta::assert_snapshot!(emitted(SyncPolicy::Frontier, program(StreamMode::Pool)), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 pool
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 compute 2 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s1 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s1:2 relu (%0 read, %1 write)
    AllocateTensor s0 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s0 needs s1:2 for (%1) by-host
    StreamWaitEvent s0:1 until s1:2 by-host
    OpCall s0:2 add (%1 read, %1 read, %2 write)
    AllocateTensor s0 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s0 needs s1:2 for (%1, %0) by-host
    StreamWaitEvent s0:3 until s1:2 by-host
    OpCall s0:4 mul (%1 read, %0 read, %3 write)
    AllocateTensor s0 %4 f32[2] as 8 bytes at a0+2048 generation 5
    OpCall s0:5 sub (%2 read, %3 read, %4 write)
    AllocateTensor s2 %5 f32[2] as 8 bytes at a0+2560 generation 6
    SoftSyncStream s2 needs s0:5 for (%3, %4) by-host
    StreamWaitEvent s2:1 until s0:5 by-host
    OpCall s2:2 add (%3 read, %4 read, %5 write)
    SoftSyncStream s1 needs s0:4 for (%1) by-host
    StreamWaitEvent s1:3 until s0:4 by-host
    OpCall s1:4 fill (%1 write) {value=9.0}
    "#);
}

#[test]
fn in_order_earlier_waits_count() {
    insta::assert_snapshot!(emitted(SyncPolicy::Frontier, program(StreamMode::InOrder)), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 compute 2 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s1 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s1:2 relu (%0 read, %1 write)
    AllocateTensor s0 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s0 needs s1:2 for (%1) by-host
    StreamWaitEvent s0:1 until s1:2 by-host
    OpCall s0:2 add (%1 read, %1 read, %2 write)
    AllocateTensor s0 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s0 needs s1:2 for (%1, %0) elided-known
    OpCall s0:3 mul (%1 read, %0 read, %3 write)
    AllocateTensor s0 %4 f32[2] as 8 bytes at a0+2048 generation 5
    OpCall s0:4 sub (%2 read, %3 read, %4 write)
    AllocateTensor s2 %5 f32[2] as 8 bytes at a0+2560 generation 6
    SoftSyncStream s2 needs s0:4 for (%3, %4) by-host
    StreamWaitEvent s2:1 until s0:4 by-host
    OpCall s2:2 add (%3 read, %4 read, %5 write)
    SoftSyncStream s1 needs s0:3 for (%1) by-host
    StreamWaitEvent s1:3 until s0:3 by-host
    OpCall s1:4 fill (%1 write) {value=9.0}
    "#);
}

#[test]
fn by_last_used_stream() {
    insta::assert_snapshot!(emitted(SyncPolicy::LastUsedStream, program(StreamMode::Pool)), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 pool
    stream s1 cpu:0 compute 1 in-order
    stream s2 cpu:0 compute 2 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s1 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s1:2 relu (%0 read, %1 write)
    AllocateTensor s0 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s0 needs s1:2 for (%1) by-host
    StreamWaitEvent s0:1 until s1:2 by-host
    OpCall s0:2 add (%1 read, %1 read, %2 write)
    AllocateTensor s0 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s0 needs s1:2 for (%1, %0) by-host
    StreamWaitEvent s0:3 until s1:2 by-host
    OpCall s0:4 mul (%1 read, %0 read, %3 write)
    AllocateTensor s0 %4 f32[2] as 8 bytes at a0+2048 generation 5
    OpCall s0:5 sub (%2 read, %3 read, %4 write)
    AllocateTensor s2 %5 f32[2] as 8 bytes at a0+2560 generation 6
    SoftSyncStream s2 needs s0:5 for (%3, %4) by-host
    StreamWaitEvent s2:1 until s0:5 by-host
    OpCall s2:2 add (%3 read, %4 read, %5 write)
    SoftSyncStream s1 needs s0:4 for (%1) by-host
    StreamWaitEvent s1:3 until s0:4 by-host
    OpCall s1:4 fill (%1 write) {value=9.0}
    "#);
}

#[test]
fn a_stream_has_one_mode() {
    let m = threaded();
    let key = StreamKey::compute(CPU, 0);
    let pool = m.stream_with_mode(&key, StreamMode::Pool).unwrap();
    let error = m.stream_with_mode(&key, StreamMode::InOrder).unwrap_err().to_string();
    assert!(error.contains("cpu:0 compute 0 is pool, not in-order"), "{error}");
    // The machine's own transfers accept a pool.
    let x = upload(&pool, &m, &[1.0]);
    let there = upload(&sim(&m, 0), &m, &[2.0]);
    assert_eq!((read(&x), read(&there)), (vec![1.0], vec![2.0]));
    m.empty(&pool, f32_spec(&[1])).unwrap().read().unwrap();
}
