//! Waiters of a stream are woken as often as they were registered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use crate::sync::points::{Milestone, StreamState, Waiter};

#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_waiter_that_gives_up_leaves_the_list() {
    let state = StreamState::new();
    let counts: [Arc<Count>; 2] = Default::default();
    let task = |which: usize| Waiter::Task(Waker::from(counts[which].clone()));
    let wakes = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));

    for (seq, which) in [(3, 0), (2, 1), (3, 0), (3, 1)] {
        assert!(state.park(seq, Milestone::Completed, task(which)));
    }
    // A waiter that is not registered does not leave, nor does one for another point.
    state.leave(2, Milestone::Completed, &task(0));
    state.leave(3, Milestone::Launched, &task(0));
    // A waiter that is registered twice leaves once.
    state.leave(3, Milestone::Completed, &task(0));
    state.leave(2, Milestone::Completed, &task(1));
    state.publish(2, Milestone::Completed);
    assert_eq!(wakes(), [0, 0]);
    state.publish(3, Milestone::Completed);
    assert_eq!(wakes(), [1, 1]);
    // Woken already.
    state.leave(3, Milestone::Completed, &task(0));
    state.flush();
    assert_eq!(wakes(), [1, 1]);
}
