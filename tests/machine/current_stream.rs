//! The current stream: the default stream, or the stream of the innermost scope of this thread on
//! this machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream::*;
use millstream_testing::machine::*;

#[track_caller]
fn current(m: &Machine) -> String {
    m.current_stream().unwrap().key().to_string()
}

#[test]
fn the_default_is_compute_0_of_the_default_device() {
    assert_eq!(current(&threaded()), "cpu:0 compute 0");
    let (config, _hand) = by_hand_config();
    let m = Machine::new(config.default_device(SIM)).unwrap();
    assert_eq!(current(&m), "sim:0 compute 0");
    assert_eq!(m.current_stream().unwrap().key(), sim(&m, 0).key());
    let nowhere = by_hand_config().0.default_device(DeviceId::sim(7));
    let error = Machine::new(nowhere).unwrap().current_stream().unwrap_err();
    assert!(matches!(error.without_place(), Error::Device { .. }), "{error}");
}

#[test]
fn created_streams_are_new() {
    let m = inline();
    let streams = [&CPU, &SIM, &CPU, &CPU].map(|device| m.create_stream(device).unwrap());
    let made = streams.each_ref().map(|stream| stream.key().to_string());
    let numbers = ["cpu:0 compute c0", "sim:0 compute c0", "cpu:0 compute c1", "cpu:0 compute c2"];
    assert_eq!(made, numbers);
    // The program's own numbers name other streams, whichever was there first.
    for k in 0..4 {
        let named = cpu(&m, k);
        assert!(streams.iter().all(|created| created.key() != named.key()), "{k}");
    }
    assert_eq!(m.create_stream(&CPU).unwrap().key().to_string(), "cpu:0 compute c3");
    m.create_stream(&DeviceId::sim(1)).unwrap_err();
    assert_eq!(m.streams_used().unwrap(), [], "a stream costs nothing before it is used");
}

#[test]
fn scopes_nest_and_restore() {
    let m = inline();
    let (s, t) = (cpu(&m, 1), cpu(&m, 2));
    let seen = with_stream(&s, || {
        let inner = with_stream(&t, || (current(&m), with_stream(&s, || current(&m)), current(&m)));
        (inner, current(&m))
    });
    let name = |k: u32| format!("cpu:0 compute {k}");
    assert_eq!(seen, ((name(2), name(1), name(2)), name(1)));
    assert_eq!(current(&m), name(0));
}

#[test]
fn a_stream_may_be_set_until_its_scope_ends() {
    let m = inline();
    let (s, t, u) = (cpu(&m, 1), cpu(&m, 2), cpu(&m, 3));
    let name = |k: u32| format!("cpu:0 compute {k}");
    s.set_current();
    assert_eq!(current(&m), name(1));
    assert_eq!(current(&inline()), name(0), "other machines have their own");
    let within = with_stream(&t, || {
        u.set_current();
        let set = current(&m);
        s.set_current();
        with_stream(&u, || t.set_current());
        (set, current(&m))
    });
    assert_eq!(within, (name(3), name(1)));
    assert_eq!(current(&m), name(1));
    t.set_current();
    assert_eq!(current(&m), name(2));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(current(&m), name(0), "other threads have their own"));
    });
    // A stream of another device beside it: each device keeps its own.
    let far = sim(&m, 1);
    far.set_current();
    assert_eq!(current(&m), "sim:0 compute 1");
    let near = Tensor::zeros(1, DType::F32, (&m, &CPU)).unwrap();
    assert_eq!(near.stream().unwrap().key().to_string(), name(2));
}

#[test]
fn a_set_stream_does_not_keep_its_machine() {
    let held = Arc::new(());
    let by_kernel = held.clone();
    let mut config = config(DriverKind::Inline, SyncPolicy::Frontier);
    add_op(&mut config, "own", move |_| {
        let _held = &by_kernel;
        Ok(())
    });
    let m = Machine::new(config).unwrap();
    cpu(&m, 1).set_current();
    drop(m);
    assert_eq!(Arc::strong_count(&held), 1, "the machine is gone, with its kernels");
}

#[test]
fn a_scope_of_none_changes_nothing() {
    let m = inline();
    let s = cpu(&m, 1);
    with_stream(None, || assert_eq!(current(&m), "cpu:0 compute 0"));
    let perhaps = Some(&s);
    with_stream(perhaps, || {
        with_stream(None, || assert_eq!(current(&m), "cpu:0 compute 1"));
        assert_eq!(current(&m), "cpu:0 compute 1");
    });
}

