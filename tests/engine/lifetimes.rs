//! Functions and variables end when nothing needs them.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::anyhow;
use millstream_types::Error;

use crate::{Log, threaded};

/// The function of `delete` comes after all earlier pushes that name the variable.
#[test]
fn a_variable_is_deleted_after_its_uses() {
    let engine = threaded().dependency_engine().unwrap();
    let (a, log) = (engine.var().unwrap(), Log::new());
    let (give, take) = mpsc::channel::<()>();
    let first = log.note("write");
    engine
        .push(move || {
            let _ = take.recv();
            first();
        })
        .writes(&[&a])
        .spawn()
        .unwrap();
    engine.push(log.note("read")).reads(&[&a]).spawn().unwrap();
    engine.delete(&a, log.note("delete")).unwrap();
    let error = engine.push(log.note("later")).reads(&[&a]).spawn().unwrap_err();
    assert!(matches!(error.without_place(), Error::Released { .. }), "{error}");
    assert!(engine.delete(&a, || ()).is_err(), "a variable ends once");
    drop(give);
    engine.wait_all().unwrap();
    assert_eq!(log.take(), ["write", "read", "delete"]);
}

#[test]
fn a_poisoned_variable_is_deleted() {
    let engine = threaded().dependency_engine().unwrap();
    let (a, log) = (engine.var().unwrap(), Log::new());
    engine.push(|| Err(anyhow!("bad"))).writes(&[&a]).spawn().unwrap();
    engine.delete(&a, log.note(())).unwrap();
    assert!(engine.wait_all().is_err());
    assert_eq!(log.take().len(), 1);
}

/// Functions are dropped when they have run, when they are skipped, when their push is refused, and
/// with the machine.
#[test]
fn functions_are_dropped() {
    let machine = threaded();
    let engine = machine.dependency_engine().unwrap();
    let a = engine.var().unwrap();
    let held = Arc::new(());
    let of = |held: &Arc<()>| {
        let held = held.clone();
        move || drop(held)
    };
    engine.push(of(&held)).writes(&[&a]).spawn().unwrap();
    engine.push(|| Err(anyhow!("bad"))).writes(&[&a]).spawn().unwrap();
    engine.push(of(&held)).reads(&[&a]).spawn().unwrap();
    assert!(engine.wait_all().is_err());
    assert_eq!(Arc::strong_count(&held), 1);
    let foreign = threaded().dependency_engine().unwrap().var().unwrap();
    let error = engine.push(of(&held)).reads(&[&foreign]).spawn().unwrap_err();
    assert!(matches!(error.without_place(), Error::Foreign { .. }), "{error}");
    engine.delete(&a, || ()).unwrap();
    assert!(engine.push(of(&held)).reads(&[&a]).spawn().is_err());
    assert_eq!(Arc::strong_count(&held), 1);

    let operator = engine.operator({
        let held = held.clone();
        move || assert!(Arc::strong_count(&held) > 0)
    });
    operator.push().unwrap();
    drop(operator);
    engine.wait_all().unwrap();
    assert_eq!(Arc::strong_count(&held), 1);
    machine.shutdown(Duration::from_secs(60));
    let error = engine.push(of(&held)).spawn().unwrap_err();
    assert_eq!(*error.without_place(), Error::Closed);
    assert_eq!(Arc::strong_count(&held), 1);
}

/// Places of functions are used again while some functions stay long.
#[test]
fn functions_that_stay_long_do_not_block_others() {
    let engine = threaded().dependency_engine().unwrap();
    let a = engine.var().unwrap();
    let (give, take) = mpsc::channel();
    for _ in 0..10 {
        let give = give.clone();
        engine.push_async(move |done| give.send(done).unwrap()).spawn().unwrap();
    }
    let (hold, held) = mpsc::channel::<()>();
    engine
        .push(move || {
            let _ = held.recv();
        })
        .writes(&[&a])
        .spawn()
        .unwrap();
    for _ in 0..20 {
        engine.push(|| ()).reads(&[&a]).spawn().unwrap();
    }
    let b = engine.var().unwrap();
    for _ in 0..1000 {
        engine.push(|| ()).writes(&[&b]).spawn().unwrap();
        engine.wait_for(&b).unwrap();
    }
    drop(hold);
    take.iter().take(10).for_each(|done| done.complete());
    engine.wait_all().unwrap();
}
