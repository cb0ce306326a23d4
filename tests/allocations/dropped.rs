//! Each kind of thing that a program makes and drops leaves nothing behind: neither bytes, nor
//! streams, nor work for those that come later.
//!
//! `MILLSTREAM_DROPS` sets how many of each kind are made.

use millstream::*;

use crate::{alone, bytes_in_use, thread_time};

const CPU: DeviceId = DeviceId::cpu(0);

/// How many things are made before the first measurement, so that tables have their sizes.
const FIRST: u64 = 600;

/// The bytes that queues of a bounded size may still take.
const BOUND: i64 = 48 << 10;

/// The bytes by which tables may grow beside a worker that lags more than it did before: they have
/// room for all that is alive at one time. 131 KB were seen, with 20,000 things as with 200,000.
const LAG: i64 = 192 << 10;

/// The bytes of the inference cache, once it holds as many calls as it can. Calls that draw random
/// numbers have arguments of their own each.
const INFERRED: i64 = 6 << 20;

/// Returns how many things of each kind are made.
fn count() -> u64 {
    std::env::var("MILLSTREAM_DROPS").map_or(2 * FIRST, |count| count.parse().unwrap())
}

fn machine(driver: DriverKind) -> Machine {
    Machine::new(MachineConfig::default().driver(driver).host_workers(2).threads(1)).unwrap()
}

/// Makes and drops things of a kind on a machine, and compares what is in use before and after.
fn leaves_nothing(
    kind: &str,
    driver: DriverKind,
    bound: i64,
    make: impl Fn(&Machine, &Tensor, u64),
) {
    let m = machine(driver);
    let x = Tensor::from_slice(&[1.0f32, -2.0], 2, &m).unwrap();
    // Only now and then: until then, what was dropped is still in use.
    let round = |from: u64, to: u64| {
        for k in from..to {
            make(&m, &x, k);
            if k % 50 == 49 {
                m.synchronize().unwrap();
            }
        }
        m.synchronize().unwrap();
        drop(Tensor::from_slice(&[0.0f32], 1, &m).unwrap());
        m.synchronize().unwrap();
    };
    let parts = |from: u64, to: u64| {
        let begun = thread_time();
        round(from, to);
        (thread_time() - begun) / (to - from)
    };
    round(0, FIRST);
    let (bytes, streams) = (bytes_in_use(), m.stream_keys().unwrap().len());
    let middle = FIRST + (count() - FIRST) / 2;
    let first = parts(FIRST, middle);
    let second = parts(middle, count());
    let grown = bytes_in_use() - bytes;
    let each = grown / (count() - FIRST) as i64;
    let what = format!("{kind}, {driver:?}");
    assert!(grown < bound, "{what}: {grown} bytes more, {each} for each");
    assert_eq!(m.stream_keys().unwrap().len(), streams, "{what}");
    // Twice as much would be due to the computer; what depends on the number is a thousand times.
    if count() > 100 * FIRST {
        assert!(second < 4 * first + 1000, "{what}: first {first} ns each, later {second} ns each");
    }
}

/// Checks one kind with threads, and inline, where nothing depends on moments.
fn check(kind: &str, make: impl Fn(&Machine, &Tensor, u64)) {
    check_bounded(kind, BOUND, make);
}

/// Checks one kind that may leave so many bytes in all.
fn check_bounded(kind: &str, bound: i64, make: impl Fn(&Machine, &Tensor, u64)) {
    leaves_nothing(kind, DriverKind::Inline, bound, &make);
    leaves_nothing(kind, DriverKind::Threaded, bound + LAG, &make);
}

#[test]
fn streams() {
    let _alone = alone();
    check("streams that are waited for", |m, x, _| {
        let side = m.create_stream(&CPU).unwrap();
        with_stream(&side, || x.relu()).unwrap();
        side.synchronize().unwrap();
    });
    check("streams that are dropped at once", |m, x, _| {
        let side = m.create_stream(&CPU).unwrap();
        with_stream(&side, || x.relu()).unwrap();
    });
    check("streams that wait for one another", |m, x, _| {
        let pair = [(); 2].map(|()| m.create_stream(&CPU).unwrap());
        let y = with_stream(&pair[0], || x.relu()).unwrap();
        with_stream(&pair[1], || y.add(x)).unwrap();
        pair[0].wait_stream(&pair[1]).unwrap();
    });
}

#[test]
fn streams_of_own_keys() {
    let _alone = alone();
    check("streams by key that are waited for", |m, x, k| {
        let named = m.compute(&CPU, 1 + k as u32).unwrap();
        with_stream(&named, || x.relu()).unwrap();
        named.synchronize().unwrap();
    });
    check("streams by key that are dropped at once", |m, x, k| {
        let named = m.stream(&StreamKey::compute(CPU, 1 + k as u32)).unwrap();
        with_stream(&named, || x.relu()).unwrap();
    });
    check("streams by key that wait for one another", |m, x, k| {
        let pair = [0, 1].map(|n| m.compute(&CPU, 1 + 2 * k as u32 + n).unwrap());
        let y = with_stream(&pair[0], || x.relu()).unwrap();
        with_stream(&pair[1], || y.add(x)).unwrap();
        pair[0].wait_stream(&pair[1]).unwrap();
    });
}

#[test]
fn events() {
    let _alone = alone();
    check("events", |m, _, _| {
        let event = m.event();
        event.record().unwrap();
        event.record().unwrap();
        m.compute(&CPU, 1).unwrap().wait_event(&event).unwrap();
        event.query();
    });
    check("events with times", |m, _, _| {
        let (a, b) = (m.timed_event(), m.timed_event());
        a.record().unwrap();
        b.record().unwrap();
        drop(a);
        b.synchronize().unwrap();
    });
    check("completions", |m, x, _| {
        let done = x.relu().unwrap().completion().unwrap();
        drop((done.clone(), done));
        m.completion().unwrap().query();
    });
}