#[test]
fn a_panic_restores_the_stream() {
    let m = inline();
    let (s, t) = (cpu(&m, 1), cpu(&m, 2));
    with_stream(&s, || {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            with_stream(&t, || with_stream(&s, || panic!("in the inner scope")))
        }));
        panicked.unwrap_err();
        assert_eq!(current(&m), "cpu:0 compute 1");
    });
    assert_eq!(current(&m), "cpu:0 compute 0");
}

/// A scope belongs to one thread and one machine.
#[test]
fn other_threads_and_machines_keep_their_streams() {
    let (m, other) = (inline(), inline());
    let (s, t) = (cpu(&m, 1), cpu(&other, 2));
    with_stream(&s, || {
        assert_eq!(current(&other), "cpu:0 compute 0");
        with_stream(&t, || {
            assert_eq!(
                (current(&m), current(&other)),
                ("cpu:0 compute 1".into(), "cpu:0 compute 2".into())
            );
            let elsewhere = std::thread::scope(|scope| scope.spawn(|| current(&m)).join());
            assert_eq!(elsewhere.unwrap(), "cpu:0 compute 0");
        });
    });
}

/// A scope may hold the last handle of its machine.
#[test]
fn a_machine_may_end_within_its_scope() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 1);
        let gone = std::sync::Mutex::new(Some((m, s.clone())));
        with_stream(&s.clone(), move || {
            drop(s);
            drop(gone.lock().unwrap().take());
        });
    }
}

#[test]
fn calls_records_and_waits_use_the_current_stream() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let (a, b) = (m.current_stream().unwrap(), m.create_stream(&CPU).unwrap());
        let x = upload(&a, m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let y = m.call("relu", &[&x]).run().unwrap().remove(0);
        let e = m.event();
        e.record().unwrap();
        let z = with_stream(&b, || {
            e.wait().unwrap();
            m.call("add", &[&y, &x]).run().unwrap().remove(0)
        });
        let list = m.finish_recording().unwrap();
        assert_eq!(read(&z), [2.0, -2.0]);
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute c0 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    OpCall s0:2 relu (%0 read, %1 write)
    RecordEvent s0:3 e0
    SoftSyncStream s1 needs s0:3 for () by-host
    StreamWaitEvent s1:1 until s0:3 by-host
    AllocateTensor s1 %2 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s1 needs s0:2 for (%1, %0) elided-known
    OpCall s1:2 add (%1 read, %0 read, %2 write)
    "#);
}

#[test]
fn a_call_without_a_stream_runs_on_the_device_of_its_operands() {
    let m = inline();
    let (near, far) = (upload(&cpu(&m, 3), &m, &[1.0]), upload(&sim(&m, 2), &m, &[-1.0]));
    let made = |call: CallBuilder<'_>| call.run().map(|mut made| made.remove(0));
    for (x, device) in [(&near, CPU), (&far, SIM)] {
        let y = made(m.call("relu", &[x])).unwrap();
        assert_eq!(y.device(), &device);
        // As methods do.
        let by_method = x.relu().unwrap();
        assert_eq!(y.stream().unwrap().key(), by_method.stream().unwrap().key());
    }
    let other = sim(&m, 5);
    let y = with_stream(&other, || made(m.call("relu", &[&far]))).unwrap();
    assert_eq!(y.stream().unwrap().key(), other.key());
    // A scope names its stream, also for operands elsewhere.
    let refused = with_stream(&cpu(&m, 7), || made(m.call("relu", &[&far]))).unwrap_err();
    assert!(refused.to_string().contains("copy it first, by the op copy on sim:0 device2host 0"));
    let target = upload(&sim(&m, 0), &m, &[0.0]);
    m.call("neg", &[&far]).out(&[&target]).run().unwrap();
    assert_eq!(read(&target), [1.0]);
    // Operands on two devices are refused; the error names both, and how to copy.
    let before = m.stats().unwrap();
    let refused = made(m.call("add", &[&near, &far])).unwrap_err().to_string();
    for part in ["on cpu:0", "on sim:0", "copy one of them first"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(m.stats().unwrap(), before);
    // A copy names its stream, perhaps by a scope.
    let key = StreamKey::new(SIM, StreamType::HOST2DEVICE, 0);
    let copies = m.stream(&key).unwrap();
    with_stream(&copies, || m.call("copy", &[&near]).out(&[&target]).run()).unwrap();
    assert_eq!(read(&target), [1.0]);
    // In a recording likewise.
    let recorded = m.record(|r| {
        let x = r.input_on("x", f32_spec(&[1]), &SIM)?;
        let y = r.call("neg", &[x]).run()?[0];
        r.output("y", &y)
    });
    let launched = recorded.unwrap().compile().unwrap().launch().input("x", &far).run().unwrap();
    assert_eq!(read(launched.output("y").unwrap()), [1.0]);
}
