//! Rule 9: errors travel with the data, and with nothing else.

use millstream::*;
use millstream_testing::machine::*;

/// One call fails. Its reader is skipped, a call that is only ordered after it runs, and a full
/// overwrite heals. The list is the same as without the failure.
#[test]
fn a_failure_poisons_and_an_overwrite_heals() {
    let mut lists = Vec::new();
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let (s, t) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&s, &m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(&m, "fail", &[&x], &s);
        let z = call(&m, "relu", &[&y], &t);
        m.call("fill", &[&x]).attr("value", 5.0).on(&t).unwrap();
        m.call("relu", &[&x]).out(&[&y]).on(&s).unwrap();
        let again = call(&m, "add", &[&y, &y], &t);
        let list = m.finish_recording().unwrap();
        checked(&list);
        assert_eq!(failure(z.read().unwrap_err()).op.as_deref(), Some("fail"));
        assert_eq!(read(&x), [5.0, 5.0], "a write after the failed one's read");
        assert_eq!(read(&again), [10.0, 10.0], "healed by a full overwrite");
        lists.push(listing(&list));
    }
    assert_eq!(lists[0], lists[1]);
    insta::assert_snapshot!(lists[0], @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s0:2 fail (%0 read, %1 write)
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%1) by-host
    StreamWaitEvent s1:1 until s0:2 by-host
    OpCall s1:2 relu (%1 read, %2 write)
    SoftSyncStream s1 needs s0:2 for (%0) elided-known
    OpCall s1:3 fill (%0 write) {value=5.0}
    SoftSyncStream s0 needs s1:3 for (%0, %1) by-host
    StreamWaitEvent s0:3 until s1:3 by-host
    OpCall s0:4 relu (%0 read, %1 write)
    AllocateTensor s1 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s1 needs s0:4 for (%1) by-host
    StreamWaitEvent s1:4 until s0:4 by-host
    OpCall s1:5 add (%1 read, %1 read, %3 write)
    "#);
}

#[test]
fn the_error_names_its_instruction_and_operands() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 1);
        let x = upload(&s, &m, &[1.0, -2.0]);
        let line = line!() + 1;
        let y = call(&m, "fail", &[&x], &s);
        let z = call(&m, "relu", &[&y], &s);
        let error = z.read().unwrap_err();
        assert!(error.is_runtime());
        let text = error.to_string().replace(&format!("{}:{line}", file!()), "HERE");
        insta::allow_duplicates!(
            insta::assert_snapshot!(text, @"HERE: OpCall of fail(%0 read f32[2], %1 write f32[2]) on cpu:0 compute 1 number 2 failed: broken on purpose")
        );
        let failed = failure(error);
        assert_eq!(failed.cause, types::Cause::Error);
        assert_eq!(failed.operands[0].shape.as_slice(), [2]);
    }
}

/// Every wait returns the failure, of every kind and any number of times, until the program clears
/// it.
#[test]
fn every_wait_returns_the_failure_every_time() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let (s, t) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&s, &m, &[1.0]);
        let fine = upload(&t, &m, &[3.0]);
        let y = call(&m, "fail", &[&x], &s);
        let record = s.record_event().unwrap();
        for _ in 0..2 {
            failure(y.read().unwrap_err());
            failure(s.synchronize().unwrap_err());
            failure(record.synchronize().unwrap_err());
            failure(m.synchronize().unwrap_err());
        }
        t.synchronize().unwrap();
        assert_eq!(read(&fine), [3.0]);
        assert_eq!(m.failures().1, 1, "a reader that is skipped is no failure of its own");
        m.clear_failures();
        m.synchronize().unwrap();
        s.synchronize().unwrap();
        failure(y.read().unwrap_err());
    }
}

/// A wait for a skipped instruction returns the failure that caused the skip.
#[test]
fn a_skipped_instruction_is_no_success() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let (s, t) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&s, &m, &[1.0]);
        let y = call(&m, "fail", &[&x], &s);
        let seen = call(&m, "copy", &[&y], &t);
        let done = seen.access(Access::Read, |_| panic!("must not run")).unwrap();
        assert_eq!(failure(done.wait().unwrap_err()).op.as_deref(), Some("fail"));
        assert_eq!(failure(t.synchronize().unwrap_err()).op.as_deref(), Some("fail"));
        assert_eq!(m.pending_callbacks(), 0);
    }
}

