//! Functions on the streams of devices: a function may take as long as it likes, and holds up its
//! own stream alone. It may use variables and tensors in any memory.

use std::sync::mpsc;

use anyhow::anyhow;
use millstream::*;
use millstream_testing::machine::*;

/// Returns a function that runs until the sender is dropped.
fn sleeper() -> (impl FnOnce() + Send + 'static, mpsc::Sender<()>) {
    let (wake, sleep) = mpsc::channel();
    let sleeps = move || {
        let _ = sleep.recv();
    };
    (sleeps, wake)
}

/// MXNet has workers of their own for the copies of each device. Here the ops of a device run while
/// functions sleep on both of its streams of copies.
#[test]
fn a_copy_function_does_not_hold_up_its_device() {
    let m = threaded();
    let engine = m.dependency_engine().unwrap();
    let x = upload(&sim(&m, 0), &m, &[1.0, -2.0]);
    m.synchronize().unwrap();
    let mut awake = Vec::new();
    for prop in [Prop::CopyToDevice(SIM), Prop::CopyFromDevice(SIM)] {
        let (function, wake) = sleeper();
        engine.push(function).prop(prop).spawn().unwrap();
        awake.push(wake);
    }
    for k in 0..3 {
        let s = sim(&m, k);
        call(&m, "relu", &[&x], &s);
        s.synchronize().unwrap();
    }
    drop(awake);
    engine.wait_all().unwrap();
}

/// More functions sleep on compute streams than the host has workers: ops, copies, collectives,
/// normal and urgent functions run.
#[test]
fn sleeping_functions_leave_the_hosts_workers_to_others() {
    let m = threaded();
    let engine = m.dependency_engine().unwrap();
    let mut awake = Vec::new();
    // Reads of the program are on stream 0.
    for k in 1..5 {
        let (function, wake) = sleeper();
        engine.push(function).on(&cpu(&m, k)).spawn().unwrap();
        awake.push(wake);
    }
    let x = upload(&cpu(&m, 9), &m, &[1.0, -2.0]);
    let types = [StreamType::HOST2DEVICE, StreamType::DEVICE2HOST, StreamType::PINNED_COMPUTE];
    for ty in types {
        let s = m.stream(&StreamKey::new(CPU, ty, 0)).unwrap();
        assert_eq!(read(&call(&m, "copy", &[&x], &s)), [1.0, -2.0], "{ty}");
    }
    let ccl = m.stream(&StreamKey::new(CPU, StreamType::CCL, 0)).unwrap();
    m.call("allreduce_", &[&x]).on(&ccl).unwrap();
    assert_eq!(read(&x), [1.0, -2.0]);
    let a = engine.var().unwrap();
    let props =
        [Prop::Normal, Prop::CpuPrioritized, Prop::CopyToDevice(CPU), Prop::CopyFromDevice(CPU)];
    for prop in props {
        engine.push(|| ()).writes(&[&a]).prop(prop).spawn().unwrap();
        engine.wait_for(&a).unwrap();
    }
    drop(awake);
    engine.wait_all().unwrap();
}

/// Where a function runs: MXNet's properties for each device, and streams that the program names.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Prop(Prop),
    On(StreamKey),
}

impl Kind {
    fn all() -> Vec<Kind> {
        let props = [Prop::Normal, Prop::CpuPrioritized].into_iter();
        let copies = [CPU, SIM].into_iter();
        let copies = copies.flat_map(|d| [Prop::CopyToDevice(d.clone()), Prop::CopyFromDevice(d)]);
        let types = [StreamType::COMPUTE, StreamType::CCL];
        let keys = [CPU, SIM].into_iter().flat_map(|d| types.map(|ty| (d.clone(), ty)));
        // Uploads and reads of the host use compute stream 0.
        let on = keys.map(|(device, ty)| Kind::On(StreamKey::new(device, ty, 1)));
        props.chain(copies).map(Kind::Prop).chain(on).collect()
    }

    /// How many functions of this kind can run side by side, on two workers.
    fn side_by_side(&self) -> usize {
        if *self == Kind::Prop(Prop::Normal) { 2 } else { 1 }
    }

    fn push(
        &self,
        engine: &DependencyEngine,
        function: impl FnOnce() + Send + 'static,
        writes: &[&Var],
    ) {
        let push = engine.push(function).writes(writes);
        match self {
            Kind::Prop(prop) => push.prop(prop.clone()).spawn(),
            Kind::On(key) => push.on(&engine.machine().stream(key).unwrap()).spawn(),
        }
        .unwrap();
    }
}

