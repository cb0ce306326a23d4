//! An executable runs as one instruction, as often as it is launched. Its operands are its formals
//! and its private memory; it completes when all its instructions have.

use millstream::*;
use millstream_testing::machine::*;

/// Compiles a list that computes `y` = relu(x) + x on two streams of its own.
fn compiled(m: &Machine, x: &Tensor, y: &Tensor) -> Executable {
    let mut list = m.recorder();
    let s: Vec<_> = (0..2).map(|k| list.stream(&StreamKey::compute(CPU, k)).unwrap()).collect();
    let (x, y) = (list.bind(x).unwrap(), list.bind(y).unwrap());
    let t = list.call("relu", &[x]).on(s[0]).unwrap()[0];
    list.call("add", &[t, x]).out(&[y]).on(s[1]).unwrap();
    list.release(t).unwrap();
    list.finish().unwrap().compile().unwrap()
}

#[test]
fn launched_twice() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let s = cpu(m, 0);
        let x = upload(&s, m, &[1.0, -2.0]);
        let y = upload(&s, m, &[0.0, 0.0]);
        let job = compiled(m, &x, &y);
        m.start_recording(&[("x", &x), ("y", &y)]).unwrap();
        job.launch().run().unwrap();
        // The job reads `x`, so this call waits for all of the job.
        m.call("add_", &[&x, &y]).on(&s).unwrap();
        let done = job.launch().run().unwrap();
        let list = m.finish_recording().unwrap();
        done.wait().unwrap();
        assert_eq!((read(&x), read(&y)), (vec![3.0, -4.0], vec![6.0, -4.0]));
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 lazy-job 0 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    external %1 "y" f32[2] in 8 bytes of a0
    executable list0
    list0: stream s0 cpu:0 compute 0 in-order
    list0: stream s1 cpu:0 compute 1 in-order
    list0: arena a0 cpu:0
    list0: external %0 "bound 0" f32[2] in 8 bytes of a0
    list0: external %1 "bound 1" f32[2] in 8 bytes of a0
    list0: AllocateTensor s0 %2 f32[2] as 8 bytes at a0+0 generation 1
    list0: OpCall s0:1 relu (%0 read, %2 write)
    list0: StreamWaitEvent s1:1 until s0:1 by-host
    list0: OpCall s1:2 add (%2 read, %0 read, %1 write)
    list0: ReleaseTensor %2
    AllocateTensor s1 %2 u8[512] as 512 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%0, %1) elided-fenced
    LazyJobLauncher s1:1 list0 (%0 read, %1 write, %2 write)
    SoftSyncStream s0 needs s1:1 for (%0, %1) by-host
    StreamWaitEvent s0:3 until s1:1 by-host
    OpCall s0:4 add_ (%0 readwrite, %1 read)
    SoftSyncStream s1 needs s0:4 for (%0, %1) by-host
    StreamWaitEvent s1:2 until s0:4 by-host
    LazyJobLauncher s1:3 list0 (%0 read, %1 write, %2 write)
    "#);
}

#[test]
fn its_tensors_are_released_with_it() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (x, y) = (upload(&s, &m, &[1.0, -2.0]), upload(&s, &m, &[0.0, 0.0]));
    for _ in 0..100 {
        let job = compiled(&m, &x, &y);
        job.launch().run().unwrap();
        // Dropped while it runs: its tensors live until it completes.
    }
    assert_eq!(read(&y), [2.0, -2.0]);
    m.synchronize().unwrap();
}

/// A failure within a job belongs to the launch. A wait for the launch returns it; a wait for a
/// stream of the program with the private stream's name does not.
#[test]
fn a_failure_belongs_to_its_launch() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[0.0]));
        let mut list = m.recorder();
        let (a, b) = (list.bind(&x).unwrap(), list.bind(&y).unwrap());
        let t = list.call("fail", &[a]).run().unwrap()[0];
        list.call("copy", &[t]).out(&[b]).run().unwrap();
        let job = list.finish().unwrap().compile().unwrap();
        let launched = job.launch().run().unwrap();
        assert_eq!(failure(launched.wait().unwrap_err()).op.as_deref(), Some("fail"));
        assert_eq!(failure(y.read().unwrap_err()).op.as_deref(), Some("fail"));
        s.synchronize().unwrap();
    }
}

/// A good launch after a failed one, on the same stream: its waits report nothing, however often,
/// and those of the failed launch report its failure, however often.
#[test]
fn a_launch_reports_its_own_failure_alone() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        let compiled = |op: &str| {
            let recorded = m.record(|r| {
                let x = r.input("x", f32_spec(&[1]))?;
                let y = r.call(op, &[x]).run()?[0];
                r.output("y", &y)
            });
            recorded.unwrap().compile().unwrap()
        };
        let (good, bad) = (compiled("relu"), compiled("fail"));
        let x = upload(&s, &m, &[1.0]);
        let failed = bad.launch().input("x", &x).run().unwrap();
        let launched = good.launch().input("x", &x).run().unwrap();
        for _ in 0..2 {
            launched.wait().unwrap();
            launched.completion().clone().wait().unwrap();
            assert_eq!(failure(failed.wait().unwrap_err()).op.as_deref(), Some("fail"));
            assert!(failed.completion().wait().is_err());
        }
        assert!(launched.completion().clone().wait_for(LONG).is_ok());
        // The machine keeps the failure until it is cleared; the launch keeps its own.
        assert_eq!(m.failures().1, 1);
        m.clear_failures();
        assert_eq!(m.failures().1, 0);
        failed.wait().unwrap_err();
        // A launch whose input is poisoned has that cause.
        let y = failed.output("y").unwrap();
        let skipped = good.launch().input("x", y).run().unwrap();
        assert_eq!(failure(skipped.wait().unwrap_err()).op.as_deref(), Some("fail"));
    }
}
