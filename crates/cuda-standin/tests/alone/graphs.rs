//! Executables as CUDA graphs: the driver's calls of a launch, updates, and the reasons for which
//! calls are made one by one.
//!
//! Long because each case has its launches and its counts beside it.

use millstream::ep::cuda::CudaConfig;
use millstream::kernels::KernelRegistry;
use millstream::types::StreamId;
use millstream::*;
use millstream_backoff::wait_until;
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::{Failure, Turn};

use crate::{
    kernels, machine, machine_with, no_violations, nothing_is_open, read, stand_in, upload,
};

pub(crate) const CUDA: DeviceId = DeviceId::cuda(0);
const DRIVERS: [DriverKind; 2] = [DriverKind::Inline, DriverKind::Threaded];

pub(crate) fn spec(length: usize) -> TensorSpec {
    TensorSpec::contiguous(DType::F32, &[length]).unwrap()
}

pub(crate) fn stream(r: &mut Recorder, index: u32) -> StreamId {
    r.stream(&StreamKey::compute(CUDA, index)).unwrap()
}

/// Compiles out = relu(x + w) + (x * w), on two streams.
pub(crate) fn two_streams(m: &Machine, w: &Tensor) -> Executable {
    let recorded = m.record(|r| {
        let (x, w) = (r.input_on("x", spec(2), &CUDA)?, r.bind(w)?);
        let (a, b) = (stream(r, 0), stream(r, 1));
        let sum = r.call("add", &[x, w]).on(a)?[0];
        let product = r.call("mul", &[x, w]).on(b)?[0];
        let kept = r.call("relu", &[sum]).on(a)?[0];
        let y = r.call("add", &[kept, product]).on(a)?[0];
        r.output("y", &y)
    });
    recorded.unwrap().compile_as_is().unwrap()
}

pub(crate) fn expected(x: [f32; 2], w: [f32; 2]) -> Vec<f32> {
    (0..2).map(|k| (x[k] + w[k]).max(0.0) + x[k] * w[k]).collect()
}

/// Returns the calls that launch or capture work, or order streams.
fn shown(calls: &[String]) -> String {
    let prefixes = ["cuGraph", "cuLaunch", "cuStreamBegin", "cuStreamEnd", "cuStreamWait", "cuMem"];
    let shown = calls.iter().filter(|call| prefixes.iter().any(|prefix| call.starts_with(prefix)));
    shown.map(|call| format!("{call}\n")).collect()
}

