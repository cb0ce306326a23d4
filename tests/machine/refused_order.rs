//! A device that refuses a wait or a record once: the host waits in its stead, the refusal is told with its
//! place, and the stream goes on.

use millstream::ep::faults::{Fault, FaultPlan};
use millstream::ep::sim::Completion as When;
use millstream::*;
use millstream_testing::machine::*;

/// Runs `x`, then `relu(x)` on another stream that waits by itself or by the program's own wait.
fn refused(fault: Fault, by_hand: bool) -> std::sync::Arc<types::Failure> {
    let (config, hand) = faulty_config(FaultPlan::once(fault, 1));
    let m = Machine::new(config).unwrap();
    let hand = hand; // below the machine
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let own = m.empty(&t, f32_spec(&[1])).unwrap();
    for value in [1.0, 2.0, 3.0] {
        m.call("fill", &[&own]).attr("value", value).on(&t).unwrap();
    }
    m.call("fill", &[&x]).attr("value", 5.0).on(&s).unwrap();
    if by_hand {
        t.wait_stream(&s).unwrap();
    }
    let y = call(&m, "relu", &[&x], &t);
    hand.switch(When::IssueOrder);
    assert_eq!(read(&y), [5.0], "{fault:?}");
    let failed = failure(m.synchronize().unwrap_err());
    assert_eq!((m.failures().1, failed.operands.len()), (1, 0), "{fault:?}");
    m.clear_failures();
    assert_eq!(read(&call(&m, "add", &[&y, &own], &t)), [8.0], "{fault:?}");
    failed
}

#[test]
fn a_wait_keeps_its_stream() {
    let failed = refused(Fault::WaitRefused, false);
    assert_eq!((failed.stream.as_str(), failed.seq), ("sim:0 compute 1", 4));
    assert_eq!(failed.instruction, "StreamWaitEvent");
}

/// The record of a StreamWait stands on the stream that is waited for, with a number of that stream's.
#[test]
fn a_record_names_its_own_place() {
    let failed = refused(Fault::RecordRefused, true);
    assert_eq!((failed.stream.as_str(), failed.seq), ("sim:0 compute 0", 2));
    assert_eq!(failed.instruction, "StreamWait");
}
