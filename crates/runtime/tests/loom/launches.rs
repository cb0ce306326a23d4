//! Models of the hand-over of an instance from one launch to the next: its private memory, which
//! points order, and the object of a launch, which is used again.

use loom::cell::UnsafeCell;
use loom::thread;

use crate::inbox::Inbox;
use crate::points::{Milestone, StreamState};
use crate::recycled::Recycled;
use crate::spsc_queue;
use crate::sync::Arc;
use crate::wait_for;

/// The part of a launch that its renewal changes: the number of the launch.
struct Run(UnsafeCell<u64>);

impl Run {
    fn number(&self) -> u64 {
        // SAFETY: loom checks that nobody changes it meanwhile.
        self.0.with(|number| unsafe { *number })
    }
}

/// Makes the object of a launch.
fn launch(runs: &mut Recycled<Arc<Run>>, number: u64) -> Arc<Run> {
    let make = || Arc::new(Run(UnsafeCell::new(0)));
    // SAFETY: loom checks that nobody else uses it meanwhile.
    runs.take(Arc::get_mut, make, |run| run.0.with_mut(|to| unsafe { *to = number }))
}

/// Workers see a launch as it was given to them, and it changes only after they have dropped it.
#[test]
fn a_launch_is_used_again_after_its_workers() {
    loom::model(|| {
        let mut runs = Recycled::new(2);
        let (mut producer, mut consumer) = spsc_queue::queue::<Arc<Run>>();
        let worker = thread::spawn(move || {
            let mut next = 1;
            while next <= 3 {
                match consumer.pop() {
                    Some(run) => {
                        assert_eq!(run.number(), next);
                        next += 1;
                    }
                    None => thread::yield_now(),
                }
            }
        });
        for number in 1..=3 {
            producer.push(launch(&mut runs, number));
        }
        worker.join().unwrap();
        // The worker has dropped all.
        assert_eq!(launch(&mut runs, 4).number(), 4);
    });
}

/// A worker and the streams that it waits for.
struct ThreadCtx {
    inbox: Arc<Inbox>,
    /// The launches' own stream, and the streams of the two tapes.
    launches: Arc<StreamState>,
    tapes: [Arc<StreamState>; 2],
    memory: Arc<UnsafeCell<u64>>,
}

impl ThreadCtx {
    /// Makes the step of a launch that uses the private memory: the first or the second one.
    fn step(&self, launch: u64, number: u64) {
        self.memory.with_mut(|memory| {
            // SAFETY: loom checks that nobody else uses it meanwhile.
            unsafe {
                assert_eq!(*memory, 2 * (launch - 1) + number - 1);
                *memory += 1;
            }
        });
    }

    /// Runs the first tape of each launch, and its begin and its end.
    fn first(&self, launches: u64) {
        for launch in 1..=launches {
            self.launches.publish(launch, Milestone::Launched);
            self.launches.flush();
            self.step(launch, 1);
            self.tapes[0].publish(launch, Milestone::Completed);
            self.tapes[0].flush();
            // The end of the launch waits for all tapes.
            wait_for(&self.tapes[1], launch, Milestone::Completed, &self.inbox);
            self.launches.publish(launch, Milestone::Completed);
            self.launches.flush();
        }
    }

    /// Runs the second tape of each launch, whose step waits for the one of the first tape.
    fn second(&self, launches: u64) {
        for launch in 1..=launches {
            wait_for(&self.launches, launch, Milestone::Launched, &self.inbox);
            wait_for(&self.tapes[0], launch, Milestone::Completed, &self.inbox);
            self.step(launch, 2);
            self.tapes[1].publish(launch, Milestone::Completed);
            self.tapes[1].flush();
        }
    }
}

/// Two tapes on two workers use the private memory in the order of the launches, and who sees a
/// launch completed sees the effects of all tapes.
#[test]
fn an_instance_passes_from_launch_to_launch() {
    // All orders with at most two switches that no wait causes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let state = || Arc::new(StreamState::new());
        let (launches, tapes) = (state(), [state(), state()]);
        let memory = Arc::new(UnsafeCell::new(0));
        let worker = || ThreadCtx {
            inbox: Arc::new(Inbox::default()),
            launches: launches.clone(),
            tapes: tapes.clone(),
            memory: memory.clone(),
        };
        let (first, second) = (worker(), worker());
        let other = thread::spawn(move || {
            second.inbox.set_thread(thread::current());
            second.second(2);
            wait_for(&second.launches, 2, Milestone::Completed, &second.inbox);
            // SAFETY: loom checks that nobody else changes it meanwhile.
            second.memory.with(|memory| assert_eq!(unsafe { *memory }, 4));
        });
        first.inbox.set_thread(thread::current());
        first.first(2);
        other.join().unwrap();
    });
}
