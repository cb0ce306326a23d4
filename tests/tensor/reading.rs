//! Elements on the host.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use millstream::ep::sim::Completion::IssueOrder;
use millstream::*;
use millstream_testing::machine::*;

use super::floats;

#[test]
fn elements_are_read_in_their_own_type_only() {
    let m = inline();
    let x = floats(&m, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(x.t().unwrap().to_vec::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
    let error = x.to_vec::<f64>().unwrap_err().to_string();
    assert!(error.contains("reading.rs") && error.contains("cast(DType::F64)"), "{error}");
    assert_eq!(x.cast(DType::F64).unwrap().to_vec::<f64>().unwrap()[3], 4.0);
    assert_eq!(x.sum(..).unwrap().item::<f32>().unwrap(), 10.0);
    let error = x.item::<f32>().unwrap_err().to_string();
    assert!(error.contains("expected one element, got f32[2,2]"), "{error}");
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_future_has_the_elements_of_its_moment() {
    for m in [inline(), threaded()] {
        let x = floats(&m, &[2], &[1.0, 2.0]);
        let before = x.to_vec_async::<f32>();
        x.add_(1.0).unwrap();
        let after = x.to_vec_async::<f32>();
        assert_eq!(wait(before).unwrap(), [1.0, 2.0]);
        assert_eq!(wait(after).unwrap(), [2.0, 3.0]);
        let error = wait(x.to_vec_async::<i64>()).unwrap_err().to_string();
        assert!(error.contains("reading.rs"), "{error}");
    }
}

#[test]
fn a_future_of_a_device_tensor_waits_for_the_device() {
    let (m, hand) = by_hand();
    let x = floats(&m, &[2], &[1.0, 2.0]).to(&SIM).unwrap();
    let elements = x.to_vec_async::<f32>();
    let mut elements = pin!(elements);
    let context = &mut Context::from_waker(Waker::noop());
    assert!(elements.as_mut().poll(context).is_pending());
    hand.switch(IssueOrder);
    assert_eq!(wait(elements).unwrap(), [1.0, 2.0]);
}

#[test]
fn a_future_has_the_failure() {
    let m = inline();
    let table = floats(&m, &[2, 1], &[1.0, 2.0]);
    let wrong = Tensor::from_slice(&[7i64], 1, &m).unwrap();
    let row = table.embedding(&wrong).unwrap();
    let error = wait(row.to_vec_async::<f32>()).unwrap_err();
    assert!(matches!(error, Error::Failed(_)), "{error}");
}
