//! Simulated schedules: functions are steps.

use std::collections::HashSet;

use millstream_vm::{DriverKind, Machine, MachineConfig, Simulation};

use crate::Log;

/// Runs two chains and a reader of both. Returns the order, and the log of the schedule.
fn run(seed: u64) -> (Vec<&'static str>, u64) {
    let simulation = Simulation { seed, keep_log: true, ..Simulation::default() };
    let config = MachineConfig::default().driver(DriverKind::Simulated).simulation(simulation);
    let machine = Machine::new(config).unwrap();
    let engine = machine.dependency_engine().unwrap();
    let (a, b, log) = (engine.var().unwrap(), engine.var().unwrap(), Log::new());
    engine.push(log.note("a1")).writes(&[&a]).spawn().unwrap();
    engine.push(log.note("b1")).writes(&[&b]).spawn().unwrap();
    engine.push(log.note("a2")).writes(&[&a]).spawn().unwrap();
    engine.push(log.note("b2")).writes(&[&b]).spawn().unwrap();
    engine.push(log.note("both")).reads(&[&a, &b]).spawn().unwrap();
    engine.wait_all().unwrap();
    (log.take(), machine.schedule().unwrap().unwrap().steps)
}

#[test]
fn every_order_is_one_that_the_variables_allow() {
    let mut orders = HashSet::new();
    for seed in 0..200 {
        let (order, steps) = run(seed);
        let at = |name| order.iter().position(|noted| *noted == name).unwrap();
        assert!(at("a1") < at("a2") && at("b1") < at("b2") && at("both") == 4, "{order:?}");
        assert_eq!(run(seed), (order.clone(), steps), "the seed determines the schedule");
        orders.insert(order);
    }
    // Of two chains of two there are six orders.
    assert_eq!(orders.len(), 6, "{orders:?}");
}
