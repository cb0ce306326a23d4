//! Symbolic sizes of traced functions: three runs make captures for all sizes between, and what has
//! no template keeps a capture for each size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millstream::*;
use millstream_testing::machine::*;

const WIDTH: usize = 8;

fn tensor(m: &Machine, shape: &[usize], seed: usize) -> Tensor {
    let value = |k: usize| ((k * 37 + seed * 101) % 64) as f32 / 32.0 - 1.0;
    let count = shape.iter().product();
    Tensor::from_slice(&(0..count).map(value).collect::<Vec<_>>(), shape, m).unwrap()
}

/// One step of attention over caches of keys and values, which it returns longer.
fn attend(inputs: &[Tensor], w: &Tensor) -> Result<Vec<Tensor>> {
    let [x, keys, values] = inputs else { panic!("three inputs") };
    let keys = Tensor::cat(&[keys, &x.matmul(w)?], 0)?;
    let values = Tensor::cat(&[values, &x.tanh()?], 0)?;
    let scores = x.matmul(&keys.t()?)?.mul(0.5)?;
    let context = scores.softmax(1)?.matmul(&values)?;
    Ok(vec![x.add(&context)?.tanh()?, keys, values])
}

/// A function, with the number of its runs.
fn counted(
    m: &Machine,
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
) -> (Traced, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let inside = runs.clone();
    let traced = m.traced(move |inputs, _| {
        inside.fetch_add(1, Relaxed);
        f(inputs)
    });
    (traced, runs)
}

fn content(tensors: &[Tensor]) -> Vec<Vec<u8>> {
    tensors.iter().map(|tensor| tensor.read().unwrap()).collect()
}

/// Decodes so many steps from caches of one row. Calls `check` with each step's results.
fn decode(
    m: &Machine,
    steps: usize,
    step: impl Fn(&[&Tensor]) -> Vec<Tensor>,
    mut check: impl FnMut(&[Tensor]),
) {
    let mut x = tensor(m, &[1, WIDTH], 1);
    let (mut keys, mut values) = (tensor(m, &[1, WIDTH], 2), tensor(m, &[1, WIDTH], 3));
    for _ in 0..steps {
        let made = step(&[&x, &keys, &values]);
        check(&made);
        let [next, longer_keys, longer_values] = made.try_into().unwrap();
        (x, keys, values) = (next, longer_keys, longer_values);
    }
}

#[test]
fn a_decoder_runs_three_times() {
    for driver in ALL_DRIVERS {
        let steps = if driver == DriverKind::Inline { 512 } else { 40 };
        let m = failing(driver);
        let w = tensor(&m, &[WIDTH, WIDTH], 5);
        let mut expected = Vec::new();
        let plain = |inputs: &[&Tensor]| {
            attend(&inputs.iter().map(|&t| t.clone()).collect::<Vec<_>>(), &w).unwrap()
        };
        decode(&m, steps, plain, |made| expected.push(content(&made[..1])));
        let own = w.clone();
        let (traced, runs) = counted(&m, move |inputs| attend(inputs, &own));
        let traced = traced.sizes(1..=512).strict();
        let step = |inputs: &[&Tensor]| traced.call(inputs).dim(1, 0).dim(2, 0).run().unwrap();
        for text in 0..2 {
            let mut at = 0;
            decode(&m, steps, step, |made| {
                assert_eq!(content(&made[..1]), expected[at], "{driver:?}: text {text}, {at}");
                at += 1;
            });
        }
        assert_eq!(runs.load(Relaxed), 3, "{driver:?}: {}", traced.report());
        let report = traced.report();
        assert_eq!((report.captures, report.plain), (3, 0), "{report}");
        assert_eq!(report.replays, 2 * steps as u64 - 3, "{report}");
    }
}

/// Without a statement of the program, the sizes between those of runs are derived, and one outside
/// is a run, which extends them.
#[test]
fn sizes_outside_of_those_of_runs_run_the_function() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let (traced, runs) = counted(&m, |inputs| {
            let half = inputs[0].narrow(0, 1, inputs[0].shape()[0] - 1)?;
            Ok(vec![half.cumsum(0)?, half.t()?.matmul(&half)?])
        });
        let check = |size: usize, ran: bool| {
            let x = tensor(&m, &[size, 3], size);
            let before = runs.load(Relaxed);
            let made = traced.call(&[&x]).dim(0, 0).run().unwrap();
            let half = x.narrow(0, 1, size - 1).unwrap();
            let expected = [half.cumsum(0).unwrap(), half.t().unwrap().matmul(&half).unwrap()];
            assert_eq!(content(&made), content(&expected), "{driver:?}: size {size}");
            assert_eq!(runs.load(Relaxed) - before, usize::from(ran), "{driver:?}: size {size}");
        };
        [(4, true), (12, true), (6, true), (5, false), (11, false), (8, false)]
            .into_iter()
            .chain([(13, true), (20, true), (19, false), (3, true), (20, false)])
            .for_each(|(size, ran)| check(size, ran));
        let report = traced.report();
        assert_eq!((report.captures, report.derived), (6, 4), "{report}");
    }
}

