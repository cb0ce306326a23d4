//! Traced functions: what is replayed, what is captured again, and what runs from a read on.
//!
//! Long because each condition of a capture has its case.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use millstream::*;
use millstream_testing::machine::*;

use crate::executable::machine;

/// How often a function has run.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

fn one(m: &Machine, op: &str, inputs: &[&Tensor]) -> Result<Tensor> {
    Ok(m.call(op, inputs).run()?.remove(0))
}

/// Calls with equal keys are replayed; other dtypes, shapes, strides, arguments, streams and
/// common memory are not.
#[test]
fn what_a_capture_depends_on() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let (runs, count, inner) = (Runs::default(), Runs::default(), m.clone());
        let inside = count.clone();
        let f = m.traced(move |inputs, arguments| {
            inside.one();
            let sum = one(&inner, "add", &[&inputs[0], &inputs[1]])?;
            inner.call("mul", &[&sum]).attrs(arguments.clone()).run()
        });
        let check = |x: &Tensor, y: &Tensor, factor: f64, is_new: bool, what: &str| {
            runs.0.fetch_add(usize::from(is_new), Relaxed);
            let result = f.call(&[x, y]).attr("other", factor).run().unwrap();
            let expected = one(&m, "add", &[x, y]).unwrap();
            let expected = m.call("mul", &[&expected]).attr("other", factor).run().unwrap();
            assert_eq!(read(&result[0]), read(&expected[0]), "{driver:?}: {what}");
            assert_eq!(count.count(), runs.count(), "{driver:?}: {what}");
        };
        let a = upload(&s, &m, &[1.0, 2.0, 3.0, 4.0]);
        let b = upload(&s, &m, &[0.5, -0.5, 2.5, 7.0]);
        let short = upload(&s, &m, &[9.0]);
        check(&a, &b, 3.0, true, "first");
        check(&b, &a, 3.0, false, "other tensors");
        check(&a, &b, 4.0, true, "another argument");
        check(&a, &short, 3.0, true, "another shape");
        check(&a, &a, 3.0, true, "one tensor twice");
        check(&b, &b, 3.0, false, "another tensor twice");
        let parts = |t: &Tensor, from| slice(&m, t, from, from + 2, &s);
        check(&parts(&a, 0), &parts(&b, 0), 3.0, true, "parts");
        check(&parts(&a, 2), &parts(&b, 1), 3.0, false, "other parts");
        check(&parts(&a, 0), &parts(&a, 1), 3.0, true, "parts that overlap");
        check(&parts(&b, 1), &parts(&b, 2), 3.0, false, "others that overlap alike");
        check(&parts(&b, 2), &parts(&b, 1), 3.0, true, "and the other way round");
        let every = |t: &Tensor| {
            let call = m.call("slice", &[t]).attr("end", 4).attr("step", 2);
            call.on(&s).unwrap().remove(0)
        };
        check(&every(&a), &every(&b), 3.0, true, "other strides");
        with_stream(&cpu(&m, 1), || check(&a, &b, 3.0, true, "another stream"));
        let report = f.report();
        assert_eq!((report.captures, report.replays), (9, 4), "{report}");
        assert!(report.to_string().contains("shape [1] instead of [4]"), "{report}");
        m.synchronize().unwrap();
    }
}

