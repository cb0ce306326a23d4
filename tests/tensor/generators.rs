//! Generators in captured and recorded programs: each launch draws the numbers that the calls would
//! have drawn in its place.
//!
//! Long because each form of a launch has its test here, on one step and one eager program.

use std::sync::Arc;

use millstream::instructions::{Body, InstructionList, text};
use millstream::*;
use millstream_testing::machine::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Two generators. Clones share them.
#[derive(Clone)]
struct Pair {
    one: Generator,
    other: Generator,
}

impl Pair {
    fn new() -> Pair {
        Pair { one: Generator::new(7), other: Generator::new(u64::MAX) }
    }
}

/// A step that draws from two generators and from fixed seeds: one of the values of a generator.
fn step(x: &Tensor, pair: &Pair) -> Result<Vec<Tensor>> {
    let m = x.machine();
    let noise = Tensor::randn(4, &pair.one, m)?;
    let dropped = (x + &noise)?.dropout(0.5, &pair.other)?;
    let fixed = Tensor::rand(4, 7, m)?;
    let whole = Tensor::randint(0..1000, 4, &pair.one, m)?;
    // A seed that serves twice is drawn once.
    let seed = Seed::from(&pair.one);
    let same = (Tensor::rand(4, seed, m)? - Tensor::rand(4, seed, m)?)?;
    let own = Generator::new(7);
    let (first, second) = (Tensor::rand(4, &own, m)?, Tensor::rand(4, &own, m)?);
    let sum = ((dropped + fixed)? + (same + first)?)?;
    Ok(vec![(sum * second)?, whole])
}

fn bits(results: &[Tensor]) -> Vec<u64> {
    let floats = results[0].to_vec::<f32>().unwrap();
    let whole = results[1].to_vec::<i64>().unwrap();
    floats.iter().map(|x| u64::from(x.to_bits())).chain(whole.iter().map(|x| *x as u64)).collect()
}

fn machine(driver: DriverKind) -> Machine {
    Machine::new(MachineConfig::default().driver(driver)).unwrap()
}

fn ones(m: &Machine) -> Tensor {
    Tensor::ones(4, DType::F32, m).unwrap()
}

/// The results of an eager step, then of an eager draw, four times.
fn eager() -> Vec<Vec<u64>> {
    let (m, pair) = (inline(), Pair::new());
    (0..4).map(|_| [bits(&step(&ones(&m), &pair).unwrap()), between(&m, &pair)].concat()).collect()
}

/// An eager draw between launches.
fn between(m: &Machine, pair: &Pair) -> Vec<u64> {
    let drawn = Tensor::randint(0..1_000_000, 2, &pair.one, m).unwrap();
    drawn.to_vec::<i64>().unwrap().into_iter().map(|x| x as u64).collect()
}

/// Compares four calls of a form of the step with the eager program, each before an eager draw.
#[track_caller]
fn same_as_eager(m: &Machine, pair: &Pair, mut form: impl FnMut(&Tensor) -> Result<Vec<Tensor>>) {
    let expected = eager();
    assert_ne!(expected[0], expected[1]);
    for (k, expected) in expected.iter().enumerate() {
        let results = form(&ones(m)).unwrap();
        let got = [bits(&results), between(m, pair)].concat();
        assert_eq!(&got, expected, "call {k}");
    }
}

/// Records the step, with one input and two outputs.
fn recorded(m: &Machine, pair: &Pair) -> Recorded {
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[4]))?;
        let y = r.function(&[x], |inputs| step(&inputs[0], pair))?;
        r.output("sum", &y[0])?;
        r.output("whole", &y[1])
    });
    recorded.unwrap()
}

fn launch(executable: &Executable, x: &Tensor) -> Result<Vec<Tensor>> {
    Ok(executable.launch().input("x", x).run()?.outputs().to_vec())
}

