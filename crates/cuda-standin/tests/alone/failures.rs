//! Tests of the driver's failures: once or for good, at every call of a small program.

use std::any::Any;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millstream::ep::cuda::{CompletionMode, CudaBackend, CudaConfig};
use millstream::ep::{Backend, Work, WorkResult};
use millstream::{Access, DeviceId, DriverKind, Error, Machine, Result, Tensor};
use millstream_backoff::{Backoff, POLLS};
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::Failure;

use crate::{machine, no_violations, nothing_is_open, read, stand_in, upload};

const CUDA: DeviceId = DeviceId::cuda(0);

const DRIVERS: [DriverKind; 2] = [DriverKind::Inline, DriverKind::Threaded];

/// Longer than any of the tests takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a configuration, and the list of the errors of dropped resources.
fn recording() -> (CudaConfig, Arc<Mutex<Vec<String>>>) {
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let to = errors.clone();
    let report_drop_error = Arc::new(move |error: &millstream::ep::cuda::DriverError| {
        to.lock().unwrap().push(error.to_string());
    });
    (CudaConfig { report_drop_error, ..CudaConfig::default() }, errors)
}

/// The outputs of [`program`], which uses three streams.
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

/// Runs the program with a failure. Each output must be right, or an error that names the failure.
fn run_with(driver: DriverKind, failure: Failure, name: &str) {
    let what = format!("{driver:?} {failure:?}");
    let turn = stand_in().turn();
    let (config, _) = recording();
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
    if !failure.loses_device {
        // The machine continues.
        let _ = m.synchronize();
        m.clear_failures();
        for (output, expected) in program(&m).into_iter().zip(EXPECTED) {
            assert_eq!(output.unwrap(), expected, "{what}");
        }
    }
    let report = m.clone().shutdown(TIMEOUT);
    assert!(!report.leaked && report.hanging.is_empty(), "{what}: {report:?}");
    drop(m);
    no_violations();
    if !failure.loses_device {
        nothing_is_open();
    }
}

/// Returns how often a run without failures calls `call`.
fn count(driver: DriverKind, call: &str) -> u64 {
    let turn = stand_in().turn();
    let m = machine(driver, CudaConfig::default());
    for (output, expected) in program(&m).into_iter().zip(EXPECTED) {
        assert_eq!(output.unwrap(), expected);
    }
    drop(m);
    turn.count(call)
}

/// Calls that may fail without a loss of the device, with the code and the text of the error.
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
        let mut positions = 0;
        for &(call, code, name) in CALLS {
            let calls = count(driver, call);
            assert!(calls > 0, "the program never calls {call}");
            for after in 0..calls {
                run_with(driver, Failure::once(call, after, code), name);
                positions += 1;
            }
        }
        assert!(positions > 20, "{positions} positions");
    }
}

#[test]
fn the_device_is_lost_at_every_call() {
    let name = "CUDA_ERROR_LAUNCH_FAILED";
    for driver in DRIVERS {
        for &(call, ..) in CALLS.iter().chain(&[("cuEventRecord", 0, ""), ("cuEventQuery", 0, "")])
        {
            // The number of queries depends on time; at least three always occur.
            let calls = if call.starts_with("cuEvent") { 3 } else { count(driver, call) };
            for after in 0..calls {
                run_with(driver, Failure::lost(call, after, code::LAUNCH_FAILED), name);
            }
        }
    }
}

