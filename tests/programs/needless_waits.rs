//! What the verifier says of waits, by the simulator's lights: a list without a wait that it calls
//! needless gives what the whole list gives, whatever the schedule; without one that it calls needed,
//! some schedule mostly gives something else.

use std::sync::Arc;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::sim::{Completion, SimBackend, SimConfig};
use millstream::instructions::text::print_list;
use millstream::instructions::{Body, CheckedList};
use millstream::*;
use millstream_explore::simulate::{random_options, random_program};
use millstream_runner::{RunOptions, lists};
use millstream_verify::{Reason, verify};

/// What every external and every read of a list holds at its end.
type Outcome = Vec<Result<Vec<u8>>>;

/// Runs a list on a machine of its own: inline, or as the seed chooses.
fn run(list: &InstructionList, options: &RunOptions, seed: Option<u64>) -> Outcome {
    let completion = if seed.is_some() { Completion::ByHand } else { Completion::IssueOrder };
    let sim = SimBackend::new(SimConfig { completion, ..SimConfig::default() });
    let control = sim.control();
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    devices.register(Arc::new(sim));
    let (ops, kernels) = ((*options.ops).clone(), (*options.kernels).clone());
    let machine = Machine::new(
        MachineConfig::of(ops, kernels, Arc::new(devices))
            .driver(if seed.is_some() { DriverKind::Simulated } else { DriverKind::Inline })
            .simulation(Simulation {
                seed: seed.unwrap_or(0),
                devices: Some(control),
                ..Simulation::default()
            })
            .host_workers(3)
            .threads(1),
    )
    .unwrap();
    let bound: Vec<Tensor> = (1..)
        .zip(&list.externals)
        .map(|(k, external)| {
            let device = &list.arenas[external.arena.index()];
            let stream = machine.compute(device, 0).unwrap();
            let value = |e: usize| (k * 10 + e as i64).to_ne_bytes();
            let values = (0..external.spec.numel()).map(value).collect::<Vec<_>>().concat();
            machine.upload(&stream, external.spec.clone(), values).unwrap()
        })
        .collect();
    // SAFETY: one thread runs all commands of the machine, one after the other, so an order that is
    // missing gives wrong numbers and no data race; the rest is as the builder made it.
    let checked = unsafe { CheckedList::assume_checked(list.clone()) };
    let job = machine.store_checked(&checked, bound.clone()).unwrap();
    let launched = job.launch().unwrap().wait();
    let mut outcome: Outcome = list
        .instructions
        .iter()
        .filter_map(|i| match &i.body {
            Body::SyncRead { into, .. } => Some(job.take_read(*into).unwrap().unwrap()),
            _ => None,
        })
        .collect();
    outcome.extend(bound.iter().map(Tensor::read));
    outcome.push(launched.map(|()| Vec::new()));
    outcome
}

/// The lists of random programs, each with what it gives.
fn programs(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (InstructionList, RunOptions)> {
    let base = RunOptions { driver: DriverKind::Inline, ..RunOptions::default() };
    let options = random_options(&base);
    seeds.map(move |seed| {
        // OneFlow's rule waits more often than it has to.
        let sync = [SyncPolicy::Frontier, SyncPolicy::LastUsedStream][seed as usize % 2];
        let options = RunOptions { sync, ..options.clone() };
        let program = random_program(seed).unwrap();
        let list = lists(&program, &options).unwrap().remove(0).list;
        (list, options)
    })
}

fn without(list: &InstructionList, index: usize) -> InstructionList {
    let mut fewer = list.clone();
    fewer.instructions.remove(index);
    fewer
}

#[test]
fn no_schedule_misses_a_needless_wait() {
    let (mut waits, mut together) = (0, 0);
    for (list, options) in programs(0..150) {
        let verdict = verify(&list);
        let whole = run(&list, &options, None);
        let check = |fewer: &InstructionList, seeds: u64, what: &str| {
            for seed in 0..seeds {
                let outcome = run(fewer, &options, Some(seed));
                assert_eq!(outcome, whole, "{what}, seed {seed}\n{}", print_list(&list));
            }
        };
        for wait in verdict.waits.iter().filter(|w| !w.needed) {
            waits += 1;
            let what = format!("without [{}]: {}", wait.index, wait.reason);
            check(&without(&list, wait.index), 8, &what);
        }
        // One after the other, as long as one is needless with the others gone.
        let mut least = list.clone();
        while let Some(wait) = verify(&least).waits.iter().find(|w| !w.needed) {
            least = without(&least, wait.index);
            together += 1;
        }
        check(&least, 16, "without all that is needless");
    }
    println!("{waits} needless waits, {together} together");
    assert!(waits > 100 && together > 100, "{waits} {together}");
}

/// The same schedules do show a wait that is missing, so the test above could fail. Not each one: what
/// is missing may be an order that no value depends on.
#[test]
fn some_schedule_misses_most_needed_waits() {
    let (mut needed, mut shown) = (0, 0);
    for (list, options) in programs(0..60) {
        let whole = run(&list, &options, None);
        let orders = |r: Reason| matches!(r, Reason::Orders { .. } | Reason::Frees { .. });
        for wait in verify(&list).waits.iter().filter(|w| w.needed && orders(w.reason)) {
            let fewer = without(&list, wait.index);
            needed += 1;
            let differs = |seed| run(&fewer, &options, Some(seed)) != whole;
            shown += usize::from((0..32).any(differs));
        }
    }
    println!("{needed} needed waits, {shown} shown");
    assert!(needed > 50 && shown * 2 > needed, "{shown} of {needed}");
}