/// MXNet's workers of copies, of normal and of urgent functions are apart, for each device. Here a
/// function that sleeps, of any of these kinds, holds up none of the others, on two workers:
/// neither functions, nor ops, copies and collectives of any device.
#[test]
fn a_sleeping_function_holds_up_its_own_kind_alone() {
    let m = threaded();
    let engine = m.dependency_engine().unwrap();
    for asleep in Kind::all() {
        let mut awake = Vec::new();
        for _ in 0..asleep.side_by_side() {
            let (function, wake) = sleeper();
            asleep.push(&engine, function, &[]);
            awake.push(wake);
        }
        let a = engine.var().unwrap();
        for other in Kind::all().into_iter().filter(|other| *other != asleep) {
            other.push(&engine, || (), &[&a]);
            engine.wait_for(&a).unwrap();
        }
        for device in [CPU, SIM] {
            let on = |ty| m.stream(&StreamKey::new(device.clone(), ty, 2)).unwrap();
            let x = upload(&cpu(&m, 2), &m, &[1.0, -2.0]);
            let there = call(&m, "copy", &[&x], &on(StreamType::HOST2DEVICE));
            m.call("allreduce_", &[&there]).on(&on(StreamType::CCL)).unwrap();
            let there = call(&m, "neg", &[&there], &on(StreamType::COMPUTE));
            let back = call(&m, "copy", &[&there], &on(StreamType::DEVICE2HOST));
            back.synchronize().unwrap();
        }
        drop(awake);
        engine.wait_all().unwrap();
    }
}

/// Functions of each device and property use plain variables, and variables of tensors anywhere.
#[test]
fn variables_may_lie_in_any_memory() {
    for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let engine = m.dependency_engine().unwrap();
        let (on_host, on_sim) = (upload(&cpu(&m, 0), &m, &[1.0]), upload(&sim(&m, 0), &m, &[1.0]));
        let vars = [
            engine.var().unwrap(),
            engine.var_of(&on_host).unwrap(),
            engine.var_of(&on_sim).unwrap(),
        ];
        let vars: Vec<&Var> = vars.iter().collect();
        let (give, taken) = mpsc::channel();
        let props = [
            Prop::Normal,
            Prop::CopyToDevice(SIM),
            Prop::CpuPrioritized,
            Prop::CopyFromDevice(SIM),
            Prop::Async,
            Prop::CopyToDevice(CPU),
        ];
        for (k, prop) in (0..60).zip(props.iter().cycle()) {
            let give = give.clone();
            let push = engine.push(move || give.send(k).unwrap()).prop(prop.clone());
            // Each function comes after the one before: one of the two writes each variable.
            if k % 3 == 0 { push.reads(&vars[1..]).writes(&vars[..1]) } else { push.writes(&vars) }
                .spawn()
                .unwrap();
            call(&m, "relu", &[&on_sim], &sim(&m, k as u32 % 2));
        }
        engine.push(|| Err(anyhow!("bad"))).writes(&vars).spawn().unwrap();
        for (of, s) in [(&on_sim, sim(&m, 0)), (&on_host, cpu(&m, 0))] {
            assert!(call(&m, "relu", &[of], &s).read().is_err(), "{driver:?}");
        }
        assert_eq!(taken.try_iter().collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
    }
}

/// A function that reads a tensor of a device starts once the ops that write it have completed
/// there, not once they have been launched.
#[test]
fn a_function_comes_after_the_completion_of_ops() {
    for prop in [Prop::Normal, Prop::CopyFromDevice(SIM), Prop::CopyToDevice(SIM)] {
        let (m, hand) = by_hand();
        let engine = m.dependency_engine().unwrap();
        let x = upload(&sim(&m, 0), &m, &[1.0]);
        let y = call(&m, "relu", &[&x], &sim(&m, 0));
        let var = engine.var_of(&y).unwrap();
        let (give, taken) = mpsc::channel();
        engine.push(move || give.send(()).unwrap()).reads(&[&var]).prop(prop).spawn().unwrap();
        hand.wait_for_commands(1, LONG).unwrap();
        assert!(taken.try_recv().is_err());
        hand.run_until(|| taken.try_recv().is_ok());
        drop(hand);
        engine.wait_all().unwrap();
    }
}

/// A function that completes later may run on a stream of any device.
#[test]
fn functions_complete_later_on_any_device() {
    for driver in [DriverKind::Threaded, DriverKind::Inline] {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let engine = m.dependency_engine().unwrap();
        let a = engine.var().unwrap();
        for stream in [sim(&m, 0), cpu(&m, 0)] {
            let (give, take) = mpsc::channel::<OnComplete>();
            let push = engine.push_async(move |done| give.send(done).unwrap()).writes(&[&a]);
            push.on(&stream).spawn().unwrap();
            let (after, done) = mpsc::channel();
            engine.push(move || after.send(()).unwrap()).writes(&[&a]).spawn().unwrap();
            let token = take.recv().unwrap();
            assert!(done.try_recv().is_err(), "{driver:?}");
            token.complete();
            engine.wait_for(&a).unwrap();
            done.try_recv().unwrap();
        }
        engine.push(|| Err(anyhow!("bad"))).writes(&[&a]).on(&sim(&m, 0)).spawn().unwrap();
        let error = engine.wait_for(&a).unwrap_err();
        assert!(
            error.to_string().contains("bad") && error.to_string().contains("sim:0"),
            "{error}"
        );
        fn broken() {
            panic!("out of bounds");
        }
        engine.push(broken).overwrites(&[&a]).on(&sim(&m, 0)).spawn().unwrap();
        let error = engine.wait_for(&a).unwrap_err();
        assert_eq!(error.failure().unwrap().cause, types::Cause::Panic, "{driver:?}");
    }
}

