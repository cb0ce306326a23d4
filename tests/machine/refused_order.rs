//! A device refuses one wait or record: the host waits instead, the failure has the refused
//! instruction's point, and the stream continues.

use millstream::ep::faults::{Fault, FaultPlan};
use millstream::ep::sim::Completion as When;
use millstream::*;
use millstream_testing::machine::*;

/// Fills `x`, computes `relu(x)` on another stream, and returns the failure. The wait is the
/// program's own if `by_program`, else the builder's.
fn refused(fault: Fault, by_program: bool) -> std::sync::Arc<types::Failure> {
    let (config, control) = faulty_config(FaultPlan::once(fault, 1));
    let m = Machine::new(config).unwrap();
    let control = control; // Dropped before the machine.
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let own = m.empty(&t, f32_spec(&[1])).unwrap();
    for value in [1.0, 2.0, 3.0] {
        m.call("fill", &[&own]).attr("value", value).on(&t).unwrap();
    }
    m.call("fill", &[&x]).attr("value", 5.0).on(&s).unwrap();
    if by_program {
        t.wait_stream(&s).unwrap();
    }
    let y = call(&m, "relu", &[&x], &t);
    control.switch(When::IssueOrder);
    assert_eq!(read(&y), [5.0], "{fault:?}");
    let failed = failure(m.synchronize().unwrap_err());
    assert_eq!((m.failures().1, failed.operands.len()), (1, 0), "{fault:?}");
    m.clear_failures();
    assert_eq!(read(&call(&m, "add", &[&y, &own], &t)), [8.0], "{fault:?}");
    failed
}

#[test]
fn a_refused_wait_names_its_stream() {
    let failed = refused(Fault::WaitRefused, false);
    assert_eq!((failed.stream.as_str(), failed.seq), ("sim:0 compute 1", 4));
    assert_eq!(failed.instruction, "StreamWaitEvent");
}

/// The record of a StreamWait is an instruction of the awaited stream and has a number of that
/// stream.
#[test]
fn a_refused_record_names_its_stream() {
    let failed = refused(Fault::RecordRefused, true);
    assert_eq!((failed.stream.as_str(), failed.seq), ("sim:0 compute 0", 2));
    assert_eq!(failed.instruction, "StreamWait");
}
