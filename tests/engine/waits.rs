//! Waits for variables and for everything.

use std::sync::mpsc;

use millstream_types::Error;
use millstream_vm::DriverKind;

use crate::{Log, machine, threaded};

/// A function that waits would wait for itself: it gets an error instead.
#[test]
fn functions_may_not_wait() {
    for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, log) = (engine.var().unwrap(), Log::new());
        let (inner, var, of) = (engine.clone(), a.clone(), log.clone());
        engine
            .push(move || {
                of.note(inner.wait_for(&var).unwrap_err())();
                of.note(inner.wait_all().unwrap_err())();
                of.note(inner.var().unwrap_err())();
            })
            .writes(&[&a])
            .spawn()
            .unwrap();
        engine.wait_all().unwrap();
        let errors = log.take();
        assert_eq!(errors.len(), 3);
        for error in errors {
            assert!(
                matches!(error.without_place(), Error::Reentrant { .. }),
                "{driver:?}: {error}"
            );
        }
    }
}

/// The wait for one variable does not wait for functions that do not write it.
#[test]
fn a_wait_is_for_one_variable() {
    let engine = threaded().dependency_engine().unwrap();
    let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
    let (give, take) = mpsc::channel();
    engine.push_async(move |done| give.send(done).unwrap()).writes(&[&a]).spawn().unwrap();
    let log = Log::new();
    engine.push(log.note("b")).writes(&[&b]).spawn().unwrap();
    engine.wait_for(&b).unwrap();
    assert_eq!(log.take(), ["b"]);
    engine.push(log.note("a")).reads(&[&a]).spawn().unwrap();
    take.recv().unwrap().complete();
    engine.wait_for(&a).unwrap();
    engine.wait_all().unwrap();
    assert_eq!(log.take(), ["a"]);
}

/// Several threads wait for one variable.
#[test]
fn any_thread_may_wait() {
    let engine = threaded().dependency_engine().unwrap();
    let a = engine.var().unwrap();
    let (give, take) = mpsc::channel();
    engine.push_async(move |done| give.send(done).unwrap()).writes(&[&a]).spawn().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| engine.wait_for(&a).unwrap());
        }
        take.recv().unwrap().complete();
    });
}

/// The naive engine runs a function before its push returns.
#[test]
fn the_naive_engine_runs_at_once() {
    let engine = machine(DriverKind::Inline).dependency_engine().unwrap();
    let log = Log::new();
    engine.push(log.note(std::thread::current().id())).spawn().unwrap();
    assert_eq!(log.take(), [std::thread::current().id()]);
}
