//! Cancellation: work that has not started does not start, its outputs are poisoned as cancelled,
//! and all other work continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::*;
use millstream_testing::machine::*;

/// Returns the failure of a cancelled instruction.
#[track_caller]
fn cancelled(error: Error) -> Arc<types::Failure> {
    match error {
        Error::Cancelled(failure) => failure,
        other => panic!("expected a cancellation, got {other}"),
    }
}

/// The failure of a cancelled call names the origin of the call and the origin of `cancel`. A
/// reader outside the scope is skipped, a call that is only ordered after it runs, and a full
/// overwrite heals.
#[test]
fn a_cancelled_call_poisons_and_an_overwrite_heals() {
    let mut lists = Vec::new();
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let (s, t) = (cpu(&m, 0), cpu(&m, 1));
        let x = upload(&s, &m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let cancellation = Cancellation::new();
        let by = line!() + 1;
        cancellation.cancel();
        let line = line!() + 1;
        let y = cancellation.scope(|| call(&m, "relu", &[&x], &s));
        let z = call(&m, "relu", &[&y], &t);
        m.call("fill", &[&x]).attr("value", 5.0).on(&t).unwrap();
        let error = z.read().unwrap_err();
        assert!(error.is_runtime());
        let text = error.to_string().replace(file!(), "FILE");
        let text = text.replace(&format!(":{line}:"), ":LINE:").replace(&format!(":{by}"), ":BY");
        insta::allow_duplicates!(
            insta::assert_snapshot!(text, @"FILE:LINE: OpCall of relu(%0 read f32[2], %1 write f32[2]) on cpu:0 compute 0 number 2 was cancelled: before it started, at FILE:BY")
        );
        assert_eq!(cancelled(y.read().unwrap_err()), cancelled(error));
        assert_eq!(read(&x), [5.0, 5.0], "a write after the cancelled one's read");
        m.call("relu", &[&x]).out(&[&y]).on(&s).unwrap();
        assert_eq!(read(&y), [5.0, 5.0], "healed by a full overwrite");
        cancelled(s.synchronize().unwrap_err());
        cancelled(m.synchronize().unwrap_err());
        m.clear_failures();
        m.synchronize().unwrap();
        lists.push(listing(&m.finish_recording().unwrap()));
        assert_eq!(m.shutdown(LONG), ShutdownReport::default());
    }
    assert_eq!(lists[0], lists[1]);
    assert_eq!(lists[0], lists[2]);
}

/// Started work runs to its end; work behind it does not start. Its events and waits complete, its
/// memory is released, and its host functions are dropped without a call.
#[test]
fn started_work_ends_and_the_rest_does_not_start() {
    let m = threaded();
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    let x = upload(&s, &m, &[1.0, -2.0]);
    let other = upload(&t, &m, &[3.0]);
    // A host function writes the bytes of an upload, too.
    other.synchronize().unwrap();
    let cancellation = Cancellation::new();
    let before = m.memory().unwrap()[0].in_use;
    let (gate, y, event, done) = cancellation.scope(|| {
        let gate = Gate::on(&x);
        let y = call(&m, "relu", &[&x], &s);
        let event = s.record_event().unwrap();
        t.wait_event(&event).unwrap();
        let done = y.access(Access::ReadWrite, |_| panic!("must not run")).unwrap();
        drop(call(&m, "add", &[&y, &y], &t));
        (gate, y, event, done)
    });
    gate.entered();
    cancellation.cancel();
    cancellation.cancel();
    assert!(cancellation.is_cancelled() && !event.query());
    gate.open();
    cancelled(done.wait().unwrap_err());
    event.synchronize().unwrap_err();
    assert_eq!(m.pending_callbacks(), 0);
    assert_eq!(read(&x), [1.0, -2.0], "the function had begun");
    m.call("fill", &[&other]).attr("value", 7.0).on(&t).unwrap();
    assert_eq!(read(&other), [7.0]);
    cancelled(y.read().unwrap_err());
    drop(y);
    let _ = m.synchronize();
    assert_eq!(m.memory().unwrap()[0].in_use, before);
}

