//! A test for every instruction kind that has no file of its own, and a test that every kind of the
//! table is emitted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, mpsc};

use millstream::instructions::Kind;
use millstream::*;
use millstream_testing::machine::*;

/// A touch waits for the last write, and later writes wait for the touch.
#[test]
fn touch_tensors() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (s, t) = (cpu(m, 0), cpu(m, 1));
        let x = upload(&s, m, &[1.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        m.call("add_", &[&x, &x]).on(&s).unwrap();
        t.touch(&[&x]).unwrap();
        m.call("add_", &[&x, &x]).on(&s).unwrap();
        let list = m.finish_recording().unwrap();
        assert_eq!(read(&x), [4.0]);
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    arena a0 cpu:0
    external %0 "x" f32[1] in 4 bytes of a0
    OpCall s0:2 add_ (%0 readwrite, %0 read)
    SoftSyncStream s1 needs s0:2 for (%0) by-host
    StreamWaitEvent s1:1 until s0:2 by-host
    TouchTensors s1:2 (%0 read)
    SoftSyncStream s0 needs s1:2 for (%0) by-host
    StreamWaitEvent s0:3 until s1:2 by-host
    OpCall s0:4 add_ (%0 readwrite, %0 read)
    "#);
}

#[test]
fn touch_completes_after_the_write_that_it_waits_for() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let gate = Gate::on(&x);
    let touched = cpu(&m, 1).touch(&[&x]).unwrap();
    gate.entered();
    assert!(!touched.query());
    gate.open();
    touched.wait_for(LONG).unwrap();
}

/// Neither of two ranks passes before the other arrives, and a rank arrives after all its earlier
/// work has completed.
#[test]
fn global_sync() {
    let ranks = comm::LocalGroup::communicators(2);
    let machines = ranks.into_iter().map(|rank| {
        let config = config(DriverKind::Threaded, SyncPolicy::Frontier);
        Machine::new(config.communicator(Arc::new(rank))).unwrap()
    });
    let [m, other]: [Machine; 2] = machines.collect::<Vec<_>>().try_into().unwrap();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let passed = m.global_sync().unwrap();
    let after = call(&m, "relu", &[&x], &cpu(&m, 1));
    let done = cpu(&m, 1).record_event().unwrap();
    assert!(!passed.query() && !done.query(), "it went on before the other arrived");
    let gate = Gate::on(&upload(&cpu(&other, 0), &other, &[1.0]));
    gate.entered();
    let there = other.global_sync().unwrap();
    assert!(!passed.query() && !there.query(), "it arrived with work outstanding");
    gate.open();
    passed.wait_for(LONG).unwrap();
    there.wait_for(LONG).unwrap();
    assert_eq!(read(&after), [1.0]);
}

#[test]
fn global_sync_without_the_others() {
    for driver in ALL_DRIVERS {
        let config = config(driver, SyncPolicy::Frontier);
        let mut ranks = comm::LocalGroup::communicators(2);
        drop(ranks.pop());
        let rank = Arc::new(ranks.remove(0));
        let m = Machine::new(config.communicator(rank)).unwrap();
        let failed = failure(m.global_sync().unwrap().wait().unwrap_err());
        assert_eq!(
            (failed.instruction, failed.message.as_str()),
            ("GlobalSync", "rank 1 has ended and does not reach this barrier")
        );
    }
}

/// A callback sees its tensor after all earlier uses, may change it, and is freed.
#[test]
fn access_blob_by_callback() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
        m.call("add_", &[&x, &x]).on(&cpu(&m, 1)).unwrap();
        let (sender, received) = mpsc::channel();
        let done = x.access(Access::ReadWrite, move |blob| {
            sender.send((blob.spec().clone(), blob.to_bytes()?)).unwrap();
            blob.write_bytes(&bytes(&[8.0, 9.0]))
        });
        done.unwrap().wait().unwrap();
        let (spec, seen) = received.recv_timeout(LONG).unwrap();
        assert_eq!((spec, floats(&seen)), (f32_spec(&[2]), vec![2.0, -4.0]));
        assert!(received.recv().is_err(), "the function has been freed");
        assert_eq!(read(&x), [8.0, 9.0]);
        assert_eq!(m.pending_callbacks(), 0);
    }
}

