//! Prepared calls, on their own operands and on others that are alike, and batches of them.

use std::sync::{Arc, Barrier};

use millstream::kernels::KernelCtx;
use millstream::ops::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
use millstream::*;
use millstream_testing::machine::*;

/// `x += y` and `x *= y`, looked up.
fn prepared(m: &Machine, x: &Tensor, y: &Tensor) -> [Prepared; 2] {
    ["add_", "mul_"].map(|op| m.prepare(op, &[x, y], Attrs::new()).unwrap())
}

/// A batch over two streams emits what single calls emit, and computes the same.
#[test]
fn a_batch_is_its_calls() {
    let program = |batched: bool| {
        move |m: &Machine| {
            let (s, t) = (cpu(m, 0), cpu(m, 1));
            let (x, y) = (upload(&s, m, &[1.0, 2.0]), upload(&s, m, &[3.0, 0.5]));
            let [add, mul] = prepared(m, &x, &y);
            m.start_recording(&[("x", &x), ("y", &y)]).unwrap();
            let calls = [(&add, [&x, &y], &s), (&mul, [&y, &x], &t), (&add, [&x, &x], &t)];
            let mut batch = batched.then(|| m.batch());
            for (call, operands, stream) in calls.into_iter().cycle().take(9) {
                let handles = operands.map(Tensor::handle);
                match &mut batch {
                    Some(batch) => batch.call_with(call, &handles, stream).unwrap(),
                    None => m.batch().call_with(call, &handles, stream).unwrap(),
                }
            }
            drop(batch);
            let list = m.finish_recording().unwrap();
            assert_eq!((read(&x), read(&y)), (vec![560.0, 40.625], vec![67200.0, 158.6914]));
            list
        }
    };
    let batched = emitted(SyncPolicy::Frontier, program(true));
    assert_eq!(batched, emitted(SyncPolicy::Frontier, program(false)));
    insta::assert_snapshot!(batched.lines().take(12).collect::<Vec<_>>().join("\n"), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    external %1 "y" f32[2] in 8 bytes of a0
    OpCall s0:3 add_ (%0 readwrite, %1 read)
    SoftSyncStream s1 needs s0:3 for (%1, %0) by-host
    StreamWaitEvent s1:1 until s0:3 by-host
    OpCall s1:2 mul_ (%1 readwrite, %0 read)
    SoftSyncStream s1 needs s0:3 for (%0) elided-known
    OpCall s1:3 add_ (%0 readwrite, %0 read)
    "#);
}

/// More calls than one stay in the machine takes, nobody looking on: the short way to the worker.
#[test]
fn many_calls() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        for stream in [cpu(&m, 0), sim(&m, 0)] {
            let (x, one) = (upload(&stream, &m, &[0.0]), upload(&stream, &m, &[1.0]));
            let [add, _] = prepared(&m, &x, &one);
            let mut batch = m.batch();
            for _ in 0..1000 {
                batch.call(&add, &stream).unwrap();
            }
            drop(batch);
            add.on(&stream).unwrap();
            assert_eq!(read(&x), [1001.0], "{driver:?}");
        }
    }
}

