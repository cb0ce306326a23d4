//! Simulation: determinism, agreement with the inline driver, and mistakes that are found and
//! shrunk.

use std::sync::Arc;

use millstream::{DType, TensorSpec};
use millstream::{DeviceId, DriverKind, Error, Machine, MachineConfig, Protection, Simulation};
use millstream_explore::simulate::{Finding, Simulator, random_options, shrink, sweep};
use millstream_runner::{RunOptions, Steps, run};
use millstream_testing::cases;
use millstream_trace::{Program, write};

use super::files::{example, folder, parse};

fn on_sim() -> RunOptions {
    RunOptions::default().device(DeviceId::sim(0))
}

#[test]
fn a_seed_gives_the_same_log_every_time() {
    let simulator = Simulator::new(example("diamond.json"), &on_sim(), true).unwrap();
    let once = simulator.seed(7, true).unwrap().schedule.unwrap();
    let again = simulator.seed(7, true).unwrap().schedule.unwrap();
    assert_eq!(once, again);
    assert_eq!(simulator.seed(7, false).unwrap().schedule.unwrap().hash, once.hash);
    assert_ne!(simulator.seed(8, false).unwrap().schedule.unwrap().hash, once.hash);
    let steps = once.log.unwrap().lines().filter(|l| !l.starts_with(' ')).count();
    assert_eq!(once.steps, steps as u64);
}

/// The log is the same on every computer and in every build. The hash changes only when the
/// machine's steps change, or their form in the log.
#[test]
fn a_log_is_the_same_everywhere() {
    let program = parse(
        r#"{ "millstream": 1, "streams": { "a": {}, "b": {} },
             "tensors": { "x": { "dtype": "i64", "values": [1, 2] } },
             "program": [
               { "op": "add", "in": ["x", "x"], "out": "y", "stream": "a" },
               { "op": "relu", "in": "y", "out": "z", "stream": "b" } ],
             "outputs": { "z": { "values": [2, 4] } } }"#,
    );
    let simulator = Simulator::new(program, &on_sim(), true).unwrap();
    let schedule = simulator.seed(2, true).unwrap().schedule.unwrap();
    let log = schedule.log.unwrap();
    let wanted = "3f530030a7a9c3ceb545cde32945114ed0e8455643533943da9be4fdbbe6c469";
    assert_eq!(
        blake3::hash(log.as_bytes()).to_hex().as_str(),
        schedule.hash,
        "the hash is not the log's"
    );
    assert_eq!((schedule.steps, &*schedule.hash), (29, wanted), "{log}");
}

#[test]
fn examples_give_the_inline_results_under_every_seed() {
    let mut names: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    names.sort();
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        for device in [DeviceId::sim(0), DeviceId::cpu(0)] {
            let options = RunOptions::default().device(device).in_turn(3);
            let simulator = Simulator::new(example(&name), &options, true).unwrap();
            for seed in 0..20 {
                let finding = simulator.seed(seed, false).unwrap().finding;
                assert_eq!(finding, None, "{name}, seed {seed}");
            }
        }
    }
}

#[test]
fn random_programs_give_the_inline_results() {
    let options = random_options(&RunOptions::default());
    let trial = |seed| Simulator::random(seed, &options, true)?.seed(seed, false);
    let seeds = cases(300, 1000);
    let two = sweep(0..seeds, 2, trial, || ()).unwrap();
    assert_eq!(two.found, None);
    assert_eq!(two.seeds, seeds);
    let one = sweep(0..seeds, 1, trial, || ()).unwrap();
    assert_eq!(
        (one.hash, one.steps),
        (two.hash, two.steps),
        "the result depends on the number of threads"
    );
}

/// A program that is compiled and launched gives what it gives instruction by instruction, under
/// every schedule of its tapes.
#[test]
fn random_programs_give_the_inline_results_when_replayed() {
    let options = random_options(&RunOptions::default()).replay(true).repeat(2);
    let trial = |seed| Simulator::random(seed, &options, true)?.seed(seed, false);
    let seeds = cases(200, 600);
    let swept = sweep(0..seeds, 2, trial, || ()).unwrap();
    assert_eq!((swept.found, swept.seeds), (None, seeds));
}

