//! Failures of CUDA graphs: refused launches, poisoned and cancelled ones, and errors that kernels
//! find within a graph.

use millstream::*;
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::Failure;

use crate::graphs::{CUDA, W, each, expected, launch, spec, status, stream, two_streams};
use crate::{call, read, upload};

/// If the driver refuses a launch, everything that the graph writes is poisoned, with the place of
/// the launch, and the next launch runs.
#[test]
fn a_refused_launch() {
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let w = upload(m, &s, &W);
        let step = two_streams(m, &w);
        let (x, y) = (upload(m, &s, &[2.0, -3.0]), upload(m, &s, &[0.0, 0.0]));
        (0..3).for_each(|_| launch(&step, &x, &y));
        assert_eq!(read(&y).unwrap(), expected([2.0, -3.0], W));
        turn.fail(Failure::once("cuGraphLaunch", 0, code::OUT_OF_MEMORY));
        let line = line!() + 1;
        step.launch().input("x", &x).output("y", &y).run().unwrap();
        let error = read(&y).unwrap_err();
        let failure = error.failure().unwrap();
        assert_eq!(failure.cause, types::Cause::Device);
        assert!(failure.message.contains("cuGraphLaunch: CUDA_ERROR_OUT_OF_MEMORY"), "{failure}");
        assert_eq!(failure.instruction, "LazyJobLauncher");
        assert!(
            failure.origin.to_string().contains(&format!("graph_failures.rs:{line}")),
            "{failure}"
        );
        launch(&step, &x, &y);
        assert_eq!(read(&y).unwrap(), expected([2.0, -3.0], W), "the next launch heals");
        assert_eq!(status(&step).launches, 2, "call by call, as a formal was poisoned");
        launch(&step, &x, &y);
        assert_eq!(read(&y).unwrap(), expected([2.0, -3.0], W));
        assert_eq!(status(&step).launches, 3);
    });
}

/// An input that is poisoned, or a cancelled launch, makes the calls one by one.
#[test]
fn poison_and_cancellation() {
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let w = upload(m, &s, &W);
        let step = two_streams(m, &w);
        let (x, y) = (upload(m, &s, &[2.0, -3.0]), upload(m, &s, &[0.0, 0.0]));
        (0..3).for_each(|_| launch(&step, &x, &y));
        m.synchronize().unwrap();
        assert_eq!(status(&step).launches, 2);
        let before = turn.count("cuGraphLaunch");
        turn.fail(Failure::once("cuLaunchKernel", 0, code::LAUNCH_OUT_OF_RESOURCES));
        let bad = call(m, "relu", &[&x], &s);
        launch(&step, &bad, &y);
        let error = read(&y).unwrap_err();
        assert_eq!(error.failure().unwrap().op.as_deref(), Some("relu"));
        let cancellation = Cancellation::new();
        cancellation.cancel();
        cancellation.scope(|| launch(&step, &x, &y));
        assert!(matches!(read(&y), Err(Error::Cancelled(_))));
        assert_eq!(turn.count("cuGraphLaunch"), before);
        launch(&step, &x, &y);
        assert_eq!(read(&y).unwrap(), expected([2.0, -3.0], W));
        assert_eq!(turn.count("cuGraphLaunch"), before, "it heals the output");
        // A scope that is not cancelled changes nothing.
        Cancellation::new().scope(|| launch(&step, &x, &y));
        assert_eq!(read(&y).unwrap(), expected([2.0, -3.0], W));
        assert_eq!(turn.count("cuGraphLaunch"), before + 1);
    });
}

/// Compiles y = x[index] + x[index] and z = relu(x), where the indexing can fail on the device.
fn indexing(m: &Machine) -> Executable {
    let recorded = m.record(|r| {
        let x = r.input_on("x", spec(2), &CUDA)?;
        let index = TensorSpec::contiguous(DType::I64, &[2])?;
        let index = r.input_on("index", index, &CUDA)?;
        let (a, b) = (stream(r, 0), stream(r, 1));
        let picked = r.call("index_select", &[x, index]).attr("dim", 0).on(a)?[0];
        let y = r.call("add", &[picked, picked]).on(a)?[0];
        let z = r.call("relu", &[x]).on(b)?[0];
        r.output("y", &y)?;
        r.output("z", &z)
    });
    recorded.unwrap().compile_as_is().unwrap()
}

/// A call that fails within a graph poisons what depends on it, and nothing else.
#[test]
fn an_error_of_the_device_within_a_graph() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler, so kernels report no errors");
        return;
    }
    each(|turn, m| {
        let s = m.compute(&CUDA, 0).unwrap();
        let step = indexing(m);
        let x = upload(m, &s, &[2.0, -3.0]);
        let index = |values: [i64; 2]| {
            let spec = TensorSpec::contiguous(DType::I64, &[2]).unwrap();
            let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
            m.upload(&s, spec, bytes).unwrap()
        };
        let (good, bad) = (index([1, 0]), index([0, 7]));
        let run = |index: &Tensor| {
            let launched = step.launch().input("x", &x).input("index", index).run().unwrap();
            (read(launched.output("y").unwrap()), read(launched.output("z").unwrap()))
        };
        for _ in 0..3 {
            let (y, z) = run(&good);
            assert_eq!((y.unwrap(), z.unwrap()), (vec![-6.0, 4.0], vec![2.0, 0.0]));
        }
        let before = turn.count("cuGraphLaunch");
        for _ in 0..2 {
            let (y, z) = run(&bad);
            let error = y.unwrap_err();
            let failure = error.failure().unwrap();
            assert_eq!(failure.op.as_deref(), Some("index_select"), "{failure}");
            assert!(failure.message.contains("out of range"), "{failure}");
            assert!(failure.launched.is_some());
            assert_eq!(z.unwrap(), [2.0, 0.0], "it does not depend on the failed call");
        }
        let (y, z) = run(&good);
        assert_eq!((y.unwrap(), z.unwrap()), (vec![-6.0, 4.0], vec![2.0, 0.0]));
        assert_eq!(turn.count("cuGraphLaunch"), before + 3);
    });
}