/// Runs a test with a machine, under both drivers.
pub(crate) fn each(test: impl Fn(&Turn<'_>, &Machine)) {
    each_with(&kernels(), test);
}

/// Does as [`each`], with these kernels.
fn each_with(kernels: &KernelRegistry, test: impl Fn(&Turn<'_>, &Machine)) {
    for driver in DRIVERS {
        let turn = stand_in().turn();
        let m = machine_with(driver, CudaConfig::default(), kernels.clone());
        test(&turn, &m);
        // Failures are the test's business.
        let _ = m.synchronize();
        drop(m);
        no_violations();
        nothing_is_open();
    }
}

pub(crate) fn status(executable: &Executable) -> GraphStatus {
    let mut all = executable.graphs();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[track_caller]
pub(crate) fn launch(executable: &Executable, x: &Tensor, y: &Tensor) {
    executable.launch().input("x", x).output("y", y).run().unwrap();
}

pub(crate) const W: [f32; 2] = [1.0, -1.0];

/// The first launch makes the calls, the second captures them, and each later one is one call of
/// the driver.
#[test]
fn calls_of_the_driver() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    let s = m.compute(&CUDA, 0).unwrap();
    let (w, x, y) = (upload(&m, &s, &W), upload(&m, &s, &[2.0, -3.0]), upload(&m, &s, &W));
    let step = two_streams(&m, &w);
    m.synchronize().unwrap();
    let launches = [(); 4].map(|()| {
        let before = turn.calls().len();
        launch(&step, &x, &y);
        m.synchronize().unwrap();
        shown(&turn.calls()[before..])
    });
    assert_eq!(read(&y).unwrap(), expected([2.0, -3.0], W));
    insta::assert_snapshot!(launches.join("\n"), @r"
    cuMemAlloc_v2(1536) = m3
    cuLaunchKernel(ms_add__f32, s2)
    cuLaunchKernel(ms_relu__f32, s2)
    cuLaunchKernel(ms_mul__f32, s3)
    cuStreamWaitEvent(s2, e11#1)
    cuLaunchKernel(ms_add__f32, s2)

    cuStreamBeginCapture_v2(s2, ThreadLocal)
    cuStreamWaitEvent(s3, e12#1)
    cuLaunchKernel(ms_add__f32, s2)
    cuLaunchKernel(ms_relu__f32, s2)
    cuLaunchKernel(ms_mul__f32, s3)
    cuStreamWaitEvent(s2, e13#1)
    cuLaunchKernel(ms_add__f32, s2)
    cuStreamEndCapture(s2) = g0, 4 nodes
    cuGraphGetNodes(g0) = 4
    cuGraphInstantiateWithFlags(g0) = x0
    cuGraphDestroy(g0)
    cuGraphLaunch(x0, s3)

    cuGraphLaunch(x0, s3)

    cuGraphLaunch(x0, s3)
    ");
    insta::assert_snapshot!(step.describe(), @r"
    tape 0 on cuda:0 compute 0
         1  add in context (read x+0, read bound 0+0, write private 0+0)
         2  relu in context (read private 0+0, write private 0+1024)
         3  wait on the device for event 0, tape 1 step 2
         4  add in context (read private 0+1024, read private 0+512, write y+0)
    tape 1 on cuda:0 compute 1
         1  mul in context (read x+0, read bound 0+0, write private 0+512)
         2  record event 0
    cuda:0: a graph of 4 nodes (instantiated: 1, updated: 0, launched: 3)
    ");
    drop((w, x, y, step, s, m));
    no_violations();
    nothing_is_open();
}

/// A launch with other addresses has a graph of its own, which a later launch with the same ones
/// finds. The fifth updates the graph that was launched longest ago, and each gives its own
/// results.
#[test]
fn other_addresses() {
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let w = upload(m, &s, &W);
        let step = two_streams(m, &w);
        let values = [[2.0, -3.0], [4.0, 5.0], [-6.0, 7.0]];
        let inputs = values.map(|values| upload(m, &s, &values));
        let outputs = [(); 2].map(|()| upload(m, &s, &[0.0, 0.0]));
        let four = [(0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1), (0, 0), (1, 1)];
        let more = [(2, 0), (0, 0), (2, 1), (1, 0)];
        for (k, (x, y)) in four.into_iter().chain(more).enumerate() {
            launch(&step, &inputs[x], &outputs[y]);
            let read = read(&outputs[y]).unwrap();
            assert_eq!(read, expected(values[x], W), "launch {k}");
        }
        let GraphStatus { nodes, reason, instantiated, updated, launches, .. } = status(&step);
        assert_eq!((nodes, reason), (4, None));
        assert_eq!((instantiated, updated, launches), (4, 2, 11));
        assert_eq!(turn.count("cuGraphExecUpdate_v2"), 2);
        assert_eq!(turn.count("cuGraphInstantiateWithFlags"), 4);
    });
}

/// Memory of the caller is an address like any other: each workspace has a graph.
#[test]
fn other_workspaces() {
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let w = upload(m, &s, &W);
        let step = two_streams(m, &w);
        let bytes = step.workspace()[0].bytes as usize;
        let whole = TensorSpec::contiguous(DType::U8, &[bytes]).unwrap();
        let memory = [(); 2].map(|()| m.upload(&s, whole.clone(), vec![0xff; bytes]).unwrap());
        let (x, y) = (upload(m, &s, &[2.0, -3.0]), upload(m, &s, &[0.0, 0.0]));
        for (k, at) in [0, 0, 0, 1, 1, 0].into_iter().enumerate() {
            let launch = step.launch().input("x", &x).output("y", &y);
            launch.workspace(&memory[at]).run().unwrap();
            assert_eq!(read(&y).unwrap(), expected([2.0, -3.0], W), "launch {k}");
        }
        assert_eq!(step.instances(), 0, "no launch has memory of its own");
        let GraphStatus { nodes, reason, instantiated, updated, launches, .. } = status(&step);
        assert_eq!((nodes, reason), (4, None));
        assert_eq!((instantiated, updated, launches), (2, 0, 5));
        assert_eq!(turn.count("cuStreamBeginCapture_v2"), 2);
    });
}

/// A graph that the driver cannot update is replaced.
#[test]
fn a_refused_update_makes_another_graph() {
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let w = upload(m, &s, &W);
        let step = two_streams(m, &w);
        let y = upload(m, &s, &[0.0, 0.0]);
        let inputs = [0.0, 0.0, 1.0, 2.0, 3.0].map(|x| upload(m, &s, &[x, 1.0]));
        inputs.iter().for_each(|x| launch(&step, x, &y));
        let call = "cuGraphExecUpdate_v2";
        turn.fail(Failure::once(call, 0, code::GRAPH_EXEC_UPDATE_FAILURE));
        let other = upload(m, &s, &[4.0, 5.0]);
        launch(&step, &other, &y);
        assert_eq!(read(&y).unwrap(), expected([4.0, 5.0], W));
        let GraphStatus { instantiated, updated, launches, .. } = status(&step);
        assert_eq!((instantiated, updated, launches), (5, 0, 5));
    });
}

/// Two launches of an executable without private memory are in flight together. The second, with
/// other addresses, captures nothing until the first has completed.
#[test]
fn a_graph_in_flight_is_left_alone() {
    let turn = stand_in().turn();
    let m = machine(DriverKind::Threaded, CudaConfig::default());
    let s = m.compute(&CUDA, 0).unwrap();
    let recorded = m.record(|r| {
        let (x, y) = (r.input_on("x", spec(2), &CUDA)?, r.input_on("y", spec(2), &CUDA)?);
        let a = stream(r, 0);
        r.call("add_", &[y, x]).on(a)?;
        r.call("add_", &[y, x]).on(a)?;
        Ok(())
    });
    let step = recorded.unwrap().compile_as_is().unwrap();
    assert_eq!(step.private_memory(), []);
    let lazy = [0, 1].map(|k| {
        m.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, k)).unwrap()
    });
    let x = upload(&m, &s, &[1.0, 2.0]);
    let y = [(); 2].map(|()| upload(&m, &s, &[0.0, 0.0]));
    let run = |k: usize| step.launch().input("x", &x).input("y", &y[k]).on(&lazy[k]).run().unwrap();
    (0..2).for_each(|_| drop(run(0)));
    m.synchronize().unwrap();
    assert_eq!(turn.count("cuGraphLaunch"), 1);
    let hold = turn.hold();
    let first = run(0);
    wait_until(|| turn.count("cuGraphLaunch") == 2);
    let second = run(1);
    // The worker has looked at the second launch once it has polled the first for a while.
    let polls = turn.count("cuEventQuery") + 100;
    wait_until(|| turn.count("cuEventQuery") >= polls);
    assert_eq!(turn.count("cuStreamBeginCapture_v2"), 1, "no capture beside a graph in flight");
    assert_eq!(turn.count("cuGraphLaunch"), 2);
    drop(hold);
    first.completion().wait().unwrap();
    second.completion().wait().unwrap();
    assert_eq!(turn.count("cuStreamBeginCapture_v2"), 2);
    assert_eq!(read(&y[0]).unwrap(), [6.0, 12.0]);
    assert_eq!(read(&y[1]).unwrap(), [2.0, 4.0]);
    drop((first, second, x, y, step, lazy, s, m));
    no_violations();
    nothing_is_open();
}