/// A function that reads a tensor on the host goes on by its value. A value that is new runs the
/// function from the read on: nothing before it happens twice.
#[test]
fn reads_are_guards() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let (runs, inner) = (Runs::default(), m.clone());
        let inside = runs.clone();
        // total += x; then total is doubled, or negated if its sum is negative.
        let f = m.traced(move |inputs, _| {
            inside.one();
            let (x, total) = (&inputs[0], &inputs[1]);
            let kept = one(&inner, "relu", &[x])?;
            inner.call("add_", &[total, x]).run()?;
            let sum = one(&inner, "sum", &[total])?;
            let sign = one(&inner, "sign", &[&sum])?;
            drop(sum);
            let result = match read(&sign)[0] {
                sign if sign < 0.0 => one(&inner, "neg", &[total])?,
                _ => one(&inner, "add", &[total, total])?,
            };
            let result = one(&inner, "add", &[&result, &kept])?;
            Ok(vec![result, total.clone(), kept])
        });
        let total = upload(&s, &m, &[0.0, 0.0]);
        let mut expected = [0.0, 0.0];
        for (k, (x, is_new)) in
            // The second replay in a row that leaves the capture ends it.
            [
                (1.0, true),
                (2.0, false),
                (1.0, false),
                (-9.0, true),
                (30.0, false),
                (-50.0, true),
            ]
            .into_iter()
            .chain([(-1.0, true), (-2.0, true), (-1.0, false), (29.0, true)])
            .enumerate()
        {
            let before = runs.count();
            let given = upload(&s, &m, &[x, x]);
            let results = f.call(&[&given, &total]).run().unwrap();
            expected = expected.map(|t: f32| t + x);
            let kept = x.max(0.0);
            let factor = if expected[0] < 0.0 { -1.0 } else { 2.0 };
            assert_eq!(read(&results[0]), expected.map(|t| factor * t + kept), "{driver:?} {k}");
            assert_eq!(read(&results[1]), expected, "{driver:?} {k}");
            assert_eq!(results[1].tensor_ref(), total.tensor_ref());
            assert_eq!(read(&results[2]), [kept; 2]);
            assert_eq!(runs.count() - before, usize::from(is_new), "{driver:?} {k}");
        }
        let report = f.report();
        assert_eq!((report.captures, report.resumptions, report.replays), (2, 4, 4), "{report}");
        m.synchronize().unwrap();
    }
}

/// Several reads in a row: a replay goes on up to the first that has another value.
#[test]
fn guards_behind_guards() {
    let m = machine(DriverKind::Threaded);
    let s = cpu(&m, 0);
    let (runs, inner) = (Runs::default(), m.clone());
    let inside = runs.clone();
    // Halves x until it is below 1.
    let f = m.traced(move |inputs, _| {
        inside.one();
        let mut x = inputs[0].clone();
        for _ in 0..4 {
            let is_large = inner.call("ge", &[&x]).attr("other", 1.0).run()?.remove(0);
            if is_large.read()? == [0] {
                break;
            }
            x = inner.call("mul", &[&x]).attr("other", 0.5).run()?.remove(0);
        }
        Ok(vec![x])
    });
    for (x, runs_after) in
        [(3.0, 1), (3.5, 1), (0.5, 2), (2.0, 2), (1.5, 3), (7.0, 4), (5.0, 5), (6.0, 5)]
    {
        let result = f.call(&[&upload(&s, &m, &[x])]).run().unwrap();
        let mut expected = x;
        while expected >= 1.0 {
            expected *= 0.5;
        }
        assert_eq!(read(&result[0]), [expected]);
        assert_eq!(runs.count(), runs_after, "{x}");
    }
}

/// Tensors from elsewhere are bound, uploads within are constants, views and events work.
#[test]
fn what_a_function_may_use() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let weights = upload(&s, &m, &[1.0, 1.0]);
        let (inner, own) = (m.clone(), weights.clone());
        let f = m.traced(move |inputs, _| {
            let (one_stream, other) = (cpu(&inner, 0), cpu(&inner, 1));
            let step = upload(&one_stream, &inner, &[0.5, 0.25]);
            let counter = upload(&one_stream, &inner, &[0.0]);
            let scaled = inner.call("mul", &[&inputs[0], &step]).on(&one_stream)?.remove(0);
            let event = one_stream.record_event()?;
            other.wait_event(&event)?;
            inner.call("add_", &[&own, &scaled]).on(&other)?;
            one_stream.wait_stream(&other)?;
            let first = own.view_storage(f32_spec(&[1]))?;
            inner.call("add_", &[&counter, &first]).on(&one_stream)?;
            inner.barrier()?;
            Ok(vec![counter, own.clone(), first])
        });
        for k in 1..5 {
            let x = upload(&s, &m, &[1.0, 2.0]);
            let results = f.call(&[&x]).run().unwrap();
            let (first, second) = (1.0 + 0.5 * k as f32, 1.0 + 0.5 * k as f32);
            assert_eq!(read(&results[0]), [first], "{driver:?}");
            assert_eq!(read(&weights), [first, second]);
            assert_eq!(results[1].tensor_ref(), weights.tensor_ref());
            assert_eq!(read(&results[2]), [first]);
        }
        assert_eq!(f.report().replays, 3);
        m.synchronize().unwrap();
    }
}

