//! A shutdown with a time limit ends the unlimited waits for work that hangs.

use std::sync::mpsc;
use std::time::Duration;

use crate::futures::block_on;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn unlimited_waits_end_with_closed() {
    let (m, control) = by_hand();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let (sender, results) = mpsc::channel();
    let all = m.completion().unwrap();
    let blocking = (s.clone(), sender.clone(), all.clone());
    std::thread::spawn(move || blocking.1.send(blocking.0.synchronize()));
    std::thread::spawn(move || sender.send(block_on(all)));
    assert!(m.clone().shutdown(Duration::from_millis(1)).leaked);
    for _ in 0..2 {
        let error = results.recv_timeout(LONG).expect("a waiter is still blocked").unwrap_err();
        assert!(matches!(error.without_place(), Error::Closed), "{error}");
    }
    drop((x, s, m, control));
}
