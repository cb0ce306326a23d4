//! Executables: inputs and outputs, instances, failures, and what they leave behind.

use instructions::passes::{Pass, arena_bytes};
use millstream::*;
use millstream_testing::machine::*;
use types::StreamId;

pub(crate) fn machine(driver: DriverKind) -> Machine {
    failing(driver)
}

pub(crate) fn stream(r: &mut Recorder, index: u32) -> StreamId {
    r.stream(&StreamKey::compute(CPU, index)).unwrap()
}

fn lazy(m: &Machine, index: u32) -> Stream {
    m.stream(&StreamKey::new(CPU, StreamType::LAZY_JOB_LAUNCHER, index)).unwrap()
}

/// Compiles y = relu(x) + x, on two streams of the list.
pub(crate) fn relu_plus(m: &Machine, shape: &[usize]) -> Executable {
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(shape))?;
        let (a, b) = (stream(r, 0), stream(r, 1));
        let t = r.call("relu", &[x]).on(a)?[0];
        let y = r.call("add", &[t, x]).on(b)?[0];
        r.output("y", &y)
    });
    recorded.unwrap().compile().unwrap()
}

/// Each launch takes its own input and makes its own output; eager calls before and after are
/// ordered with it.
#[test]
fn inputs_and_outputs() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let step = relu_plus(&m, &[2]);
        let mut outputs = Vec::new();
        for k in 0..5 {
            let x = upload(&s, &m, &[k as f32, -2.0]);
            m.call("add_", &[&x, &x]).on(&s).unwrap();
            let y = step.launch().input("x", &x).run().unwrap().output("y").unwrap().clone();
            m.call("add_", &[&y, &x]).on(&s).unwrap();
            outputs.push(y);
        }
        for (k, y) in outputs.iter().enumerate() {
            let x = 2.0 * k as f32;
            assert_eq!(read(y), [3.0 * x, -8.0], "{driver:?}");
        }
        m.synchronize().unwrap();
    }
}

/// An input may lie anywhere in its storage, as rows of a batch do.
#[test]
fn an_input_may_be_a_part_of_a_storage() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let step = relu_plus(&m, &[2]);
        let batch = upload(&s, &m, &[1.0, -2.0, 3.0, -4.0, 5.0, -6.0]);
        for k in 0..3 {
            let row = slice(&m, &batch, 2 * k, 2 * k + 2, &s);
            let launched = step.launch().input("x", &row).run().unwrap();
            let x = 2.0 * k as f32;
            assert_eq!(read(launched.output("y").unwrap()), [2.0 * (x + 1.0), -(x + 2.0)]);
        }
    }
}

/// An output may be written into a tensor of the program, also one that an eager call still reads.
#[test]
fn an_output_into_a_given_tensor() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let step = relu_plus(&m, &[2]);
        let (x, y) = (upload(&s, &m, &[1.0, -2.0]), upload(&s, &m, &[7.0, 7.0]));
        let before = call(&m, "add", &[&y, &y], &s);
        let launched = step.launch().input("x", &x).output("y", &y).run().unwrap();
        assert_eq!(launched.output("y").unwrap().tensor_ref(), y.tensor_ref());
        assert_eq!((read(&before), read(&y)), (vec![14.0, 14.0], vec![2.0, -2.0]));
    }
}