/// What cannot be captured runs plainly, with a reason; a strict function refuses it, with its
/// place.
#[test]
fn what_cannot_be_captured() {
    let m = machine(DriverKind::Inline);
    let s = cpu(&m, 0);
    let refused = |reason: &str, function: fn(&Machine, &Tensor) -> Result<Vec<Tensor>>| {
        let (inner, again) = (m.clone(), m.clone());
        let f = m.traced(move |inputs, _| function(&inner, &inputs[0]));
        let x = upload(&s, &m, &[1.0, 2.0]);
        for _ in 0..3 {
            f.call(&[&x]).run().unwrap();
        }
        let report = f.report();
        assert_eq!((report.plain, report.entries), (3, 0), "{report}");
        assert!(report.to_string().contains(reason), "{report}");
        let strict = m.traced(move |inputs, _| function(&again, &inputs[0])).strict();
        for _ in 0..3 {
            let error = strict.call(&[&x]).run().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("traced.rs:"), "{error}");
        }
    };
    refused("a host function uses a tensor's memory", |_, x| {
        x.access(Access::Read, |_| Ok(()))?;
        Ok(vec![])
    });
    refused("the size of a result of nonzero depends on data", |m, x| {
        m.call("nonzero", &[x]).run()
    });
    refused("it begins a critical section", |m, x| {
        m.critical_section(&[x])?;
        Ok(vec![])
    });
    refused("it makes prepared calls", |m, _| {
        drop(m.batch());
        Ok(vec![])
    });
    let x = upload(&s, &m, &[1.0, 2.0]);
    let (inner, part) = (m.clone(), x.view_storage(f32_spec(&[1])).unwrap());
    let f = m.traced(move |inputs, _| one(&inner, "add", &[&inputs[0], &part]).map(|x| vec![x]));
    for _ in 0..2 {
        assert_eq!(read(&f.call(&[&x]).run().unwrap()[0]), [2.0, 3.0]);
    }
    let report = f.report();
    assert!(report.to_string().contains("a tensor in the memory of an input"), "{report}");
}

/// The captures used longest ago are given up first, and a storm of captures switches itself off.
#[test]
fn captures_are_bounded() {
    let m = machine(DriverKind::Inline);
    let s = cpu(&m, 0);
    let inner = m.clone();
    let f = m.traced(move |inputs, _| inner.call("relu", &[&inputs[0]]).run());
    let f = f.limits(CaptureLimits { entries: 2, ..CaptureLimits::default() });
    let run = |size: usize| {
        let x = upload(&s, &m, &vec![-1.0; size]);
        assert_eq!(read(&f.call(&[&x]).run().unwrap()[0]), vec![0.0; size]);
    };
    for size in [1, 2, 1, 3, 1, 2] {
        run(size);
    }
    let report = f.report();
    assert_eq!((report.captures, report.replays), (4, 2), "{report}");
    assert_eq!((report.entries, report.evictions), (2, 2), "{report}");
    for size in 4..50 {
        run(size);
    }
    let report = f.report();
    assert!(report.switched_off.is_some() && report.plain > 10, "{report}");
    assert!(report.to_string().contains("shape ["), "{report}");
    f.clear();
    run(7);
    run(7);
    assert_eq!(f.report().replays, 3);
}