/// A callback gets only the access that it requested.
#[test]
fn a_callback_has_only_its_access() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let read_only = x.access(Access::Read, |blob| blob.write_bytes(&[0; 4])).unwrap();
    assert!(failure(read_only.wait().unwrap_err()).message.contains("read it only"));
    assert_eq!(read(&x), [1.0], "a reader that fails poisons nothing");
    m.clear_failures();
    let write_only = x.access(Access::Write, |blob| blob.to_bytes().map(drop)).unwrap();
    assert!(failure(write_only.wait().unwrap_err()).message.contains("write it only"));
}

/// A callback whose tensor is poisoned never runs, and is freed all the same.
#[test]
fn a_skipped_callback_is_freed() {
    let m = failing(DriverKind::Threaded);
    let s = cpu(&m, 0);
    let y = call(&m, "fail", &[&upload(&s, &m, &[1.0])], &s);
    let alive = Arc::new(());
    let own = alive.clone();
    let skipped = y.access(Access::Read, move |_| {
        drop(own);
        panic!("must not run")
    });
    assert_eq!(failure(skipped.unwrap().wait().unwrap_err()).op.as_deref(), Some("fail"));
    assert_eq!((Arc::strong_count(&alive), m.pending_callbacks()), (1, 0));
}

/// Callbacks run on host threads: a hanging callback blocks its own stream, and no other stream of
/// the same worker.
#[test]
fn a_hanging_callback_blocks_only_its_stream() {
    let config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    let m = Machine::new(config.host_workers(1)).unwrap();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let gate = Gate::on(&x);
    gate.entered();
    let y = upload(&cpu(&m, 1), &m, &[2.0]);
    assert_eq!(read(&call(&m, "relu", &[&y], &cpu(&m, 1))), [2.0]);
    assert_eq!(m.worker_threads().unwrap(), 1);
    gate.open();
}

/// A read returns bytes in row-major order, for every layout.
#[test]
fn sync_read() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        for s in [cpu(&m, 0), sim(&m, 0)] {
            let x = m.upload(&s, f32_spec(&[2, 3]), bytes(&[1., 2., 3., 4., 5., 6.])).unwrap();
            let turned = m.call("transpose", &[&x]).attr("dim0", 0).attr("dim1", 1);
            let turned = turned.on(&s).unwrap().remove(0);
            assert_eq!(read(&turned), [1., 4., 2., 5., 3., 6.]);
            assert!(m.empty(&s, f32_spec(&[0, 4])).unwrap().read().unwrap().is_empty());
        }
    }
}

/// The size of the result depends on data. The list contains the read that determines it.
#[test]
fn a_bounded_result() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let (s, t) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&s, &m, &[1.0, -2.0, 3.0]);
        let spec = TensorSpec::contiguous(DType::Bool, &[3]).unwrap();
        let mask = m.upload(&t, spec, vec![1, 0, 1]).unwrap();
        m.start_recording(&[("x", &x), ("mask", &mask)]).unwrap();
        let y = call(&m, "masked_select", &[&x, &mask], &s);
        let list = m.finish_recording().unwrap();
        checked(&list);
        assert_eq!((y.spec().shape(), read(&y)), (&[2][..], vec![1.0, 3.0]));
        let kinds: Vec<Kind> = list.instructions.iter().map(|i| i.body.kind()).collect();
        let place = |k| kinds.iter().position(|x| *x == k).unwrap();
        assert!(place(Kind::OpCall) < place(Kind::SyncRead), "{kinds:?}");
        assert!(place(Kind::SyncRead) < place(Kind::ViewTensor), "{kinds:?}");
    }
}

