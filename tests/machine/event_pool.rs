//! MindSpore's trap: a new event for every use across streams exhausts the device. The machine
//! reuses event slots and native events.

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn ten_thousand_uses_across_streams_need_few_events() {
    let (config, control) = by_hand_config();
    control.switch(ep::sim::Completion::IssueOrder);
    let m = Machine::new(config.watermark(64)).unwrap();
    let s: Vec<Stream> = (0..3).map(|k| sim(&m, k)).collect();
    let x = upload(&s[0], &m, &[0.0]);
    let one = upload(&s[0], &m, &[1.0]);
    for k in 0..10_000 {
        m.call("add_", &[&x, &one]).on(&s[k % 3]).unwrap();
    }
    assert_eq!(read(&x), [10_000.0]);
    let stats = m.stats().unwrap();
    assert!(stats.waits.device >= 9_999, "{:?}", stats.waits);
    // Each stream keeps eight; the others are in flight, below the watermark.
    assert!(stats.events_created <= 150, "{} event slots", stats.events_created);
    let native = control.stats(0).unwrap().events_created;
    assert!(native <= stats.events_created + 1, "{native} native events");
}

/// The machine does not reuse an event that the program holds.
#[test]
fn a_held_event_is_not_reused() {
    let config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    let m = Machine::new(config.watermark(64)).unwrap();
    let (a, b) = (sim(&m, 0), sim(&m, 1));
    let x = upload(&a, &m, &[1.0]);
    let held = a.record_event().unwrap();
    for _ in 0..1000 {
        drop(a.record_event().unwrap());
    }
    b.wait_event(&held).unwrap();
    let y = call(&m, "copy", &[&x], &b);
    assert_eq!(read(&y), [1.0]);
    assert!(held.query());
    let made = m.stats().unwrap().events_created;
    assert!(made <= 150, "{made} slots for two handles");
}