/// A program that branches on the size is reported with the call, and right.
#[test]
fn a_branch_on_the_size_keeps_a_capture_for_each() {
    let m = inline();
    let f = |inputs: &[Tensor]| -> Result<Vec<Tensor>> {
        let x = inputs[0].relu()?;
        Ok(vec![if x.shape()[0] > 6 { x.neg()? } else { x.exp()? }])
    };
    let (traced, runs) = counted(&m, f);
    for size in [2, 12, 5, 9, 7, 2, 12, 5, 9, 7] {
        let x = tensor(&m, &[size], size);
        let made = traced.call(&[&x]).dim(0, 0).run().unwrap();
        assert_eq!(content(&made), content(&f(&[x]).unwrap()), "size {size}");
    }
    let report = traced.report();
    assert_eq!((runs.load(Relaxed), report.derived), (5, 0), "{report}");
    let text = report.to_string();
    let expected = "each size has a capture of its own: `exp(value 0) on cpu:0 compute 0` with \
                    size 2, `neg(value 0) on cpu:0 compute 0` with size 12";
    assert!(text.contains(expected) && text.contains("sizes.rs"), "{text}");
}

/// What the first runs do not show ends the template where a run shows it.
#[test]
fn a_run_outside_ends_a_template_that_it_does_not_fit() {
    let m = inline();
    let f = |inputs: &[Tensor]| -> Result<Vec<Tensor>> {
        let x = inputs[0].relu()?;
        Ok(vec![if x.shape()[0] > 6 { x.neg()? } else { x.exp()? }])
    };
    let (traced, runs) = counted(&m, f);
    for size in [2, 3, 5, 4, 7, 8, 4, 6] {
        let x = tensor(&m, &[size], size);
        let made = traced.call(&[&x]).dim(0, 0).run().unwrap();
        assert_eq!(content(&made), content(&f(&[x]).unwrap()), "size {size}");
    }
    // 2, 3 and 5; 7, which ends it; 8; and 6. The capture for 4 stays.
    assert_eq!((runs.load(Relaxed), traced.report().derived), (6, 1), "{}", traced.report());
    // A statement that is wrong is found beside replays.
    let (traced, _) = counted(&m, f);
    let traced = traced.sizes(1..=9).verify_replays(1);
    let call = |size: usize| traced.call(&[&tensor(&m, &[size], size)]).dim(0, 0).run();
    [2, 3, 5, 6].into_iter().for_each(|size| drop(call(size).unwrap()));
    let error = call(7).unwrap_err().to_string();
    assert!(error.contains("and now neg(value 0)"), "{error}");
}

/// Numbers of the host that depend on the size have no template, unless they are integer arguments.
#[test]
fn numbers_of_the_host() {
    let m = inline();
    let why = |f: fn(&[Tensor]) -> Result<Vec<Tensor>>| {
        let (traced, _) = counted(&m, f);
        for size in [2, 4, 8, 6] {
            let x = tensor(&m, &[size], size);
            let made = traced.call(&[&x]).dim(0, 0).run().unwrap();
            assert_eq!(content(&made), content(&f(&[x]).unwrap()), "size {size}");
        }
        let report = traced.report();
        (report.derived, report.to_string())
    };
    let (derived, report) = why(|inputs| {
        let size = inputs[0].shape()[0] as i64;
        let x = inputs[0].add(&Tensor::arange(0..size, inputs[0].machine())?)?;
        Ok(vec![x.mul(2 * size + 1)?])
    });
    assert_eq!(derived, 1, "{report}");
    let (derived, report) = why(|inputs| {
        let size = inputs[0].shape()[0] as f32;
        let scale = Tensor::from_slice(&[size], 1, inputs[0].machine())?;
        Ok(vec![inputs[0].mul(&scale)?])
    });
    assert!(derived == 0 && report.contains("`an upload of f32[1]"), "{report}");
    let (derived, report) = why(|inputs| {
        let size = inputs[0].shape()[0] as f64;
        Ok(vec![inputs[0].mul(1.0 / size)?.relu()?])
    });
    assert!(derived == 0 && report.contains("`mul(input 0; other=0.5)"), "{report}");
    // A square is linear for two sizes, but not for a third.
    let (derived, report) = why(|inputs| {
        let size = inputs[0].shape()[0];
        Ok(vec![inputs[0].narrow(0, 0, size * size / 8)?.relu()?])
    });
    assert!(derived == 0 && report.contains("narrow"), "{report}");
}

