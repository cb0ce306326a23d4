//! Rule 6: every stream knows the points that the host has waited for. A query adds nothing,
//! whatever it returns: lists do not depend on queries.

use millstream::*;
use millstream_testing::machine::*;

fn program(m: &Machine, observe: impl Fn(&Machine, &Tensor, &Completion)) -> InstructionList {
    let s: Vec<Stream> = (0..3).map(|k| cpu(m, k)).collect();
    let x = upload(&s[0], m, &[1.0, -2.0]);
    m.start_recording(&[("x", &x)]).unwrap();
    let y = call(m, "relu", &[&x], &s[0]);
    let done = s[0].record_event().unwrap().completion();
    observe(m, &y, &done);
    let a = call(m, "add", &[&y, &y], &s[1]);
    let b = call(m, "mul", &[&y, &x], &s[2]);
    let list = m.finish_recording().unwrap();
    assert_eq!((read(&a), read(&b)), (vec![2.0, 0.0], vec![1.0, 0.0]));
    list
}

#[test]
fn a_read_extends_the_host_frontier() {
    let list =
        emitted(SyncPolicy::Frontier, |m| program(m, |_, y, _| assert_eq!(read(y), [1.0, 0.0])));
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
    SyncRead s0:4 %1 read into read0
    HostObserved (s0:4)
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%1) elided-fenced
    OpCall s1:1 add (%1 read, %1 read, %2 write)
    AllocateTensor s2 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s2 needs s0:2 for (%1, %0) elided-fenced
    OpCall s2:1 mul (%1 read, %0 read, %3 write)
    "#);
}

#[test]
fn a_query_does_not_extend_it() {
    let plain = emitted(SyncPolicy::Frontier, |m| program(m, |_, _, _| {}));
    let queried = emitted(SyncPolicy::Frontier, |m| {
        program(m, |_, _, done| {
            while !done.query() {
                std::thread::yield_now();
            }
        })
    });
    assert_eq!(plain, queried);
    assert!(!plain.contains("HostObserved"), "{plain}");
}

#[test]
fn waiting_and_synchronizing_extend_it() {
    for observe in
        [(|_, _, done| done.wait().unwrap()) as fn(&Machine, &Tensor, &Completion), |m, _, _| {
            m.synchronize().unwrap()
        }]
    {
        let list = emitted(SyncPolicy::Frontier, |m| program(m, observe));
        assert!(list.contains("elided-fenced") && !list.contains("StreamWait"), "{list}");
    }
}
