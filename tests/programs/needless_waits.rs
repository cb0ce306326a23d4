//! Compares the verifier's opinion of waits with simulated runs. Without a wait that the verifier
//! calls needless, a list gives the same results under every schedule. Without a needed wait, some
//! schedule mostly gives other results.

use std::sync::Arc;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::sim::{Completion, SimBackend, SimConfig};
use millstream::instructions::text::print_list;
use millstream::instructions::{Body, CheckedList};
use millstream::*;
use millstream_explore::simulate::{random_options, random_program};
use millstream_runner::{RunOptions, lists};
use millstream_testing::cases;
use millstream_verify::{Reason, verify};

/// The contents of every external and every read at the end of a list.
type Outcome = Vec<Result<Vec<u8>>>;

/// Runs a list on a machine of its own: inline, or by a schedule that the seed chooses.
fn run(list: &InstructionList, options: &RunOptions, seed: Option<u64>) -> Outcome {
    let completion = if seed.is_some() { Completion::ByHand } else { Completion::IssueOrder };
    let sim = SimBackend::new(SimConfig { completion, ..SimConfig::default() });
    let control = sim.control();
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    devices.register(Arc::new(sim));
    let (ops, kernels) = (options.machine.ops.clone(), options.machine.kernels.clone());
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
    // SAFETY: one thread runs all commands of the machine, one after another. So a missing order
    // gives wrong numbers and no data race. Everything else is as the builder made it.
    let checked = unsafe { CheckedList::assume_checked(list.clone()) };
    let compiled = machine.compile(&checked).unwrap();
    let names = list.externals.iter().map(|external| &external.name);
    let launch = names.zip(&bound).fold(compiled.launch(), |launch, (k, x)| launch.input(k, x));
    let launched = launch.run().unwrap();
    let waited = launched.wait();
    let mut outcome: Outcome = list
        .instructions
        .iter()
        .filter_map(|i| match &i.body {
            Body::SyncRead { into, .. } => Some(launched.take_read(*into).map(Option::unwrap)),
            _ => None,
        })
        .collect();
    outcome.extend(bound.iter().map(Tensor::read));
    outcome.push(waited.map(|()| Vec::new()));
    outcome
}

/// Returns the lists of random programs, each with its options.
fn programs(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (InstructionList, RunOptions)> {
    let base = RunOptions::default().machine(|config| config.driver(DriverKind::Inline));
    let options = random_options(&base);
    seeds.map(move |seed| {
        // OneFlow's rule emits needless waits.
        let sync = [SyncPolicy::Frontier, SyncPolicy::LastUsedStream][seed as usize % 2];
        let options = options.clone().machine(|config| config.sync(sync));
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

/// Long because each list runs under eight seeds for each of its needless waits.
#[test]
fn lists_without_a_needless_wait_give_the_same_results() {
    let (mut waits, mut together) = (0, 0);
    for (list, options) in programs(0..cases(50, 150)) {
        let verdict = verify(&list);
        let whole = run(&list, &options, None);
        let check = |fewer: &InstructionList, seeds: u64, label: &str| {
            for seed in 0..seeds {
                let outcome = run(fewer, &options, Some(seed));
                assert_eq!(outcome, whole, "{label}, seed {seed}\n{}", print_list(&list));
            }
        };
        for wait in verdict.waits.iter().filter(|w| !w.needed) {
            waits += 1;
            let label = format!("without [{}]: {}", wait.index, wait.reason);
            check(&without(&list, wait.index), 8, &label);
        }
        // Removes one needless wait after another, until no needless wait is left.
        let mut least = list.clone();
        while let Some(wait) = verify(&least).waits.iter().find(|w| !w.needed) {
            least = without(&least, wait.index);
            together += 1;
        }
        check(&least, 16, "without any needless wait");
    }
    println!("{waits} needless waits, {together} together");
    let least = cases(30, 100);
    assert!(waits > least && together > least, "{waits} {together}");
}

/// The same schedules detect a missing needed wait, so the test above can fail. They do not detect
/// every one, because a missing order may affect no value.
#[test]
fn lists_without_a_needed_wait_mostly_give_other_results() {
    let (mut needed, mut detected) = (0, 0);
    for (list, options) in programs(0..60) {
        let whole = run(&list, &options, None);
        let orders = |r: Reason| matches!(r, Reason::Orders { .. } | Reason::Frees { .. });
        for wait in verify(&list).waits.iter().filter(|w| w.needed && orders(w.reason)) {
            let fewer = without(&list, wait.index);
            needed += 1;
            let differs = |seed| run(&fewer, &options, Some(seed)) != whole;
            detected += usize::from((0..32).any(differs));
        }
    }
    println!("{needed} needed waits, {detected} detected");
    assert!(needed > 50 && detected * 2 > needed, "{detected} of {needed}");
}