#[test]
fn traced_functions_draw() {
    for driver in ALL_DRIVERS {
        for is_strict in [false, true] {
            let (m, pair) = (machine(driver), Pair::new());
            let own = pair.clone();
            let traced = m.traced(move |inputs, _| step(&inputs[0], &own));
            let traced = if is_strict { traced.strict() } else { traced };
            same_as_eager(&m, &pair, |x| traced.call(&[x]).run());
            let report = traced.report();
            assert_eq!((report.captures, report.replays), (1, 3), "{report}");
        }
    }
}

#[test]
fn recorded_functions_draw() {
    for driver in ALL_DRIVERS {
        let (m, pair) = (machine(driver), Pair::new());
        let list = recorded(&m, &pair);
        assert_eq!(pair.one.state(), GeneratorState { seed: 7, offset: 0 }, "nothing is drawn");
        let executable = list.compile().unwrap();
        same_as_eager(&m, &pair, |x| launch(&executable, x));
        assert_eq!(pair.one.state(), GeneratorState { seed: 7, offset: 4 * 4 });
    }
}

/// A launch within a list draws in its place, and its draws are part of the outer launch.
#[test]
fn launches_within_lists_draw() {
    for driver in ALL_DRIVERS {
        let (m, pair) = (machine(driver), Pair::new());
        let inner = recorded(&m, &pair).compile().unwrap();
        let both = m.record(|r| {
            let x = r.input("x", f32_spec(&[4]))?;
            let first = r.launch(&inner).input("x", &x).run()?;
            let y = r.call("randint", &[]).attr("high", 1_000_000).attr("shape", vec![2]);
            let y = y.draw(&pair.one).run()?;
            let second = r.launch(&inner).input("x", &x).run()?;
            let z = r.function(&[x], |inputs| step(&inputs[0], &pair))?;
            for (k, output) in
                [first[0], first[1], y[0], second[0], second[1], z[0], z[1]].iter().enumerate()
            {
                r.output(&format!("output {k}"), output)?;
            }
            Ok(())
        });
        let both = both.unwrap().compile().unwrap();
        let (n, alone) = (inline(), Pair::new());
        for _ in 0..3 {
            let got = launch(&both, &ones(&m)).unwrap();
            let mut expected = bits(&step(&ones(&n), &alone).unwrap());
            expected.extend(between(&n, &alone));
            expected.extend(bits(&step(&ones(&n), &alone).unwrap()));
            expected.extend(bits(&step(&ones(&n), &alone).unwrap()));
            let drawn = got[2].to_vec::<i64>().unwrap().into_iter().map(|x| x as u64);
            let mut bits_of = bits(&got[0..2]);
            bits_of.extend(drawn);
            bits_of.extend(bits(&got[3..5]));
            bits_of.extend(bits(&got[5..7]));
            assert_eq!(bits_of, expected, "{driver:?}");
        }
    }
}

/// Launches in flight on several streams have their own numbers, in the order of their emission.
#[test]
fn launches_in_flight_draw() {
    for driver in ALL_DRIVERS {
        let (m, pair) = (machine(driver), Pair::new());
        let executable = recorded(&m, &pair).compile().unwrap();
        executable.set_instances(3);
        let stream = |k| StreamKey::new(CPU, StreamType::LAZY_JOB_LAUNCHER, k);
        let streams: Vec<Stream> = (0..3).map(|k| m.stream(&stream(k)).unwrap()).collect();
        let x = ones(&m);
        let launched: Vec<Launched> = (0..30)
            .map(|k| executable.launch().input("x", &x).on(&streams[k % 3]).run().unwrap())
            .collect();
        let (n, alone) = (inline(), Pair::new());
        for (k, launched) in launched.iter().enumerate() {
            let expected = bits(&step(&ones(&n), &alone).unwrap());
            assert_eq!(bits(launched.outputs()), expected, "launch {k}, {driver:?}");
        }
        m.synchronize().unwrap();
    }
}