/// An input that the list changes is an output too: the given tensor itself. Parameters are bound
/// once and updated by every launch.
#[test]
fn updates_in_place() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let w = upload(&s, &m, &[1.0, 2.0]);
        let recorded = m.record(|r| {
            let (x, w) = (r.input("x", f32_spec(&[2]))?, r.bind(&w)?);
            r.call("add_", &[w, x]).run()?;
            r.call("mul_", &[x, w]).run()?;
            let part = r.call("slice", &[w]).attr("start", 1).attr("end", 2).run()?[0];
            r.output("x", &x)?;
            r.output("second", &part)
        });
        let step = recorded.unwrap().compile().unwrap();
        let x = upload(&s, &m, &[1.0, 1.0]);
        let first = step.launch().input("x", &x).run().unwrap();
        assert_eq!(first.output("x").unwrap().tensor_ref(), x.tensor_ref());
        assert_eq!((read(&w), read(&x)), (vec![2.0, 3.0], vec![2.0, 3.0]));
        assert_eq!(read(first.output("second").unwrap()), [3.0]);
        let second = step.launch().input("x", &x).run().unwrap();
        assert_eq!((read(&w), read(&x)), (vec![4.0, 6.0], vec![8.0, 18.0]));
        assert_eq!(read(second.output("second").unwrap()), [6.0]);
    }
}

/// Launches of one executable on several streams overlap, each with private memory of its own, and
/// never race. With one instance they follow one another.
#[test]
fn instances() {
    for driver in ALL_DRIVERS {
        for most in [1, 3] {
            let m = machine(driver);
            let s = cpu(&m, 0);
            let step = relu_plus(&m, &[64]);
            step.set_instances(most);
            let on: Vec<Stream> = (0..3).map(|k| lazy(&m, k)).collect();
            let mut launched = Vec::new();
            for k in 0..30 {
                let x = upload(&s, &m, &[k as f32; 64]);
                let on = &on[k % on.len()];
                launched.push(step.launch().input("x", &x).on(on).run().unwrap());
            }
            for (k, launched) in launched.iter().enumerate() {
                assert_eq!(read(launched.output("y").unwrap()), [2.0 * k as f32; 64]);
            }
            assert_eq!(step.instances(), most, "{driver:?}");
            m.synchronize().unwrap();
        }
    }
}

/// A launch within a critical section uses what the section holds; outside it is refused.
#[test]
fn within_a_section() {
    let m = machine(DriverKind::Threaded);
    let s = cpu(&m, 0);
    let step = relu_plus(&m, &[2]);
    let x = upload(&s, &m, &[1.0, -1.0]);
    let section = m.critical_section(&[&x]).unwrap();
    let refused = step.launch().input("x", &x).run().unwrap_err();
    assert!(refused.to_string().contains("held by the critical section"), "{refused}");
    let launched = step.launch().input("x", &x).within(&section).run().unwrap();
    section.end().unwrap();
    assert_eq!(read(launched.output("y").unwrap()), [2.0, -1.0]);
}

/// A kernel that fails poisons what depends on it, instruction by instruction; the error names the
/// place in the list and the launch. The executable stays usable.
#[test]
fn failures() {
    for driver in ALL_DRIVERS {
        for op in ["fail", "panic"] {
            let m = machine(driver);
            let s = cpu(&m, 0);
            let recorded = m.record(|r| {
                let x = r.input("x", f32_spec(&[1]))?;
                let (a, b) = (stream(r, 0), stream(r, 1));
                let good = r.call("add", &[x, x]).on(b)?[0];
                let bad = r.call(op, &[x]).on(a)?[0];
                let after = r.call("add", &[bad, good]).on(b)?[0];
                r.output("good", &good)?;
                r.output("after", &after)
            });
            let step = recorded.unwrap().compile().unwrap();
            let x = upload(&s, &m, &[2.0]);
            for _ in 0..2 {
                let launched = step.launch().input("x", &x).run().unwrap();
                let failed = failure(launched.wait().unwrap_err());
                assert_eq!(failed.op.as_deref(), Some(op));
                let place = |origin: &Origin| origin.to_string().contains("executable.rs");
                assert!(place(&failed.origin) && failed.launched.as_ref().is_some_and(place));
                assert_eq!(read(launched.output("good").unwrap()), [4.0]);
                let after = failure(launched.output("after").unwrap().read().unwrap_err());
                assert_eq!(after.op.as_deref(), Some(op), "{driver:?}");
                m.clear_failures();
            }
        }
    }
}

