//! Bulk scopes keep the order of the program.

use std::sync::mpsc;

use anyhow::anyhow;
use millstream_types::Error;
use millstream_vm::{DriverKind, MachineConfig, Tensor};

use crate::{Log, machine, threaded};

const DRIVERS: [DriverKind; 3] = [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated];

/// A push beside a scope comes after the functions in it.
#[test]
fn a_push_comes_after_a_pending_scope() {
    for driver in DRIVERS {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, log) = (engine.var().unwrap(), Log::new());
        let mut bulk = engine.bulk(100);
        bulk.push(log.note("bulked")).writes(&[&a]).spawn().unwrap();
        engine.push(log.note("pushed")).writes(&[&a]).spawn().unwrap();
        bulk.push(log.note("bulked again")).writes(&[&a]).spawn().unwrap();
        let noted = log.clone();
        engine.operator(move || noted.note("operator")()).writes(&[&a]).push().unwrap();
        engine.wait_for(&a).unwrap();
        assert_eq!(log.take(), ["bulked", "pushed", "bulked again", "operator"], "{driver:?}");
    }
}

/// Each wait includes the functions in scopes.
#[test]
fn waits_push_pending_scopes() {
    for driver in DRIVERS {
        let machine = machine(driver);
        let engine = machine.dependency_engine().unwrap();
        let (a, log) = (engine.var().unwrap(), Log::new());
        let mut bulk = engine.bulk(100);
        let waits: [&dyn Fn(); 5] = [
            &|| engine.wait_for(&a).unwrap(),
            &|| engine.wait_all().unwrap(),
            &|| machine.synchronize().unwrap(),
            &|| machine.completion().unwrap().wait().unwrap(),
            &|| drop(engine.bulk(2).flush().and_then(|()| engine.wait_for(&a))),
        ];
        for (k, wait) in waits.iter().enumerate() {
            bulk.push(log.note(k)).writes(&[&a]).spawn().unwrap();
            wait();
            assert_eq!(log.take(), [k], "{driver:?}");
        }
    }
}

/// A wait ends although only a function in a scope completes what is waited for.
#[test]
fn a_scope_completes_what_is_waited_for() {
    let machine = threaded();
    let engine = machine.dependency_engine().unwrap();
    let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
    let (give, take) = mpsc::channel::<millstream_vm::OnComplete>();
    engine.push_async(move |done| give.send(done).unwrap()).writes(&[&a]).spawn().unwrap();
    let completion = machine.completion().unwrap();
    let mut bulk = engine.bulk(100);
    bulk.push(move || take.recv().unwrap().complete()).writes(&[&b]).spawn().unwrap();
    completion.wait().unwrap();
}

/// An op on a tensor comes after a function in a scope that writes it: the function's error
/// poisons what the op computes. A read of a tensor does, too.
#[test]
fn ops_and_reads_come_after_a_pending_scope() {
    for driver in DRIVERS {
        let machine = machine(driver);
        let engine = machine.dependency_engine().unwrap();
        let x = Tensor::from_slice(&[1.0f32], 1, &machine).unwrap();
        let var = engine.var_of(&x).unwrap();
        let mut bulk = engine.bulk(100);
        bulk.push(|| Err(anyhow!("bad"))).writes(&[&var]).spawn().unwrap();
        let y = x.mul(2.0).unwrap();
        assert!(y.read().is_err(), "{driver:?}");
        bulk.push(|| ()).overwrites(&[&var]).spawn().unwrap();
        x.read().unwrap();
        bulk.push(|| Err(anyhow!("bad"))).writes(&[&var]).spawn().unwrap();
        assert!(x.read().is_err(), "{driver:?}");
    }
}

/// The scope of another thread is pushed as well: the channel makes its function the earlier one.
#[test]
fn scopes_of_other_threads_are_pushed() {
    for driver in DRIVERS {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, log) = (engine.var().unwrap(), Log::new());
        let (joined, on_join) = mpsc::channel();
        let (end, on_end) = mpsc::channel::<()>();
        std::thread::scope(|threads| {
            let (engine, a, log) = (&engine, &a, &log);
            threads.spawn(move || {
                let mut bulk = engine.bulk(100);
                bulk.push(log.note("first")).writes(&[a]).spawn().unwrap();
                joined.send(()).unwrap();
                let _ = on_end.recv();
            });
            on_join.recv().unwrap();
            let mut bulk = engine.bulk(100);
            bulk.push(log.note("second")).writes(&[a]).spawn().unwrap();
            engine.push(log.note("third")).reads(&[a]).spawn().unwrap();
            engine.wait_for(a).unwrap();
            drop(end);
        });
        engine.wait_all().unwrap();
        assert_eq!(log.take(), ["first", "second", "third"], "{driver:?}");
    }
}

