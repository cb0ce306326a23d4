//! Numbers that each launch gives, for arguments such as `alpha`: in lists, in executables within
//! executables, and in traced functions. The results are those of eager calls with the numbers.
//!
//! Long because each way to give a number has its tests here.

use millstream::instructions::text;
use millstream::types::ScalarUse;
use millstream::*;
use millstream_testing::machine::*;
use proptest::prelude::*;

const DRIVERS: [DriverKind; 3] = [DriverKind::Inline, DriverKind::Threaded, DriverKind::Simulated];

fn machine(driver: DriverKind) -> Machine {
    Machine::new(MachineConfig::default().driver(driver)).unwrap()
}

/// The numbers that a launch gives, or that an eager program has.
struct Numbers<N> {
    alpha: N,
    value: N,
    weight: N,
    other: N,
}

/// Calls that take a number each.
fn calls<N: Into<Number> + Copy>(x: &Tensor, y: &Tensor, n: &Numbers<N>) -> Result<Tensor> {
    let (alpha, value, weight, other) = (n.alpha, n.value, n.weight, n.other);
    let sum = x.add_with(y, options::Add::default().alpha(alpha))?;
    let bent = sum.addcmul_with(x, y, options::Addcmul::default().value(value))?;
    let mixed = bent.lerp(y, weight.into())?.mul(other.into())?.div(other.into())?;
    let below = mixed.sub(other.into())?;
    let filled = x.zeros_like()?;
    filled.fill_(value)?;
    below.add(&filled)?.clamp(alpha, 1e9)
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    match tensor.dtype() {
        DType::F64 => tensor.to_vec::<f64>().unwrap().iter().map(|x| x.to_bits()).collect(),
        _ => tensor.to_vec::<f32>().unwrap().iter().map(|x| u64::from(x.to_bits())).collect(),
    }
}

fn operands(m: &Machine, dtype: DType) -> [Tensor; 2] {
    let of = |values: &[f32]| Tensor::from_slice(values, 4, m).unwrap().cast(dtype).unwrap();
    [of(&[-1.5, 0.25, 3.0, 1e-3]), of(&[2.0, -0.75, 1e4, 7.0])]
}

/// A recorded list of the calls, with a scalar for each number.
fn recorded(m: &Machine, dtype: DType) -> Result<Recorded> {
    m.record(|r| {
        let spec = TensorSpec::contiguous(dtype, &[4])?;
        let (x, y) = (r.input("x", spec.clone())?, r.input("y", spec)?);
        let mut scalar = |name: &str| r.scalar(name, 0.5);
        let [alpha, value] = [scalar("alpha")?, scalar("value")?];
        let numbers = Numbers { alpha, value, weight: scalar("weight")?, other: scalar("other")? };
        let z = r.function(&[x, y], |i| Ok(vec![calls(&i[0], &i[1], &numbers)?]))?;
        r.output("z", &z[0])
    })
}

fn numbers() -> impl Strategy<Value = Numbers<f64>> {
    (-4.0..4.0, -2.0..2.0, 0.0..1.0, 0.1..9.0).prop_map(|(alpha, value, weight, other)| Numbers {
        alpha,
        value,
        weight,
        other,
    })
}

impl<N: std::fmt::Debug> std::fmt::Debug for Numbers<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Numbers { alpha, value, weight, other } = self;
        write!(f, "{alpha:?} {value:?} {weight:?} {other:?}")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Launches give the bits of eager calls, on every driver; a list that was read from its text
    /// gives them, too.
    #[test]
    fn launches_give_eager_bits(given in proptest::collection::vec(numbers(), 1..4)) {
        for dtype in [DType::F32, DType::F64] {
            let m = inline();
            let [x, y] = operands(&m, dtype);
            let eager = given.iter().map(|n| bits(&calls(&x, &y, n).unwrap()));
            let eager: Vec<Vec<u64>> = eager.collect();
            for driver in DRIVERS {
                let m = machine(driver);
                let [x, y] = operands(&m, dtype);
                let recorded = recorded(&m, dtype).unwrap();
                let printed = text::print_list(recorded.list());
                let list = text::parse_list(&printed).unwrap();
                prop_assert_eq!(&list, recorded.list());
                let step = recorded.compile().unwrap();
                for (numbers, eager) in given.iter().zip(&eager) {
                    let launch = step.launch().input("x", &x).input("y", &y);
                    let launch = launch.scalar("alpha", numbers.alpha);
                    let launch = launch.scalar("value", numbers.value);
                    let launch = launch.scalar("weight", numbers.weight);
                    let launched = launch.scalar("other", numbers.other).run().unwrap();
                    prop_assert_eq!(&bits(launched.output("z").unwrap()), eager);
                }
            }
        }
    }
}

