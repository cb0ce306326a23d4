//! Rule 2: a wait is launched only after its record, also if the two are on different workers and
//! the wait's worker is first.

use std::sync::Arc;

use millstream::ep::sim::CommandKind;
use millstream::stream_policy::{StreamPolicy, WorkerGroup};
use millstream::*;
use millstream_testing::machine::*;

/// A policy that puts the compute streams of every device on the host's workers in turn.
struct Spread;

impl StreamPolicy for Spread {
    fn stream_type(&self) -> StreamType {
        StreamType::COMPUTE
    }
    fn worker_group(&self, _: &StreamKey) -> WorkerGroup {
        WorkerGroup::Host
    }
}

fn spread() -> (Machine, StepControl) {
    let (mut config, control) = by_hand_config();
    config.policies.push(Arc::new(Spread));
    config.host_workers = 4;
    add_failing_ops(&mut config);
    (Machine::new(config).unwrap(), control)
}

/// Returns the number of waits that the device was given.
fn waits(control: &StepControl) -> u64 {
    control.stats(0).unwrap().waits
}

/// Blocks the first stream before its record, brings the second stream to its wait, and checks that
/// the wait is not launched. `order` adds the program's own wait.
fn check(order: impl Fn(&Machine, &Stream, &Stream)) {
    let (m, control) = spread();
    let (first, second) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&first, f32_spec(&[1])).unwrap();
    let own = m.empty(&second, f32_spec(&[1])).unwrap();
    let gate = Gate::on(&x);
    gate.entered();
    m.call("fill", &[&x]).attr("value", 3.0).on(&first).unwrap();
    // The second stream gets a call before the wait, so its worker runs.
    m.call("fill", &[&own]).attr("value", 1.0).on(&second).unwrap();
    order(&m, &first, &second);
    let y = call(&m, "copy", &[&x], &second);
    let done = second.record_event().unwrap();
    assert_eq!(m.worker_threads().unwrap(), 2);
    let queued = |kind| {
        let all = control.streams();
        all.iter().flat_map(|s| &s.commands).filter(|c| c.kind == kind).count()
    };
    // The second worker has launched its fill and is at the wait. It could continue only by
    // launching the wait or the copy; a third stream shows that it still serves its streams.
    control.run_until(|| control.stats(0).unwrap().works == 1 && queued(CommandKind::Work) == 0);
    let third = sim(&m, 2);
    let there = m.empty(&third, f32_spec(&[1])).unwrap();
    m.call("fill", &[&there]).attr("value", 1.0).on(&third).unwrap();
    let served = third.record_event().unwrap();
    control.run_until(|| served.query());
    assert_eq!(waits(&control), 0, "a wait was launched before its record");
    assert_eq!(control.stats(0).unwrap().works, 2, "the copy was launched before the wait");
    gate.open();
    // The first stream's fill and record; the second one's wait, copy and record.
    control.wait_for_commands(3 + 5, LONG).unwrap();
    control.run_until(|| done.query());
    assert_eq!(waits(&control), 1);
    control.switch(ep::sim::Completion::IssueOrder);
    assert_eq!(read(&y), [3.0]);
}

#[test]
fn a_wait_for_the_data() {
    check(|_, _, _| {});
}

#[test]
fn a_wait_for_an_event() {
    check(|_, first, second| second.wait_event(&first.record_event().unwrap()).unwrap());
}

#[test]
fn a_wait_for_a_stream() {
    check(|_, first, second| second.wait_stream(first).unwrap());
}

/// A failed or skipped instruction completes its point, and its records and waits are launched all
/// the same. So nothing waits for ever.
#[test]
fn failed_and_skipped_instructions_still_launch_their_records() {
    let (m, control) = spread();
    control.switch(ep::sim::Completion::IssueOrder);
    let (first, second) = (sim(&m, 0), sim(&m, 1));
    let x = upload(&first, &m, &[1.0]);
    let y = call(&m, "fail", &[&x], &first);
    let skipped = call(&m, "relu", &[&y], &first);
    let record = first.record_event().unwrap();
    second.wait_event(&record).unwrap();
    second.wait_stream(&first).unwrap();
    // The call is only ordered after the failure, so it runs.
    m.call("fill", &[&x]).attr("value", 4.0).on(&second).unwrap();
    failure(record.completion().wait_for(LONG).unwrap_err());
    assert_eq!(read(&x), [4.0]);
    failure(skipped.read().unwrap_err());
}