/// Poison enters by an input and leaves by the outputs that depend on it, and by no other.
#[test]
fn poison_through_a_launch() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let recorded = m.record(|r| {
            let (x, y) = (r.input("x", f32_spec(&[1]))?, r.input("y", f32_spec(&[1]))?);
            let from_x = r.call("add", &[x, x]).run()?[0];
            let from_y = r.call("add", &[y, y]).run()?[0];
            r.output("from x", &from_x)?;
            r.output("from y", &from_y)
        });
        let step = recorded.unwrap().compile().unwrap();
        let good = upload(&s, &m, &[1.0]);
        let bad = call(&m, "fail", &[&good], &s);
        let launched = step.launch().input("x", &bad).input("y", &good).run().unwrap();
        failure(launched.output("from x").unwrap().read().unwrap_err());
        assert_eq!(read(launched.output("from y").unwrap()), [2.0]);
        // A full overwrite heals.
        let healed = launched.output("from x").unwrap().clone();
        m.call("fill", &[&bad]).attr("value", 3.0).on(&s).unwrap();
        let launch = step.launch().input("x", &bad).input("y", &good);
        launch.output("from x", &healed).run().unwrap();
        assert_eq!(read(&healed), [6.0], "{driver:?}");
    }
}

#[test]
fn what_is_given_is_checked() {
    let m = machine(DriverKind::Inline);
    let s = cpu(&m, 0);
    let step = relu_plus(&m, &[2]);
    let x = upload(&s, &m, &[1.0, 2.0]);
    let other = machine(DriverKind::Inline);
    let foreign = upload(&cpu(&other, 0), &other, &[1.0, 2.0]);
    let (short, released) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[1.0, 2.0]));
    let [y, z] = [(); 2].map(|()| upload(&s, &m, &[0.0, 0.0]));
    released.release().unwrap();
    let cases: [(LaunchBuilder<'_>, &str); 9] = [
        (step.launch(), "input \"x\" is not given"),
        (step.launch().input("X", &x), "unknown input 'X'; did you mean 'x'?"),
        (step.launch().input("x", &x).output("Y", &x), "unknown output 'Y'; did you mean 'y'?"),
        (step.launch().input("x", &short), "was recorded as f32[2]"),
        (step.launch().input("x", &foreign), "belongs to another machine"),
        (step.launch().input("x", &released), "used after its release"),
        (step.launch().input("x", &x).output("y", &x), "share memory"),
        (step.launch().input("x", &x).input("x", &x), "input \"x\" is given twice"),
        (
            step.launch().input("x", &x).output("y", &y).output("y", &z),
            "output \"y\" is given twice",
        ),
    ];
    for (launch, message) in cases {
        let refused = launch.run().unwrap_err().to_string();
        assert!(refused.contains(message) && refused.contains("executable.rs"), "{refused}");
    }
    let launched = step.launch().input("x", &x).run().unwrap();
    assert!(launched.output("z").is_err());
    assert_eq!(read(launched.output("y").unwrap()), [2.0, 4.0]);
}

#[test]
fn what_is_recorded_is_checked() {
    let m = machine(DriverKind::Inline);
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0, 2.0]);
    let refused = |record: &dyn Fn(&mut Recorder) -> Result<()>, message: &str| {
        let refused = m.record(record).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    };
    let spec = || f32_spec(&[2]);
    refused(&|r| r.input("a", spec()).and(r.input("a", spec())).map(drop), "declared twice");
    refused(&|r| r.bind(&x).and_then(|x| r.release(x)), "cannot release a formal");
    refused(
        &|r| {
            let a = r.input("a", spec())?;
            r.call("masked_select", &[a, a]).run().map(drop)
        },
        "masked_select",
    );
    refused(
        &|r| {
            let a = r.input("a", spec())?;
            r.begin_section(&[a])
        },
        "never ended",
    );
    refused(
        &|r| {
            let a = r.input("a", spec())?;
            let t = r.call("add", &[a, a]).run()?[0];
            r.output("t", &t)?;
            r.release(t)
        },
        "it is the output",
    );
}