/// A launch that gives no number has that of the declaration; the list shows the uses.
#[test]
fn declared_numbers_are_defaults() {
    let m = inline();
    let [x, y] = operands(&m, DType::F32);
    let recorded = recorded(&m, DType::F32).unwrap();
    let text = text::print_list(recorded.list());
    assert!(text.contains("scalar $0 \"alpha\" 0.5\n"), "{text}");
    assert!(text.contains("add (%0 read, %1 read, %2 write) {alpha=$0}"), "{text}");
    let step = recorded.compile().unwrap();
    let half = Numbers { alpha: 0.5, value: 0.5, weight: 0.5, other: 0.5 };
    let launched = step.launch().input("x", &x).input("y", &y).run().unwrap();
    let eager = calls(&x, &y, &half).unwrap();
    assert_eq!(bits(launched.output("z").unwrap()), bits(&eager));
}

/// A launch within a list takes numbers, and scalars of that list.
#[test]
fn launches_within_lists_pass_scalars_on() {
    for driver in DRIVERS {
        let m = machine(driver);
        let inner = m.record(|r| {
            let x = r.input("x", f32_spec(&[2]))?;
            let (factor, summand) = (r.scalar("factor", 1.0)?, r.scalar("summand", 3.0)?);
            r.call("mul_", &[x]).attr("other", factor).run()?;
            r.call("add_", &[x]).attr("other", summand).run().map(drop)
        });
        let inner = inner.unwrap().compile().unwrap();
        let outer = m.record(|r| {
            let x = r.input("x", f32_spec(&[2]))?;
            let scale = r.scalar("scale", 2.0)?;
            let plus = ScalarUse { plus: 1, ..scale };
            r.launch(&inner).input("x", &x).scalar("factor", plus).run()?;
            r.launch(&inner).input("x", &x).scalar("factor", 0.5).scalar("summand", scale).run()?;
            Ok(())
        });
        let outer = outer.unwrap().compile().unwrap();
        let x = Tensor::from_slice(&[1.0f32, -1.0], 2, &m).unwrap();
        outer.launch().input("x", &x).run().unwrap();
        // 3 x + 3, then half of that + 2.
        assert_eq!(x.to_vec::<f32>().unwrap(), [5.0, 2.0]);
        outer.launch().input("x", &x).scalar("scale", 3.0).run().unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [14.5, 8.5]);
    }
}

#[track_caller]
fn refused<T>(result: Result<T>, expected: &[&str]) {
    let error = result.err().expect("it is refused").to_string();
    for part in expected.iter().chain(&["scalars.rs"]) {
        assert!(error.contains(part), "{error}\ndoes not contain {part:?}");
    }
}

