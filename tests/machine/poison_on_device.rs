//! Rule 9 on a device: an instruction that is launched behind a device wait cannot be skipped any
//! more. It runs, and its result is poisoned when it completes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn a_launched_reader_runs_and_is_poisoned() {
    let (mut config, control) = by_hand_config();
    add_failing_ops(&mut config);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    add_op(&mut config, "count", move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let m = Machine::new(config).unwrap();
    let control = control; // Dropped before the machine.
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let y = call(&m, "fail", &[&x], &s);
    let z = call(&m, "count", &[&y], &t);
    let late = t.record_event().unwrap();
    // fail and its record; the wait, count and the record.
    control.wait_for_commands(5, LONG).unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    control.run_until(|| late.query());
    assert_eq!(ran.load(Ordering::SeqCst), 1, "the device had the call already");
    assert_eq!(failure(t.synchronize().unwrap_err()).op.as_deref(), Some("fail"));
    // A later reader is not launched at all.
    let after = call(&m, "count", &[&z], &t);
    assert_eq!(failure(t.synchronize().unwrap_err()).op.as_deref(), Some("fail"));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    control.switch(ep::sim::Completion::IssueOrder);
    failure(z.read().unwrap_err());
    failure(after.read().unwrap_err());
    assert_eq!(m.failures().1, 1);
}

/// A call that fails because its operand is poisoned is no failure of its own.
#[test]
fn a_launched_reader_that_fails_has_the_first_cause() {
    let (mut config, control) = by_hand_config();
    add_failing_ops(&mut config);
    let m = Machine::new(config).unwrap();
    let control = control; // Dropped before the machine.
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let y = call(&m, "panic", &[&x], &s);
    let z = call(&m, "fail", &[&y], &s);
    let done = s.record_event().unwrap();
    control.wait_for_commands(3, LONG).unwrap();
    control.run_until(|| done.query());
    control.switch(ep::sim::Completion::IssueOrder);
    assert_eq!(failure(z.read().unwrap_err()).op.as_deref(), Some("panic"));
    assert_eq!(m.failures().1, 1);
}