/// StreamWait takes a point on both streams and orders one stream behind the other.
#[test]
fn stream_wait() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (s, t, u) = (sim(m, 0), sim(m, 1), cpu(m, 0));
        let x = upload(&s, m, &[1.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(m, "relu", &[&x], &s);
        t.wait_stream(&s).unwrap();
        u.wait_stream(&t).unwrap();
        let z = call(m, "add", &[&y, &y], &t);
        // `s` has no newer instruction, so there is nothing to wait for.
        t.wait_stream(&s).unwrap();
        let list = m.finish_recording().unwrap();
        assert_eq!(read(&z), [2.0]);
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 sim:0 compute 0 in-order
    stream s1 sim:0 compute 1 in-order
    stream s2 cpu:0 compute 0 in-order
    stream s3 sim:0 host2device 0 in-order
    arena a0 sim:0
    arena a1 cpu:0
    external %0 "x" f32[1] in 4 bytes of a0
    AllocateTensor s0 %1 f32[1] as 4 bytes at a0+512 generation 2
    SoftSyncStream s0 needs s3:2 for (%0) elided-fenced
    OpCall s0:1 relu (%0 read, %1 write)
    SoftSyncStream s1 needs s0:1 for () by-device
    StreamWait s1:1 until s0:2 by-device e0
    SoftSyncStream s2 needs s1:1 for () by-host
    StreamWait s2:2 until s1:1 by-host
    AllocateTensor s1 %2 f32[1] as 4 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:1 for (%1) elided-known
    OpCall s1:2 add (%1 read, %1 read, %2 write)
    SoftSyncStream s1 needs s0:2 for () elided-known
    "#);
}

/// Between the begin and the end of a section, only the section's own calls use its tensors.
#[test]
fn a_critical_section_is_exclusive_in_time() {
    let m = threaded();
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    let x = upload(&s, &m, &[0.0]);
    let order = Arc::new(Mutex::new(Vec::new()));
    let log = |entry: &'static str| {
        let order = order.clone();
        move |_: &mut Blob<'_>| {
            order.lock().unwrap().push(entry);
            Ok(())
        }
    };
    let gate = Gate::on(&x);
    x.access(Access::ReadWrite, log("before")).unwrap();
    let section = m.critical_section(&[&x]).unwrap();
    m.call("add_", &[&x, &x]).within(&section).on(&t).unwrap();
    let ended = section.end().unwrap();
    x.access(Access::ReadWrite, log("after")).unwrap();
    assert!(!ended.query());
    gate.open();
    ended.wait_for(LONG).unwrap();
    x.read().unwrap();
    assert_eq!(*order.lock().unwrap(), ["before", "after"]);
}

/// This program emits every kind.
#[test]
fn every_kind_of_the_table_is_emitted() {
    let m = threaded();
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let host = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0]);
    let h = upload(&host, &m, &[1.0]);
    let mut list = m.recorder();
    let inner = list.bind(&h).unwrap();
    list.call("add_", &[inner, inner]).run().unwrap();
    let job = list.finish().unwrap().compile().unwrap();
    m.start_recording(&[("x", &x), ("h", &h)]).unwrap();
    let y = call(&m, "relu", &[&x], &s);
    let z = call(&m, "relu", &[&y], &t);
    s.wait_stream(&t).unwrap();
    s.touch(&[&z]).unwrap();
    let view = slice(&m, &h, 0, 1, &host);
    drop(view);
    h.access(Access::Read, |_| Ok(())).unwrap();
    m.critical_section(&[&h]).unwrap().end().unwrap();
    m.barrier().unwrap();
    m.global_sync().unwrap();
    job.launch().run().unwrap();
    assert_eq!(read(&h), [2.0]);
    let list = m.finish_recording().unwrap();
    checked(&list);
    let seen: HashSet<Kind> = list.instructions.iter().map(|i| i.body.kind()).collect();
    let missing: Vec<&Kind> = Kind::ALL.iter().filter(|k| !seen.contains(k)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
