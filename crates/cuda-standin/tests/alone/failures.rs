//! The driver fails: at every call of a small program, in the middle, for good.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::ep::cuda::CudaConfig;
use millstream::{Access, DeviceId, DriverKind, Error, Machine, Result, Tensor};
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::Failure;

use crate::{machine, no_violations, nothing_is_left, read, stand_in, upload};

const CUDA: DeviceId = DeviceId::cuda(0);

const DRIVERS: [DriverKind; 2] = [DriverKind::Inline, DriverKind::Threaded];

/// Long enough for anything here; whoever waits this long hangs.
const LONG: Duration = Duration::from_secs(60);

/// A configuration whose complaints are kept.
fn listening() -> (CudaConfig, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let to = heard.clone();
    let report = Arc::new(move |error: &millstream::ep::cuda::DriverError| {
        to.lock().unwrap().push(error.to_string());
    });
    (CudaConfig { report, ..CudaConfig::default() }, heard)
}

/// A program over three streams. Its outputs are these, if all goes well.
const EXPECTED: [[f32; 2]; 2] = [[1.0, 4.0], [2.0, 8.0]];

fn program(m: &Machine) -> Vec<Result<Vec<f32>>> {
    let outputs = (|| {
        let s: Vec<_> = (0..3).map(|k| m.compute(&CUDA, k).unwrap()).collect();
        let spec = millstream::TensorSpec::contiguous(millstream::DType::F32, &[2])?;
        let bytes = [1.0f32, -2.0].map(f32::to_ne_bytes).concat();
        let x = m.upload(&s[0], spec, bytes)?;
        let call = |op: &str, inputs: &[&Tensor], on| -> Result<Tensor> {
            Ok(m.call(op, inputs).on(on)?.remove(0))
        };
        let a = call("mul", &[&x, &x], &s[0])?;
        let b = call("relu", &[&a], &s[1])?;
        let c = call("add", &[&b, &a], &s[2])?;
        Ok(vec![read(&b), read(&c)])
    })();
    outputs.unwrap_or_else(|error: Error| vec![Err(error)])
}

/// Runs the program with a failure. What comes out is right, or an error that names the failure.
fn strike(driver: DriverKind, failure: Failure, name: &str) {
    let what = format!("{driver:?} {failure:?}");
    let turn = stand_in().turn();
    let (config, _) = listening();
    let m = machine(driver, config);
    turn.fail(failure);
    let outputs = program(&m);
    let failed: Vec<String> =
        outputs.iter().filter_map(|o| o.as_ref().err()).map(ToString::to_string).collect();
    for (output, expected) in outputs.iter().zip(EXPECTED) {
        assert!(output.as_ref().is_err() || *output == Ok(expected.to_vec()), "{what}: {output:?}");
    }
    for error in &failed {
        let named = error.contains(name) || error.contains("out of memory");
        assert!(named, "{what}: {error}");
    }
    if !failure.keeps {
        // The machine goes on.
        let _ = m.synchronize();
        m.clear_failures();
        for (output, expected) in program(&m).into_iter().zip(EXPECTED) {
            assert_eq!(output.unwrap(), expected, "{what}");
        }
    }
    let report = m.clone().shutdown(LONG);
    assert!(!report.leaked && report.hanging.is_empty(), "{what}: {report:?}");
    drop(m);
    no_violations();
    if !failure.keeps {
        nothing_is_left();
    }
}

/// How often a healthy run calls `call`.
fn count(driver: DriverKind, call: &str) -> u64 {
    let turn = stand_in().turn();
    let m = machine(driver, CudaConfig::default());
    for (output, expected) in program(&m).into_iter().zip(EXPECTED) {
        assert_eq!(output.unwrap(), expected);
    }
    drop(m);
    turn.count(call)
}

