//! A machine that only checks: whatever would run has completed, so no wait of the host blocks.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn streams_and_events_are_complete_at_once() {
    let m = Machine::new(config(DriverKind::Check, SyncPolicy::Frontier)).unwrap();
    let (first, second) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&first, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 3.0).on(&first).unwrap();
    // The wait records an event on the first stream, which is the last instruction there.
    let y = call(&m, "copy", &[&x], &second);
    assert_eq!(m.stats().unwrap().waits.needed, 1);
    assert!(first.query().unwrap() && second.query().unwrap());
    first.synchronize().unwrap();
    second.record_event().unwrap().synchronize().unwrap();
    m.synchronize().unwrap();
    assert!(matches!(y.read().unwrap_err().without_place(), Error::NotRun { .. }));
}