/// Failures reach the function's reads and its results as they do without capturing.
#[test]
fn failures() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let inner = m.clone();
        // Reads its input, and says whether it could.
        let f = m.traced(move |inputs, _| {
            let twice = one(&inner, "add", &[&inputs[0], &inputs[0]])?;
            match twice.read() {
                Ok(_) => one(&inner, "neg", &[&twice]).map(|x| vec![x]),
                Err(_) => {
                    let spec = f32_spec(&[1]);
                    Ok(vec![inner.upload(&cpu(&inner, 0), spec, bytes(&[7.0]))?])
                }
            }
        });
        let good = upload(&s, &m, &[1.0]);
        let run = |x: &Tensor| read(&f.call(&[x]).run().unwrap()[0]);
        assert_eq!((run(&good), run(&good)), (vec![-2.0], vec![-2.0]));
        let bad = call(&m, "fail", &[&good], &s);
        assert_eq!(run(&bad), [7.0], "{driver:?}");
        assert_eq!(run(&good), [-2.0], "{driver:?}");
        // An error of the function itself is the caller's.
        let inner = m.clone();
        let g = m.traced(move |inputs, _| inner.call("ad", &[&inputs[0]]).run());
        for _ in 0..2 {
            let error = g.call(&[&good]).run().unwrap_err().to_string();
            assert!(error.contains("did you mean"), "{error}");
        }
        assert!(m.synchronize().is_err());
        m.clear_failures();
    }
}

/// A function that does something else for equal inputs and reads is refused when it is resumed.
#[test]
fn a_function_that_changes_its_mind() {
    let m = machine(DriverKind::Inline);
    let s = cpu(&m, 0);
    let (runs, inner) = (Runs::default(), m.clone());
    let f = m.traced(move |inputs, _| {
        runs.one();
        let op = if runs.count() == 1 { "relu" } else { "neg" };
        let x = one(&inner, op, &[&inputs[0]])?;
        x.read()?;
        Ok(vec![x])
    });
    let (x, y) = (upload(&s, &m, &[1.0]), upload(&s, &m, &[2.0]));
    assert_eq!(read(&f.call(&[&x]).run().unwrap()[0]), [1.0]);
    assert_eq!(read(&f.call(&[&x]).run().unwrap()[0]), [1.0]);
    let error = f.call(&[&y]).run().unwrap_err().to_string();
    assert!(error.contains("relu(input 0)") && error.contains("neg(input 0)"), "{error}");
}

/// Threads may call one function at the same time; a function within another is part of it.
#[test]
fn threads_and_functions_within_functions() {
    let m = machine(DriverKind::Threaded);
    let inner = m.clone();
    let twice =
        Arc::new(m.traced(move |inputs, _| {
            one(&inner, "add", &[&inputs[0], &inputs[0]]).map(|x| vec![x])
        }));
    let within = twice.clone();
    let four = m.traced(move |inputs, _| {
        let x = within.call(&[&inputs[0]]).run()?;
        within.call(&[&x[0]]).run()
    });
    let four = four.strict();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (m, four) = (&m, &four);
            scope.spawn(move || {
                let s = cpu(m, thread);
                for k in 0..50 {
                    let x = upload(&s, m, &[k as f32, thread as f32]);
                    let y = with_stream(&s, || four.call(&[&x]).run()).unwrap();
                    assert_eq!(read(&y[0]), [4.0 * k as f32, 4.0 * thread as f32]);
                }
            });
        }
    });
    let report = four.report();
    assert_eq!(report.captures + report.replays, 150, "{report}");
    assert!(report.captures <= 3, "{report}");
    assert_eq!(twice.report().replays, 0);
}

/// A function whose reads always have new values is resumed for a while, and then runs as it is.
#[test]
fn replays_that_are_always_resumed_are_switched_off() {
    let m = machine(DriverKind::Threaded);
    let s = cpu(&m, 0);
    let inner = m.clone();
    let f = m.traced(move |inputs, _| {
        let sum = one(&inner, "sum", &[&inputs[0]])?;
        read(&sum);
        let again = one(&inner, "neg", &[&sum])?;
        read(&again);
        Ok(vec![again])
    });
    const CALLS: u64 = 200;
    for k in 0..CALLS {
        let x = upload(&s, &m, &[k as f32, 1.0]);
        assert_eq!(read(&f.call(&[&x]).run().unwrap()[0]), [-(k as f32) - 1.0]);
    }
    let report = f.report();
    assert_eq!(
        (report.captures, report.resumptions, report.plain),
        (11, 21, CALLS - 32),
        "{report}"
    );
    let reason = report.switched_off.as_deref().unwrap_or_default();
    assert!(reason.contains("captured or resumed than replayed"), "{report}");
    f.clear();
    f.call(&[&upload(&s, &m, &[1.0, 2.0])]).run().unwrap();
    assert_eq!(f.report().captures, report.captures + 1, "{}", f.report());
    assert_eq!(f.report().switched_off, None);
}