/// Instances have graphs of their own, which may be in flight together. All of them end with the
/// executable, which may be dropped while they are.
#[test]
fn instances_and_drops() {
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let w = upload(m, &s, &W);
        let step = two_streams(m, &w);
        step.set_instances(2);
        let lazy = [0, 1].map(|k| {
            m.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, k)).unwrap()
        });
        let values = [[2.0, -3.0], [4.0, 5.0]];
        let x = values.map(|values| upload(m, &s, &values));
        let y = [(); 2].map(|()| upload(m, &s, &[0.0, 0.0]));
        m.synchronize().unwrap();
        for _ in 0..8 {
            let hold = turn.hold();
            for k in 0..2 {
                let launch = step.launch().input("x", &x[k]).output("y", &y[k]);
                launch.on(&lazy[k]).run().unwrap();
            }
            drop(hold);
            m.synchronize().unwrap();
        }
        for k in 0..2 {
            assert_eq!(read(&y[k]).unwrap(), expected(values[k], W));
        }
        assert_eq!(step.instances(), 2);
        let GraphStatus { nodes, launches, .. } = status(&step);
        assert_eq!((nodes, launches), (4, 14));
        let hold = turn.hold();
        step.launch().input("x", &x[0]).output("y", &y[0]).on(&lazy[0]).run().unwrap();
        drop(step);
        drop(hold);
        assert_eq!(read(&y[0]).unwrap(), expected(values[0], W));
    });
}