/// What is wrong is said where it is recorded, or launched.
#[test]
fn refusals_name_what_is_expected() {
    let m = inline();
    let record = |op: &'static str, argument: &'static str, dtype: DType| {
        m.record(|r| {
            let x = r.input("x", TensorSpec::contiguous(dtype, &[2])?)?;
            let number = r.scalar("number", 0.5)?;
            r.call(op, &[x]).attr(argument, number).run().map(drop)
        })
    };
    refused(
        record("_softmax", "dim", DType::F32),
        &["_softmax", "dim: $0 is a number of each launch", "no patchable arguments"],
    );
    refused(
        record("native_dropout", "p", DType::F32),
        &["its patchable arguments are seed, offset"],
    );
    refused(
        record("uniform_", "seed", DType::F32),
        &["the scalar \"number\" is a floating-point number, which this argument does not take"],
    );
    refused(record("fill", "value", DType::I32), &["i32 cannot hold"]);
    refused(
        m.record(|r| r.scalar("a", 0.5).and(r.scalar("a", 1.0)).map(drop)),
        &["the scalar \"a\" is declared twice"],
    );
    let other = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let stranger = ScalarUse { scalar: types::ScalarId(3), plus: 0 };
        r.call("mul", &[x]).attr("other", stranger).run().map(drop)
    });
    refused(other, &["$3 is a number of each launch of another list"]);

    let random = Generator::new(7);
    let step = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let value = r.scalar("value", 1.0)?;
        r.call("fill", &[x]).attr("value", value).run()?;
        r.call("uniform_", &[x]).draw(&random).run().map(drop)
    });
    let step = step.unwrap().compile_as_is().unwrap();
    let x = Tensor::zeros(2, DType::F32, &m).unwrap();
    let launch = || step.launch().input("x", &x);
    refused(launch().scalar("valu", 1.0).run(), &["unknown scalar 'valu'", "did you mean 'value'"]);
    refused(launch().scalar("value", 1).run(), &["\"value\" is a floating-point number", "1 is"]);
    refused(launch().scalar("value", 1.0).scalar("value", 2.0).run(), &["given twice"]);
    refused(launch().scalar("seed0", 9).run(), &["the state of a generator"]);
    // As an eager call would be.
    refused(launch().scalar("value", 1e39).run(), &["fill: f32 cannot hold 1e39"]);
    launch().scalar("value", f64::INFINITY).run().unwrap();
    launch().scalar("value", 65505.0).run().unwrap();
}

/// A whole number that is no generator's may be a seed.
#[test]
fn whole_numbers_are_seeds() {
    let m = inline();
    let draw = m.record(|r| {
        let seed = r.scalar("seed", 7)?;
        let drawn = r.call("uniform", &[]).attr("shape", vec![3]).attr("seed", seed);
        let drawn = drawn.attr("offset", 0).run()?;
        r.output("drawn", &drawn[0])
    });
    let draw = draw.unwrap().compile().unwrap();
    for seed in [7, 8] {
        let launched = draw.launch().scalar("seed", seed).run().unwrap();
        let eager = Tensor::rand(3, Seed::new(seed as u64, 0), &m).unwrap();
        assert_eq!(bits(launched.output("drawn").unwrap()), bits(&eager));
    }
}

fn schedule(step: u32) -> f64 {
    0.1 * 0.9f64.powi(step as i32)
}

/// The weights after each of some steps.
fn train(driver: DriverKind, step: impl Fn(&Machine, &Tensor, u32) -> Result<()>) -> Vec<Vec<u64>> {
    let m = machine(driver);
    let w = Tensor::from_slice(&[4.0f32, -8.0, 0.3], 3, &m).unwrap().with_grad().unwrap();
    let step = |k: u32| {
        step(&m, &w, k).unwrap();
        bits(&w)
    };
    (0..6).map(step).collect()
}

/// The gradient of the sum of the cubes of the weights.
fn backward(w: &Tensor) -> Result<Tensor> {
    let tape = w.machine().tape();
    tape.backward(&w.mul(w)?.mul(w)?.sum(..)?)?;
    let gradient = w.grad();
    w.zero_grad();
    gradient.ok_or_else(|| Error::Internal { message: "no gradient".to_owned() })
}

fn sgd<N: Into<Number>>(w: &Tensor, minus_lr: N) -> Result<()> {
    let gradient = backward(w)?;
    no_grad(|| w.add_with_(&gradient, options::Add::default().alpha(minus_lr)).map(drop))
}

/// Gradient descent by a schedule: one capture, and the bits of eager steps.
#[test]
fn sgd_with_a_schedule_is_captured_once() {
    let eager = train(DriverKind::Inline, |_, w, k| sgd(w, -schedule(k)));
    for driver in DRIVERS {
        let traced = std::sync::OnceLock::new();
        let replayed = train(driver, |m, w, k| {
            let of = w.clone();
            let traced = traced.get_or_init(|| {
                let step = move |_: &[Tensor], arguments: &Attrs| {
                    sgd(&of, Number::of(arguments, "minus_lr")?)?;
                    Ok(vec![])
                };
                m.traced(step).strict()
            });
            let call = traced.call(&[]).scalar("minus_lr", -schedule(k));
            call.run().map(drop)
        });
        assert_eq!(replayed, eager);
        let report = traced.get().unwrap().report();
        assert_eq!((report.captures, report.replays, report.plain), (1, 5, 0), "{report}");
    }
}