/// Long segments between reads are replayed for ever, also with a new value now and then.
#[test]
fn replays_with_few_resumptions_stay() {
    let m = machine(DriverKind::Threaded);
    let s = cpu(&m, 0);
    let inner = m.clone();
    let f = m.traced(move |inputs, _| {
        let mut x = inputs[0].clone();
        for _ in 0..20 {
            x = one(&inner, "neg", &[&x])?;
        }
        let sum = one(&inner, "sum", &[&x])?;
        read(&sum);
        for _ in 0..21 {
            x = one(&inner, "neg", &[&x])?;
        }
        Ok(vec![x])
    });
    for k in 0..300u32 {
        let value = if k % 50 == 0 { k as f32 } else { 0.5 };
        let x = upload(&s, &m, &[value]);
        assert_eq!(read(&f.call(&[&x]).run().unwrap()[0]), [-value]);
    }
    let report = f.report();
    assert_eq!(report.captures, 2, "{report}");
    assert!(report.replays > 290, "{report}");
}

/// A part behind a read that cannot be captured is an error of a strict function each time.
#[test]
fn strict_beyond_a_read() {
    let m = machine(DriverKind::Inline);
    let s = cpu(&m, 0);
    let f = m.traced(|inputs, _| {
        let x = inputs[0].neg()?;
        if read(&x)[0] < 0.0 {
            inputs[0].access(Access::Read, |_| Ok(()))?;
        }
        Ok(vec![x])
    });
    let f = f.strict();
    let call = |value: f32| f.call(&[&upload(&s, &m, &[value])]).run();
    (0..2).for_each(|_| assert_eq!(read(&call(-1.0).unwrap()[0]), [1.0]));
    for _ in 0..4 {
        let error = call(1.0).unwrap_err().to_string();
        assert!(error.contains("a host function uses") && error.contains("traced.rs:"), "{error}");
    }
    assert_eq!(read(&call(-2.0).unwrap()[0]), [2.0]);
}

/// A function that keeps a tensor that it returns or is given runs at each call, since a replay
/// would keep none.
#[test]
fn tensors_that_a_function_keeps() {
    type Keep = fn(&Tensor) -> Result<[Tensor; 2]>;
    let cases: [(&str, Keep); 4] = [
        ("it keeps its result neg(input 0)", |x| x.neg().map(|y| [y.clone(), y])),
        ("it keeps input 0", |x| Ok([x.neg()?, x.clone()])),
        ("it keeps input 0", |x| Ok([x.clone(), x.clone()])),
        ("outlives the call", |x| Ok([x.neg()?, x.neg()?])),
    ];
    for (reason, function) in cases {
        let m = machine(DriverKind::Threaded);
        let s = cpu(&m, 0);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let inner = kept.clone();
        let body = move |inputs: &[Tensor], _: &Attrs| {
            let [result, keep] = function(&inputs[0])?;
            inner.lock().unwrap().push(keep);
            Ok(vec![result])
        };
        let (f, strict) = (m.traced(body.clone()), m.traced(body).strict());
        let xs: Vec<Tensor> = (1..5).map(|k| upload(&s, &m, &[k as f32])).collect();
        for x in &xs {
            f.call(&[x]).run().unwrap();
        }
        let all: Vec<f32> = kept.lock().unwrap().iter().map(|kept| read(kept)[0].abs()).collect();
        assert_eq!(all, [1.0, 2.0, 3.0, 4.0], "{reason}");
        assert_eq!((f.report().plain, f.report().entries), (4, 0), "{}", f.report());
        for x in &xs {
            let error = strict.call(&[x]).run().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("traced.rs:"), "{reason}: {error}");
        }
    }
}

