//! The assigner: which tasks share a stream.

use millstream_instructions::assigner::{
    LastUses, Order, Place, Platform, Target, Task, assign_in_order, schedule, schedule_on,
};
use proptest::prelude::*;

const FOUR: Platform = Platform { cores: 4, wait: 5_000, submit: 400, submit_wait: 150 };

/// Returns a task of one core that comes after others.
fn task(time: u64, before: &[usize]) -> Task {
    Task { time, work: time, before: before.to_vec(), place: Place::Group(0) }
}

/// Returns the stream of each task on at most four streams.
fn streams(tasks: &[Task]) -> Vec<usize> {
    let made = assign_in_order(tasks, &[4], FOUR);
    let of = |target| match target {
        Target::Group(_, stream) => stream,
        Target::Stream(_) | Target::Other => usize::MAX,
    };
    made.tasks.iter().map(|task| of(task.target)).collect()
}

#[test]
fn a_chain_stays_on_one_stream() {
    let tasks: Vec<Task> =
        (0..9_usize).map(|k| task(50_000, k.checked_sub(1).as_slice())).collect();
    assert_eq!(streams(&tasks), [0; 9]);
}

#[test]
fn branches_that_are_worth_a_wait_have_a_stream_each() {
    // A stem, three branches of two tasks, and what joins them.
    let before: [&[usize]; 8] = [&[], &[0], &[1], &[0], &[3], &[0], &[5], &[2, 4, 6]];
    let tasks: Vec<Task> = before.iter().map(|before| task(50_000, before)).collect();
    assert_eq!(streams(&tasks), [0, 0, 0, 1, 1, 2, 2, 1]);
    // Calls that take less than a wait.
    let tasks: Vec<Task> = before.iter().map(|before| task(1_000, before)).collect();
    assert_eq!(streams(&tasks), [0; 8]);
}

#[test]
fn calls_that_use_all_cores_stay_on_one_stream() {
    let split = Task { time: 50_000, work: 200_000, before: Vec::new(), place: Place::Group(0) };
    assert_eq!(streams(&vec![split; 8]), [0; 8]);
}

#[test]
fn a_read_by_the_host_ends_the_overlap() {
    // Each pair could overlap, but the host reads the first one before it submits the second.
    let mut tasks = Vec::new();
    for k in 0..4 {
        tasks.push(task(50_000, &[]));
        let read = Task { time: 0, work: 0, before: vec![2 * k], place: Place::Host };
        tasks.push(read);
    }
    assert!(streams(&tasks).iter().all(|stream| [0, usize::MAX].contains(stream)));
    let all = assign_in_order(&tasks, &[4], FOUR);
    assert!(all.time >= 200_000);
}

#[test]
fn a_fence_comes_after_all_and_before_all() {
    let fence = Task { time: 0, work: 0, before: vec![0, 1], place: Place::Fence };
    let tasks = [task(90_000, &[]), task(50_000, &[]), fence, task(50_000, &[2])];
    let made = schedule(&tasks, &[4], FOUR, Order::Program);
    assert_eq!((made.tasks[2].start, made.tasks[3].start), (90_400, 90_400));
}

#[test]
fn a_write_comes_after_the_reads_of_what_it_changes() {
    let mut uses = LastUses::default();
    assert!(uses.note(7, true, 0).is_empty());
    assert_eq!(uses.note(7, false, 1), [0]);
    assert_eq!(uses.note(7, false, 2), [0]);
    assert_eq!(uses.note(7, true, 3), [0, 1, 2]);
    assert_eq!(uses.note(7, false, 4), [3]);
}

/// Programs of calls of 1 to 500 µs, each after up to three of the calls before it.
fn programs() -> impl Strategy<Value = Vec<Task>> {
    let one = (1_000_u64..500_000, proptest::collection::vec(any::<prop::sample::Index>(), 0..3));
    proptest::collection::vec(one, 1..60).prop_map(|all| {
        let task = |(k, (time, before)): (usize, (u64, Vec<prop::sample::Index>))| {
            let before = before.into_iter().filter(|_| k > 0).map(|index| index.index(k));
            task(time, &[]).after(before, k)
        };
        all.into_iter().enumerate().map(task).collect()
    })
}

proptest! {
    #[test]
    fn streams_help_or_are_not_used(tasks in programs()) {
        let one = schedule_on(&tasks, &[0; 60], FOUR).time;
        let made = assign_in_order(&tasks, &[4], FOUR);
        let chosen: Vec<usize> = streams(&tasks);
        // The prediction is that of the streams.
        prop_assert_eq!(schedule_on(&tasks, &chosen, FOUR).time, made.time);
        prop_assert!(made.time == one || made.beats(one), "{} and {}", made.time, one);
        // Nothing ends before what it needs.
        for call in &made.tasks {
            for before in &tasks[call.task].before {
                prop_assert!(made.tasks[*before].end <= call.start);
            }
        }
    }
}
