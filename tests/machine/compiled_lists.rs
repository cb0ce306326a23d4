//! Lists that are compiled again: equal ones get the program of the earlier one, with their own
//! tensors.

use std::sync::mpsc::channel;

use instructions::passes::Effort;
use millstream::*;
use millstream_testing::machine::*;

/// Records y = x w + `more` times x, under this name.
fn recorded(m: &Machine, w: &Tensor, more: usize, name: &str) -> Recorded {
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let w = r.bind(w)?;
        let mut y = r.call("mul", &[x, w]).run()?[0];
        for _ in 0..more {
            y = r.call("add", &[y, x]).run()?[0];
        }
        r.output(name, &y)
    });
    recorded.unwrap()
}

fn launch(f: &Executable, x: &Tensor, name: &str) -> Vec<f32> {
    read(f.launch().input("x", x).run().unwrap().output(name).unwrap())
}

fn counts(m: &Machine) -> (u64, u64, u64) {
    let CacheCounts { hits, misses, evictions, .. } = m.compiled_lists();
    (hits, misses, evictions)
}

#[test]
fn equal_lists_are_compiled_once() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(MachineConfig::default().driver(driver)).unwrap();
        let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
        let mut all = Vec::new();
        for k in 0..4 {
            // Each executable has its own tensor, and private memory of its own.
            let w = upload(&cpu(&m, 0), &m, &[k as f32, 1.0]);
            let f = recorded(&m, &w, 1, "y").compile_cached().unwrap();
            assert_eq!(launch(&f, &x, "y"), [k as f32 + 1.0, -4.0]);
            all.push(f);
        }
        assert_eq!(counts(&m), (3, 1, 0));
        let ids: std::collections::BTreeSet<_> = all.iter().map(Executable::id).collect();
        assert_eq!(ids.len(), 4);
        for (k, f) in all.iter().enumerate() {
            assert_eq!(launch(f, &x, "y"), [k as f32 + 1.0, -4.0]);
        }
    }
}

/// Whatever an executable depends on distinguishes it.
#[test]
fn other_lists_are_compiled_anew() {
    let m = inline();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let w = upload(&cpu(&m, 0), &m, &[3.0, 4.0]);
    let check = |recorded: Recorded, name: &str, expected: [f32; 2], misses: u64| {
        let f = recorded.compile_cached().unwrap();
        assert_eq!(launch(&f, &x, name), expected);
        assert_eq!(m.compiled_lists().misses, misses);
    };
    check(recorded(&m, &w, 1, "y"), "y", [4.0, -10.0], 1);
    check(recorded(&m, &w, 2, "y"), "y", [5.0, -12.0], 2);
    check(recorded(&m, &w, 1, "z"), "z", [4.0, -10.0], 3);
    check(recorded(&m, &w, 1, "y").plan_effort(Effort::Exact), "y", [4.0, -10.0], 4);
    check(recorded(&m, &w, 1, "y").streams(7), "y", [4.0, -10.0], 5);
    // An error of the executable names the place of its own recording.
    let elsewhere = m.record(|r| {
        let (x, w) = (r.input("x", f32_spec(&[2]))?, r.bind(&w)?);
        let y = r.call("mul", &[x, w]).run()?[0];
        let y = r.call("add", &[y, x]).run()?[0];
        r.output("y", &y)
    });
    check(elsewhere.unwrap(), "y", [4.0, -10.0], 6);
    check(recorded(&m, &w, 1, "y"), "y", [4.0, -10.0], 6);
    assert_eq!(counts(&m), (1, 6, 0));
    // Functions of the host are no part of a list.
    for k in 0..2 {
        let counted = m.record(|r| {
            let x = r.input("x", f32_spec(&[2]))?;
            let s = r.stream(&StreamKey::compute(CPU, 0))?;
            r.access(&x, Access::Read, s, |_| Ok(()))?;
            r.output("y", &x)
        });
        counted.unwrap().compile_cached().unwrap();
        assert_eq!(counts(&m), (1, 7 + k, 0));
    }
}

/// Generators and scalars are those of each recording.
#[test]
fn draws_are_those_of_each_recording() {
    let m = inline();
    for seed in [1, 2] {
        let random = Generator::new(seed);
        // The list declares the seed, so another seed is another list.
        for offset in 0..2 {
            let drawn = m.record(|r| {
                let y = r.call("uniform", &[]).attr("shape", vec![3]).draw(&random).run()?;
                r.output("y", &y[0])
            });
            let f = drawn.unwrap().compile_cached().unwrap();
            let y = f.launch().run().unwrap();
            let eager = Tensor::rand(3, Seed::new(seed, offset), &m).unwrap();
            assert_eq!(read(y.output("y").unwrap()), read(&eager));
        }
    }
    assert_eq!(counts(&m), (2, 2, 0));
}

/// At most 64 programs are kept. The one that was used longest ago goes, but none that an
/// executable or a launch has.
#[test]
fn programs_are_given_up() {
    let m = threaded();
    let s = cpu(&m, 0);
    let w = upload(&s, &m, &[1.0, 1.0]);
    let compile = |k: usize| recorded(&m, &w, k, "y").compile_cached().unwrap();
    let held = compile(0);
    for k in 1..64 {
        compile(k);
    }
    assert_eq!(m.compiled_lists(), CacheCounts { entries: 64, hits: 0, misses: 64, evictions: 0 });
    // A launch under way holds its program after its executable is gone.
    let x = upload(&s, &m, &[1.0, 2.0]);
    let (open, opened) = channel::<()>();
    let hold = move |_: &mut Blob<'_>| {
        let _ = opened.recv();
        Ok(())
    };
    x.access(Access::ReadWrite, hold).unwrap();
    let launched = compile(1).launch().input("x", &x).run().unwrap();
    compile(2); // the third is now the oldest that is free
    for k in 64..67 {
        compile(k);
    }
    assert_eq!(counts(&m), (2, 67, 3));
    compile(3);
    assert_eq!(counts(&m), (2, 68, 4), "the third was given up");
    for k in 0..3 {
        compile(k);
    }
    assert_eq!(counts(&m), (5, 68, 4), "the others were kept");
    open.send(()).unwrap();
    assert_eq!(read(launched.output("y").unwrap()), [2.0, 4.0]);
    assert_eq!(launch(&held, &x, "y"), [1.0, 2.0]);
    // Where executables have all programs, new ones are not kept.
    let all: Vec<Executable> = (100..170).map(compile).collect();
    let kept = m.compiled_lists();
    assert_eq!(kept.entries, 64);
    compile(200);
    compile(200);
    assert_eq!(m.compiled_lists().hits, kept.hits);
    drop(all);
    compile(200);
    compile(200);
    assert_eq!(m.compiled_lists().hits, kept.hits + 1);
}