/// Draws before and after a read belong to their segments, also where the function is resumed.
#[test]
fn draws_around_guards() {
    fn walk(x: &Tensor, pair: &Pair) -> Result<Vec<Tensor>> {
        let m = x.machine();
        // Drawn and not used: it counts all the same.
        let _ = Seed::from(&pair.other);
        let mut sum = (x + Tensor::rand(4, &pair.one, m)?)?;
        for _ in 0..2 {
            let coin = Tensor::randint(0..2, (), &pair.one, m)?.item::<i64>()?;
            let more = match coin {
                0 => Tensor::randn(4, &pair.other, m)?,
                _ => Tensor::rand(4, &pair.one, m)?.dropout(0.5, &pair.other)?,
            };
            sum = (sum + more)?;
        }
        Ok(vec![sum, Tensor::randint(0..1000, 4, &pair.other, m)?])
    }
    for driver in ALL_DRIVERS {
        let (m, pair) = (machine(driver), Pair::new());
        let own = pair.clone();
        let traced = m.traced(move |inputs, _| walk(&inputs[0], &own)).strict();
        let (n, alone) = (inline(), Pair::new());
        for k in 0..48 {
            let got = bits(&traced.call(&[&ones(&m)]).run().unwrap());
            assert_eq!(got, bits(&walk(&ones(&n), &alone).unwrap()), "call {k}, {driver:?}");
            assert_eq!(between(&m, &pair), between(&n, &alone));
        }
        let report = traced.report();
        assert!(report.replays >= 4 && report.resumptions >= 4, "{report}");
    }
}

/// The mask of a dropout is the same in the forward and the backward pass of a launch, also where
/// a checkpoint makes the region again.
#[test]
fn gradients_have_the_mask_of_their_launch() {
    fn train(x: &Tensor, pair: &Pair, checkpointed: bool) -> Result<Vec<Tensor>> {
        let w = x.detach()?.with_grad()?;
        let tape = x.machine().tape();
        let loss = if checkpointed {
            let seed = Seed::from(&pair.one);
            let region =
                move |given: &[Tensor]| Ok(vec![given[0].dropout(0.5, seed)?.mul(&given[0])?]);
            tape.checkpoint(&[&w], region)?[0].sum(..)?
        } else {
            w.dropout(0.5, &pair.one)?.mul(&w)?.sum(..)?
        };
        tape.backward(&loss)?;
        let gradient = w.grad().expect("it has a gradient");
        Ok(vec![gradient, Tensor::randint(0..9, 4, &pair.other, x.machine())?])
    }
    for checkpointed in [false, true] {
        let (m, pair) = (threaded(), Pair::new());
        let list = m.record(|r| {
            let x = r.input("x", f32_spec(&[4]))?;
            let y = r.function(&[x], |inputs| train(&inputs[0], &pair, checkpointed))?;
            r.output("gradient", &y[0])?;
            r.output("whole", &y[1])
        });
        let executable = list.unwrap().compile().unwrap();
        let (n, alone) = (inline(), Pair::new());
        for k in 0..6 {
            let got = bits(&launch(&executable, &ones(&m)).unwrap());
            let expected = bits(&train(&ones(&n), &alone, checkpointed).unwrap());
            assert_eq!(got, expected, "launch {k}");
        }
    }
}

