//! Times of a run: every instruction of the list has them, whatever runs it.

use std::collections::HashSet;

use millstream::vm::{Outcome, RunTimes, StepTimes};
use millstream::*;
use millstream_testing::machine::*;

/// Checks that each point of the list has times, in the order of its stream, and nothing else has.
#[track_caller]
fn complete(times: &RunTimes) {
    let mut points: HashSet<(u16, u64)> = HashSet::new();
    for instruction in &times.list.instructions {
        points.extend(instruction.body.at().map(|at| (at.stream.0, at.seq)));
    }
    assert_eq!(times.issued.len(), times.list.instructions.len());
    assert!(times.issued.is_sorted(), "the emission is one after another");
    for (id, stream) in times.streams.iter().enumerate() {
        for one in &stream.instructions {
            assert!(one.ready <= one.end && one.start <= one.end && one.end <= times.total);
            let was = points.remove(&(id as u16, one.seq));
            assert!(
                was,
                "{} has times of {}, twice or without an instruction",
                stream.key, one.seq
            );
        }
    }
    assert!(points.is_empty(), "without times: {points:?}");
}

fn times_of(machine: &Machine, program: impl Fn(&Machine)) -> RunTimes {
    let profiling = machine.profile(&[]).unwrap();
    program(machine);
    profiling.finish().unwrap()
}

/// A diamond over three streams, with a pool among them if `mode` says so.
fn diamond(machine: &Machine, mode: StreamMode) {
    let (s, t) = (cpu(machine, 0), cpu(machine, 1));
    let p = machine.stream_with_mode(&StreamKey::compute(CPU, 2), mode).unwrap();
    let x = upload(&s, machine, &[1.0, -2.0]);
    let (y, z) = (call(machine, "relu", &[&x], &t), call(machine, "add", &[&x, &x], &p));
    let sum = call(machine, "add", &[&y, &z], &s);
    assert_eq!(read(&sum), [3.0, -4.0]);
}

#[test]
fn every_instruction_has_times() {
    for driver in DRIVERS {
        for mode in [StreamMode::InOrder, StreamMode::Pool] {
            let machine = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
            let times = times_of(&machine, |m| diamond(m, mode));
            if mode == StreamMode::InOrder || driver == DriverKind::Inline {
                complete(&times);
            }
            let works = times.streams.iter().map(|s| s.instructions.len()).sum::<usize>();
            assert!(works >= 4, "{driver:?} {mode:?}: {works}");
        }
    }
}

#[test]
fn instructions_of_an_asynchronous_device_have_times() {
    let times = times_of(&threaded(), |m| {
        let (s, t) = (sim(m, 0), sim(m, 1));
        let x = upload(&s, m, &[1.0, -2.0]);
        let y = call(m, "relu", &[&x], &t);
        assert_eq!(read(&call(m, "add", &[&x, &y], &s)), [2.0, -2.0]);
    });
    complete(&times);
}

#[test]
fn waits_begin_before_what_they_wait_for_has_ended() {
    let machine = threaded();
    let (s, t) = (cpu(&machine, 0), cpu(&machine, 1));
    let x = upload(&s, &machine, &[1.0]);
    // Where both streams are faster than this thread, the read does not wait.
    let pause = loop {
        let profiling = machine.profile(&[]).unwrap();
        let gate = Gate::on(&x);
        let y = call(&machine, "relu", &[&x], &t);
        gate.entered();
        gate.open();
        read(&y);
        let times = profiling.finish().unwrap();
        complete(&times);
        if let Some(pause) = times.pauses.iter().find(|pause| pause.until.is_some()) {
            break *pause;
        }
    };
    assert!(pause.begin <= pause.end);
}

#[test]
fn failures_and_their_dependents_are_marked() {
    for driver in DRIVERS {
        let machine = failing(driver);
        let times = times_of(&machine, |m| {
            let (s, t) = (cpu(m, 0), cpu(m, 1));
            let x = upload(&s, m, &[1.0]);
            let y = call(m, "fail", &[&x], &s);
            let z = call(m, "relu", &[&y], &t);
            assert!(z.read().is_err());
        });
        let all = times.streams.iter().flat_map(|s| &s.instructions);
        let of = |outcome| all.clone().filter(|one| one.outcome == outcome).count();
        assert_eq!(of(Outcome::Failed), 1, "{driver:?}");
        assert!(of(Outcome::Skipped) >= 1, "{driver:?}");
    }
}

