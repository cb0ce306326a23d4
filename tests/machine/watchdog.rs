//! The watchdog: the report of an overdue instruction leads back to the first cause.

use std::time::Duration;

use crate::futures::block_on;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn an_overdue_instruction_is_reported_with_its_first_cause() {
    let (config, control) = by_hand_config();
    let limit = Duration::from_millis(20);
    let m = Machine::new(config.watchdog(Some(limit))).unwrap();
    let control = control; // Dropped before the machine.
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
    // A shutdown with a limit returns.
    assert!(m.clone().shutdown(Duration::from_millis(1)).leaked);
    drop((x, y, s, t, m, control));
}

/// A slow instruction that completes is no longer overdue, and an idle machine never reports any.
#[test]
fn a_late_instruction_is_no_longer_overdue() {
    let (config, control) = by_hand_config();
    let limit = Duration::from_millis(5);
    let m = Machine::new(config.watchdog(Some(limit))).unwrap();
    let control = control; // Dropped before the machine.
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let error = s.synchronize().unwrap_err();
    assert!(matches!(error.without_place(), Error::Overdue(_)), "{error}");
    control.switch(ep::sim::Completion::IssueOrder);
    let until = std::time::Instant::now() + LONG;
    while s.synchronize().is_err() {
        assert!(std::time::Instant::now() < until);
    }
    assert_eq!(m.shutdown(LONG), ShutdownReport::default());
}

/// Futures and submitters that wait for room get the report, as blocking waits do.
#[test]
fn futures_and_submitters_get_the_report() {
    let (config, control) = by_hand_config();
    let watchdog = Some(Duration::from_millis(5));
    let m = Machine::new(config.watchdog(watchdog).watermark(4)).unwrap();
    let control = control; // Dropped before the machine.
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let fill = || m.call("fill", &[&x]).attr("value", 1.0).on(&s);
    fill().unwrap();
    let error = block_on(m.completion().unwrap()).unwrap_err();
    assert!(matches!(error.without_place(), Error::Overdue(_)), "{error}");
    let error = (0..8).find_map(|_| fill().err()).expect("no more than the watermark fits");
    let Error::Overdue(report) = error.without_place() else { panic!("{error}") };
    assert_eq!(report.chain[0].instruction, "fill", "{error}");
    control.switch(ep::sim::Completion::IssueOrder);
    control.run_until(|| fill().is_ok());
    control.run_until(|| x.read().is_ok_and(|read| floats(&read) == [1.0]));
}