/// Clones on several threads share the numbers: each launch has a range of its own.
#[test]
fn threads_share_a_generator() {
    let (m, random) = (threaded(), Generator::new(5));
    let recorded = m.record(|r| {
        for name in ["a", "b"] {
            let y = r.call("randint", &[]).attr("high", i64::MAX).attr("shape", vec![1]);
            let y = y.draw(&random).run()?;
            r.output(name, &y[0])?;
        }
        Ok(())
    });
    let executable = Arc::new(recorded.unwrap().compile().unwrap());
    let drawn: Vec<[i64; 2]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (executable, random, m) = (executable.clone(), random.clone(), m.clone());
                scope.spawn(move || {
                    let mut drawn = Vec::new();
                    for _ in 0..8 {
                        let launched = executable.launch().run().unwrap();
                        let output = |k: usize| launched.outputs()[k].item::<i64>().unwrap();
                        drawn.push([output(0), output(1)]);
                        let single = Tensor::randint(0..i64::MAX, 1, &random, &m).unwrap();
                        drawn.push([single.item::<i64>().unwrap(), -1]);
                    }
                    drawn
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(random.state(), GeneratorState { seed: 5, offset: 4 * 8 * 3 });
    let n = inline();
    let all: Vec<i64> = (0..96)
        .map(|k| Tensor::randint(0..i64::MAX, 1, Seed::new(5, k), &n).unwrap().item().unwrap())
        .collect();
    let at = |x: i64| all.iter().position(|y| *y == x).expect("a number of the generator");
    let mut seen: Vec<usize> = Vec::new();
    for [a, b] in drawn {
        seen.push(at(a));
        if b >= 0 {
            assert_eq!(at(b), at(a) + 1, "a launch's range is whole");
            seen.push(at(b));
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..96).collect::<Vec<_>>(), "each number is drawn once");
}

/// A generator's state is restored for launches as for calls.
#[test]
fn states_are_restored() {
    let (m, pair) = (threaded(), Pair::new());
    let executable = recorded(&m, &pair).compile().unwrap();
    let x = ones(&m);
    let saved = pair.one.state();
    let other = pair.other.state();
    let first = bits(&launch(&executable, &x).unwrap());
    let second = bits(&launch(&executable, &x).unwrap());
    assert_ne!(first, second);
    pair.one.set_state(saved);
    pair.other.set_state(other);
    assert_eq!(bits(&launch(&executable, &x).unwrap()), first);
    pair.one.set_state(GeneratorState { seed: 8, offset: 3 });
    let (n, alone) = (inline(), Pair::new());
    alone.one.set_state(GeneratorState { seed: 8, offset: 3 });
    alone.other.set_state(pair.other.state());
    let expected = bits(&step(&ones(&n), &alone).unwrap());
    assert_eq!(bits(&launch(&executable, &x).unwrap()), expected);
}

/// Seeds that are drawn before host reads and used after them, also twice, and in another order
/// than they are drawn.
fn across_reads(x: &Tensor, pair: &Pair) -> Result<Vec<Tensor>> {
    let m = x.machine();
    let (early, other) = (Seed::from(&pair.one), Seed::from(&pair.other));
    let before = Tensor::rand(4, &pair.one, m)?;
    let passes = |value: f32| if value > 1.5 { 2 } else { 1 };
    let reads = passes(x.to_vec::<f32>()?[0]);
    let middle = Seed::from(&pair.one);
    let mut sum = (before + x.dropout(0.5, other)?)?;
    for _ in 0..reads {
        sum = (sum + Tensor::rand(4, early, m)?)?;
    }
    (x + 1.0)?.to_vec::<f32>()?;
    sum = (sum + Tensor::rand(4, middle, m)?)?;
    sum = (sum + Tensor::randn(4, &pair.one, m)?)?;
    let whole = Tensor::randint(0..1000, 4, early, m)?;
    Ok(vec![(sum + Tensor::rand(4, other, m)?)?, whole])
}

/// A replay uses the seeds that an earlier part of it has drawn, also where it leaves its capture.
#[test]
fn seeds_cross_reads() {
    for driver in ALL_DRIVERS {
        for is_strict in [false, true] {
            let (m, pair) = (machine(driver), Pair::new());
            let (n, alone) = (inline(), Pair::new());
            let own = pair.clone();
            let traced = m.traced(move |inputs, _| across_reads(&inputs[0], &own));
            let traced = if is_strict { traced.strict() } else { traced };
            for (k, value) in [1.0f32, 1.0, 2.0, 1.0, 1.0].into_iter().enumerate() {
                let on = |m: &Machine| Tensor::from_slice(&[value; 4], 4, m).unwrap();
                let expected = bits(&across_reads(&on(&n), &alone).unwrap());
                let results = traced.call(&[&on(&m)]).run().unwrap();
                assert_eq!(bits(&results), expected, "call {k}, {driver:?}");
                assert_eq!(between(&m, &pair), between(&n, &alone), "after call {k}");
            }
            let report = traced.report();
            assert!(report.replays >= 3 && report.plain == 0, "{report}");
        }
    }
}

/// What a launch cannot repeat is refused, and a seed of a recording is not used elsewhere.
#[test]
fn what_is_refused() {
    let (m, pair) = (inline(), Pair::new());
    let random = pair.one.clone();
    let sets = move |inputs: &[Tensor]| {
        random.set_state(GeneratorState { seed: 1, offset: 0 });
        Ok(vec![(&inputs[0] + Tensor::rand(4, &random, inputs[0].machine())?)?])
    };
    let plain = m.traced({
        let sets = sets.clone();
        move |inputs, _| sets(inputs)
    });
    let x = ones(&m);
    let first = plain.call(&[&x]).run().unwrap()[0].to_vec::<f32>().unwrap();
    assert_eq!(plain.call(&[&x]).run().unwrap()[0].to_vec::<f32>().unwrap(), first);
    let report = plain.report();
    assert_eq!((report.plain, report.replays), (2, 0), "{report}");
    let strict = m.traced({
        let sets = sets.clone();
        move |inputs, _| sets(inputs)
    });
    let error = strict.strict().call(&[&x]).run().unwrap_err().to_string();
    assert!(error.contains("sets the state of a generator"), "{error}");
    assert!(error.contains("generators.rs"), "{error}");
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[4]))?;
        r.function(&[x], |inputs| sets(inputs)).map(drop)
    });
    let error = recorded.unwrap_err().to_string();
    assert!(error.contains("sets the state of a generator"), "{error}");

    // A seed of a function that was never run has no numbers.
    let mut taken = None;
    let _ = m.record(|r| {
        r.function(&[], |_| {
            taken = Some(Seed::from(&pair.one));
            Ok(vec![])
        })
        .map(drop)
    });
    let error = Tensor::rand(4, taken.unwrap(), &m).unwrap_err().to_string();
    assert!(error.contains("a number of each launch of another list"), "{error}");
}