/// What is asked of a call's operands is asked each time.
#[test]
fn refusals() {
    let (m, other) = (threaded(), threaded());
    let s = cpu(&m, 0);
    let (x, y) = (upload(&s, &m, &[1.0, 2.0]), upload(&s, &m, &[3.0, 4.0]));
    let (long, device) = (upload(&s, &m, &[0.0; 3]), upload(&sim(&m, 0), &m, &[0.0, 0.0]));
    let whole = upload(&s, &m, &[1.0, 2.0, 3.0]);
    let part = slice(&m, &whole, 0, 2, &s);
    let foreign = upload(&cpu(&other, 0), &other, &[1.0, 2.0]);
    let (gone, held) = (upload(&s, &m, &[0.0, 0.0]), upload(&s, &m, &[0.0, 0.0]));
    let [add, _] = prepared(&m, &x, &y);
    gone.release().unwrap();
    let section = m.critical_section(&[&held]).unwrap();
    let mut errors = Vec::new();
    let mut batch = m.batch();
    for operands in [&[&x][..], &[&x, &long], &[&x, &part], &[&gone, &y], &[&held, &y]] {
        let handles: Vec<_> = operands.iter().map(|t| t.handle()).collect();
        errors.push(batch.call_with(&add, &handles, &s).unwrap_err());
    }
    for operands in [[&x, &device], [&x, &foreign]] {
        errors.push(batch.call_with(&add, &operands.map(Tensor::handle), &s).unwrap_err());
    }
    errors.push(batch.call(&add, &cpu(&other, 0)).unwrap_err());
    // What was refused has changed nothing.
    batch.call(&add, &s).unwrap();
    drop(batch);
    section.end().unwrap();
    assert_eq!(read(&x), [4.0, 6.0]);
    // Without the places of the calls that the errors name. The tensors' numbers depend on when
    // others' came free.
    let text = |e: &Error| {
        e.without_place().to_string().split(" at tests").next().unwrap_or_default().to_owned()
    };
    let mut text = errors.iter().map(text).collect::<Vec<_>>().join("\n");
    for (tensor, name) in [(&gone, "%gone"), (&held, "%held"), (&device, "%device")] {
        text = text.replace(&tensor.tensor_ref().id.to_string(), name);
    }
    insta::assert_snapshot!(text, @r"
    add_: it was prepared with 2 operand(s), 1 given
    add_: operand 1 is f32[3], and the call was prepared for f32[2]
    add_: operand 1 is f32[2] within a larger storage, and the call was prepared for f32[2]
    %gone is used after its release
    %held is held by the critical section begun
    add_: %device lies on sim:0, and cpu:0 compute 0 works on cpu:0
    an operand belongs to another machine
    the stream belongs to another machine
    ");
}

/// A thread that has a batch open would wait for itself: it is told so.
#[test]
fn a_thread_with_a_batch_open() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[2.0]));
    let [add, _] = prepared(&m, &x, &y);
    let dropped = upload(&s, &m, &[0.0]);
    let mut batch = m.batch();
    // Nothing is held before the first call.
    m.call("add_", &[&x, &y]).on(&s).unwrap();
    batch.call(&add, &s).unwrap();
    let refused = [
        m.call("relu", &[&x]).on(&s).err(),
        m.prepare("add_", &[&x, &y], Attrs::new()).err(),
        add.on(&s).err(),
        m.synchronize().err(),
        x.read().err(),
        m.batch().call(&add, &s).err(),
        m.stream(s.key()).err(),
    ];
    for error in refused {
        let error = error.expect("refused");
        assert!(matches!(error.without_place(), Error::InBatch), "{error}");
    }
    // Handles can be dropped, and another machine used.
    drop(dropped);
    let other = threaded();
    let z = upload(&cpu(&other, 0), &other, &[7.0]);
    let [twice, _] = prepared(&other, &z, &z);
    let on = cpu(&other, 0);
    let mut there = other.batch();
    there.call(&twice, &on).unwrap();
    drop(batch);
    assert!(matches!(z.read().unwrap_err().without_place(), Error::InBatch));
    drop(there);
    assert_eq!((read(&x), read(&z)), (vec![5.0], vec![14.0]));
}

/// Threads with batches let one another in, and none loses a call.
#[test]
fn several_threads() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (sum, one) = (upload(&s, &m, &[0.0]), upload(&s, &m, &[1.0]));
    let [add, _] = prepared(&m, &sum, &one);
    let start = Barrier::new(3);
    std::thread::scope(|scope| {
        for k in 0..3 {
            let (m, add, start) = (&m, &add, &start);
            scope.spawn(move || {
                let on = cpu(m, k);
                start.wait();
                let mut batch = m.batch();
                for _ in 0..500 {
                    batch.call(add, &on).unwrap();
                }
            });
        }
    });
    assert_eq!(read(&sum), [1500.0]);
}