/// Why the tapes of each of these executables are no graph.
#[test]
fn reasons() {
    let _turn = stand_in().turn();
    let m = machine(DriverKind::Threaded, CudaConfig::default());
    let s = m.compute(&CUDA, 0).unwrap();
    let reason = |record: &dyn Fn(&mut Recorder) -> Result<()>| {
        let step = m.record(|r| record(r)).unwrap().compile_as_is().unwrap();
        let inputs = step.list().externals.iter().filter(|e| e.name.starts_with('x')).count();
        let x = [(); 2].map(|()| upload(&m, &s, &[2.0, -3.0]));
        for _ in 0..3 {
            let named = ["x0", "x1"].iter().zip(&x).take(inputs);
            let launch = named.fold(step.launch(), |launch, (name, x)| launch.input(name, x));
            launch.run().unwrap();
            m.synchronize().unwrap();
        }
        let all = step.graphs();
        let reasons = all.into_iter().filter(|graph| graph.device == CUDA);
        reasons.map(|graph| graph.reason.unwrap_or_default()).collect::<Vec<_>>().join("; ")
    };
    let one = reason(&|r| {
        let x = r.input_on("x0", spec(2), &CUDA)?;
        let a = stream(r, 0);
        r.call("relu", &[x]).on(a).map(drop)
    });
    insta::assert_snapshot!(one, @"fewer than 2 calls need no graph");
    let copied = reason(&|r| {
        let x = r.input_on("x0", spec(2), &CUDA)?;
        let up = r.stream(&StreamKey::new(CUDA, StreamType::DEVICE2HOST, 0))?;
        let a = stream(r, 0);
        let y = r.call("relu", &[x]).on(a)?[0];
        let z = r.call("relu", &[y]).on(a)?[0];
        let host = r.call("copy", &[z]).on(up)?[0];
        r.output("host", &host)
    });
    insta::assert_snapshot!(copied, @"tape 0, step 2: a captured call cannot copy from or to host memory that is not pinned");
    let amid = reason(&|r| {
        let x = r.input_on("x0", spec(2), &CUDA)?;
        let a = stream(r, 0);
        let [there, back] = [DeviceId::cuda(1), CUDA]
            .map(|to| r.stream(&StreamKey::new(to, StreamType::HOST2DEVICE, 0)).unwrap());
        let y = r.call("relu", &[x]).on(a)?[0];
        let y = r.call("copy", &[y]).on(there)?[0];
        let y = r.call("copy", &[y]).on(back)?[0];
        r.call("relu", &[y]).on(a).map(drop)
    });
    insta::assert_snapshot!(amid, @"it comes after tape 1, step 3, which comes after calls of its own");
    drop((s, m));
    no_violations();
    nothing_is_open();
}

/// A launch with another floating-point number has another graph, and gives its own results. The
/// numbers that its random calls draw need none.
#[test]
fn other_numbers() {
    each(|turn, m| {
        let (s, random) = (m.compute(&CUDA, 0).unwrap(), Generator::new(7));
        let step = m.record(|r| {
            let x = r.input_on("x", spec(2), &CUDA)?;
            let a = stream(r, 0);
            let (alpha, factor) = (r.scalar("alpha", 2.0)?, r.scalar("factor", 1.0)?);
            let y = r.call("relu", &[x]).on(a)?[0];
            r.call("add_", &[x, y]).attr("alpha", alpha).on(a)?;
            r.call("mul_", &[x]).attr("other", factor).on(a)?;
            r.call("uniform_", &[y]).draw(&random).on(a)?;
            r.output("y", &y)
        });
        let step = step.unwrap().compile().unwrap();
        let (x, y) = (upload(m, &s, &[1.0, -3.0]), upload(m, &s, &W));
        let mut expected = [1.0_f32, -3.0];
        let mut drawn: Vec<Vec<f32>> = Vec::new();
        // The second launch makes the graph, and the third has its numbers. Zeros of another sign
        // are other numbers.
        for (k, alpha) in [0.5, -2.0, -2.0, 0.0, -0.0, 0.0, 8.0].into_iter().enumerate() {
            let from = turn.calls().len();
            let launch = step.launch().input("x", &x).output("y", &y).scalar("alpha", alpha);
            launch.scalar("factor", -1.0).run().unwrap();
            expected = expected.map(|x| -(x + alpha as f32 * x.max(0.0)));
            assert_eq!(read(&x).unwrap(), expected, "launch {k}");
            let own = read(&y).unwrap();
            assert!(!drawn.contains(&own), "launch {k}");
            drawn.push(own);
            let has = |name| turn.calls()[from..].iter().any(|call| call.starts_with(name));
            assert_eq!(has("cuStreamBeginCapture"), [1, 3, 4, 6].contains(&k), "launch {k}");
            assert_eq!(has("cuGraphLaunch"), k > 0, "launch {k}");
        }
        let GraphStatus { nodes, instantiated, updated, launches, .. } = status(&step);
        assert_eq!((nodes, instantiated, updated, launches), (4, 4, 0, 6));
    });
}