/// Commands that the device has not begun are cancelled; commands that it has run are not.
#[test]
fn on_a_device() {
    let (m, control) = by_hand();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let cancellation = Cancellation::new();
    let (y, z) = cancellation.scope(|| {
        m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
        (call(&m, "relu", &[&x], &s), call(&m, "relu", &[&x], &s))
    });
    control.wait_for_commands_on(on_sim(0), 3, LONG).unwrap();
    assert!(control.step(on_sim(0)).unwrap());
    assert!(control.step(on_sim(0)).unwrap());
    cancellation.cancel();
    control.switch(ep::sim::Completion::IssueOrder);
    assert_eq!((read(&x), read(&y)), (vec![1.0], vec![1.0]));
    cancelled(z.read().unwrap_err());
    drop((x, y, z, s, m, control));
}

/// An older write in flight does not heal the output of a cancelled write.
#[test]
fn an_earlier_write_does_not_heal() {
    let (m, control) = by_hand();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let cancellation = Cancellation::new();
    cancellation.cancel();
    cancellation.scope(|| m.call("fill", &[&x]).attr("value", 2.0).on(&s).unwrap());
    control.switch(ep::sim::Completion::IssueOrder);
    cancelled(x.read().unwrap_err());
    drop((x, s, m, control));
}

/// A cancelled launch of an executable writes nothing, and the next launch is complete.
#[test]
fn one_launch_of_an_executable() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let (x, y) = (upload(&s, &m, &[1.0, -2.0]), upload(&s, &m, &[0.0, 0.0]));
        let mut list = m.recorder();
        let own: Vec<_> =
            (0..2).map(|k| list.stream(&StreamKey::compute(CPU, k)).unwrap()).collect();
        let (a, b) = (list.bind(&x).unwrap(), list.bind(&y).unwrap());
        let t = list.call("relu", &[a]).on(own[0]).unwrap()[0];
        list.call("add", &[t, a]).out(&[b]).on(own[1]).unwrap();
        list.release(t).unwrap();
        let job = list.finish().unwrap().compile().unwrap();
        job.launch().run().unwrap().wait().unwrap();
        assert_eq!(read(&y), [2.0, -2.0]);
        let cancellation = Cancellation::new();
        cancellation.cancel();
        let launched = cancellation.scope(|| job.launch().run().unwrap());
        cancelled(launched.wait().unwrap_err());
        cancelled(y.read().unwrap_err());
        m.clear_failures();
        job.launch().run().unwrap().wait().unwrap();
        assert_eq!(read(&y), [2.0, -2.0]);
        drop((job, x, y));
        m.synchronize().unwrap();
    }
}

/// A cancelled read returns the error whatever its tensor holds; a read outside the scope returns
/// the data.
#[test]
fn reads() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let cancellation = Cancellation::new();
        cancellation.cancel();
        let failed = cancelled(cancellation.scope(|| x.read()).unwrap_err());
        assert_eq!(failed.instruction, "SyncRead");
        assert_eq!(read(&x), [1.0]);
    }
}

/// Work belongs to every scope in which it is submitted, and to no other.
#[test]
fn nested_scopes() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[2.0]);
        let (outer, inner) = (Cancellation::new(), Cancellation::new());
        inner.cancel();
        let relu = || call(&m, "relu", &[&x], &s);
        let (before, within, after) =
            outer.scope(|| (relu(), inner.scope(relu), outer.scope(relu)));
        assert_eq!((read(&before), read(&after)), (vec![2.0], vec![2.0]));
        cancelled(within.read().unwrap_err());
        outer.cancel();
        let other = Cancellation::new();
        cancelled(outer.scope(|| other.scope(relu)).read().unwrap_err());
        assert_eq!(read(&other.scope(relu)), [2.0]);
        let panicked = std::panic::catch_unwind(|| outer.scope(|| panic!("out of the scope")));
        panicked.unwrap_err();
        assert_eq!(read(&relu()), [2.0], "a panic leaves the scope");
    }
}

/// A kernel may cancel the calls after it.
#[test]
fn from_a_kernel() {
    for driver in ALL_DRIVERS {
        let mut config = config(driver, SyncPolicy::Frontier);
        let cancellation = Cancellation::new();
        let (own, calls) = (cancellation.clone(), Arc::new(AtomicUsize::new(0)));
        let count = calls.clone();
        add_op(&mut config, "once", move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            own.cancel();
            Ok(())
        });
        let m = Machine::new(config).unwrap();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let made = cancellation.scope(|| [0, 1, 2].map(|_| call(&m, "once", &[&x], &s)));
        made[0].read().unwrap();
        cancelled(made[1].read().unwrap_err());
        cancelled(made[2].read().unwrap_err());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
