//! Devices, streams, threads, memory and events are created at their first use.

use millstream::*;
use millstream_testing::machine::*;

struct Counts {
    opened: usize,
    workers: usize,
    helpers: (usize, usize),
    reserved: u64,
    streams: u64,
    events: u64,
}

fn counts(m: &Machine, control: &StepControl) -> Counts {
    let sim = control.stats(0).unwrap();
    Counts {
        opened: m.policies().devices().opened().len(),
        workers: m.worker_threads().unwrap(),
        helpers: m.helper_threads(),
        reserved: m.memory().unwrap().iter().map(|a| a.reserved).sum(),
        streams: sim.streams_created,
        events: sim.events_created,
    }
}

#[track_caller]
fn assert_nothing(c: &Counts) {
    assert_eq!((c.opened, c.workers, c.helpers, c.reserved), (0, 0, (0, 0), 0));
    assert_eq!((c.streams, c.events), (0, 0));
}

#[test]
fn a_new_machine_and_its_stream_handles_create_nothing() {
    let (m, control) = by_hand();
    assert_nothing(&counts(&m, &control));
    for ty in StreamType::BUILT_IN {
        for device in [CPU, SIM] {
            m.stream(&StreamKey::new(device, ty, 0)).unwrap();
        }
        assert_nothing(&counts(&m, &control));
    }
    assert!(m.streams_used().unwrap().is_empty());
}

/// The first instruction of a stream creates its parts, for each of the built-in types on a machine
/// of its own.
#[test]
fn each_stream_type_is_created_by_its_first_instruction() {
    for ty in StreamType::BUILT_IN {
        let (m, control) = by_hand();
        control.switch(ep::sim::Completion::IssueOrder);
        let device =
            if ty.built_in_work().is_some_and(|work| work.is_order_only()) { CPU } else { SIM };
        let key = StreamKey::new(device.clone(), ty, 0);
        let s = m.stream(&key).unwrap();
        let workers = match ty {
            StreamType::BARRIER => {
                m.barrier().unwrap().wait().unwrap();
                1
            }
            StreamType::CRITICAL_SECTION => {
                // A tensor without bytes needs neither memory nor a native stream.
                let x = m.empty(&cpu(&m, 0), f32_spec(&[0])).unwrap();
                m.critical_section(&[&x]).unwrap().end().unwrap().wait().unwrap();
                // The tensor's stream has the other one.
                2
            }
            StreamType::LAZY_JOB_LAUNCHER => {
                let job = m.recorder().finish().unwrap().compile().unwrap();
                job.launch().run().unwrap().wait().unwrap();
                1
            }
            _ => {
                let x = m.empty(&s, f32_spec(&[1])).unwrap();
                let before = counts(&m, &control);
                assert_eq!(
                    (before.streams, before.helpers),
                    (0, (0, 0)),
                    "{ty}: an allocation creates memory alone"
                );
                m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
                s.synchronize().unwrap();
                assert_eq!(control.stats(0).unwrap().streams_created, 1, "{ty}");
                1
            }
        };
        let now = counts(&m, &control);
        assert_eq!(now.workers, workers, "{ty}");
        assert_eq!(now.events, 0, "{ty}: nothing waits");
        assert_eq!(m.streams_used().unwrap(), [key], "{ty}");
        if device == CPU {
            assert_eq!(
                (now.opened, now.streams, now.reserved),
                (0, 0, 0),
                "{ty}: it needs no device"
            );
        }
    }
}

#[test]
fn helper_threads_start_with_the_first_callback_and_the_first_large_kernel() {
    let m = threaded();
    let s = cpu(&m, 0);
    let x = m.empty(&s, f32_spec(&[1 << 18])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    s.synchronize().unwrap();
    assert_eq!(m.helper_threads().0, 0);
    x.access(Access::Read, |_| Ok(())).unwrap().wait().unwrap();
    assert_eq!(m.helper_threads().0, 1);
    m.call("sum", &[&x]).on(&s).unwrap();
    s.synchronize().unwrap();
    assert_eq!(m.helper_threads().1, 2);
}

#[test]
fn a_native_event_is_created_by_the_first_device_wait() {
    let (m, control) = by_hand();
    control.switch(ep::sim::Completion::IssueOrder);
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    s.synchronize().unwrap();
    assert_eq!(control.stats(0).unwrap().events_created, 0);
    m.call("fill", &[&x]).attr("value", 2.0).on(&s).unwrap();
    call(&m, "relu", &[&x], &t);
    t.synchronize().unwrap();
    assert_eq!(control.stats(0).unwrap().events_created, 1);
}

/// The inline driver has threads for host functions only.
#[test]
fn inline_has_no_workers() {
    let m = inline();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0]);
    assert_eq!(read(&x), [1.0]);
    assert_eq!(m.worker_threads().unwrap(), 0);
}
