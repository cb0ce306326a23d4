//! Random programs as executables: recorded once, compiled with any passes, and launched several
//! times among eager calls, they give the bits of the same calls made one by one, or the same
//! poison; so they do on devices that fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream::ep::cpu::CpuBackend;
use millstream::ep::faults::{Fault, FaultPlan, FaultyBackend};
use millstream::ep::sim::{Completion, SimBackend, SimConfig};
use millstream::ep::{Backend, Registry};
use millstream::instructions::passes::Pass;
use millstream::types::StreamType;
use millstream::*;
use proptest::prelude::*;
use proptest::sample::select;

use millstream_testing::machine::{add_op, bytes};

use crate::body::{Eager, Held, Recording, SECOND, Step, formal, origin_of, run, step_of};

/// A program: a body that runs several times, and the calls between.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    /// The compute streams of the body, and which of them are pools.
    pub(crate) streams: usize,
    pub(crate) pools: u8,
    pub(crate) runs: usize,
    /// Whether the body is on a simulated device.
    pub(crate) on_sim: bool,
    /// Whether an input of each run is a result of the one before.
    pub(crate) chained: bool,
}

/// How its body is launched.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) driver: DriverKind,
    pub(crate) seed: u64,
    pub(crate) passes: Vec<Pass>,
    pub(crate) instances: usize,
    /// The streams that launches take in turns.
    pub(crate) launchers: usize,
    /// Whether a simulated device waits for events by itself.
    pub(crate) direct_waits: bool,
    /// The most private memory, in units of 512 bytes; as much as is needed if no plan keeps it.
    pub(crate) budget: Option<u64>,
}

/// The content of a tensor, or the step whose failure has poisoned it.
pub(crate) type Content = Result<Vec<u8>, (usize, usize)>;

/// The results of a program.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    /// The content of the parameter, and of the inputs and outputs of each run.
    pub(crate) tensors: Vec<Content>,
    /// The steps that failed.
    pub(crate) failed: BTreeSet<(usize, usize)>,
}

/// The number of the first call before a run, as a step of the run.
const BEFORE: usize = 900;

/// Returns a number that grows with the order of a step's call in the program.
fn order((run, step): (usize, usize)) -> (usize, usize, usize) {
    if step >= BEFORE { (run, 0, step) } else { (run, 1 + step % SECOND, step) }
}

pub(crate) fn device(program: &Program) -> DeviceId {
    if program.on_sim { DeviceId::sim(0) } else { DeviceId::cpu(0) }
}

pub(crate) fn open(way: &Way, plan: Option<&FaultPlan>) -> Machine {
    let by_hand = way.driver == DriverKind::Simulated;
    let completion = if by_hand { Completion::ByHand } else { Completion::IssueOrder };
    let direct_waits = way.direct_waits;
    let sim = SimBackend::new(SimConfig { completion, direct_waits, ..SimConfig::default() });
    let control = sim.control();
    let devices = Registry::new();
    for backend in [Arc::new(CpuBackend::new()) as Arc<dyn Backend>, Arc::new(sim)] {
        devices.register(match plan {
            Some(plan) => Arc::new(FaultyBackend::new(backend, plan.clone())),
            None => backend,
        });
    }
    let simulation = Simulation { seed: way.seed, devices: Some(control), ..Simulation::default() };
    let mut config = MachineConfig::default()
        .devices(Arc::new(devices))
        .driver(way.driver)
        .simulation(simulation)
        .host_workers(3)
        .threads(1);
    add_op(&mut config, "fail", |_| anyhow::bail!("broken on purpose"));
    Machine::new(config).unwrap()
}

/// Makes one run: its inputs, its number, and the tensors that it makes.
pub(crate) type Body<'a> = Box<dyn FnMut([&Tensor; 2], usize) -> Vec<Tensor> + 'a>;

/// Runs a program, whose body is prepared for its parameter.
pub(crate) fn outcome<'a>(
    machine: &'a Machine,
    program: &'a Program,
    plan: Option<&FaultPlan>,
    prepare: impl FnOnce(&Tensor) -> Body<'a>,
) -> Outcome {
    let between = machine.compute(&device(program), 0).unwrap();
    let upload = |k: usize, at: usize| {
        let values = [k as f32, 3.0 - at as f32, -(k as f32) * 0.5, 2.0];
        machine.upload(&between, formal(), bytes(&values)).unwrap()
    };
    let w = upload(1, 0);
    let inputs: Vec<Tensor> = (0..2 * program.runs).map(|k| upload(k, 1 + k % 2)).collect();
    machine.synchronize().unwrap();
    let mut body = prepare(&w);
    plan.inspect(|plan| plan.resume());
    let mut all = vec![w.clone()];
    let mut last: Option<Tensor> = None;
    for k in 0..program.runs {
        let (x, y) = (&inputs[2 * k], &inputs[2 * k + 1]);
        if let Some(result) = &last {
            for (to, at) in [(y, BEFORE), (&w, BEFORE + 1)] {
                let call = machine.call("add_", &[to, result]).origin(origin_of(k, at));
                call.on(&between).unwrap();
            }
        }
        let made = body([x, y], k);
        let is_whole = |t: &&Tensor| t.spec().shape() == formal().shape();
        last = made.iter().find(is_whole).filter(|_| program.chained).cloned();
        all.extend([x.clone(), y.clone()].into_iter().chain(made));
    }
    drop(body);
    // Its error is that of a tensor below, or of a fault that loses no data.
    let _ = machine.synchronize();
    plan.inspect(|plan| plan.disarm());
    let (failures, count) = machine.failures();
    assert_eq!(failures.len() as u64, count.min(64));
    let content = |tensor: &Tensor| {
        let read = with_origin(&origin_of(99, 0), || tensor.read());
        read.map_err(|error| step_of(error.failure().unwrap_or_else(|| panic!("{error}"))))
    };
    Outcome {
        tensors: all.iter().map(content).collect(),
        failed: failures.iter().map(|failure| step_of(failure)).collect(),
    }
}