/// Every possible order of completion of two streams occurs.
#[test]
fn streams_overtake_each_other() {
    let program = parse(
        r#"{ "millstream": 1, "streams": { "a": {}, "b": {} },
             "tensors": { "x": { "dtype": "i64", "values": [1] } },
             "program": [
               { "op": "add", "in": ["x", "x"], "out": "y", "stream": "a" },
               { "op": "mul", "in": ["x", "x"], "out": "z", "stream": "b" } ],
             "outputs": { "y": {}, "z": {} } }"#,
    );
    let simulator = Simulator::new(program, &on_sim(), true).unwrap();
    let (mut first, mut second) = (0, 0);
    for seed in 0..200 {
        let log = simulator.seed(seed, true).unwrap().schedule.unwrap().log.unwrap();
        let at = |entry: &str| log.find(entry).unwrap_or_else(|| panic!("no {entry} in\n{log}"));
        if at("s0 completed") < at("s1 completed") { first += 1 } else { second += 1 }
    }
    assert!(first > 5 && second > 5, "{first} and {second}");
}

fn check_found_and_shrunk(program: Arc<Program>, protection: Protection, options: &RunOptions) {
    let options = options.clone().machine(|config| config.protection(protection));
    let simulator = Simulator::new(program.clone(), &options, false).unwrap();
    let tried = sweep(0..500, 1, |seed| simulator.seed(seed, false), || ()).unwrap();
    let (seed, finding) = tried.found.expect("the mistake shows within 500 seeds");
    assert!(matches!(finding, Finding::Differs(_)), "{finding:?}");
    let small = shrink(program.clone(), &options, false, seed, finding.clone());
    assert!(small.finding.is_like(&finding));
    // The written trace alone repeats it.
    let text = write(&small.program).unwrap();
    let again = Simulator::new(parse(&text), &options, false).unwrap();
    let found = again.seed(small.seed, false).unwrap().finding;
    assert_eq!(found, Some(small.finding.clone()), "{text}");
    let lines = text.lines().filter(|l| l.contains("\"op\"") || l.contains("\"release\"")).count();
    assert!(lines <= 4, "not small:\n{text}");
    // With protection the small program is right under every seed.
    let right = options.machine(|config| config.protection(Protection::default()));
    let right = Simulator::new(parse(&text), &right, true).unwrap();
    for seed in 0..100 {
        assert_eq!(right.seed(seed, false).unwrap().finding, None, "{text}");
    }
}

#[test]
fn a_missing_wait_is_found_and_shrunk() {
    // SAFETY: all commands run on this thread, one after the other.
    let protection = unsafe { Protection::default().without_waits() };
    check_found_and_shrunk(example("diamond.json"), protection, &on_sim());
    check_found_and_shrunk(example("event-reuse.json"), protection, &on_sim());
}

#[test]
fn memory_reused_too_early_is_found_and_shrunk() {
    // SAFETY: all commands run on this thread, one after the other.
    let protection = unsafe { Protection::default().without_memory() };
    let program = parse(
        r#"{ "millstream": 1, "streams": { "a": {}, "b": {} },
             "tensors": { "x": { "dtype": "i64", "values": [1, 2] } },
             "program": [
               { "op": "add", "in": ["x", "x"], "out": "t", "stream": "a" },
               { "op": "relu", "in": "x", "out": "n", "stream": "b" },
               { "op": "mul", "in": ["t", "t"], "out": "y", "stream": "b" },
               { "release": "t" },
               { "op": "sub", "in": ["x", "x"], "out": "z", "stream": "a" } ],
             "outputs": { "y": {}, "z": {}, "n": {} } }"#,
    );
    check_found_and_shrunk(program, protection, &on_sim());
}

/// A wait that nothing can end is an error with the state of every stream, and does not hang.
#[test]
fn a_stuck_machine_is_an_error() {
    use millstream::ep::{Registry, cpu::CpuBackend, sim::*};
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    let config = SimConfig { completion: Completion::ByHand, ..SimConfig::default() };
    devices.register(Arc::new(SimBackend::new(config)));
    // The driver does not get the devices, so their commands never run.
    let config = MachineConfig::default()
        .driver(DriverKind::Simulated)
        .simulation(Simulation { seed: 3, ..Simulation::default() })
        .devices(Arc::new(devices))
        .threads(1);
    let machine = Machine::new(config).unwrap();
    let stream = machine.compute(&DeviceId::sim(0), 0).unwrap();
    let spec = TensorSpec::contiguous(DType::I64, &[2]).unwrap();
    let x = machine.empty(&stream, spec).unwrap();
    machine.call("relu", &[&x]).on(&stream).unwrap();
    let error = stream.synchronize().unwrap_err();
    let Error::Stuck { what, state } = error.without_place() else { panic!("{error}") };
    assert_eq!(what, "s0:1");
    assert_eq!(state, "s0 (sim:0 compute 0): 0 completed, 1 is on the device\n");
    let limited = stream.synchronize_for(std::time::Duration::from_secs(1)).unwrap_err();
    assert!(matches!(limited.without_place(), Error::Timeout { .. }), "{limited}");
}

