//! The watchdog: what takes too long is reported back to its first cause.

use std::time::Duration;

use crate::futures::block_on;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn what_is_overdue_is_reported_back_to_its_first_cause() {
    let (config, hand) = by_hand_config();
    let limit = Duration::from_millis(20);
    let m = Machine::new(config.watchdog(Some(limit))).unwrap();
    let hand = hand; // below the machine
    let (s, t) = (sim(&m, 0), cpu(&m, 0));
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let cause = line!() + 1;
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    t.wait_stream(&s).unwrap();
    let y = m.empty(&t, f32_spec(&[1])).unwrap();
    m.call("fill", &[&y]).attr("value", 2.0).on(&t).unwrap();
    let error = t.synchronize().unwrap_err();
    let Error::Overdue(report) = error.without_place() else { panic!("{error}") };
    assert!(error.is_runtime());
    let [waits, first] = report.chain.as_slice() else { panic!("{error}") };
    assert_eq!(waits.state, "waits for number 1 of sim:0 compute 0", "{error}");
    assert_eq!((first.instruction.as_str(), first.seq), ("fill", 1));
    assert_eq!(first.state, "is with its device");
    assert!(first.origin.to_string().ends_with(&format!("watchdog.rs:{cause}")), "{error}");
    assert_eq!(report.streams.len(), 2, "{error}");
    // The machine can be left.
    assert!(m.clone().shutdown(Duration::from_millis(1)).leaked);
    drop((x, y, s, t, m, hand));
}

/// What is slow and comes after all is no longer overdue, and a machine that is idle never is.
#[test]
fn what_comes_after_all_is_right() {
    let (config, hand) = by_hand_config();
    let limit = Duration::from_millis(5);
    let m = Machine::new(config.watchdog(Some(limit))).unwrap();
    let hand = hand;
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let error = s.synchronize().unwrap_err();
    assert!(matches!(error.without_place(), Error::Overdue(_)), "{error}");
    hand.switch(ep::sim::Completion::IssueOrder);
    let until = std::time::Instant::now() + LONG;
    while s.synchronize().is_err() {
        assert!(std::time::Instant::now() < until);
    }
    assert_eq!(m.shutdown(LONG), ShutdownReport::default());
}

/// Who awaits is told as who blocks, and so is who waits for room to submit more.
#[test]
fn futures_and_submitters_are_told() {
    let (config, hand) = by_hand_config();
    let watchdog = Some(Duration::from_millis(5));
    let m = Machine::new(config.watchdog(watchdog).watermark(4)).unwrap();
    let hand = hand;
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let fill = || m.call("fill", &[&x]).attr("value", 1.0).on(&s);
    fill().unwrap();
    let error = block_on(m.completion().unwrap()).unwrap_err();
    assert!(matches!(error.without_place(), Error::Overdue(_)), "{error}");
    let error = (0..8).find_map(|_| fill().err()).expect("no more than the watermark fits");
    let Error::Overdue(report) = error.without_place() else { panic!("{error}") };
    assert_eq!(report.chain[0].instruction, "fill", "{error}");
    hand.switch(ep::sim::Completion::IssueOrder);
    hand.run_until(|| fill().is_ok());
    hand.run_until(|| x.read().is_ok_and(|read| floats(&read) == [1.0]));
}