/// What a function keeps from a later call on is found beside a replay; what only a call keeps does
/// not matter.
#[test]
fn verification_finds_tensors_that_a_function_keeps() {
    let m = machine(DriverKind::Threaded);
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    for (k, text) in ["it keeps input 0", "keeps a tensor that it dropped", "it keeps its result"]
        .into_iter()
        .enumerate()
    {
        let (runs, kept) = (Runs::default(), Mutex::new(Vec::new()));
        let f = m.traced(move |inputs, _| {
            runs.one();
            let (given, middle) = (inputs[0].clone(), inputs[0].neg()?);
            let result = middle.exp()?;
            if runs.count() == 3 {
                kept.lock().unwrap().push([&given, &middle, &result][k].clone());
            }
            Ok(vec![result])
        });
        let f = f.verify_replays(1);
        for _ in 0..2 {
            f.call(&[&x]).run().unwrap();
        }
        let error = f.call(&[&x]).run().unwrap_err().to_string();
        assert!(error.contains(text), "{text}: {error}");
        assert_eq!(f.report().verified, 1, "{}", f.report());
    }
}

/// A function of few calls is given up, since its replays cost more; one of many is not, nor a
/// strict one. So is a function that no call can capture.
#[test]
fn replays_that_do_not_pay_are_given_up() {
    let m = machine(DriverKind::Inline);
    let x = upload(&cpu(&m, 0), &m, &[1.0]);
    let chain = |calls: usize| {
        m.traced(move |inputs, _| {
            let first = inputs[0].neg()?;
            (1..calls).try_fold(first, |x, _| x.neg()).map(|x| vec![x])
        })
    };
    let run = |f: &Traced| {
        (0..200).for_each(|_| drop(f.call(&[&x]).run().unwrap()));
        f.report()
    };
    let report = run(&chain(5));
    let reason = report.switched_off.as_deref().unwrap_or_default();
    assert!(reason.contains("cost more than the few calls"), "{report}");
    assert_eq!((report.captures, report.replays, report.plain), (1, 124, 75), "{report}");
    assert_eq!(run(&chain(8)).replays, 199);
    assert_eq!(run(&chain(5).strict()).replays, 199);
    let never = m.traced(|inputs, _| {
        inputs[0].access(Access::Read, |_| Ok(()))?;
        Ok(vec![])
    });
    let report = run(&never);
    let reason = report.switched_off.as_deref().unwrap_or_default();
    assert!(reason.contains("cannot be captured") && report.plain == 200, "{report}");
}

/// A call on a created stream hits the capture of one on another, and so does a function that
/// creates its stream.
#[test]
fn fresh_streams_hit() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let x = upload(&cpu(&m, 0), &m, &[1.0]);
        let f = m.traced(|inputs, _| Ok(vec![inputs[0].neg()?.exp()?]));
        for k in 0..40 {
            let own = m.create_stream(&CPU).unwrap();
            let y = with_stream(&own, || f.call(&[&x]).run()).unwrap().remove(0);
            assert_eq!(read(&y), [(-1.0f32).exp()], "{driver:?}: call {k}");
        }
        assert_eq!((f.report().captures, f.report().replays), (1, 39), "{}", f.report());
        let inner = m.clone();
        let f = m.traced(move |inputs, _| {
            let own = inner.create_stream(&CPU)?;
            let y = inner.call("neg", &[&inputs[0]]).on(&own)?.remove(0);
            let is_small = read(&y)[0] > -2.0;
            let z = if is_small { y.exp()? } else { y.abs()? };
            Ok(vec![inner.call("neg", &[&z]).on(&own)?.remove(0)])
        });
        let f = f.verify_replays(2);
        for (k, value) in [1.0f32, 1.0, 1.0, 1.0, 3.0, 1.0].into_iter().enumerate() {
            let given = upload(&cpu(&m, 0), &m, &[value]);
            let expected = if value < 2.0 { -(-value).exp() } else { -value };
            assert_eq!(read(&f.call(&[&given]).run().unwrap()[0]), [expected], "{driver:?}: {k}");
        }
        let report = f.report();
        assert_eq!((report.captures, report.resumptions), (1, 1), "{report}");
        assert_eq!((report.replays, report.verified), (3, 1), "{report}");
    }
}