/// A stalled stream delays the streams that wait for it, and no others.
#[test]
fn a_stream_stalls() {
    let turn = stand_in().turn();
    let m = machine(DriverKind::Threaded, CudaConfig::default());
    let (a, b) = (m.compute(&CUDA, 0).unwrap(), m.compute(&CUDA, 1).unwrap());
    let (x, y) = (upload(&m, &a, &[1.0]), upload(&m, &b, &[2.0]));
    let before = crate::call(&m, "relu", &[&x], &a);
    assert_eq!(read(&before).unwrap(), [1.0]);
    // Streams are created at their first use: of pinned memory, of the uploads, then this one.
    let hold = turn.hold_stream("s2");
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

/// The error of a resource that cannot be destroyed is reported.
#[test]
fn errors_of_destruction_are_reported() {
    for (call, code) in [
        ("cuStreamDestroy_v2", code::INVALID_HANDLE),
        ("cuEventDestroy_v2", code::INVALID_HANDLE),
        ("cuMemFree_v2", code::INVALID_VALUE),
        ("cuMemFreeHost", code::INVALID_VALUE),
        ("cuModuleUnload", code::INVALID_HANDLE),
        ("cuDevicePrimaryCtxRelease_v2", code::INVALID_DEVICE),
    ] {
        let turn = stand_in().turn();
        let (config, errors) = recording();
        let m = machine(DriverKind::Threaded, config);
        program(&m);
        turn.fail(Failure::lost(call, 0, code));
        drop(m);
        let errors = errors.lock().unwrap().clone();
        assert!(errors.iter().any(|error| error.starts_with(call)), "{call}: {errors:?}");
    }
}

/// A process that ends shuts the driver down. The resulting errors are not reported.
#[test]
fn the_end_of_the_process_is_not_reported() {
    let turn = stand_in().turn();
    let (config, errors) = recording();
    let m = machine(DriverKind::Threaded, config);
    program(&m);
    turn.fail(Failure::lost("cuMemFree_v2", 0, code::DEINITIALIZED));
    drop(m);
    assert_eq!(*errors.lock().unwrap(), Vec::<String>::new());
}

/// The channels of work that runs until it receives a message.
struct Blocking {
    started: Sender<()>,
    release: Receiver<()>,
}

/// Work of the host that blocks. Detaching it moves its content.
struct BlockingHostWork(Option<Blocking>);

impl Work for BlockingHostWork {
    fn run(&mut self, _: &dyn Any) -> WorkResult {
        let Some(Blocking { started, release }) = &self.0 else { return Ok(()) };
        started.send(())?;
        Ok(release.recv()?)
    }

    fn runs_on_host(&self) -> bool {
        true
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(BlockingHostWork(self.0.take()))
    }
}

/// The layers above free memory when a loss is reported. A stream therefore reports its loss only
/// when no host function of the stream is running, and no other one is called afterwards.
#[test]
fn a_loss_is_reported_after_the_running_host_function() {
    for completion in [CompletionMode::Polled, CompletionMode::Callback] {
        let turn = stand_in().turn();
        let backend = CudaBackend::new(CudaConfig { completion, ..recording().0 });
        let device = backend.open(0).unwrap();
        let (notify, notified) = channel();
        let notify = Arc::new(move || notify.send(()).unwrap());
        let mut stream = device.create_stream(notify).unwrap();
        let ((started, has_started), (end, release)) = (channel(), channel());
        stream.submit(&mut BlockingHostWork(Some(Blocking { started, release }))).unwrap();
        let ((started, is_called), (_end, release)) = (channel(), channel());
        stream.submit(&mut BlockingHostWork(Some(Blocking { started, release }))).unwrap();
        has_started.recv().unwrap();
        turn.lose(0, code::LAUNCH_FAILED, true);
        let mut poll = || stream.poll(&mut |ticket, _| panic!("{ticket} has completed"));
        for _ in 0..3 {
            assert_eq!(poll(), Ok(()), "a host function is running");
            if completion == CompletionMode::Callback {
                notified.recv().unwrap();
            }
        }
        end.send(()).unwrap();
        let start = Instant::now();
        let mut backoff = Backoff::new(POLLS);
        let lost = loop {
            match poll() {
                Err(error) => break error,
                Ok(()) => assert!(start.elapsed() < TIMEOUT),
            }
            backoff.snooze();
        };
        assert!(lost.to_string().contains("CUDA_ERROR_LAUNCH_FAILED"), "{lost}");
        assert!(is_called.recv().is_err(), "the other function was dropped");
    }
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
    nothing_is_open();
    drop(turn);
}
