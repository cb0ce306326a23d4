//! Errors and panics poison what a function writes, and reach every waiter.

use anyhow::anyhow;
use millstream_types::{Cause, Error};
use millstream_vm::{Cancellation, DriverKind};

use crate::{Log, machine, threaded};

fn message(error: &Error) -> String {
    error.failure().unwrap_or_else(|| panic!("{error}")).message.clone()
}

#[test]
fn an_error_poisons_what_the_function_writes() {
    for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
        let engine = machine(driver).dependency_engine().unwrap();
        let [a, b, c] = [(); 3].map(|()| engine.var().unwrap());
        let log = Log::new();
        engine.push(|| Err(anyhow!("no such file"))).writes(&[&a]).name("read").spawn().unwrap();
        engine.push(log.note("reader")).reads(&[&a]).writes(&[&b]).spawn().unwrap();
        engine.push(log.note("writer")).writes(&[&a]).spawn().unwrap();
        engine.push(log.note("other")).writes(&[&c]).spawn().unwrap();
        engine.wait_for(&c).unwrap();
        // Every waiter gets it, not only the first.
        for var in [&a, &b, &a] {
            let error = engine.wait_for(var).unwrap_err();
            assert_eq!(message(&error), "no such file", "{driver:?}");
        }
        assert_eq!(log.take(), ["other"], "{driver:?}");
        engine.push(log.note("anew")).overwrites(&[&a]).spawn().unwrap();
        engine.wait_for(&a).unwrap();
        assert!(engine.wait_for(&b).is_err());
        assert_eq!(log.take(), ["anew"], "{driver:?}");
    }
}

fn out_of_bounds() {
    panic!("out of bounds");
}

#[test]
fn a_panic_is_a_failure_of_the_push_alone() {
    let engine = threaded().dependency_engine().unwrap();
    let (a, log) = (engine.var().unwrap(), Log::new());
    engine.push(out_of_bounds).writes(&[&a]).spawn().unwrap();
    engine.push(log.note(())).spawn().unwrap();
    let error = engine.wait_for(&a).unwrap_err();
    assert_eq!(
        (message(&error).as_str(), error.failure().unwrap().cause),
        ("out of bounds", Cause::Panic)
    );
    let error = engine.wait_all().unwrap_err();
    assert_eq!(message(&error), "out of bounds");
    assert_eq!(log.take().len(), 1);
}

/// `wait_all` reports a failure once to each waiter.
#[test]
fn wait_all_reports_to_each_waiter_once() {
    let machine = threaded();
    let engine = machine.dependency_engine().unwrap();
    let other = engine.clone();
    engine.push(|| Err(anyhow!("first"))).spawn().unwrap();
    for waiter in [&engine, &other] {
        assert_eq!(message(&waiter.wait_all().unwrap_err()), "first");
        waiter.wait_all().unwrap();
    }
    // An engine that is made later does not report it.
    let later = machine.dependency_engine().unwrap();
    later.wait_all().unwrap();
    engine.push(|| Err(anyhow!("second"))).spawn().unwrap();
    for waiter in [&engine, &other, &later] {
        assert_eq!(message(&waiter.wait_all().unwrap_err()), "second");
    }
    // Cleared failures are not reported, and later ones are.
    engine.push(|| Err(anyhow!("third"))).spawn().unwrap();
    machine.synchronize().unwrap_err();
    machine.clear_failures();
    engine.wait_all().unwrap();
    engine.push(|| Err(anyhow!("fourth"))).spawn().unwrap();
    assert_eq!(message(&engine.wait_all().unwrap_err()), "fourth");
}

/// More failures than the machine keeps in full: the waiter still learns of later ones.
#[test]
fn wait_all_reports_failures_beyond_the_kept_ones() {
    let engine = machine(DriverKind::Inline).dependency_engine().unwrap();
    for k in 0..100 {
        engine.push(move || Err(anyhow!("number {k}"))).spawn().unwrap();
        assert!(engine.wait_all().is_err(), "{k}");
    }
    engine.wait_all().unwrap();
}

#[test]
fn functions_that_complete_later_may_fail() {
    let engine = threaded().dependency_engine().unwrap();
    let [a, b, c] = [(); 3].map(|()| engine.var().unwrap());
    engine.push_async(|done| done.fail(anyhow!("disk full"))).writes(&[&a]).spawn().unwrap();
    assert_eq!(message(&engine.wait_for(&a).unwrap_err()), "disk full");
    engine.push_async(drop).writes(&[&b]).spawn().unwrap();
    let error = engine.wait_for(&b).unwrap_err();
    assert!(message(&error).contains("dropped"), "{error}");
    engine
        .push_async(|done| {
            done.complete();
            Err(anyhow!("after all"))
        })
        .writes(&[&c])
        .spawn()
        .unwrap();
    assert_eq!(message(&engine.wait_for(&c).unwrap_err()), "after all");
}

#[test]
fn the_name_is_part_of_the_failure() {
    let engine = threaded().dependency_engine().unwrap();
    let a = engine.var().unwrap();
    engine.push(|| Err(anyhow!("bad header"))).writes(&[&a]).name("decode").spawn().unwrap();
    let error = engine.wait_for(&a).unwrap_err();
    assert!(error.to_string().contains("decode"), "{error}");
    assert!(error.to_string().contains(file!().rsplit('/').next().unwrap()), "{error}");
}

#[test]
fn cancelled_functions_are_dropped() {
    let engine = machine(DriverKind::Threaded).dependency_engine().unwrap();
    let (a, log) = (engine.var().unwrap(), Log::new());
    let cancellation = Cancellation::new();
    cancellation.cancel();
    cancellation.scope(|| {
        engine.push(log.note("cancelled")).writes(&[&a]).spawn().unwrap();
        assert!(matches!(engine.wait_for(&a), Err(Error::Cancelled(_))));
    });
    engine.push(log.note("runs")).overwrites(&[&a]).spawn().unwrap();
    engine.wait_for(&a).unwrap();
    assert_eq!(log.take(), ["runs"]);
}