/// A list names its generators: its text round-trips, the verifier accepts it, and as a list from
/// elsewhere it has generators of its own, in the declared states.
#[test]
fn lists_name_their_generators() {
    let (m, pair) = (inline(), Pair::new());
    let recorded = m.record(|r| {
        let inner = r.call("uniform", &[]).attr("shape", vec![2]).draw(&pair.one).run()?[0];
        let drop = r.call("native_dropout", &[inner]).attr("p", 0.5).draw(&pair.other).run()?[0];
        let again = r.call("uniform_", &[drop]).draw(&pair.one).run()?[0];
        r.output("y", &again)
    });
    let list = recorded.unwrap().list().clone();
    let printed = text::print_list(&list);
    let header = printed.lines().filter(|l| l.starts_with("scalar") || l.starts_with("generator"));
    let header: Vec<&str> = header.collect();
    let expected = [
        "scalar $0 \"seed0\" 7",
        "scalar $1 \"offset0\" 0",
        "scalar $2 \"seed1\" -1",
        "scalar $3 \"offset1\" 0",
        "generator seed $0 offset $1 draws 2",
        "generator seed $2 offset $3 draws 1",
    ];
    assert_eq!(header, expected);
    assert!(printed.contains("{offset=$1+1, seed=$0}"), "{printed}");
    assert_eq!(text::parse_list(&printed).unwrap(), list);
    assert!(millstream_verify::verify(&list).proven(), "{printed}");

    // The same list, with the output as an input that each launch gives.
    let foreign = text::parse_list(
        "millstream-list 1
         stream s0 cpu:0 compute 0 in-order
         arena a0 cpu:0
         external %0 \"x\" f32[4] in 16 bytes of a0
         scalar $0 \"seed\" 7
         scalar $1 \"offset\" 5
         generator seed $0 offset $1 draws 1
         OpCall s0:1 uniform_ (%0 write) {offset=$1, seed=$0}",
    );
    let executable = m.compile(&checked(&foreign.unwrap())).unwrap();
    for k in 5..8 {
        let x = ones(&m);
        executable.launch().input("x", &x).run().unwrap();
        let expected = Tensor::rand(4, Seed::new(7, k), &m).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
    }
}