/// Queries let a simulated machine progress.
#[test]
fn a_program_that_only_queries_completes() {
    for seed in 0..20 {
        let config = MachineConfig::default()
            .driver(DriverKind::Simulated)
            .simulation(Simulation { seed, ..Simulation::default() })
            .threads(1);
        let machine = Machine::new(config).unwrap();
        let stream = machine.compute(&DeviceId::cpu(0), 0).unwrap();
        let spec = TensorSpec::contiguous(DType::I64, &[1]).unwrap();
        let x = machine.upload(&stream, spec, 5i64.to_ne_bytes().to_vec()).unwrap();
        let y = machine.call("add", &[&x, &x]).on(&stream).unwrap().remove(0);
        let mut queries = 0;
        while !stream.query().unwrap() {
            queries += 1;
            assert!(queries < 10_000);
        }
        assert_eq!(y.read().unwrap(), 10i64.to_ne_bytes());
        assert_eq!(machine.helper_threads(), (0, 0));
        assert_eq!(machine.worker_threads().unwrap(), 0);
    }
}

/// Every run gives the same list, and so the same certificate.
#[test]
fn a_certificate_does_not_depend_on_the_run() {
    let mut seen = Vec::new();
    for name in ["diamond.json", "views.json", "release.json", "executable.json"] {
        let program = example(name);
        let base = on_sim().emit(true);
        let mut all = Vec::new();
        for driver in [DriverKind::Inline, DriverKind::Threaded, DriverKind::Simulated] {
            for (threads, repeat) in [(1, 1), (3, 2)] {
                for seed in 0..5 {
                    let simulation = Steps { seed, ..Steps::default() };
                    let options = base.clone().threads(threads).repeat(repeat);
                    let options = options.simulation(simulation).machine(|m| m.driver(driver));
                    all.push(run(program.clone(), &options).unwrap().certificate().unwrap());
                }
            }
        }
        all.dedup();
        assert_eq!(all.len(), 1, "{name}: {all:?}");
        seen.extend(all);
    }
    seen.dedup();
    assert_eq!(seen.len(), 4, "programs that differ have certificates that differ");
}

/// A written trace is read back as a program with the same behaviour.
#[test]
fn written_traces_behave_like_the_program() {
    for name in [
        "diamond.json",
        "views.json",
        "sidecar.json",
        "dtypes.json",
        "executable.json",
        "executable_scalars.json",
        "launch-bound.json",
        "critical-section.json",
        "event-reuse.json",
        "wait-back.json",
        "release.json",
    ] {
        let program = example(name);
        let text = write(&program).unwrap();
        let options = on_sim().emit(true);
        let (first, second) =
            (run(program, &options).unwrap(), run(parse(&text), &options).unwrap());
        let bytes = |r: &millstream_runner::RunReport| -> Vec<Vec<u8>> {
            r.outputs.iter().map(|o| o.bytes.clone()).collect()
        };
        assert_eq!(bytes(&first), bytes(&second), "{name}\n{text}");
        assert_eq!(first.certificate(), second.certificate(), "{name}\n{text}");
    }
}

/// After any fault, every output that depends on it is missing and every other output is right.
#[test]
fn a_fault_affects_only_dependent_data() {
    let options = random_options(&RunOptions::default());
    let trial = |seed| Simulator::random(seed, &options, true)?.seed_with_fault(seed, false);
    assert_eq!(sweep(0..cases(600, 2000), 2, trial, || ()).unwrap().found, None);
    for name in ["diamond.json", "sim-pipeline.json", "event-reuse.json"] {
        let simulator = Simulator::new(example(name), &on_sim(), true).unwrap();
        let trial = |seed| simulator.seed_with_fault(seed, false);
        assert_eq!(sweep(0..cases(60, 200), 2, trial, || ()).unwrap().found, None, "{name}");
    }
}
