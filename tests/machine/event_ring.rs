//! MXNet's trap, a ring of 64 events: a slow writer, more than 64 records on another stream, then a
//! reader that waits for the wrong event.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn after_65_records_the_reader_waits_for_the_right_event() {
    let (m, control) = by_hand();
    let (slow, busy, reader) = (sim(&m, 0), sim(&m, 1), sim(&m, 2));
    let x = m.empty(&slow, f32_spec(&[1])).unwrap();
    let other = m.empty(&busy, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 3.0).on(&slow).unwrap();
    let written = slow.record_event().unwrap();
    control.wait_for_commands_on(on_sim(0), 2, LONG).unwrap();
    m.call("fill", &[&other]).attr("value", 4.0).on(&busy).unwrap();
    for _ in 0..65 {
        busy.record_event().unwrap();
    }
    reader.wait_event(&written).unwrap();
    let y = call(&m, "copy", &[&x], &reader);
    let done = reader.record_event().unwrap();
    // The device has the reader's wait, copy and record.
    control.wait_for_commands_on(on_sim(2), 3, LONG).unwrap();
    let mut commands = 0;
    while control.step(on_sim(1)).unwrap() {
        commands += 1;
    }
    assert_eq!(commands, 1 + 65);
    assert!(!control.step(on_sim(2)).unwrap(), "the writer has not run");
    assert!(!done.query());
    control.run_until(|| done.query());
    control.switch(ep::sim::Completion::IssueOrder);
    assert_eq!(read(&y), [3.0]);
}