/// Calls that may fail without the device being lost, and what they answer then.
const CALLS: &[(&str, u32, &str)] = &[
    ("cuDevicePrimaryCtxRetain", code::OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"),
    ("cuMemAlloc_v2", code::OUT_OF_MEMORY, "OutOfMemory"),
    ("cuMemHostAlloc", code::OUT_OF_MEMORY, "OutOfMemory"),
    ("cuStreamCreateWithPriority", code::OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"),
    ("cuEventCreate", code::OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"),
    ("cuStreamWaitEvent", code::INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"),
    ("cuMemcpyAsync", code::INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"),
    ("cuModuleLoadData", code::INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"),
    ("cuModuleGetFunction", code::NOT_FOUND, "CUDA_ERROR_NOT_FOUND"),
    ("cuLaunchKernel", code::LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    ("cuLaunchHostFunc", code::OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"),
];

#[test]
fn every_call_fails_once() {
    for driver in DRIVERS {
        let mut struck = 0;
        for &(call, code, name) in CALLS {
            let calls = count(driver, call);
            assert!(calls > 0, "the program never calls {call}");
            for after in 0..calls {
                strike(driver, Failure::once(call, after, code), name);
                struck += 1;
            }
        }
        assert!(struck > 20, "{struck} positions");
    }
}

#[test]
fn the_device_is_lost_at_every_call() {
    let name = "CUDA_ERROR_LAUNCH_FAILED";
    for driver in DRIVERS {
        for &(call, ..) in CALLS.iter().chain(&[("cuEventRecord", 0, ""), ("cuEventQuery", 0, "")])
        {
            // How many questions there are depends on time: the first ones are always there.
            let calls = if call.starts_with("cuEvent") { 3 } else { count(driver, call) };
            for after in 0..calls {
                strike(driver, Failure::lost(call, after, code::LAUNCH_FAILED), name);
            }
        }
    }
}

/// A stream that stalls holds up those that wait for it, and nobody else.
#[test]
fn a_stream_stalls() {
    let turn = stand_in().turn();
    let m = machine(DriverKind::Threaded, CudaConfig::default());
    let (a, b) = (m.compute(&CUDA, 0).unwrap(), m.compute(&CUDA, 1).unwrap());
    let (x, y) = (upload(&m, &a, &[1.0]), upload(&m, &b, &[2.0]));
    let before = crate::call(&m, "relu", &[&x], &a);
    assert_eq!(read(&before).unwrap(), [1.0]);
    // The streams are made at their first use: pinned memory's, that of the uploads, then this one.
    let hold = turn.stall("s2");
    let z = crate::call(&m, "add", &[&x, &x], &a);
    let waited = a.synchronize_for(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(waited.without_place(), Error::Timeout { .. }), "{waited}");
    let other = crate::call(&m, "add", &[&y, &y], &b);
    assert_eq!(read(&other).unwrap(), [4.0]);
    drop(hold);
    let w = crate::call(&m, "add", &[&y, &y], &b);
    assert_eq!((read(&z).unwrap(), read(&w).unwrap()), (vec![2.0], vec![4.0]));
    drop((x, y, z, other, w, m));
    no_violations();
}

/// What cannot be destroyed is told.
#[test]
fn errors_in_destruction_are_reported() {
    for (call, code) in [
        ("cuStreamDestroy_v2", code::INVALID_HANDLE),
        ("cuEventDestroy_v2", code::INVALID_HANDLE),
        ("cuMemFree_v2", code::INVALID_VALUE),
        ("cuMemFreeHost", code::INVALID_VALUE),
        ("cuModuleUnload", code::INVALID_HANDLE),
        ("cuDevicePrimaryCtxRelease_v2", code::INVALID_DEVICE),
    ] {
        let turn = stand_in().turn();
        let (config, heard) = listening();
        let m = machine(DriverKind::Threaded, config);
        program(&m);
        turn.fail(Failure::lost(call, 0, code));
        drop(m);
        let heard = heard.lock().unwrap().clone();
        assert!(heard.iter().any(|h| h.starts_with(call)), "{call}: {heard:?}");
    }
}

/// A process that ends takes the driver with it: nobody wants to hear that.
#[test]
fn the_end_of_the_process_is_not_reported() {
    let turn = stand_in().turn();
    let (config, heard) = listening();
    let m = machine(DriverKind::Threaded, config);
    program(&m);
    turn.fail(Failure::lost("cuMemFree_v2", 0, code::DEINITIALIZED));
    drop(m);
    assert_eq!(*heard.lock().unwrap(), Vec::<String>::new());
}

/// A host function cannot follow a device's addresses: it is refused when it is submitted.
#[test]
fn a_host_function_on_device_memory_is_refused() {
    let turn = stand_in().turn();
    for driver in DRIVERS {
        let m = machine(driver, CudaConfig::default());
        let x = upload(&m, &m.compute(&CUDA, 0).unwrap(), &[1.0]);
        let error = x.access(Access::Read, |_| panic!("must not run")).unwrap_err();
        assert!(!error.is_runtime(), "{error}");
        assert!(error.to_string().contains("f32[1] lies in the memory of cuda:0"), "{error}");
        assert_eq!(read(&x).unwrap(), [1.0]);
    }
    no_violations();
    nothing_is_left();
    drop(turn);
}