/// A kernel of the program's own runs in compiled lists, too: its calls are not fused.
#[test]
fn a_replaced_kernel_is_not_fused() {
    let mut config = MachineConfig::default().driver(DriverKind::Inline);
    let relu = config.kernels.get("cpu", "relu").cloned().unwrap();
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = calls.clone();
    let counting = move |ctx: &kernels::KernelCtx<'_>| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        relu.run(ctx)
    };
    config.kernels.register("cpu", "relu", std::sync::Arc::new(counting));
    let m = Machine::new(config).unwrap();
    let step = relu_plus_chain(&m);
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let launched = step.launch().input("x", &x).run().unwrap();
    assert_eq!(read(launched.output("y").unwrap()), [4.0, -6.0]);
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert!(step.describe().contains("fused"), "{}", step.describe());
}

/// Compiles y = relu(x) + x + x + x, on one stream.
fn relu_plus_chain(m: &Machine) -> Executable {
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let mut y = r.call("relu", &[x]).run()?[0];
        for _ in 0..3 {
            y = r.call("add", &[y, x]).run()?[0];
        }
        r.output("y", &y)
    });
    recorded.unwrap().compile().unwrap()
}

/// Two tensors of one storage are bound: what is written by one is seen by the other.
#[test]
fn views_of_one_storage_are_bound() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0, 2.0, 3.0]);
        let (first, both) = (slice(&m, &x, 0, 1, &s), slice(&m, &x, 0, 2, &s));
        let recorded = m.record(|r| {
            let (a, b) = (stream(r, 0), stream(r, 1));
            let (first, both) = (r.bind(&first)?, r.bind(&both)?);
            r.call("add_", &[first]).attr("other", 1.0).on(a)?;
            let y = r.call("neg", &[both]).on(b)?[0];
            r.output("y", &y)
        });
        let step = recorded.unwrap().compile().unwrap();
        for expected in [[-2.0, -2.0], [-3.0, -2.0]] {
            let launched = step.launch().run().unwrap();
            assert_eq!(read(launched.output("y").unwrap()), expected, "{driver:?}");
        }
        assert_eq!(read(&x), [3.0, 2.0, 3.0]);
    }
}

/// Nobody releases the tensors between the calls: each ends with its last use.
#[test]
fn private_tensors_end_with_their_last_use() {
    const SMALL: usize = 256;
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let recorded = m.record(|r| {
            let x = r.input("x", f32_spec(&[SMALL]))?;
            let mut y = x;
            for k in 0..50 {
                y = match k % 5 {
                    // A view keeps its storage.
                    0 => {
                        let whole = r.call("cat", &[y, y]).run()?[0];
                        r.call("slice", &[whole]).attr("end", SMALL as i64).run()?[0]
                    }
                    // In place.
                    1 => r.call("add_", &[y, x]).run()?[0],
                    _ => r.call("exp", &[y]).run()?[0],
                };
            }
            r.output("y", &y)
        });
        let recorded = recorded.unwrap();
        let before = arena_bytes(recorded.list());
        let planned = recorded.optimize(&[Pass::Memory], |_, _| ()).unwrap();
        // Of 40 calls that make a tensor 10 make one of 2 KiB; the last tensor is an output. A
        // large and a small one suffice.
        assert!(before[0] >= 10 * 2048 + 29 * 1024, "{before:?}");
        assert_eq!(arena_bytes(planned.list()), [2048 + 1024]);
        let step = planned.compile_as_is().unwrap();
        let x = upload(&s, &m, &[-100.0; SMALL]);
        let y = step.launch().input("x", &x).run().unwrap().output("y").unwrap().clone();
        assert_eq!(read(&y).len(), SMALL);
    }
}