/// Sizes 0 and 1, for which calls are others, have captures of their own.
#[test]
fn a_size_of_one_may_be_special() {
    let m = inline();
    let f = |inputs: &[Tensor]| -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        Ok(vec![if x.shape()[1] == 1 { x.neg()? } else { x.t()?.contiguous()?.neg()?.t()? }])
    };
    let (traced, runs) = counted(&m, f);
    let traced = traced.sizes(0..=100);
    for size in [1, 2, 3, 4, 5, 1, 6, 0, 7, 0] {
        let x = tensor(&m, &[3, size], size);
        let made = traced.call(&[&x]).dim(0, 1).run().unwrap();
        assert_eq!(content(&made), content(&f(&[x]).unwrap()), "size {size}");
    }
    let report = traced.report();
    assert!(runs.load(Relaxed) <= 5 && report.derived >= 3, "{report}");
    assert!(report.to_string().contains("size 1 has a capture of its own"), "{report}");
}

/// Reads are guards in captures that were derived, too.
#[test]
fn reads_within() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let f = |inputs: &[Tensor]| -> Result<Vec<Tensor>> {
            let total = inputs[0].sum(..)?;
            let twice = inputs[0].mul(2)?;
            let is_large = total.gt(0)?.read()? == [1];
            Ok(vec![if is_large { twice.neg()? } else { twice.sum(0)? }, total])
        };
        let (traced, runs) = counted(&m, f);
        let traced = traced.sizes(2..=20);
        let call = |size: usize, sign: f32| {
            let x = Tensor::full((size, 2), sign, &m).unwrap();
            let made = traced.call(&[&x]).dim(0, 0).run().unwrap();
            assert_eq!(content(&made), content(&f(&[x]).unwrap()), "{driver:?}: size {size}");
        };
        [2, 3, 4].into_iter().for_each(|size| call(size, 1.0));
        [5, 9].into_iter().for_each(|size| call(size, 1.0));
        assert_eq!((runs.load(Relaxed), traced.report().derived), (3, 2), "{}", traced.report());
        // With another value a replay leaves the capture that was derived.
        [9, 9].into_iter().for_each(|size| call(size, -1.0));
        assert_eq!((runs.load(Relaxed), traced.report().resumptions), (5, 2));
    }
}

/// A training step on batches of any size: gradients of parameters are found and left.
#[test]
fn batches_of_any_size() {
    for driver in ALL_DRIVERS {
        let train = |traced: bool| {
            let m = failing(driver);
            let w = tensor(&m, &[4, 2], 7).with_grad().unwrap();
            let own = w.clone();
            let step = move |inputs: &[Tensor]| -> Result<Vec<Tensor>> {
                let tape = inputs[0].machine().tape();
                let loss = inputs[0].matmul(&own)?.tanh()?.pow(2)?.sum(..)?;
                tape.backward(&loss)?;
                let gradient = own.grad().expect("a gradient");
                let minus_lr = options::Add::default().alpha(-0.1);
                no_grad(|| own.add_with_(&gradient, minus_lr).map(drop))?;
                own.zero_grad();
                Ok(vec![loss])
            };
            let (f, runs) = counted(&m, step.clone());
            let f = f.sizes(1..=64);
            let losses = [4, 6, 9, 5, 17, 4, 30, 3].into_iter().map(|size| {
                let x = tensor(&m, &[size, 4], size);
                let made = match traced {
                    true => f.call(&[&x]).dim(0, 0).run(),
                    false => step(&[x]),
                };
                content(&made.unwrap())
            });
            let losses: Vec<_> = losses.collect();
            (losses, w.read().unwrap(), runs.load(Relaxed), f.report())
        };
        let (losses, w, ..) = train(false);
        let (replayed, replayed_w, runs, report) = train(true);
        assert_eq!((replayed, replayed_w), (losses, w), "{driver:?}");
        assert_eq!((runs, report.derived), (3, 4), "{driver:?}: {report}");
    }
}

#[test]
fn dimensions_that_no_input_has() {
    let m = inline();
    let (f, _) = counted(&m, |inputs| Ok(vec![inputs[0].relu()?]));
    let x = tensor(&m, &[2], 1);
    let error = |input, dim| f.call(&[&x]).dim(input, dim).run().unwrap_err().to_string();
    assert!(error(0, 1).contains("invalid symbolic size: dimension 1 of input 0, which has 1"));
    assert!(error(2, 0).contains("a dimension of input 2 of 1"), "{}", error(2, 0));
}