#[test]
fn steps_of_an_executable_have_times() {
    for driver in DRIVERS {
        let machine = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&machine, 0);
        let x = upload(&s, &machine, &[1.0, -2.0]);
        let recorded = machine.record(|r| {
            let x = r.input("x", f32_spec(&[2]))?;
            let stream = r.stream(&StreamKey::compute(CPU, 0))?;
            let y = r.call("relu", &[x]).on(stream)?[0];
            let z = r.call("add", &[y, y]).on(stream)?[0];
            r.output("y", &z)
        });
        let executable = recorded.unwrap().compile_as_is().unwrap();
        let times = times_of(&machine, |_| {
            let launched = executable.launch().input("x", &x).run().unwrap();
            assert_eq!(read(&launched.outputs()[0]), [2.0, 0.0]);
        });
        assert_eq!(times.launches.len(), 1, "{driver:?}");
        let list = &times.list.executables[times.launches[0].executable.index()];
        let names: Vec<&str> = times.launches[0]
            .steps
            .iter()
            .map(|step| list.instructions[step.instruction as usize].body.kind().name())
            .collect();
        assert_eq!(names, ["OpCall", "OpCall"], "{driver:?}");
    }
}

/// Steps of two tapes: a wait of the second one names the step of the first that it is for.
#[test]
fn waits_between_tapes_name_their_steps() {
    let config = config(DriverKind::Threaded, SyncPolicy::Frontier).host_workers(2);
    let machine = Machine::new(config).unwrap();
    let executable = crate::executable::relu_plus(&machine, &[2]);
    let x = upload(&cpu(&machine, 0), &machine, &[1.0, -2.0]);
    let times = times_of(&machine, |_| {
        for _ in 0..3 {
            let launched = executable.launch().input("x", &x).run().unwrap();
            assert_eq!(read(&launched.outputs()[0]), [2.0, -2.0]);
        }
    });
    assert_eq!(times.launches.len(), 3);
    for launch in &times.launches {
        let list = &times.list.executables[launch.executable.index()];
        let name = |of: &StepTimes| list.name_of(&list.instructions[of.instruction as usize].body);
        let steps: Vec<_> = launch.steps.iter().map(|s| (name(s), s.tape, s.waits)).collect();
        assert_eq!(steps, [("relu", 0, false), ("add", 1, true), ("add", 1, false)]);
        assert_eq!(launch.steps[1].until, Some(0), "it waits for relu");
        assert!(launch.steps[0].end <= launch.steps[1].end);
        let workers: Vec<_> = launch.tapes.iter().map(|tape| tape.worker.unwrap()).collect();
        assert!(workers.len() == 2 && workers[0] != workers[1], "{workers:?}");
    }
}

/// Steps of an asynchronous device complete later than they are made. None is missing, as the
/// recording ends only when nothing is in flight.
#[test]
fn steps_of_an_asynchronous_device_have_times() {
    let machine = threaded();
    let device = DeviceId::sim(0);
    let recorded = machine.record(|r| {
        let x = r.input_on("x", f32_spec(&[2]), &device)?;
        let [s, t] = [0, 1].map(|k| r.stream(&StreamKey::compute(device.clone(), k)));
        let y = r.call("relu", &[x]).on(s?)?[0];
        let z = r.call("add", &[x, y]).on(t?)?[0];
        r.output("z", &z)
    });
    let executable = recorded.unwrap().compile_as_is().unwrap();
    let x = upload(&sim(&machine, 0), &machine, &[1.0, -2.0]);
    for _ in 0..20 {
        let times = times_of(&machine, |_| {
            for _ in 0..10 {
                executable.launch().input("x", &x).run().unwrap();
            }
        });
        complete(&times);
        assert_eq!(times.launches.len(), 10);
        for launch in &times.launches {
            let list = &times.list.executables[launch.executable.index()];
            let calls = launch.steps.iter().filter(|step| {
                list.instructions[step.instruction as usize].body.operands().len() > 1
            });
            assert_eq!(calls.count(), 2, "{:?}", launch.steps);
            assert!(launch.tapes.iter().all(|tape| tape.worker.is_none()));
        }
    }
}

