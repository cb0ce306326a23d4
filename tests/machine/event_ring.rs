//! MXNet's ring of 64 events: a slow writer, more than 64 recordings on another stream, then a
//! reader that waits for the wrong one.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn sixty_five_recordings_later_the_reader_waits_for_the_right_one() {
    let (m, hand) = by_hand();
    let (slow, busy, reader) = (sim(&m, 0), sim(&m, 1), sim(&m, 2));
    let x = m.empty(&slow, f32_spec(&[1])).unwrap();
    let other = m.empty(&busy, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 3.0).on(&slow).unwrap();
    let written = m.record(&slow).unwrap();
    hand.wait_for_commands_on(on_sim(0), 2, LONG).unwrap();
    m.call("fill", &[&other]).attr("value", 4.0).on(&busy).unwrap();
    for _ in 0..65 {
        m.record(&busy).unwrap();
    }
    reader.wait_event(&written).unwrap();
    let y = call(&m, "copy", &[&x], &reader);
    let done = m.record(&reader).unwrap();
    // Its wait, its copy and its record are with the device.
    hand.wait_for_commands_on(on_sim(2), 3, LONG).unwrap();
    let mut recordings = 0;
    while hand.step(on_sim(1)).unwrap() {
        recordings += 1;
    }
    assert_eq!(recordings, 1 + 65);
    assert!(!hand.step(on_sim(2)).unwrap(), "the writer has not run");
    assert!(!done.query());
    hand.run_until(|| done.query());
    hand.switch(ep::sim::Completion::IssueOrder);
    assert_eq!(read(&y), [3.0]);
}
