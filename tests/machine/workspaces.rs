//! Launches in memory of the caller: the same bits, ordered by the tensor that they share; and
//! tensors that are no such memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::*;
use millstream_testing::machine::*;
use millstream_verify::verify;

use crate::executable::relu_plus;

const SHAPE: [usize; 1] = [600];

fn lazy(m: &Machine, index: u32) -> Stream {
    m.stream(&StreamKey::new(CPU, StreamType::LAZY_JOB_LAUNCHER, index)).unwrap()
}

fn input(m: &Machine, k: usize) -> Tensor {
    let values: Vec<f32> = (0..SHAPE[0]).map(|i| (i * (k + 1)) as f32 - 700.0).collect();
    Tensor::from_slice(&values, SHAPE[0], m).unwrap()
}

/// Launches two executables in turn on two streams, all of which share a workspace.
fn outputs(m: &Machine, workspace: Option<&Tensor>) -> Vec<Vec<f32>> {
    let steps = [relu_plus(m, &SHAPE), relu_plus(m, &SHAPE)];
    let streams = [lazy(m, 0), lazy(m, 1)];
    let inputs: Vec<Tensor> = (0..6).map(|k| input(m, k)).collect();
    let launch = |(k, x): (usize, &Tensor)| {
        let launch = steps[k / 2 % 2].launch().input("x", x).on(&streams[k % 2]);
        let launch = workspace.into_iter().fold(launch, LaunchBuilder::workspace);
        launch.run().unwrap().output("y").unwrap().clone()
    };
    let made: Vec<Tensor> = inputs.iter().enumerate().map(launch).collect();
    let of_launches = steps.iter().map(Executable::instances).sum::<usize>();
    assert_eq!(of_launches == 0, workspace.is_some(), "a workspace replaces the instance");
    made.iter().map(|y| y.to_vec::<f32>().unwrap()).collect()
}

fn workspace(m: &Machine) -> Tensor {
    let needed = relu_plus(m, &SHAPE).workspace();
    let [Workspace { device, bytes, intermediates, scratch, bound }] = &needed[..] else {
        panic!("{needed:?}")
    };
    assert_eq!((device, *scratch), (&CPU, 0));
    assert!(*intermediates >= 2400 && intermediates <= bytes && bound <= bytes, "{needed:?}");
    Tensor::zeros(*bytes as usize, DType::U8, m).unwrap()
}

fn part(m: &Machine, of: &Tensor, from: i64, to: i64) -> Tensor {
    let call = m.call("slice", &[of]).attr("dim", 0i64).attr("start", from).attr("end", to);
    call.run().unwrap()[0].clone()
}

#[test]
fn launches_share_a_workspace() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let expected = outputs(&m, None);
        assert_eq!(outputs(&m, Some(&workspace(&m))), expected, "{driver:?}");
    }
}

/// Whatever the order of steps, and the list that the machine emits is proven.
#[test]
fn every_schedule_gives_the_same_bits() {
    let mut expected = None;
    let mut schedules = BTreeSet::new();
    for seed in 0..150 {
        let devices = Registry::new();
        devices.register(Arc::new(CpuBackend::new()));
        let simulation = Simulation { seed, ..Simulation::default() };
        let config = MachineConfig::default()
            .devices(Arc::new(devices))
            .driver(DriverKind::Simulated)
            .simulation(simulation)
            .host_workers(3)
            .threads(1);
        let m = Machine::new(config).unwrap();
        let memory = workspace(&m);
        m.start_recording(&[("memory", &memory)]).unwrap();
        let got = outputs(&m, Some(&memory));
        let verdict = verify(&m.finish_recording().unwrap());
        assert!(verdict.proven(), "seed {seed}: {:?}", verdict.violations);
        schedules.extend(m.schedule().unwrap().map(|schedule| schedule.hash));
        assert_eq!(&got, expected.get_or_insert_with(|| got.clone()), "seed {seed}");
    }
    assert!(schedules.len() > 50, "{}", schedules.len());
}

