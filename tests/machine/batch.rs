//! Prepared calls on their own operands and on others with the same metadata, and batches of
//! prepared calls.

use std::sync::{Arc, Barrier};

use millstream::kernels::KernelCtx;
use millstream::ops::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
use millstream::*;
use millstream_testing::machine::*;

/// Prepares `x += y` and `x *= y`.
fn prepared(m: &Machine, x: &Tensor, y: &Tensor) -> [Prepared; 2] {
    ["add_", "mul_"].map(|op| m.prepare(op, &[x, y], Attrs::new()).unwrap())
}

/// A batch over two streams emits the list of the same single calls and computes the same results.
#[test]
fn a_batch_emits_the_list_of_its_single_calls() {
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

/// The batch has more calls than one emission takes, and no recording: calls take the short path to
/// the worker.
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

/// Every call checks its operands anew.
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
    // A refused call changes nothing.
    batch.call(&add, &s).unwrap();
    drop(batch);
    section.end().unwrap();
    assert_eq!(read(&x), [4.0, 6.0]);
    // The text omits the origins in the errors. Tensor ids depend on when earlier ids became free.
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
    add_: %device lies on sim:0, and cpu:0 compute 0 works on cpu:0; copy it first, by the op copy on sim:0 device2host 0
    an operand belongs to another machine
    the stream belongs to another machine
    ");
}

/// A call outside the batch would wait for the thread's own open batch, so the machine refuses it.
#[test]
fn a_thread_with_an_open_batch_cannot_make_other_calls() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[2.0]));
    let [add, _] = prepared(&m, &x, &y);
    let dropped = upload(&s, &m, &[0.0]);
    let mut batch = m.batch();
    // A batch takes the lock at its first call.
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
    // The thread can drop handles and use another machine.
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

/// Threads with open batches take turns, and no call is lost.
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
        const { &[ArgDoc::new("x", "any shape")] }
    }
    fn signature(&self, _: CallSpec<'_>) -> Result<Signature> {
        let (accesses, outputs) = ([Access::ReadWrite], [OutputSpec::Same(0)]);
        let (accesses, outputs) = (accesses.into_iter().collect(), outputs.into_iter().collect());
        Ok(Signature { accesses, outputs, workspace: 0 })
    }
}

/// The failure of a prepared call has the origin of the call and poisons its output.
#[test]
fn a_failure_has_the_origin_of_its_call() {
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
        // The next call reads poison, so the machine skips it.
        call.on(&s).unwrap();
        assert!(x.read().is_err());
    }
}

/// The machine reuses the slots of dropped prepared calls.
#[test]
fn slots_of_dropped_calls_are_reused() {
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

/// Each call of a batch belongs to the cancel scope in which the program makes it.
#[test]
fn a_cancel_scope_within_a_batch() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let (x, y, one) = (upload(&s, &m, &[0.0]), upload(&s, &m, &[0.0]), upload(&s, &m, &[1.0]));
        let add = m.prepare("add_", &[&x, &one], Attrs::new()).unwrap();
        let cancellation = Cancellation::new();
        // Before the calls, so that no call of the scope has started.
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

/// After a panic of the program with an open batch, other threads can use the machine.
#[test]
fn a_panic_between_calls() {
    let m = threaded();
    let s = cpu(&m, 0);
    let (x, one) = (upload(&s, &m, &[0.0]), upload(&s, &m, &[1.0]));
    let [add, _] = prepared(&m, &x, &one);
    let panicked = std::thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let mut batch = m.batch();
            batch.call(&add, &s).unwrap();
            let refused = batch.call_with(&add, &[x.handle()], &s);
            assert!(refused.is_ok(), "the program's own mistake");
        });
        panics.join().is_err()
    });
    assert!(panicked);
    add.on(&s).unwrap();
    drop(add);
    assert_eq!(read(&x), [2.0]);
}