#[test]
fn graphs_can_be_switched_off() {
    let _turn = stand_in().turn();
    let m = machine(DriverKind::Threaded, CudaConfig { graphs: false, ..CudaConfig::default() });
    let s = m.compute(&CUDA, 0).unwrap();
    let w = upload(&m, &s, &W);
    assert_eq!(two_streams(&m, &w).graphs(), [], "the device has no graphs");
}

/// Compiles a list that fills x with noise, and returns what a dropout leaves of it.
fn noise(m: &Machine, random: &Generator, x: &TensorSpec) -> Executable {
    let recorded = m.record(|r| {
        let x = r.input_on("x", x.clone(), &CUDA)?;
        let on = stream(r, 0);
        let noise = r.call("uniform_", &[x]).draw(random).on(on)?[0];
        let dropped = r.call("native_dropout", &[noise]).attr("p", 0.5).draw(random).on(on)?[0];
        r.output("y", &dropped)
    });
    recorded.unwrap().compile_as_is().unwrap()
}

/// Returns the numbers that the calls of `noise` give from this offset on.
fn eager_noise(offset: u64) -> Vec<f32> {
    let m = Machine::new(MachineConfig::default().driver(DriverKind::Inline)).unwrap();
    let noise = Tensor::rand(64, Seed::new(7, offset), &m).unwrap();
    let dropped = noise.native_dropout(0.5, Seed::new(7, offset.wrapping_add(1))).unwrap().0;
    dropped.to_vec::<f32>().unwrap()
}

/// The seed and the offset of a generator are words that the graph reads, so that it is captured
/// once: the numbers of each launch are those of the calls one by one.
#[test]
fn graphs_draw_the_next_numbers() {
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let random = Generator::new(7);
        let step = noise(m, &random, &spec(64));
        let (x, y) = (upload(m, &s, &[0.0; 64]), upload(m, &s, &[0.0; 64]));
        for k in 0..5 {
            launch(&step, &x, &y);
            assert_eq!(read(&y).unwrap(), eager_noise(3 * k), "launch {k}");
            // An eager draw between launches.
            let between = Tensor::rand(2, &random, (m, &CUDA)).unwrap();
            assert_eq!(between.numel(), 2);
        }
        for state in [GeneratorState { seed: 7, offset: 0 }, GeneratorState { seed: 7, offset: 9 }]
        {
            random.set_state(state);
            launch(&step, &x, &y);
            assert_eq!(read(&y).unwrap(), eager_noise(state.offset), "a state that was restored");
        }
        random.set_state(GeneratorState { seed: 8, offset: u64::MAX });
        launch(&step, &x, &y);
        assert_ne!(read(&y).unwrap(), eager_noise(u64::MAX), "another seed");
        if !millstream_cuda_standin::compiles() {
            return;
        }
        let GraphStatus { nodes, reason, instantiated, updated, launches, .. } = status(&step);
        assert_eq!((nodes, reason), (2, None));
        assert_eq!((instantiated, updated, launches), (1, 0, 7));
        assert_eq!(turn.count("cuStreamBeginCapture_v2"), 1);
    });
}

