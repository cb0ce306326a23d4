//! Functions of the program on the streams of a CUDA device.

use std::any::Any;
use std::sync::Arc;

use anyhow::bail;
use millstream::ep::cuda::{CudaBackend, CudaConfig, NativeStream};
use millstream::ep::{Backend, Progress, Work, WorkResult};
use millstream::{DType, DeviceId, DriverKind, Prop, RunContext, TensorSpec};
use millstream_cuda_standin::HOST_KERNELS;

use crate::{machine, no_violations, nothing_is_open, stand_in};

const CUDA: DeviceId = DeviceId::cuda(0);

/// A function gets the native stream of its call, also on a thread of the host, and comes after the
/// ops that write its tensors.
#[test]
fn functions_get_the_native_stream() {
    let _turn = stand_in().turn();
    for driver in [DriverKind::Threaded, DriverKind::Inline] {
        let m = machine(driver, CudaConfig::default());
        let engine = m.dependency_engine().unwrap();
        let s = m.compute(&CUDA, 0).unwrap();
        let spec = TensorSpec::contiguous(DType::F32, &[1]).unwrap();
        let x = m.upload(&s, spec, 1f32.to_ne_bytes().into()).unwrap();
        let (a, var) = (engine.var().unwrap(), engine.var_of(&x).unwrap());
        let check = engine.operator_with(|context: &mut RunContext<'_>| {
            assert_eq!(*context.device(), CUDA);
            let native = context.native::<NativeStream>().map(NativeStream::device);
            assert_eq!(native, Some(&CUDA));
        });
        let check = check.reads(&[&var]).writes(&[&a]);
        for prop in [Prop::CopyToDevice(CUDA), Prop::CopyFromDevice(CUDA)] {
            m.call("add_", &[&x, &x]).on(&s).unwrap();
            check.begin_push().prop(prop).spawn().unwrap();
        }
        check.begin_push().on(&s).spawn().unwrap();
        engine.wait_for(&a).unwrap();
        // A normal function has the host's context.
        let normal = |context: &mut RunContext<'_>| {
            assert!(context.native::<NativeStream>().is_none());
        };
        engine.push_with(normal).reads(&[&var]).writes(&[&a]).spawn().unwrap();
        engine.wait_for(&a).unwrap();
        engine.wait_all().unwrap();
        assert_eq!(x.read().unwrap(), 4f32.to_ne_bytes());
    }
    no_violations();
    nothing_is_open();
}

/// While a module's code is compiled, other modules of the device are loaded: no lock is held. A
/// module whose code failed is compiled again.
#[test]
fn modules_load_while_another_is_compiled() {
    let _turn = stand_in().turn();
    let m = machine(DriverKind::Inline, CudaConfig::default());
    let (engine, s) = (m.dependency_engine().unwrap(), m.compute(&CUDA, 0).unwrap());
    let load = |context: &mut RunContext<'_>| {
        let native = context.native::<NativeStream>().unwrap();
        let mut compiled = 0;
        for _ in 0..2 {
            let other = || native.kernel("other", c"other", || bail!("no code"));
            let outer = native.kernel("outer", c"outer", || {
                compiled += 1;
                bail!("within: {}", other().err().unwrap())
            });
            assert_eq!(outer.err().unwrap().to_string(), "within: no code");
        }
        assert_eq!(compiled, 2);
    };
    let a = engine.var().unwrap();
    engine.push_with(load).writes(&[&a]).on(&s).spawn().unwrap();
    engine.wait_for(&a).unwrap();
    drop((engine, a, s, m));
    no_violations();
    nothing_is_open();
}

/// A precompilation compiles kernels on another thread, launches nothing and calls the driver
/// never; the first launch does not compile them again.
#[test]
fn precompilation_runs_nothing() {
    let _turn = stand_in().turn();
    let device = CudaBackend::new(CudaConfig::default()).open(0).unwrap();
    let calls = stand_in().calls().len();
    let (send, receive) = std::sync::mpsc::channel();
    device.precompile(Box::new(move |native| {
        let native: &NativeStream = native.downcast_ref().unwrap();
        let code = || Ok(HOST_KERNELS.to_bytes_with_nul().to_vec());
        let none = native.kernel("ahead", c"relu", code).unwrap().is_none();
        let memory = native.scratch().take(1 << 40).unwrap();
        // SAFETY: nothing runs.
        unsafe { native.fill(memory, 1, 1 << 40).unwrap() };
        send.send((none, std::thread::current().id())).unwrap();
    }));
    let (none, thread) = receive.recv().unwrap();
    assert!(none && thread != std::thread::current().id());
    assert_eq!(stand_in().calls().len(), calls);
    let mut stream = device.create_stream(Arc::new(|| ())).unwrap();
    let mut done = match stream.submit(&mut Load).unwrap() {
        Progress::Done(result) => Some(result),
        Progress::Pending(_) => None,
    };
    while done.is_none() {
        stream.poll(&mut |_, result| done = Some(result)).unwrap();
        std::thread::yield_now();
    }
    done.unwrap().unwrap();
    drop((stream, device));
    no_violations();
    nothing_is_open();
}

/// Work that gets a kernel whose code is there.
struct Load;

impl Work for Load {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        let native: &NativeStream = native.downcast_ref().unwrap();
        let loaded = native.kernel("ahead", c"relu", || bail!("compiled again"))?;
        assert!(loaded.is_some());
        Ok(())
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(Load)
    }
}