/// A machine's list states the numbers of each launch, and is proven.
#[test]
fn launches_state_their_numbers() {
    let (m, pair) = (inline(), Pair::new());
    let executable = recorded(&m, &pair).compile().unwrap();
    let x = ones(&m);
    m.start_recording(&[("x", &x)]).unwrap();
    for _ in 0..2 {
        launch(&executable, &x).unwrap();
    }
    let list: InstructionList = m.finish_recording().unwrap();
    let launches = list.instructions.iter().filter_map(|instruction| match &instruction.body {
        Body::LazyJobLauncher { attrs, .. } => Some(attrs.as_deref().unwrap().to_string()),
        _ => None,
    });
    let expected =
        ["{offset0=0, offset1=0, seed0=7, seed1=-1}", "{offset0=3, offset1=1, seed0=7, seed1=-1}"];
    assert_eq!(launches.collect::<Vec<_>>(), expected);
    assert!(millstream_verify::verify(&list).proven());
    assert_eq!(text::parse_list(&text::print_list(&list)).unwrap(), list);
}

/// A step of a random program.
#[derive(Clone, Copy, Debug)]
enum Action {
    Eager { other: bool },
    Function(usize),
    State { seed: u64 },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        3 => any::<bool>().prop_map(|other| Action::Eager { other }),
        6 => (0usize..4).prop_map(Action::Function),
        1 => (0u64..3).prop_map(|seed| Action::State { seed }),
    ];
    vec(action, 1..14)
}

/// Draws `counts` numbers of two generators, one after the other.
fn draws(m: &Machine, pair: &Pair, counts: [usize; 2]) -> Result<Vec<Tensor>> {
    let mut drawn = Vec::new();
    for k in 0..counts[0].max(counts[1]) {
        if k < counts[0] {
            drawn.push(Tensor::rand(2, &pair.one, m)?);
        }
        if k < counts[1] {
            drawn.push(Tensor::randn(2, &pair.other, m)?);
        }
    }
    Ok(drawn)
}

const COUNTS: [[usize; 2]; 4] = [[1, 0], [0, 2], [3, 1], [2, 2]];

fn elements(drawn: &[Tensor]) -> Vec<Vec<f32>> {
    drawn.iter().map(|tensor| tensor.to_vec::<f32>().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Random programs of eager draws, launches, traced calls and restored states.
    #[test]
    fn random_programs_draw_as_eager_ones(actions in actions(), seed in 0u64..4) {
        let driver = ALL_DRIVERS[seed as usize % 3];
        let (m, pair) = (machine(driver), Pair::new());
        let (n, alone) = (inline(), Pair::new());
        let executables: Vec<Executable> = COUNTS[..2]
            .iter()
            .map(|counts| {
                let recorded = m.record(|r| {
                    let drawn = r.function(&[], |_| draws(&m, &pair, *counts))?;
                    let mut named = drawn.iter().enumerate();
                    named.try_for_each(|(k, tensor)| r.output(&k.to_string(), tensor))
                });
                recorded.unwrap().compile().unwrap()
            })
            .collect();
        let traced: Vec<Traced> = COUNTS[2..]
            .iter()
            .map(|counts| {
                let (own, machine) = (pair.clone(), m.clone());
                m.traced(move |_, _| draws(&machine, &own, *counts)).strict()
            })
            .collect();
        for action in actions {
            match action {
                Action::Eager { other } => {
                    let counts = if other { [0, 1] } else { [1, 0] };
                    let got = elements(&draws(&m, &pair, counts).unwrap());
                    prop_assert_eq!(got, elements(&draws(&n, &alone, counts).unwrap()));
                }
                Action::Function(k) => {
                    let got = match executables.get(k) {
                        Some(executable) => executable.launch().run().unwrap().outputs().to_vec(),
                        None => traced[k - 2].call(&[]).run().unwrap(),
                    };
                    let expected = draws(&n, &alone, COUNTS[k]).unwrap();
                    prop_assert_eq!(elements(&got), elements(&expected));
                }
                Action::State { seed } => {
                    for pair in [&pair, &alone] {
                        pair.one.set_state(GeneratorState { seed, offset: seed });
                    }
                }
            }
        }
        prop_assert_eq!(pair.one.state(), alone.one.state());
        prop_assert_eq!(pair.other.state(), alone.other.state());
    }
}