/// An op that changes its operand.
struct Break;

impl Op for Break {
    fn name(&self) -> &str {
        "break_"
    }
    fn summary(&self) -> &str {
        "a test's own"
    }
    fn inputs(&self) -> &[ArgDoc] {
        &[ArgDoc { name: "x", doc: "any shape" }]
    }
    fn signature(&self, _: CallSpec<'_>) -> Result<Signature> {
        let (accesses, outputs) = ([Access::ReadWrite], [OutputSpec::Same(0)]);
        let (accesses, outputs) = (accesses.into_iter().collect(), outputs.into_iter().collect());
        Ok(Signature { accesses, outputs, workspace: 0 })
    }
}

/// A stored call that fails names its own place, and poisons what it writes.
#[test]
fn a_failure_has_its_place() {
    for driver in ALL_DRIVERS {
        let mut config = config(driver, SyncPolicy::Frontier);
        config.ops.register(Arc::new(Break));
        let breaks = |_: &KernelCtx<'_>| anyhow::bail!("it broke");
        config.kernels.register("cpu", "break_", Arc::new(breaks));
        let m = Machine::new(config).unwrap();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let call = m.prepare("break_", &[&x], Attrs::new()).unwrap();
        let mut batch = m.batch();
        batch.call(&call, &s).unwrap();
        let line = line!() - 1;
        drop(batch);
        let failure = failure(x.read().unwrap_err());
        assert_eq!(failure.message, "it broke");
        assert_eq!(failure.origin.to_string(), format!("{}:{line}", file!()));
        // The next one is skipped, whole.
        call.on(&s).unwrap();
        assert!(x.read().is_err());
    }
}

/// Calls come and go; their places in the machine are used again.
#[test]
fn calls_that_are_dropped() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (x, one) = (upload(&s, &m, &[0.0]), upload(&s, &m, &[1.0]));
    for k in 0..500 {
        let [add, mul] = prepared(&m, &x, &one);
        add.on(&s).unwrap();
        drop(add);
        mul.on(&s).unwrap();
        if k % 50 == 0 {
            s.synchronize().unwrap();
        }
    }
    assert_eq!(read(&x), [500.0]);
}

/// Each call of a batch belongs to the scope that it is made in.
#[test]
fn a_scope_within_a_batch() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let (x, y, one) = (upload(&s, &m, &[0.0]), upload(&s, &m, &[0.0]), upload(&s, &m, &[1.0]));
        let add = m.prepare("add_", &[&x, &one], Attrs::new()).unwrap();
        let cancellation = Cancellation::new();
        // Before the calls, so that none of the scope's has started.
        cancellation.cancel();
        let mut batch = m.batch();
        batch.call(&add, &s).unwrap();
        cancellation.scope(|| batch.call_with(&add, &[y.handle(), one.handle()], &s)).unwrap();
        batch.call(&add, &s).unwrap();
        drop(batch);
        assert_eq!(read(&x), [2.0], "{driver:?}");
        let error = y.read().unwrap_err();
        assert!(matches!(error.without_place(), Error::Cancelled(_)), "{driver:?}: {error}");
    }
}

/// A panic of the program's own, with a batch open, leaves the machine as it is for others.
#[test]
fn a_panic_between_calls() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (x, one) = (upload(&s, &m, &[0.0]), upload(&s, &m, &[1.0]));
    let [add, _] = prepared(&m, &x, &one);
    let died = std::thread::scope(|scope| {
        let dies = scope.spawn(|| {
            let mut batch = m.batch();
            batch.call(&add, &s).unwrap();
            let refused = batch.call_with(&add, &[x.handle()], &s);
            assert!(refused.is_ok(), "the program's own mistake");
        });
        dies.join().is_err()
    });
    assert!(died);
    add.on(&s).unwrap();
    drop(add);
    assert_eq!(read(&x), [2.0]);
}
