//! Properties, priorities and streams.

use std::sync::{Arc, Barrier, mpsc};
use std::thread::current;

use millstream_types::DeviceId;
use millstream_vm::{Machine, MachineConfig, Prop};

use crate::{Log, threaded};

/// Urgent functions run while normal ones occupy all workers of the engine.
#[test]
fn prioritised_functions_have_a_worker_of_their_own() {
    let engine = threaded().dependency_engine().unwrap();
    let (release, both) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    for _ in 0..2 {
        let (release, both) = (release.clone(), both.clone());
        engine
            .push(move || {
                both.wait();
                release.wait();
            })
            .spawn()
            .unwrap();
    }
    both.wait();
    let (a, log) = (engine.var().unwrap(), Log::new());
    engine.push(log.note("urgent")).writes(&[&a]).prop(Prop::CpuPrioritized).spawn().unwrap();
    engine.wait_for(&a).unwrap();
    assert_eq!(log.take(), ["urgent"]);
    release.wait();
    engine.wait_all().unwrap();
}

/// Order is kept between the workers of different properties.
#[test]
fn properties_keep_the_order_of_variables() {
    let engine = threaded().dependency_engine().unwrap();
    let (a, log) = (engine.var().unwrap(), Log::new());
    let host = DeviceId::cpu(0);
    let props = [
        Prop::Normal,
        Prop::CpuPrioritized,
        Prop::CopyToDevice(host.clone()),
        Prop::Async,
        Prop::CopyFromDevice(host),
    ];
    for k in 0..200 {
        let prop = props[k * 7 % props.len()].clone();
        engine.push(log.note(k)).writes(&[&a]).prop(prop).spawn().unwrap();
    }
    engine.wait_for(&a).unwrap();
    assert_eq!(log.take(), (0..200).collect::<Vec<_>>());
}

/// A function that can run at once runs on the pushing thread; another one does not.
#[test]
fn async_functions_run_on_the_pushing_thread() {
    let engine = threaded().dependency_engine().unwrap();
    let (a, b, log) = (engine.var().unwrap(), engine.var().unwrap(), Log::new());
    let note = |log: &Log<_>| {
        let log = log.clone();
        move || log.note(current().id())()
    };
    engine.push(note(&log)).writes(&[&a]).prop(Prop::Async).spawn().unwrap();
    assert_eq!(log.take(), [current().id()]);
    // What completes later completes from there, too.
    let (give, take) = mpsc::channel();
    engine
        .push_async(move |done| give.send((done, current().id())).unwrap())
        .writes(&[&b])
        .prop(Prop::Async)
        .spawn()
        .unwrap();
    let (done, thread) = take.try_recv().unwrap();
    assert_eq!(thread, current().id());
    engine.push(note(&log)).writes(&[&b]).prop(Prop::Async).spawn().unwrap();
    assert!(log.take().is_empty(), "it comes after what has not completed");
    done.complete();
    engine.wait_for(&b).unwrap();
    assert_ne!(log.take(), [current().id()]);
    engine.wait_all().unwrap();
}

/// Of the functions that can run, those of the highest priority run first.
#[test]
fn the_highest_priority_runs_first() {
    let machine = Machine::new(MachineConfig::default().host_workers(1)).unwrap();
    let engine = machine.dependency_engine().unwrap();
    let (first, log) = (engine.var().unwrap(), Log::new());
    let (give, take) = mpsc::channel::<()>();
    engine
        .push(move || {
            let _ = take.recv();
        })
        .writes(&[&first])
        .spawn()
        .unwrap();
    for priority in [0, 5, -3, 2] {
        let push = engine.push(log.note(priority)).reads(&[&first]);
        push.priority(priority).spawn().unwrap();
    }
    drop(give);
    engine.wait_all().unwrap();
    assert_eq!(log.take(), [5, 2, 0, -3]);
}

/// An engine of a stream runs functions one after the other.
#[test]
fn an_engine_may_belong_to_a_stream() {
    let machine = threaded();
    let engine =
        machine.dependency_engine_on(&machine.compute(&DeviceId::cpu(0), 0).unwrap()).unwrap();
    let log = Log::new();
    for k in 0..100 {
        engine.push(log.note(k)).spawn().unwrap();
    }
    engine.wait_all().unwrap();
    assert_eq!(log.take(), (0..100).collect::<Vec<_>>());
}
