//! Whoever waits without a limit for what hangs is let go of when the machine is shut down with one.

use std::sync::mpsc;
use std::time::Duration;

use crate::futures::block_on;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn they_are_told_that_the_machine_is_closed() {
    let (m, hand) = by_hand();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let (tell, told) = mpsc::channel();
    let all = m.completion().unwrap();
    let blocking = (s.clone(), tell.clone(), all.clone());
    std::thread::spawn(move || blocking.1.send(blocking.0.synchronize()));
    std::thread::spawn(move || tell.send(block_on(all)));
    assert!(m.clone().shutdown(Duration::from_millis(1)).leaked);
    for _ in 0..2 {
        let error = told.recv_timeout(LONG).expect("a waiter is held").unwrap_err();
        assert!(matches!(error.without_place(), Error::Closed), "{error}");
    }
    drop((x, s, m, hand));
}