/// The numbers of a step of AdamW, which the program computes.
fn adamw_numbers(k: u32) -> [(&'static str, f64); 3] {
    let (lr, t) = (schedule(k), k as i32 + 1);
    let step = -lr / (1.0 - 0.9f64.powi(t));
    let root = (1.0 - 0.999f64.powi(t)).sqrt();
    [("decay", 1.0 - lr * 0.01), ("root", root), ("step", step)]
}

fn adamw<N: Into<Number> + Copy>(
    (w, mean, square): (&Tensor, &Tensor, &Tensor),
    [decay, root, step]: [N; 3],
) -> Result<()> {
    let gradient = backward(w)?;
    no_grad(|| {
        w.mul_(decay.into())?;
        mean.lerp_(&gradient, 0.1)?;
        let squares = options::Addcmul::default().value(0.001);
        square.mul_(0.999)?.addcmul_with_(&gradient, &gradient, squares)?;
        let denominator = square.sqrt()?.div(root.into())?.add(1e-8)?;
        let scaled = options::Addcdiv::default().value(step);
        w.addcdiv_with_(mean, &denominator, scaled).map(drop)
    })
}

/// AdamW by a schedule, with its corrections as numbers: one capture, and eager's bits.
#[test]
fn adamw_with_a_schedule_is_captured_once() {
    fn moments(w: &Tensor) -> [Tensor; 2] {
        [w.zeros_like().unwrap(), w.zeros_like().unwrap()]
    }
    let known = std::sync::OnceLock::new();
    let eager = train(DriverKind::Inline, |_, w, k| {
        let [mean, square] = known.get_or_init(|| moments(w));
        adamw((w, mean, square), adamw_numbers(k).map(|(_, number)| number))
    });
    for driver in DRIVERS {
        let traced = std::sync::OnceLock::new();
        let replayed = train(driver, |m, w, k| {
            let (of, [mean, square]) = (w.clone(), moments(w));
            let traced = traced.get_or_init(|| {
                let step = move |_: &[Tensor], arguments: &Attrs| {
                    let names = ["decay", "root", "step"];
                    let numbers = names.map(|name| Number::of(arguments, name));
                    let [decay, root, step] = numbers;
                    adamw((&of, &mean, &square), [decay?, root?, step?])?;
                    Ok(vec![])
                };
                m.traced(step).strict()
            });
            let call = traced.call(&[]);
            let given = adamw_numbers(k).into_iter();
            given.fold(call, |call, (name, number)| call.scalar(name, number)).run().map(drop)
        });
        assert_eq!(replayed, eager);
        let report = traced.get().unwrap().report();
        assert_eq!((report.captures, report.replays, report.plain), (1, 5, 0), "{report}");
    }
}

/// A factor of the loss that each replay gives is part of the gradient.
#[test]
fn losses_are_scaled_by_scalars() {
    let m = inline();
    let w = Tensor::from_slice(&[1.0f32, 2.0], 2, &m).unwrap().with_grad().unwrap();
    let of = w.clone();
    let scaled = m.traced(move |_, arguments| {
        let tape = of.machine().tape();
        let loss = of.mul(&of)?.mul(Number::of(arguments, "scale")?)?;
        tape.backward(&loss.sum(..)?)?;
        let gradient = of.grad().into_iter().collect();
        of.zero_grad();
        Ok(gradient)
    });
    for scale in [1.0f32, 0.5, 8.0] {
        let gradient = scaled.call(&[]).scalar("scale", scale.into()).run().unwrap();
        assert_eq!(gradient[0].to_vec::<f32>().unwrap(), [2.0 * scale, 4.0 * scale]);
    }
    let report = scaled.report();
    assert_eq!((report.captures, report.replays), (1, 2), "{report}");
    // A rule that computes with the number cannot have it.
    let of = w.clone();
    let negated = m.traced(move |_, arguments| {
        let tape = of.machine().tape();
        let alpha = options::Add::default().alpha(Number::of(arguments, "alpha")?);
        tape.backward(&of.add_with(&of, alpha)?.sum(..)?)?;
        Ok(vec![])
    });
    let error = negated.call(&[]).scalar("alpha", 2.0).run().unwrap_err().to_string();
    assert!(error.contains("alpha: expected a number, got $0, which each launch gives"), "{error}");
}

/// The function cannot see the number while it is captured; a use that no launch can patch, or a
/// number that a call refuses, runs it plainly with the number.
#[test]
fn traced_functions_fall_back() {
    let m = inline();
    let x = Tensor::ones(4, DType::F32, &m).unwrap();
    let reads = m.traced(|inputs, arguments| {
        let factor = arguments.float("factor")?.unwrap_or_default();
        Ok(vec![inputs[0].mul(2.0 * factor)?])
    });
    let error = reads.call(&[&x]).scalar("factor", 1.0).run().unwrap_err().to_string();
    assert!(
        error.contains("factor: expected a number, got $0, which each launch gives"),
        "{error}"
    );

    let drops = |inputs: &[Tensor], arguments: &Attrs| {
        let p = arguments.get("p").cloned().unwrap();
        let call = inputs[0].machine().call("native_dropout", &[&inputs[0]]).attr("p", p);
        Ok(vec![call.attr("seed", 7).run()?.remove(0)])
    };
    let plain = m.traced(drops);
    for p in [0.0, 1.0] {
        let dropped = plain.call(&[&x]).scalar("p", p).run().unwrap();
        assert_eq!(dropped[0].to_vec::<f32>().unwrap(), [1.0 - p as f32; 4]);
    }
    assert_eq!((plain.report().captures, plain.report().plain), (0, 2));
    let error = m.traced(drops).strict().call(&[&x]).scalar("p", 0.5).run().unwrap_err();
    assert!(error.to_string().contains("its patchable arguments are"), "{error}");

    let fills = m.traced(|inputs, arguments| {
        let filled = inputs[0].zeros_like()?;
        filled.fill_(Number::of(arguments, "value")?)?;
        Ok(vec![filled])
    });
    for value in [1.0, 2.0] {
        fills.call(&[&x]).scalar("value", value).run().unwrap();
    }
    let error = fills.call(&[&x]).scalar("value", 1e39).run().unwrap_err().to_string();
    assert!(error.contains("f32 cannot hold 1e39"), "{error}");
    assert_eq!((fills.report().captures, fills.report().replays), (1, 1));
}

/// Replays beside which the function runs see the same numbers; a guard passes them to each part.
#[test]
fn numbers_reach_every_segment() {
    let m = inline();
    let x = Tensor::ones(2, DType::F32, &m).unwrap();
    let random = Generator::new(3);
    let step = {
        let random = random.clone();
        move |inputs: &[Tensor], arguments: &Attrs| {
            let factor = Number::of(arguments, "factor")?;
            let noise = Tensor::rand(2, &random, inputs[0].machine())?;
            let sum = inputs[0].mul(factor)?.add(&noise)?.add(&noise)?.neg()?.neg()?;
            let is_large = sum.sum(..)?.item::<f32>()? > 100.0;
            let end = sum.mul(Number::of(arguments, "other")?)?.add(&noise)?;
            Ok(vec![if is_large { end.neg()? } else { end }])
        }
    };
    let eager = |factor: f64, other: f64| {
        let attrs = Attrs::new().with("factor", factor).with("other", other);
        step(std::slice::from_ref(&x), &attrs).map(|made| bits(&made[0])).unwrap()
    };
    let given = [(1.0, 2.0), (1.0, 3.0), (60.0, 2.0), (61.0, 4.0)];
    let expected: Vec<Vec<u64>> = given.iter().map(|(f, o)| eager(*f, *o)).collect();
    random.set_state(GeneratorState { seed: 3, offset: 0 });
    let traced = m.traced(step.clone()).verify_replays(2);
    for ((factor, other), expected) in given.into_iter().zip(expected) {
        let call = traced.call(&[&x]).scalar("factor", factor).scalar("other", other);
        assert_eq!(bits(&call.run().unwrap()[0]), expected, "{factor} {other}");
    }
}
