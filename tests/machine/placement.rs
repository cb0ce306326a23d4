//! Rule 5: the planner decides placements at emission, in program order and from frontiers, not
//! from the observed progress of devices.

use millstream::*;
use millstream_testing::machine::*;

/// A block is reused on a stream whose frontier covers its last uses, and on no other.
#[test]
fn memory_is_reused_where_its_last_uses_are_covered() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (s, t) = (cpu(m, 0), cpu(m, 1));
        let x = upload(&s, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let a = call(m, "relu", &[&x], &s);
        drop(call(m, "add", &[&a, &a], &t));
        drop(a);
        // The frontier of `s` covers neither the read of `a` on `t` nor the last use of the sum.
        let b = call(m, "copy", &[&x], &s);
        // The frontier of `t` covers both.
        let c = call(m, "copy", &[&x], &t);
        let list = m.finish_recording().unwrap();
        assert_eq!((read(&b), read(&c)), (vec![1.0, -2.0], vec![1.0, -2.0]));
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s0:2 relu (%0 read, %1 write)
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%1) by-host
    StreamWaitEvent s1:1 until s0:2 by-host
    OpCall s1:2 add (%1 read, %1 read, %2 write)
    ReleaseTensor %2
    ReleaseTensor %1
    AllocateTensor s0 %3 f32[2] as 8 bytes at a0+1536 generation 4
    OpCall s0:3 copy (%0 read, %3 write)
    AllocateTensor s1 %4 f32[2] as 8 bytes at a0+1024 generation 5
    SoftSyncStream s1 needs s0:1 for (%0) elided-fenced
    OpCall s1:3 copy (%0 read, %4 write)
    "#);
}

/// As before, with the last use blocked: the block must not get a new owner while a call reads it.
#[test]
fn a_block_in_use_on_another_stream_is_not_reused() {
    let m = threaded();
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    let a = upload(&s, &m, &[1.0; 8]);
    let own = upload(&t, &m, &[0.0]);
    let gate = Gate::on(&own);
    gate.entered();
    let sum = call(&m, "add", &[&a, &a], &t);
    drop(a);
    for _ in 0..50 {
        drop(upload(&s, &m, &[9.0; 8]));
    }
    s.synchronize().unwrap();
    gate.open();
    assert_eq!(read(&sum), [2.0; 8]);
}

/// A program that reuses slots and blocks many times gives the same list at any speed of the
/// workers.
#[test]
fn long_programs_give_the_same_list() {
    for sync in [SyncPolicy::Frontier, SyncPolicy::LastUsedStream] {
        emitted(sync, |m| {
            let s: Vec<Stream> =
                (0..4).map(|k| if k < 2 { cpu(m, k) } else { sim(m, k) }).collect();
            let mut x = [upload(&s[0], m, &[1.0]), upload(&s[2], m, &[1.0])];
            m.start_recording(&[("x", &x[0]), ("y", &x[1])]).unwrap();
            for k in 0..200 {
                let side = usize::from(k % 3 == 0);
                let on = &s[2 * side + k % 2];
                x[side] = call(m, "relu", &[&x[side]], on);
                if k % 50 == 49 {
                    assert_eq!(read(&x[side]), [1.0]);
                }
            }
            m.finish_recording().unwrap()
        });
    }
}