/// Two launches in flight, each of an instance with a graph of its own, draw different numbers:
/// those of the order in which they were made.
#[test]
fn graphs_in_flight_draw_their_own_numbers() {
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let random = Generator::new(7);
        let step = noise(m, &random, &spec(64));
        step.set_instances(2);
        let lazy = [0, 1].map(|k| {
            m.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, k)).unwrap()
        });
        let (x, y) = ([(); 2].map(|()| upload(m, &s, &[0.0; 64])), [(); 2]);
        let y = y.map(|()| upload(m, &s, &[0.0; 64]));
        m.synchronize().unwrap();
        for round in 0..6 {
            let hold = turn.hold();
            for k in 0..2 {
                let launch = step.launch().input("x", &x[k]).output("y", &y[k]);
                launch.on(&lazy[k]).run().unwrap();
            }
            drop(hold);
            m.synchronize().unwrap();
            for (k, y) in y.iter().enumerate() {
                let offset = 4 * round + 2 * k as u64;
                assert_eq!(read(y).unwrap(), eager_noise(offset), "round {round}, launch {k}");
            }
        }
        assert_eq!(step.instances(), 2);
        if !millstream_cuda_standin::compiles() {
            return;
        }
        let GraphStatus { instantiated, updated, launches, .. } = status(&step);
        assert_eq!((instantiated, updated, launches), (2, 0, 10));
        assert_eq!(turn.count("cuStreamBeginCapture_v2"), 2);
    });
}

/// A kernel that expects numbers, and no words, keeps its calls out of a graph: they get those of
/// their launch.
#[test]
fn kernels_without_words_draw_call_by_call() {
    let mut kernels = kernels();
    for op in ["uniform_", "native_dropout"] {
        millstream_cuda_standin::register_host_kernel(&mut kernels, op);
    }
    each_with(&kernels, |_, m| {
        let random = Generator::new(7);
        let x = TensorSpec::contiguous(DType::F32, &[512]).unwrap();
        let step = noise(m, &random, &x);
        let s = m.compute(&CUDA, 0).unwrap();
        let x = upload(m, &s, &[0.0; 512]);
        for k in 0..5u64 {
            let launched = step.launch().input("x", &x).run().unwrap();
            let n = Machine::new(MachineConfig::default().driver(DriverKind::Inline)).unwrap();
            let noise = Tensor::rand(512, Seed::new(7, 2 * k), &n).unwrap();
            let dropped = noise.native_dropout(0.5, Seed::new(7, 2 * k + 1)).unwrap().0;
            let y = launched.output("y").unwrap();
            assert_eq!(read(y).unwrap(), dropped.to_vec::<f32>().unwrap(), "launch {k}");
        }
        let reason = status(&step).reason.unwrap_or_default();
        assert!(reason.contains("cannot read the numbers of a graph's launches"), "{reason}");
    });
}

/// Outputs in host memory are gathered and copied by the graph itself, so that reading them takes
/// no command of the device.
#[test]
fn outputs_on_the_host() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    let s = m.compute(&CUDA, 0).unwrap();
    let x = upload(&m, &s, &[2.0, -3.0]);
    let recorded = m.record(|r| {
        let x = r.input_on("x", spec(2), &CUDA)?;
        let (y, sum) = (r.call("relu", &[x]).run()?[0], r.call("sum", &[x]).run()?[0]);
        let signs = r.call("lt", &[x]).attr("other", 0.0).run()?[0];
        let last = r.view(&x, TensorSpec::new(DType::F32, Layout::strided(&[1], &[2], 1)?)?)?;
        let none = r.view(&x, TensorSpec::contiguous(DType::F32, &[0, 3])?)?;
        let outputs = [("signs", signs), ("y", y), ("sum", sum), ("last", last), ("none", none)];
        r.outputs_on_host(&outputs)
    });
    let step = recorded.unwrap().compile_as_is().unwrap();
    let mut calls = String::new();
    for _ in 0..3 {
        let before = turn.calls().len();
        let launched = step.launch().input("x", &x).run().unwrap();
        assert_eq!(launched.output("signs").unwrap().to_vec::<bool>().unwrap(), [false, true]);
        assert_eq!(launched.output("y").unwrap().to_vec::<f32>().unwrap(), [2.0, 0.0]);
        assert_eq!(launched.output("sum").unwrap().item::<f32>().unwrap(), -1.0);
        assert_eq!(launched.output("last").unwrap().to_vec::<f32>().unwrap(), [-3.0]);
        assert_eq!(launched.output("none").unwrap().shape(), [0, 3]);
        assert!(launched.outputs().iter().all(|output| output.device() == &DeviceId::pinned(0)));
        calls = shown(&turn.calls()[before..]);
    }
    insta::assert_snapshot!(calls, @"cuGraphLaunch(x0, s3)");
    drop((x, step, s, m));
    no_violations();
    nothing_is_open();
}