#[test]
fn engines_and_variables() {
    let _alone = alone();
    check("engines", |m, _, _| {
        let engine = m.dependency_engine().unwrap();
        engine.push(|| ()).spawn().unwrap();
        engine.wait_all().unwrap();
    });
    check("engines on streams", |m, _, _| {
        let engine = m.dependency_engine_on(&m.create_stream(&CPU).unwrap()).unwrap();
        engine.push(|| ()).spawn().unwrap();
        engine.wait_all().unwrap();
    });
    check("variables", |m, x, k| {
        let engine = m.dependency_engine().unwrap();
        let (a, b) = (engine.var().unwrap(), engine.var_of(x).unwrap());
        engine.push(|| ()).reads(&[&b]).writes(&[&a]).spawn().unwrap();
        if k % 2 == 0 {
            engine.delete(&a, || ()).unwrap();
        }
    });
    check("operators", |m, _, _| {
        let engine = m.dependency_engine().unwrap();
        let a = engine.var().unwrap();
        let operator = engine.operator(|| ()).writes(&[&a]).name("touch");
        operator.push().unwrap();
        operator.push().unwrap();
    });
    check("bulk scopes", |m, _, _| {
        let engine = m.dependency_engine().unwrap();
        let a = engine.var().unwrap();
        let mut bulk = engine.bulk(4);
        (0..6).for_each(|_| bulk.push(|| ()).writes(&[&a]).spawn().unwrap());
        bulk.flush().unwrap();
    });
}

#[test]
fn pools() {
    let _alone = alone();
    check("pools by their key", |m, x, _| {
        let key = StreamKey::compute(CPU, 9);
        let pool = m.stream_with_mode(&key, StreamMode::Pool).unwrap();
        let y = m.call("relu", &[x]).on(&pool).unwrap();
        m.call("neg", &[&y[0]]).on(&pool).unwrap();
    });
    check("critical sections", |m, x, _| {
        let section = m.critical_section(&[x]).unwrap();
        m.call("neg_", &[x]).within(&section).run().unwrap();
        section.end().unwrap();
    });
    check("cancel scopes", |m, x, _| {
        let scope = Cancellation::new();
        scope.scope(|| x.relu()).unwrap();
        drop((m.clone(), scope));
    });
}

#[test]
fn tensors_and_generators() {
    let _alone = alone();
    check("tensors and views", |m, x, k| {
        let y = Tensor::full(1 + (k % 40) as usize, 1.0f32, m).unwrap();
        let z = y.narrow(0, 0, 1).unwrap();
        drop((y, x.add(&z)));
    });
    check_bounded("generators", INFERRED, |m, _, k| {
        let random = Generator::new(k);
        Tensor::rand(3, &random, m).unwrap();
        Tensor::randn(3, &random.clone(), m).unwrap();
    });
    check("prepared calls", |m, x, _| {
        let prepared = m.prepare("add_", &[x, x], Attrs::new()).unwrap();
        prepared.on(&m.current_stream().unwrap()).unwrap();
    });
    check("tapes", |m, _, _| {
        let w = Tensor::from_slice(&[3.0f32], 1, m).unwrap().with_grad().unwrap();
        let tape = m.tape();
        tape.backward(&(&w * &w).unwrap().sum(..).unwrap()).unwrap();
        w.grad().unwrap();
    });
    check("failures", |m, x, _| {
        let wrong = Tensor::from_slice(&[7i64], 1, m).unwrap();
        drop(x.index_select(&wrong, 0).unwrap());
        m.synchronize().unwrap_err();
        m.clear_failures();
    });
}

#[test]
fn sessions_and_profiles() {
    let _alone = alone();
    check("recordings", |m, x, _| {
        m.start_recording(&[("x", x)]).unwrap();
        x.relu().unwrap();
        m.finish_recording().unwrap();
    });
    check("profiles", |m, x, k| {
        let profiling = m.profile(&[("x", x)]).unwrap();
        let range = m.range("step");
        let side = m.create_stream(&CPU).unwrap();
        with_stream(&side, || x.relu()).unwrap();
        drop((side, range));
        if k % 2 == 0 {
            profiling.finish().unwrap();
        }
    });
    check("profiles without lists", |m, x, _| {
        let profiling = m.profile_times().unwrap();
        x.relu().unwrap();
        drop(profiling);
    });
    check("traced functions", |m, x, _| {
        let traced = m.traced(|inputs, _| Ok(vec![inputs[0].relu()?]));
        (0..3).for_each(|_| drop(traced.call(&[x]).run().unwrap()));
    });
    check("executables", |m, x, _| {
        let recorded = m.record(|r| {
            let x = r.input("x", x.spec().clone())?;
            let y = r.call("relu", &[x]).run()?[0];
            r.output("y", &y)
        });
        let executable = recorded.unwrap().compile().unwrap();
        executable.launch().input("x", x).run().unwrap();
    });
}

#[test]
fn machines() {
    let _alone = alone();
    let round = |count: u64| {
        for _ in 0..count {
            let m = machine(DriverKind::Threaded);
            drop(Tensor::from_slice(&[1.0f32, -2.0], 2, &m).unwrap().relu().unwrap());
        }
    };
    round(20);
    let before = bytes_in_use();
    round(count() / 60);
    let grown = bytes_in_use() - before;
    assert!(grown < BOUND, "{grown} bytes more after {} machines", count() / 60);
}
