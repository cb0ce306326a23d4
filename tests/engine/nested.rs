//! Pushes from within pushed functions.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_types::{DeviceId, Error};
use millstream_vm::{
    Cancellation, DependencyEngine, DriverKind, Machine, MachineConfig, Prop, Simulation, Var,
};

use crate::{Log, machine};

const DRIVERS: [DriverKind; 3] = [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated];

/// What a function pushes comes after it where the two conflict, and after what was pushed before.
#[test]
fn a_function_may_push() {
    for driver in DRIVERS {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, b, log) = (engine.var().unwrap(), engine.var().unwrap(), Log::new());
        let (inner, var, of) = (engine.clone(), a.clone(), log.clone());
        let outer = move || {
            inner.push(of.note("pushed by outer")).writes(&[&var]).spawn().unwrap();
            let noted = of.clone();
            let operator = inner.operator(move || noted.note("operator")()).writes(&[&var]);
            operator.push().unwrap();
            let mut bulk = inner.bulk(4);
            bulk.push(of.note("bulk")).writes(&[&var]).spawn().unwrap();
            bulk.flush().unwrap();
            of.note("outer")();
        };
        engine.push(outer).writes(&[&a, &b]).spawn().unwrap();
        engine.wait_for(&b).unwrap();
        engine.push(log.note("after")).writes(&[&a]).spawn().unwrap();
        engine.wait_for(&a).unwrap();
        let order = ["outer", "pushed by outer", "operator", "bulk", "after"];
        assert_eq!(log.take(), order, "{driver:?}");
    }
}

/// Pushes itself until `left` is 0.
fn count_down(engine: &DependencyEngine, var: &Var, left: u32, runs: &Arc<AtomicU32>) {
    let (inner, again, runs) = (engine.clone(), var.clone(), runs.clone());
    let step = move || {
        runs.fetch_add(1, Ordering::Relaxed);
        if left > 1 {
            count_down(&inner, &again, left - 1, &runs);
        }
    };
    engine.push(step).writes(&[var]).spawn().unwrap();
}

/// A wait for everything waits for what functions push, however deep; the stack does not grow.
#[test]
fn a_wait_for_everything_includes_pushes_of_functions() {
    for driver in DRIVERS {
        let machine = machine(driver);
        let engine = machine.dependency_engine().unwrap();
        let (a, runs) = (engine.var().unwrap(), Arc::default());
        count_down(&engine, &a, 20_000, &runs);
        engine.wait_all().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 20_000, "{driver:?}");
        count_down(&engine, &a, 100, &runs);
        machine.synchronize().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 20_100, "{driver:?}");
    }
}

/// A push from within does not wait for room, which its own function may be needed for.
#[test]
fn pushes_of_functions_do_not_wait_for_room() {
    for driver in DRIVERS {
        let config = MachineConfig::default().driver(driver).host_workers(1).watermark(4);
        let engine = Machine::new(config).unwrap().dependency_engine().unwrap();
        let (a, runs) = (engine.var().unwrap(), Arc::new(AtomicU32::new(0)));
        let (inner, var, count) = (engine.clone(), a.clone(), runs.clone());
        let outer = move || {
            for _ in 0..100 {
                let count = count.clone();
                let one = move || {
                    count.fetch_add(1, Ordering::Relaxed);
                };
                inner.push(one).writes(&[&var]).spawn().unwrap();
            }
        };
        engine.push(outer).writes(&[&a]).spawn().unwrap();
        engine.wait_all().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 100, "{driver:?}");
    }
}

/// A function that completes later may be completed by a function that it pushes; not on the naive
/// engine, where the next function runs once it has completed.
#[test]
fn a_completion_may_depend_on_a_push_from_within() {
    for driver in [DriverKind::Threaded, DriverKind::Simulated] {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
        let (inner, other) = (engine.clone(), b.clone());
        let outer = move |done: millstream_vm::OnComplete| {
            inner.push(|| done.complete()).writes(&[&other]).spawn()
        };
        engine.push_async(outer).writes(&[&a]).spawn().unwrap();
        engine.wait_for(&a).unwrap();
    }
}

