//! Whether an instruction is skipped is decided once what flies before it has landed: that may heal what it
//! reads.

use millstream::ep::sim::Completion as When;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn a_full_overwrite_on_its_way_is_waited_for() {
    let (mut config, hand) = by_hand_config();
    add_failing_ops(&mut config);
    let m = Machine::new(config.driver(DriverKind::Inline)).unwrap();
    let hand = hand; // below the machine
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let y = call(&m, "fail", &[&x], &s);
    hand.run_all();
    assert!(m.completion().unwrap().query(), "the failure is known");
    m.call("fill", &[&y]).attr("value", 3.0).on(&s).unwrap();
    let z = call(&m, "relu", &[&y], &s);
    hand.switch(When::IssueOrder);
    assert_eq!(read(&z), [3.0]);
}