/// Makes all calls one by one in program order.
fn eager(program: &Program, plan: Option<&FaultPlan>) -> Outcome {
    let machine = open(&Way::IN_ORDER, plan);
    let stream = |k| machine.compute(&device(program), k).unwrap();
    let streams: Vec<Stream> = (0..program.streams as u32).map(stream).collect();
    outcome(&machine, program, plan, |w| {
        let w = w.clone();
        let mut target = Eager { machine: &machine, streams };
        Box::new(move |[x, y], number| {
            let formals = [&w, x, y].map(|t| Held(t.clone()));
            let live = run(&mut target, &formals, &program.steps, program.streams, number);
            live.into_iter().map(|Held(tensor)| tensor).collect()
        })
    })
}

/// Records and compiles the body of a program for a parameter.
fn compiled(machine: &Machine, program: &Program, way: &Way, w: &Tensor) -> Executable {
    let on = device(program);
    let record = || {
        machine.record(|r| {
            let w = r.bind(w)?;
            let [x, y] = ["x", "y"].map(|name| r.input_on(name, formal(), &on).unwrap());
            let stream = |k: usize| {
                // Off the host a pool runs in the order of emission.
                let is_pool = !program.on_sim && program.pools >> k & 1 == 1;
                let mode = if is_pool { StreamMode::Pool } else { StreamMode::InOrder };
                r.stream_with_mode(&StreamKey::compute(on.clone(), k as u32), mode).unwrap()
            };
            let streams = (0..program.streams).map(stream).collect();
            let mut target = Recording { recorder: r, streams };
            let formals = [w, x, y];
            let live = run(&mut target, &formals, &program.steps, program.streams, 0);
            for (k, tensor) in live.iter().enumerate() {
                r.output(&format!("o{k}"), tensor)?;
            }
            Ok(())
        })
    };
    let budget = way.budget.map(|blocks| (on.clone(), 512 * blocks));
    let within = record().unwrap().remat(budget).optimize(&way.passes, |_, _| ());
    let better = within.unwrap_or_else(|error| {
        assert!(error.to_string().contains("invalid memory budget"), "{error}");
        record().unwrap().optimize(&way.passes, |_, _| ()).unwrap()
    });
    let step = better.compile_as_is().unwrap();
    step.set_instances(way.instances);
    step
}

/// Launches the body as an executable.
fn launched(program: &Program, way: &Way, plan: Option<&FaultPlan>) -> Outcome {
    let machine = open(way, plan);
    let launcher = |k| {
        let key = StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, k);
        machine.stream(&key).unwrap()
    };
    let on: Vec<Stream> = (0..way.launchers as u32).map(launcher).collect();
    outcome(&machine, program, plan, |w| {
        let step = compiled(&machine, program, way, w);
        Box::new(move |[x, y], number| {
            let launch = step.launch().input("x", x).input("y", y).on(&on[number % on.len()]);
            let launched = launch.origin(origin_of(number, 0)).run().unwrap();
            assert!(step.instances() <= way.instances);
            launched.outputs().to_vec()
        })
    })
}

impl Way {
    /// The driver that runs each call when it is made.
    pub(crate) const IN_ORDER: Way = Way {
        driver: DriverKind::Inline,
        seed: 0,
        passes: Vec::new(),
        instances: 1,
        launchers: 1,
        direct_waits: true,
        budget: None,
    };
}

fn programs() -> impl Strategy<Value = Program> {
    let steps = proptest::collection::vec(any::<Step>(), 1..25);
    let flags = (any::<u8>(), any::<bool>(), any::<bool>());
    (steps, 1usize..=4, 1usize..=4, flags).prop_map(|(steps, streams, runs, flags)| {
        let (pools, on_sim, chained) = flags;
        Program { steps, streams, pools, runs, on_sim, chained }
    })
}

