//! The worker decides whether to skip an instruction once the earlier instructions in flight have
//! completed, because they may heal its operands.

use millstream::ep::sim::Completion as When;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn a_full_overwrite_in_flight_is_awaited() {
    let (mut config, control) = by_hand_config();
    add_failing_ops(&mut config);
    let m = Machine::new(config.driver(DriverKind::Inline)).unwrap();
    let control = control; // Dropped before the machine.
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let y = call(&m, "fail", &[&x], &s);
    control.run_all();
    assert!(m.completion().unwrap().query(), "the failure is known");
    m.call("fill", &[&y]).attr("value", 3.0).on(&s).unwrap();
    let z = call(&m, "relu", &[&y], &s);
    control.switch(When::IssueOrder);
    assert_eq!(read(&z), [3.0]);
}
