//! A completion is a future. A wait for it can have a time limit.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use millstream::*;
use millstream_testing::machine::*;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread: the smallest executor.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park_timeout(LONG);
    }
}

#[test]
fn it_wakes_every_waiter() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let gate = Gate::on(&x);
    gate.entered();
    let touched = cpu(&m, 1).touch(&[&x]).unwrap();
    let mut first = pin!(touched.clone());
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| block_on(touched.clone()))).collect();
        gate.open();
        for one in waiting {
            one.join().unwrap().unwrap();
        }
    });
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// Covers events, streams and whole machines, on both devices and under every driver.
#[test]
fn every_completion_can_be_awaited() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        for s in [cpu(&m, 0), sim(&m, 0)] {
            upload(&s, &m, &[1.0]);
            let e = s.record_event().unwrap();
            block_on(async {
                e.completion().await.unwrap();
                s.completion().unwrap().await.unwrap();
                m.completion().unwrap().await.unwrap();
                m.event().completion().await.unwrap();
            });
            assert!(e.query() && s.query().unwrap());
        }
    }
}

/// The inline driver runs nothing by itself, so a task must poll.
#[test]
fn a_task_polls_the_inline_driver() {
    let (config, control) = by_hand_config();
    let m = Machine::new(config.driver(DriverKind::Inline)).unwrap();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let mut all = pin!(m.completion().unwrap());
    let mut context = Context::from_waker(Waker::noop());
    assert!(all.as_mut().poll(&mut context).is_pending());
    assert!(control.step(on_sim(0)).unwrap());
    assert!(all.as_mut().poll(&mut context).is_ready());
    let (mut polls, waited) = (0, s.record_event().unwrap().completion());
    let mut waited = pin!(waited);
    let stepping = std::future::poll_fn(|context| {
        polls += 1;
        if polls == 3 {
            assert!(control.step(on_sim(0)).unwrap());
        }
        waited.as_mut().poll(context)
    });
    block_on(stepping).unwrap();
    assert_eq!(polls, 3);
}

#[test]
fn it_returns_the_failure() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        call(&m, "fail", &[&upload(&s, &m, &[1.0])], &s);
        let record = s.record_event().unwrap();
        assert_eq!(failure(block_on(record.completion()).unwrap_err()).op.as_deref(), Some("fail"));
    }
}

#[test]
fn a_timeout_names_the_awaited_point() {
    let (m, control) = by_hand();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let done = s.record_event().unwrap().completion();
    let late = done.wait_for(Duration::from_millis(5)).unwrap_err();
    assert!(late.is_runtime());
    assert_eq!(
        late.without_place().to_string(),
        "timed out waiting for number 2 of sim:0 compute 0"
    );
    let late = m.synchronize_for(Duration::ZERO).unwrap_err();
    assert!(matches!(late.without_place(), Error::Timeout { .. }), "{late}");
    // A time-out does not affect the work.
    control.run_until(|| done.query());
    done.wait_for(LONG).unwrap();
    m.synchronize_for(LONG).unwrap();
}