/// Two scopes whose functions do not conflict stay apart, and both merge.
#[test]
fn scopes_without_conflict_do_not_disturb_each_other() {
    let machine = threaded();
    let engine = machine.dependency_engine().unwrap();
    let [a, b, c] = [(); 3].map(|()| engine.var().unwrap());
    let entries = || machine.stats().unwrap().of(millstream_instructions::Kind::OpCall);
    let before = entries();
    let (mut one, mut two) = (engine.bulk(10), engine.bulk(10));
    for _ in 0..10 {
        one.push(|| ()).reads(&[&c]).writes(&[&a]).spawn().unwrap();
        two.push(|| ()).reads(&[&c]).writes(&[&b]).spawn().unwrap();
    }
    assert_eq!(entries() - before, 2);
    // A write of what the other reads pushes the other.
    let log = Log::new();
    one.push(log.note("one")).reads(&[&c]).writes(&[&a]).spawn().unwrap();
    two.push(log.note("two")).writes(&[&c]).spawn().unwrap();
    one.push(log.note("three")).writes(&[&a]).spawn().unwrap();
    drop((two, one));
    engine.wait_all().unwrap();
    let order = log.take();
    let at = |name| order.iter().position(|noted| *noted == name);
    assert!(at("one") < at("two") && at("one") < at("three"), "{order:?}");
}

/// A variable whose last handle is dropped lives until the functions in scopes have run.
#[test]
fn a_variable_outlives_the_functions_of_a_scope() {
    for driver in DRIVERS {
        let engine = machine(driver).dependency_engine().unwrap();
        let log = Log::new();
        let mut bulk = engine.bulk(100);
        for k in 0..3 {
            let a = engine.var().unwrap();
            bulk.push(log.note(k)).writes(&[&a]).spawn().unwrap();
        }
        bulk.flush().unwrap();
        engine.wait_all().unwrap();
        // In any order: they share no variable.
        let mut ran = log.take();
        ran.sort_unstable();
        assert_eq!(ran, [0, 1, 2], "{driver:?}");
    }
}

/// A push that is refused is reported: to the owner of the scope, or as a failure of the machine.
#[test]
fn refusals_of_scopes_are_reported() {
    for driver in DRIVERS {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
        engine.delete(&a, || ()).unwrap();
        let mut bulk = engine.bulk(100);
        bulk.push(|| ()).writes(&[&a]).spawn().unwrap();
        let error = bulk.flush().unwrap_err();
        assert!(matches!(error.without_place(), Error::Released { .. }), "{error}");
        bulk.flush().unwrap();
        bulk.push(|| ()).writes(&[&a]).spawn().unwrap();
        engine.push(|| ()).writes(&[&b]).spawn().unwrap();
        let error = engine.wait_all().unwrap_err();
        assert!(error.to_string().contains("a bulk scope held it"), "{error}");
        bulk.push(|| ()).writes(&[&a]).spawn().unwrap();
        drop(bulk);
        assert!(engine.wait_all().is_err(), "{driver:?}");
    }
}

/// A scope has no end without a machine: its functions are dropped.
#[test]
fn a_scope_of_a_closed_machine_drops_its_functions() {
    let machine = threaded();
    let engine = machine.dependency_engine().unwrap();
    let (log, held) = (Log::new(), std::sync::Arc::new(()));
    let mut bulk = engine.bulk(100);
    bulk.push(log.note("before")).spawn().unwrap();
    machine.shutdown(std::time::Duration::from_secs(60));
    let kept = held.clone();
    let error = bulk.push(move || drop(kept)).spawn().unwrap_err();
    assert_eq!(*error.without_place(), Error::Closed);
    assert_eq!(std::sync::Arc::strong_count(&held), 1);
    drop(bulk);
    assert_eq!(log.take(), ["before"]);
}

/// The pending functions are few: a push into a scope waits for room as every push does.
#[test]
fn a_scope_waits_for_room() {
    let config = MachineConfig::default().host_workers(1).watermark(2);
    let engine = millstream_vm::Machine::new(config).unwrap().dependency_engine().unwrap();
    let (a, log) = (engine.var().unwrap(), Log::new());
    let mut bulk = engine.bulk(2);
    for k in 0..100 {
        bulk.push(log.note(k)).writes(&[&a]).spawn().unwrap();
    }
    drop(bulk);
    engine.wait_for(&a).unwrap();
    assert_eq!(log.take(), (0..100).collect::<Vec<_>>());
}