/// Variables end after what functions push, and a late push of an ended variable is a failure.
#[test]
fn functions_may_delete_variables() {
    for driver in DRIVERS {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, b, log) = (engine.var().unwrap(), engine.var().unwrap(), Log::new());
        let (inner, var, of) = (engine.clone(), a.clone(), log.clone());
        let outer = move || {
            inner.push(of.note("last use")).reads(&[&var]).spawn().unwrap();
            inner.delete(&var, of.note("deleted")).unwrap();
            // With threads the push is refused at once, otherwise when it is emitted.
            inner.push(of.note("too late")).writes(&[&var]).name("late").spawn()
        };
        engine.push(outer).writes(&[&b]).spawn().unwrap();
        let error = engine.wait_all().unwrap_err();
        assert!(matches!(error.without_place(), Error::Failed(_)), "{driver:?}: {error}");
        engine.wait_all().unwrap();
        assert_eq!(log.take(), ["last use", "deleted"], "{driver:?}");
    }
}

/// The streams of copies are found from within, too, and an own stream is not needed for that.
#[test]
fn functions_may_push_copies() {
    for driver in DRIVERS {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, log) = (engine.var().unwrap(), Log::new());
        let (inner, var, of) = (engine.clone(), a.clone(), log.clone());
        let outer = move || {
            let copy = Prop::CopyToDevice(DeviceId::cpu(0));
            inner.push(of.note("copy")).writes(&[&var]).prop(copy).spawn().unwrap();
        };
        engine.push(outer).writes(&[&a]).spawn().unwrap();
        engine.wait_all().unwrap();
        assert_eq!(log.take(), ["copy"], "{driver:?}");
    }
}

/// A function's pushes belong to the scopes that it enters, and not to those of its pusher.
#[test]
fn scopes_are_those_of_the_function() {
    for driver in DRIVERS {
        let engine = machine(driver).dependency_engine().unwrap();
        let (a, log) = (engine.var().unwrap(), Log::new());
        let (outer, own) = (Cancellation::new(), Cancellation::new());
        let (inner, var, of, late) = (engine.clone(), a.clone(), log.clone(), outer.clone());
        let function = move || {
            late.cancel();
            inner.push(of.note("kept")).writes(&[&var]).spawn().unwrap();
            own.scope(|| inner.push(of.note("dropped")).writes(&[&var]).spawn()).unwrap();
            own.cancel();
        };
        outer.scope(|| engine.push(function).writes(&[&a]).spawn()).unwrap();
        let _cancelled = engine.wait_all();
        assert_eq!(log.take(), ["kept"], "{driver:?}");
    }
}

/// Two functions that push one each, under many schedules: all orders that variables allow.
#[test]
fn schedules_include_pushes_of_functions() {
    let run = |seed| {
        let simulation = Simulation { seed, ..Simulation::default() };
        let config = MachineConfig::default().driver(DriverKind::Simulated).simulation(simulation);
        let engine = Machine::new(config).unwrap().dependency_engine().unwrap();
        let (a, b, log) = (engine.var().unwrap(), engine.var().unwrap(), Log::new());
        for (var, names) in [(&a, ["a1", "a2"]), (&b, ["b1", "b2"])] {
            let (inner, own, of) = (engine.clone(), var.clone(), log.clone());
            let first = move || {
                of.note(names[0])();
                inner.push(of.note(names[1])).writes(&[&own]).spawn().unwrap();
            };
            engine.push(first).writes(&[var]).spawn().unwrap();
        }
        engine.wait_all().unwrap();
        log.take()
    };
    let mut orders = HashSet::new();
    for seed in 0..200 {
        let order = run(seed);
        assert_eq!(run(seed), order, "the seed determines the schedule");
        let at = |name| order.iter().position(|noted| *noted == name).unwrap();
        assert!(order.len() == 4 && at("a1") < at("a2") && at("b1") < at("b2"), "{order:?}");
        orders.insert(order);
    }
    assert_eq!(orders.len(), 6, "{orders:?}");
}
