//! Functions, callbacks, hooks and wakers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use millstream_types::{Access, DType, DeviceId, Result, StreamKey, StreamType, TensorSpec};
use millstream_vm::{
    Cancellation, DependencyEngine, Machine, MachineConfig, Tensor, Var, autocast, no_grad,
};

use super::{Bomb, DRIVERS, spring, tried};

struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<BadWaker>) {
        spring("waker");
    }
}

/// Owns a bomb, and does nothing.
fn keeps(bomb: &'static str) -> impl FnOnce() + Send + 'static {
    let bomb = Bomb(bomb);
    move || drop(bomb)
}

/// Poisons a variable.
fn poison(engine: &DependencyEngine, var: &Var) -> Result<()> {
    engine.push(|| spring("cause")).writes(&[var]).spawn()
}

fn vars(machine: &Machine) -> Result<(DependencyEngine, Var, Var)> {
    let engine = machine.dependency_engine()?;
    let (one, other) = (engine.var()?, engine.var()?);
    Ok((engine, one, other))
}

fn ones(machine: &Machine) -> Result<Tensor> {
    Tensor::ones(2, DType::F32, machine)
}

fn spec() -> TensorSpec {
    TensorSpec::contiguous(DType::F32, &[2]).unwrap()
}

type Program = fn(&Machine) -> Result<()>;

/// Each program names the panic in its error, or in a failure of its machine.
const CASES: &[(&str, Program)] = &[
    ("push", |m| {
        let (engine, a, _) = vars(m)?;
        engine.push(|| spring("push")).writes(&[&a]).spawn()?;
        engine.wait_for(&a)
    }),
    ("panic!", |m| {
        let (engine, a, _) = vars(m)?;
        engine.push(|| panic!("panic!")).writes(&[&a]).spawn()?;
        engine.wait_for(&a)
    }),
    ("push_async", |m| {
        let (engine, a, _) = vars(m)?;
        engine.push_async(|_| spring("push_async")).writes(&[&a]).spawn()?;
        engine.wait_for(&a)
    }),
    ("push_with", |m| {
        let (engine, a, _) = vars(m)?;
        engine.push_with(|_| spring("push_with")).writes(&[&a]).spawn()?;
        engine.wait_for(&a)
    }),
    ("operator", |m| {
        let (engine, a, _) = vars(m)?;
        engine.operator(|| spring("operator")).writes(&[&a]).push()?;
        engine.wait_for(&a)
    }),
    ("delete", |m| {
        let (engine, a, _) = vars(m)?;
        engine.delete(&a, || spring("delete"))?;
        engine.wait_all()
    }),
    ("async prop", |m| {
        let (engine, a, _) = vars(m)?;
        let push = engine.push(|| spring("async prop")).writes(&[&a]);
        push.prop(millstream_vm::Prop::Async).spawn()?;
        engine.wait_for(&a)
    }),
    ("capture of a function that runs", |m| {
        let (engine, a, _) = vars(m)?;
        engine.push(keeps("capture of a function that runs")).writes(&[&a]).spawn()?;
        engine.wait_for(&a)
    }),
    ("capture of a skipped function", |m| {
        let (engine, a, b) = vars(m)?;
        poison(&engine, &a)?;
        let unused = keeps("capture of a skipped function");
        engine.push(unused).reads(&[&a]).writes(&[&b]).spawn()?;
        engine.wait_for(&b)
    }),
    ("capture of a skipped function of a stream", |m| {
        let (engine, a, b) = vars(m)?;
        let stream = m.compute(&DeviceId::cpu(0), 1)?;
        poison(&engine, &a)?;
        let unused = keeps("capture of a skipped function of a stream");
        engine.push(unused).reads(&[&a]).writes(&[&b]).on(&stream).spawn()?;
        engine.wait_for(&b)
    }),
    ("capture of a cancelled function", |m| {
        let (engine, a, _) = vars(m)?;
        let cancellation = Cancellation::new();
        cancellation.cancel();
        let unused = keeps("capture of a cancelled function");
        cancellation.scope(|| engine.push(unused).writes(&[&a]).spawn())?;
        engine.wait_for(&a)
    }),
    ("capture of a refused function", |m| {
        let (engine, a, _) = vars(m)?;
        engine.delete(&a, || ())?;
        engine.push(keeps("capture of a refused function")).writes(&[&a]).spawn()
    }),
    ("captures of a bulk scope", |m| {
        let (engine, a, _) = vars(m)?;
        let mut bulk = engine.bulk(10);
        bulk.push(|| spring("captures of a bulk scope")).writes(&[&a]).spawn()?;
        bulk.push(keeps("second")).writes(&[&a]).spawn()?;
        bulk.push(keeps("third")).writes(&[&a]).spawn()?;
        drop(bulk);
        engine.wait_for(&a)
    }),
    ("captures of a skipped bulk scope", |m| {
        let (engine, a, b) = vars(m)?;
        poison(&engine, &a)?;
        let mut bulk = engine.bulk(10);
        let first = keeps("captures of a skipped bulk scope");
        bulk.push(first).reads(&[&a]).writes(&[&b]).spawn()?;
        bulk.push(keeps("second")).writes(&[&b]).spawn()?;
        drop(bulk);
        engine.wait_for(&b)
    }),
    ("access", |m| ones(m)?.access(Access::Read, |_| spring("access"))?.wait()),
    ("capture of a skipped access", |m| {
        let index = Tensor::from_slice(&[9i64], 1, m)?;
        let poisoned = ones(m)?.index_select(&index, 0)?;
        let unused = keeps("capture of a skipped access");
        let access = move |_: &mut millstream_vm::Blob<'_>| {
            unused();
            Ok(())
        };
        poisoned.access(Access::Read, access)?.wait()
    }),
    ("callback of an executable", |m| {
        let recorded = m.record(|r| {
            let x = r.input("x", spec())?;
            let stream = r.stream(&StreamKey::new(DeviceId::cpu(0), StreamType::COMPUTE, 0))?;
            r.access(&x, Access::Read, stream, |_| spring("callback of an executable"))
        })?;
        let x = ones(m)?;
        recorded.compile()?.launch().input("x", &x).run()?.wait()
    }),
    ("recorded function", |m| m.record(|_| spring("recorded function")).map(drop)),
    ("traced function", |m| {
        let traced = m.traced(|_, _| spring("traced function"));
        traced.call(&[&ones(m)?]).run().map(drop)
    }),
    ("hook", |m| {
        let x = ones(m)?.with_grad()?;
        let tape = m.tape();
        let y = x.exp()?;
        tape.hook(&y, |_| spring("hook"))?;
        tape.backward(&y.sum(..)?)
    }),
    ("checkpoint", |m| {
        let x = ones(m)?.with_grad()?;
        let tape = m.tape();
        tape.checkpoint(&[&x], |_| spring("checkpoint")).map(drop)
    }),
    ("autocast", |_| autocast(DType::F16, || spring("autocast"))),
    ("no_grad", |_| no_grad(|| spring("no_grad"))),
    ("cancel scope", |_| Cancellation::new().scope(|| spring("cancel scope"))),
    ("critical section", |m| {
        let x = ones(m)?;
        let _section = m.critical_section(&[&x])?;
        spring("critical section")
    }),
    ("batch", |m| {
        let _batch = m.batch();
        spring("batch")
    }),
];

#[test]
fn closures() {
    for driver in DRIVERS {
        for workers in [1, 2] {
            for &(case, program) in CASES {
                let config = move || MachineConfig::default().driver(driver).host_workers(workers);
                let tried = tried(case, config, program);
                assert!(tried.told.contains(case), "{driver:?}, {case}: {tried:?}");
                assert_eq!(tried.later, "", "{driver:?}, {case}: {tried:?}");
            }
        }
    }
}

/// No call depends on a waker. The panic hook has its panic, and others that wait are woken.
#[test]
fn wakers() {
    for workers in [1, 2] {
        let config = move || MachineConfig::default().host_workers(workers);
        let tried = tried("waker", config, |m| {
            let (engine, a, _) = vars(m)?;
            let (open, opened) = std::sync::mpsc::channel::<()>();
            engine.push(move || opened.recv().map_or((), |()| ())).writes(&[&a]).spawn()?;
            let waker = Waker::from(Arc::new(BadWaker));
            let mut completion = m.completion()?;
            let polled = Pin::new(&mut completion).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            drop(open);
            engine.wait_for(&a)
        });
        assert_eq!((&*tried.told, &*tried.later), ("", ""));
    }
}