/// Functions that are cancelled before they start are dropped, also those that a thread of the host
/// would run.
#[test]
fn a_cancelled_function_does_not_run() {
    let m = threaded();
    let engine = m.dependency_engine().unwrap();
    let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
    let (function, wake) = sleeper();
    engine.push(function).writes(&[&a]).on(&sim(&m, 0)).spawn().unwrap();
    let cancellation = Cancellation::new();
    let (give, taken) = mpsc::channel();
    cancellation.scope(|| {
        let push = engine.push(move || give.send(()).unwrap()).reads(&[&a]).writes(&[&b]);
        push.on(&sim(&m, 0)).spawn().unwrap();
    });
    cancellation.cancel();
    drop(wake);
    let error = engine.wait_for(&b).unwrap_err();
    assert!(matches!(error.without_place(), Error::Cancelled(_)), "{error}");
    assert!(taken.recv().is_err(), "dropped without a call");
}

/// A function gets the device of its stream, and scratch memory that its thread keeps.
#[test]
fn functions_get_their_surroundings() {
    for driver in [DriverKind::Threaded, DriverKind::Inline, DriverKind::Simulated] {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let engine = m.dependency_engine().unwrap();
        let a = engine.var().unwrap();
        let (give, taken) = mpsc::channel();
        let props = [
            (Prop::Normal, CPU),
            (Prop::CopyToDevice(SIM), SIM),
            (Prop::CopyFromDevice(SIM), SIM),
            (Prop::CpuPrioritized, CPU),
        ];
        let note = engine.operator_with(move |context| {
            let scratch = context.scratch(100)?;
            assert_eq!(scratch.len(), 100);
            scratch.fill(7);
            assert_eq!(context.scratch(200)?[..100], [7; 100], "the memory grows");
            assert!(context.native::<u8>().is_none());
            give.send(context.device().clone())?;
            anyhow::Ok(())
        });
        let note = note.writes(&[&a]).name("note");
        for (prop, device) in props {
            // The operator is pushed with another property than its own.
            note.begin_push().prop(prop.clone()).spawn().unwrap();
            engine.wait_for(&a).unwrap();
            assert_eq!(taken.try_recv().unwrap(), device, "{driver:?}, {prop:?}");
        }
        note.begin_push().on(&sim(&m, 3)).priority(5).name("other").spawn().unwrap();
        note.push().unwrap();
        engine.wait_for(&a).unwrap();
        assert_eq!(taken.try_iter().collect::<Vec<_>>(), [SIM, CPU]);
        let later = |context: &mut RunContext<'_>| {
            let done = context.complete_later()?;
            assert!(context.complete_later().is_err(), "once");
            std::thread::spawn(|| done.fail(anyhow!("too late")));
            anyhow::Ok(())
        };
        engine.push_with(later).writes(&[&a]).on(&cpu(&m, 0)).spawn().unwrap();
        if driver != DriverKind::Simulated {
            assert!(engine.wait_for(&a).unwrap_err().to_string().contains("too late"));
        }
    }
}

/// An operator may be pushed with more variables than it was made with.
#[test]
fn a_push_of_an_operator_may_name_more_variables() {
    let m = threaded();
    let engine = m.dependency_engine().unwrap();
    let (a, b) = (engine.var().unwrap(), engine.var().unwrap());
    let (function, wake) = sleeper();
    let (give, taken) = mpsc::channel();
    engine.push(function).writes(&[&b]).spawn().unwrap();
    let note = engine.operator(move || give.send(()).unwrap()).writes(&[&a]);
    note.begin_push().reads(&[&b]).spawn().unwrap();
    assert!(taken.try_recv().is_err());
    drop(wake);
    engine.wait_for(&a).unwrap();
    taken.try_recv().unwrap();
}

/// A function on a tensor that a section holds is refused: a push waits for no other thread.
#[test]
fn a_held_tensor_is_refused() {
    let m = threaded();
    let engine = m.dependency_engine().unwrap();
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let var = engine.var_of(&x).unwrap();
    let section = m.critical_section(&[&x]).unwrap();
    let refused = std::thread::scope(|threads| {
        let push = || engine.push(|| ()).reads(&[&var]).spawn().unwrap_err();
        threads.spawn(push).join().unwrap()
    });
    assert!(refused.to_string().contains("no call waits for a section"), "{refused}");
    section.end().unwrap();
    engine.push(|| ()).reads(&[&var]).spawn().unwrap();
}