/// The failures of another stream before it do not matter.
#[test]
fn after_a_hundred_failures_another_is_reported_on_its_stream() {
    let m = failing(DriverKind::Threaded);
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    let x = upload(&s, &m, &[1.0]);
    for _ in 0..100 {
        call(&m, "fail", &[&x], &s);
    }
    failure(s.synchronize().unwrap_err());
    let y = call(&m, "panic", &[&x], &t);
    assert_eq!(failure(t.synchronize().unwrap_err()).cause, types::Cause::Panic);
    drop(y);
    let (kept, count) = m.failures();
    assert!(count == 101 && kept.len() < 101, "{count} {}", kept.len());
}

#[test]
fn a_panic_fails_its_instruction_alone() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let y = call(&m, "panic", &[&x], &s);
        let z = call(&m, "add", &[&x, &x], &s);
        let failed = failure(y.read().unwrap_err());
        assert_eq!((failed.cause, failed.message.as_str()), (types::Cause::Panic, "no way out"));
        assert_eq!(read(&z), [2.0]);
        let done = x.access(Access::ReadWrite, |_| panic!("in a callback")).unwrap();
        assert_eq!(failure(done.wait().unwrap_err()).cause, types::Cause::Panic);
        assert_eq!(failure(x.read().unwrap_err()).instruction, "AccessBlobByCallback");
        assert_eq!(read(&z), [2.0]);
    }
}

/// Each of these calls writes half of a poisoned storage. The other half is still invalid.
#[test]
fn a_partial_overwrite_does_not_heal() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0, -2.0]);
        let half = slice(&m, &x, 0, 1, &s);
        let y = call(&m, "fail", &[&x], &s);
        let part = slice(&m, &y, 0, 1, &s);
        m.call("relu", &[&half]).out(&[&part]).on(&s).unwrap();
        failure(y.read().unwrap_err());
        m.call("fill", &[&part]).attr("value", 1.0).on(&s).unwrap();
        failure(y.read().unwrap_err());
        part.access(Access::Write, |blob| blob.write_bytes(&1.0f32.to_ne_bytes())).unwrap();
        failure(y.read().unwrap_err());
        m.call("fill", &[&y]).attr("value", 1.0).on(&s).unwrap();
        assert_eq!((read(&y), read(&part)), (vec![1.0, 1.0], vec![1.0]));
    }
}

/// A released tensor leaves no poison to the next owner of its memory.
#[test]
fn storages_are_poisoned_and_their_memory_is_not() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        drop(call(&m, "fail", &[&x], &s));
        let y = m.empty(&s, f32_spec(&[1])).unwrap();
        y.read().unwrap();
        m.call("add_", &[&y, &x]).on(&s).unwrap();
        y.read().unwrap();
    }
}

/// A result that lies where a failed one lay, in its slots, has its own outcome. Whoever waits for
/// the failed one still learns of its failure.
#[test]
fn a_failure_stays_with_the_result_that_was_dropped() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[-1.0, 2.0]);
        drop(call(&m, "relu", &[&x], &s));
        for _ in 0..3 {
            drop(call(&m, "fail", &[&x], &s));
            let y = call(&m, "relu", &[&x], &s);
            assert_eq!(read(&y), [0.0, 2.0]);
            drop(y);
            let failed = call(&m, "fail", &[&x], &s);
            let done = failed.completion().unwrap();
            drop(failed);
            let y = call(&m, "relu", &[&x], &s);
            assert_eq!(read(&y), [0.0, 2.0]);
            assert_eq!(failure(done.wait().unwrap_err()).op.as_deref(), Some("fail"));
        }
    }
}

/// The readers of a failed tensor are skipped even if its handle is dropped while another thread
/// synchronizes.
#[test]
fn a_dropped_handle_does_not_heal() {
    let m = failing(DriverKind::Threaded);
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    let x = upload(&s, &m, &[1.0]);
    let held = upload(&t, &m, &[1.0]);
    m.synchronize().unwrap();
    let y = call(&m, "fail", &[&x], &s);
    failure(s.synchronize().unwrap_err());
    std::thread::scope(|scope| {
        let gate = Gate::on(&held);
        gate.entered();
        let waiting = scope.spawn(|| m.synchronize());
        // The other thread's wait is behind the gate. It does not cover the calls from here on.
        let z = call(&m, "relu", &[&y], &t);
        drop(y);
        gate.open();
        failure(waiting.join().unwrap().unwrap_err());
        failure(z.read().unwrap_err());
    });
}