pub(crate) fn ways() -> impl Strategy<Value = Way> {
    let driver = prop_oneof![
        6 => Just(DriverKind::Simulated),
        1 => Just(DriverKind::Inline),
        1 => Just(DriverKind::Threaded),
    ];
    let passes = proptest::collection::vec(select(Pass::ALL.to_vec()), 0..5);
    (driver, 0..64u64, passes, 1usize..=3, 1usize..=3, any::<bool>()).prop_map(
        |(driver, seed, passes, instances, launchers, direct_waits)| Way {
            driver,
            seed,
            passes,
            instances,
            launchers,
            direct_waits,
            budget: None,
        },
    )
}

/// Compares the results of launches with those of calls made one by one.
pub(crate) fn compare(way: &Way, got: &Outcome, expected: &Outcome) -> Result<(), TestCaseError> {
    prop_assert_eq!(got.tensors.len(), expected.tensors.len());
    let fuses = way.passes.contains(&Pass::Fuse);
    for (k, (got, wanted)) in got.tensors.iter().zip(&expected.tensors).enumerate() {
        match (got, wanted) {
            // A fused call reads its operands in another order, and so finds another poison first.
            (Err(from), Err(_)) if fuses => prop_assert!(expected.failed.contains(from)),
            _ => prop_assert_eq!(got, wanted, "tensor {}", k),
        }
    }
    if !way.passes.contains(&Pass::Dead) {
        prop_assert_eq!(&got.failed, &expected.failed);
    }
    Ok(())
}

/// A fault of a device: of work, so that the data is lost, or of an order alone.
fn faults() -> impl Strategy<Value = Fault> {
    select(vec![
        Fault::LaunchRefused,
        Fault::WorkError,
        Fault::WorkPanic,
        Fault::WorkErrorAfterRun,
        Fault::EventCreation,
        Fault::RecordRefused,
        Fault::WaitRefused,
        Fault::RecordFailsLate,
        Fault::WaitFailsLate,
    ])
}

/// Makes the calls one by one, of which that of one step fails as well.
fn with_failure(program: &Program, step: (usize, usize)) -> Outcome {
    let quiet = FaultPlan::new().paused();
    let healthy = eager(program, Some(&quiet));
    let (mut from, mut to) = (1, quiet.count(Fault::WorkError.site()));
    while from <= to {
        let middle = from.midpoint(to);
        // A call that fails anyhow tells nothing.
        let tells = (middle..=to).find_map(|at| {
            let plan = FaultPlan::once(Fault::WorkError, at).paused();
            let outcome = eager(program, Some(&plan));
            let new = outcome.failed.difference(&healthy.failed).next().copied();
            new.map(|new| (at, new, outcome))
        });
        match tells {
            Some((_, new, outcome)) if new == step => return outcome,
            Some((at, new, _)) if order(new) < order(step) => from = at + 1,
            _ => to = middle - 1,
        }
    }
    panic!("{step:?} is not made")
}

pub(crate) fn config() -> ProptestConfig {
    let wanted: Option<u32> = std::env::var("MILLSTREAM_CASES").ok().and_then(|n| n.parse().ok());
    // A case takes about ten times as long as one of the calls alone.
    let cases = wanted.map_or(millstream_testing::cases(160, 800), |cases| cases / 10);
    let max_shrink_iters = 4000;
    ProptestConfig { cases, max_shrink_iters, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn launches_give_the_results_of_calls(
        program in programs(),
        way in ways(),
        budget in proptest::option::of(1..24u64),
    ) {
        let mut way = Way { budget, ..way };
        if budget.is_some() {
            way.passes.push(Pass::Remat);
        }
        compare(&way, &launched(&program, &way, None), &eager(&program, None))?;
    }

    /// A call that fails in a launch has the effects that it has when it fails alone; a fault of an
    /// order changes no data.
    #[test]
    fn launches_fail_as_calls(
        program in programs(),
        way in ways(),
        fault in faults(),
        at in any::<u16>(),
    ) {
        let quiet = FaultPlan::new().paused();
        let healthy = launched(&program, &way, Some(&quiet));
        let positions = quiet.count(fault.site());
        let plan = FaultPlan::once(fault, 1 + u64::from(at) % positions.max(1)).paused();
        let got = launched(&program, &way, Some(&plan));
        let mut new = got.failed.difference(&healthy.failed);
        let failed = new.next().copied();
        prop_assert_eq!(new.next(), None, "one fault, one failure");
        match failed.filter(|_| fault.site() == Fault::WorkError.site()) {
            Some(failed) if way.passes.contains(&Pass::Fuse) => {
                // A fused call fails as a whole.
                for (got, healthy) in got.tensors.iter().zip(&eager(&program, None).tensors) {
                    match (got, healthy) {
                        (Err(from), _) => prop_assert!(*from == failed || healthy.is_err()),
                        (Ok(got), healthy) => prop_assert_eq!(Ok(got), healthy.as_ref()),
                    }
                }
            }
            Some(failed) => compare(&way, &got, &with_failure(&program, failed))?,
            None => {
                let kept = got.failed.intersection(&healthy.failed).copied().collect();
                let got = Outcome { failed: kept, ..got };
                compare(&way, &got, &eager(&program, None))?;
            }
        }
    }
}