/// A workspace is not the memory of another launch's tensors.
#[test]
fn what_is_no_workspace_is_refused() {
    let m = Machine::new(config(DriverKind::Inline, SyncPolicy::Frontier)).unwrap();
    let step = relu_plus(&m, &SHAPE);
    let bytes = step.workspace()[0].bytes as usize;
    let x = input(&m, 0);
    let refused = |memory: &[&Tensor], part: &str| {
        let launch = memory.iter().fold(step.launch().input("x", &x), |l, t| l.workspace(t));
        let error = launch.run().expect_err(part).to_string();
        assert!(error.contains("invalid workspace: ") && error.contains(part), "{error}");
    };
    let of = |dtype: DType, count: usize| Tensor::zeros(count, dtype, &m).unwrap();
    let large = of(DType::U8, 2 * bytes + 512);
    refused(
        &[&of(DType::U8, bytes - 1)],
        &format!("at least {bytes} bytes on cpu:0, got {}", bytes - 1),
    );
    refused(&[&of(DType::F32, bytes)], "a contiguous tensor of u8");
    refused(&[&large, &large], "one tensor for each device with private memory");
    let inner = |from: i64| part(&m, &large, from, 2 * bytes as i64);
    refused(&[&inner(100)], "at a multiple of 512 bytes");
    step.launch().input("x", &x).workspace(&inner(512)).run().unwrap();
    let far = Machine::new(config(DriverKind::Inline, SyncPolicy::Frontier)).unwrap();
    let foreign = step.launch().input("x", &x).workspace(&workspace(&far)).run();
    assert!(foreign.err().unwrap().to_string().contains("belongs to another machine"));
}

/// A formal within the workspace would be overwritten.
#[test]
fn a_workspace_that_holds_a_formal_is_refused() {
    let m = Machine::new(config(DriverKind::Inline, SyncPolicy::Frontier)).unwrap();
    let recorded = m.record(|r| {
        let x = r.input("x", TensorSpec::contiguous(DType::U8, &[2048])?)?;
        let t = r.call("flip", &[x]).attr("dims", vec![0i64]).run()?[0];
        let y = r.call("flip", &[t]).attr("dims", vec![0i64]).run()?[0];
        r.output("y", &y)
    });
    let step = recorded.unwrap().compile().unwrap();
    let large = Tensor::zeros(8192, DType::U8, &m).unwrap();
    let part = |from: i64| part(&m, &large, from, from + 2048);
    let (x, apart) = (part(2048), part(4096));
    let error = step.launch().input("x", &x).workspace(&part(1024)).run().unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("bytes 1024..3072") && error.contains("\"x\" uses 2048..4096"),
        "{error}"
    );
    step.launch().input("x", &x).workspace(&apart).run().unwrap().wait().unwrap();
}

/// A step whose kernel needs scratch memory is prepared as others are: it takes addresses alone.
#[test]
fn kernels_with_scratch_memory_are_prepared() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let recorded = m.record(|r| {
            let x = r.input("x", f32_spec(&SHAPE))?;
            let twice = r.call("mul", &[x]).attr("other", 2.0).run()?[0];
            let y = r.call("mse_loss", &[x, twice]).run()?[0];
            r.output("y", &y)
        });
        let step = recorded.unwrap().compile().unwrap();
        assert!(step.workspace()[0].scratch > 0, "{:?}", step.workspace());
        let steps = step.describe();
        assert!(
            steps.contains("mse_loss (") && !steps.contains("in context"),
            "{driver:?}: {steps}"
        );
        for k in 0..3 {
            let x = input(&m, k);
            let twice = x.mul(2.0).unwrap();
            let expected = m.call("mse_loss", &[&x, &twice]).run().unwrap()[0].read().unwrap();
            let launched = step.launch().input("x", &x).run().unwrap();
            assert_eq!(launched.output("y").unwrap().read().unwrap(), expected, "{driver:?}");
        }
    }
}