#[test]
fn failed_steps_and_their_dependents_are_marked() {
    for driver in DRIVERS {
        let machine = failing(driver);
        let recorded = machine.record(|r| {
            let x = r.input("x", f32_spec(&[1]))?;
            let stream = r.stream(&StreamKey::compute(CPU, 0))?;
            let y = r.call("fail", &[x]).on(stream)?[0];
            let z = r.call("relu", &[y]).on(stream)?[0];
            let apart = r.call("relu", &[x]).on(stream)?[0];
            r.output("z", &z)?;
            r.output("apart", &apart)
        });
        let executable = recorded.unwrap().compile_as_is().unwrap();
        let x = upload(&cpu(&machine, 0), &machine, &[1.0]);
        let times = times_of(&machine, |_| {
            let launched = executable.launch().input("x", &x).run().unwrap();
            assert!(launched.outputs()[0].read().is_err());
        });
        let outcomes: Vec<_> = times.launches[0].steps.iter().map(|s| s.outcome).collect();
        let expected = [Outcome::Failed, Outcome::Skipped, Outcome::Completed];
        assert_eq!(outcomes, expected, "{driver:?}");
    }
}

#[test]
fn ranges_nest_and_cost_nothing_without_a_recording() {
    let machine = inline();
    drop(machine.range("nobody sees it"));
    let times = times_of(&machine, |m| {
        let _outer = m.range("outer");
        let _inner = m.range(String::from("inner"));
        diamond(m, StreamMode::InOrder);
    });
    let names: Vec<&str> = times.ranges.iter().map(|range| range.name.as_str()).collect();
    assert_eq!(names, ["outer", "inner"]);
    let [outer, inner] = &times.ranges[..] else { panic!("{:?}", times.ranges) };
    assert!(outer.begin <= inner.begin && inner.end <= outer.end);
}

#[test]
fn a_known_list_is_matched_with_the_run() {
    let machine = threaded();
    let program = |m: &Machine| diamond(m, StreamMode::InOrder);
    let first = Machine::new(config(DriverKind::Inline, SyncPolicy::Frontier)).unwrap();
    let list = times_of(&first, program).list;
    let profiling = machine.profile_times().unwrap();
    program(&machine);
    let times = profiling.finish_with(list.clone()).unwrap().expect("the list is that of the run");
    complete(&times);
    // Another program does not have that list.
    let profiling = machine.profile_times().unwrap();
    upload(&cpu(&machine, 0), &machine, &[1.0]);
    assert!(profiling.finish_with(list).unwrap().is_none());
}

#[test]
fn waits_between_workers_have_a_cost() {
    let of = |machine: Machine| times_of(&machine, |m| diamond(m, StreamMode::InOrder)).handoff;
    let workers = |count| {
        let config = config(DriverKind::Threaded, SyncPolicy::Frontier).host_workers(count);
        of(Machine::new(config).unwrap())
    };
    let cost = workers(2).unwrap();
    assert!(cost > 0);
    assert_eq!(workers(2), Some(cost), "a process measures it once");
    assert_eq!(workers(1), None);
    assert_eq!(of(inline()), None);
}

#[test]
fn one_recording_at_a_time() {
    let machine = inline();
    let profiling = machine.profile(&[]).unwrap();
    assert!(machine.profile(&[]).is_err());
    assert!(machine.profile_times().is_err());
    drop(profiling);
    let profiling = machine.profile(&[]).unwrap();
    diamond(&machine, StreamMode::InOrder);
    complete(&profiling.finish().unwrap());
    let simulated = Machine::new(config(DriverKind::Simulated, SyncPolicy::Frontier)).unwrap();
    let error = simulated.profile(&[]).unwrap_err().to_string();
    assert!(error.contains("takes no time"), "{error}");
}

/// The counts of the inference cache are those of the recording alone.
#[test]
fn the_inference_cache_is_counted() {
    let m = inline();
    let s = cpu(&m, 0);
    let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[0.0]));
    m.call("relu", &[&x]).on(&s).unwrap();
    let times = times_of(&m, |m| {
        for _ in 0..10 {
            m.call("neg", &[&x]).on(&cpu(m, 0)).unwrap();
        }
        m.call("neg", &[&x]).out(&[&y]).on(&cpu(m, 0)).unwrap();
    });
    assert_eq!(times.inference.keys().collect::<Vec<_>>(), ["neg"]);
    let counts = times.inference["neg"];
    assert_eq!((counts.hits, counts.misses, counts.all_passed(), counts.replaced), (9, 1, 1, 0));
}
